# SPDX-License-Identifier: MIT
# Completion of the spillway command for bash: `spillway complete` answers.
# shellcheck shell=bash

_spillway() {
	local program=$1 current=$2 answer IFS=$'\n'
	local -a words=()
	local word joins=''
	# bash makes three words of --save=FILE.
	for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
		if [ "$word" = = ] && [ ${#words[@]} -gt 0 ]; then
			words[-1]+='='
			joins=yes
		elif [ -n "$joins" ]; then
			words[-1]+=$word
			joins=''
		else
			words+=("$word")
		fi
	done
	[ "$current" != = ] || current=''
	answer=$("$program" complete "${words[@]}" 2>/dev/null | cut -f1)
	COMPREPLY=()
	case $answer in
	@programs)
		# shellcheck disable=SC2207 # one per line
		COMPREPLY=($(compgen -c -- "$current"))
		[ ${#COMPREPLY[@]} -eq 0 ] || return
		;;
	@files) ;;
	*)
		# shellcheck disable=SC2206 # one per line
		COMPREPLY=($answer)
		return
		;;
	esac
	compopt -o filenames 2>/dev/null
	# shellcheck disable=SC2207 # one per line
	COMPREPLY=($(compgen -f -- "$current"))
}

complete -F _spillway spillway
