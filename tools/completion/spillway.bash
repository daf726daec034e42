# Completion of the spillway command for bash. What can be completed is what the command's own help says, so
# that nothing here can be out of date; needs nothing but bash.
# shellcheck shell=bash

# The commands, or with a command its options, "=ARGUMENT" behind those that have one.
_spillway_words() {
	if [ $# -eq 1 ]; then
		"$1" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
	else
		"$1" help "$2" 2>/dev/null | sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z][a-z-]*\(=[A-Za-z:|+]*\)\{0,1\}\)\(  .*\)\{0,1\}$/\2/p'
	fi
}

# The jobs that the command is about: of those that have ended there is nothing to pause or to set.
_spillway_jobs() {
	local ended='^$'
	case $2 in pause | resume | set) ended='^[^ ]*  *[^ ]*  *ended ' ;; esac
	# as the table has them, which says what to type where two jobs have one name
	"$1" stat 2>/dev/null | sed -n "1{/^JOB  */!q;d;};/$ended/d;s/^\\([A-Za-z0-9._@-]*\\) .*/\\1/p" | sort -u
}

# Words of the list that begin with what is typed.
_spillway_offer() {
	local IFS=$'\n'
	# shellcheck disable=SC2207 # one per line
	COMPREPLY=($(compgen -W "$1" -- "$current"))
}

_spillway_offer_files() {
	local IFS=$'\n'
	compopt -o filenames 2>/dev/null
	# shellcheck disable=SC2207 # one per line
	COMPREPLY=($(compgen -f -- "$current"))
}

# By the name that help gives an option's argument; "one|other" names all there are.
_spillway_offer_argument() {
	case $1 in
	*'|'*) _spillway_offer "${1//|/$'\n'}" ;;
	FILE) _spillway_offer_files ;;
	JOB) _spillway_offer "$(_spillway_jobs "$program" "$command")" ;;
	FORMAT)
		_spillway_offer $'text\njson\ncsv\ncsv,noheader\ncsv,nounits\ncsv,noheader,nounits\nprometheus\nantman'
		;;
	esac
}

# What the option named takes: "=FILE", "" for nothing.
_spillway_argument_of() {
	local option
	for option in $options; do
		[ "${option%%=*}" != "$1" ] || [ "${option#*=}" = "$option" ] || echo "${option#*=}"
	done
}

_spillway() {
	local program=$1 current=$2 previous=$3 command='' options='' operand='' word index
	COMPREPLY=()
	# bash makes words of its own of "=": "--save" "=" "file"
	if [ "$current" = = ]; then
		current=''
	elif [ "$previous" = = ]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	for ((index = 1; index < COMP_CWORD; index++)); do
		word=${COMP_WORDS[index]}
		if [ -z "$command" ]; then
			case $word in -*) continue ;; esac
			command=$word
			[ "$command" = help ] || options=$(_spillway_words "$program" "$command")
			continue
		fi
		case $word in
		--) ;;
		-*)
			# an argument that follows is no operand
			if [ -n "$(_spillway_argument_of "$word")" ]; then
				[ "${COMP_WORDS[index + 1]}" != = ] || ((index++))
				((index++))
			fi
			;;
		*) operand=yes && break ;;
		esac
	done

	if [ -z "$command" ]; then
		case $current in
		-*) _spillway_offer $'--help\n--usage\n--version' ;;
		*) _spillway_offer "$(_spillway_words "$program")"$'\n'help ;;
		esac
	elif [ "$command" = help ]; then
		_spillway_offer "$(_spillway_words "$program")"
	elif [ -n "$operand" ] && { [ "$command" = run ] || [ "$command" = doctor ]; }; then
		_spillway_offer_files # the program's own arguments
	elif [ -n "$(_spillway_argument_of "$previous")" ]; then
		_spillway_offer_argument "$(_spillway_argument_of "$previous")"
	elif [ "${current:0:1}" = - ]; then
		_spillway_offer "$(printf "%s\n" "$options" | cut -d= -f1)"
	elif [ "$command" = run ] || [ "$command" = doctor ]; then
		# shellcheck disable=SC2207 # one per line
		COMPREPLY=($(compgen -c -- "$current"))
		[ ${#COMPREPLY[@]} -gt 0 ] || _spillway_offer_files
	elif [ -z "$operand" ]; then
		_spillway_offer "$(_spillway_jobs "$program" "$command")"
	fi
}

complete -F _spillway spillway
