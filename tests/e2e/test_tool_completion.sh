#!/bin/sh
# SPDX-License-Identifier: MIT
# Completion in bash, zsh and fish: every command and option, the jobs there are, the values of
# options.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh
command -v bash >/dev/null || {
	echo 'bash is not installed'
	exit 77
}

# typing WORD...: what bash would offer for the last word, one per line, in $out
typing() {
	bash -c '
		source tools/completion/spillway.bash || exit
		complete -p spillway >&2 || exit
		COMP_WORDS=(spillway "${@:2}") COMP_CWORD=$(($# - 1))
		_spillway "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		[ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"
	' bash "$spillway" "$@" >"$out" 2>"$err" || fail "completion of $*"
	says "$err" '^complete -F _spillway spillway$'
}
# offers LIST: exactly these, in any order
offers() {
	[ "$(sort "$out" | tr '\n' ' ')" = "$1 " ] || [ "$(cat "$out")" = "$1" ] || fail "expected exactly: $1"
}

"$spillway" --help | sed -n 's/^  \([a-z][a-z-]*\)  *[a-z].*/\1/p' >"$TMPDIR/commands"
[ "$(wc -l <"$TMPDIR/commands")" -ge 7 ] || fail 'help names too few commands'
typing ''
while read -r command; do
	says "$out" "^$command$"
done <"$TMPDIR/commands"
says "$out" '^help$'
typing he
offers help
typing --v
offers --version
typing help d
offers doctor

while read -r command; do
	"$spillway" help "$command" | sed -nE 's/^ +(-., )?(--[a-z][a-z-]*).*/\2/p' | sort -u >"$TMPDIR/options"
	typing "$command" --
	says "$TMPDIR/options" '^--help$'
	[ "$(sort -u "$out")" = "$(cat "$TMPDIR/options")" ] || fail "options of $command differ from its help"
done <"$TMPDIR/commands"
typing stat --te
offers --textfile

# Jobs, and after one nothing more.
start_job bert
start_job gpt
for command in stat top set pause resume; do
	typing $command ''
	offers 'bert gpt'
done
typing set --memory 1G b
offers bert
typing set --memory = 1G b
offers bert
typing set bert ''
offers ''
typing set bert --sha
offers --share
typing run --name g
offers gpt

# Values; each format that is offered is one.
typing stat --format c
offers 'csv csv,noheader csv,noheader,nounits csv,nounits'
typing stat --format = pro
offers prometheus
typing stat --format =
while read -r format; do
	"$spillway" stat bert --format "$format" >"$TMPDIR/formatted" 2>&1 || fail "--format $format is offered"
	[ -s "$TMPDIR/formatted" ] || fail "--format $format shows nothing"
done <"$out"
: >"$TMPDIR/a file.ini"
typing run --config "$TMPDIR/a f"
offers "$TMPDIR/a file.ini"
typing set bert --save = "$TMPDIR/a f"
offers "$TMPDIR/a file.ini"
typing set bert --memory ''
offers ''
typing set bert --reported-memory ''
offers 'auto limit limit+host'
while read -r told; do
	"$spillway" set bert --reported-memory "$told" --timeout 0.2 >"$TMPDIR/told" 2>&1
	! grep 'expected auto' "$TMPDIR/told" || fail "--reported-memory $told is offered"
done <"$out"
# Words that help names are those that are offered, of every option.
while read -r command; do
	"$spillway" help "$command" | sed -n "s/^ *\(--[a-z-]*\)=\([a-z+]*|[a-z+|]*\)\( .*\)*$/$command \1 \2/p"
done <"$TMPDIR/commands" >"$TMPDIR/words"
[ "$(wc -l <"$TMPDIR/words")" -ge 3 ] || fail 'help names too few words'
while read -r command option words; do
	typing "$command" "$option" ''
	offers "$(echo "$words" | tr '|' '\n' | sort | tr '\n' ' ' | sed 's/ $//')"
done <"$TMPDIR/words"
typing run --summary ''
offers 'json text'
typing run --reported-memory = limit+
offers limit+host

# Of run: options end at the program, then come files.
typing run --memory 1G --joi
offers --join
typing run pyt --joi
offers ''
typing run cat "$TMPDIR/a f"
offers "$TMPDIR/a file.ini"
typing run --softgpu tru
says "$out" '^true$'
typing run -- tru
says "$out" '^true$'

# A job that has ended can be shown, and neither paused nor set.
kill -KILL "$pid"
tries=0
until "$spillway" stat gpt | grep -q ' ended '; do
	tries=$((tries + 1))
	[ $tries -lt 600 ] || fail 'a killed job has not ended'
	sleep 0.1
done
for command in set pause resume; do
	typing $command ''
	offers bert
done
typing stat ''
offers 'bert gpt'

# fish and zsh themselves complete.
for shell in fish zsh; do
	command -v $shell >/dev/null || {
		echo "$shell is not installed"
		exit 77
	}
done
mkdir "$TMPDIR/bin" "$TMPDIR/functions"
ln -s "$(realpath "$spillway")" "$TMPDIR/bin/spillway"
cp tools/completion/spillway.zsh "$TMPDIR/functions/_spillway"

# in_fish LINE: what fish offers at its end, in $out
in_fish() {
	HOME=$TMPDIR PATH=$TMPDIR/bin:$PATH fish --no-config -c '
		source tools/completion/spillway.fish
		complete -C $argv[1]' "$1" >"$out" 2>"$err" || fail "fish: $1"
	[ ! -s "$err" ] || fail "fish complains: $1"
}
in_fish 'spillway stat --te'
says "$out" '^--textfile	Write Prometheus'
in_fish 'spillway pause '
offers bert
in_fish 'spillway set bert --reported-memory=limit+'
offers --reported-memory=limit+host
in_fish "spillway run --config $TMPDIR/a"
says "$out" 'a file.ini$'
in_fish 'spillway run --softgpu tru'
says "$out" '^true'

# in_zsh LINE: the line as zsh, at a terminal, has completed it, in $out
in_zsh() {
	HOME=$TMPDIR PATH=$TMPDIR/bin:$PATH timeout 60 zsh -f tests/e2e/types.zsh \
		"$TMPDIR/functions" "$1" >"$out" 2>"$err" || fail "zsh: $1"
}
in_zsh 'spillway stat --te'
offers 'spillway stat --textfile'
in_zsh 'spillway pause '
offers 'spillway pause bert'
in_zsh 'spillway set bert --reported-memory=limit+'
offers 'spillway set bert --reported-memory=limit+host'
in_zsh "spillway run --config $TMPDIR/a"
offers "spillway run --config $TMPDIR/a\\ file.ini"
in_zsh 'spillway run --softgpu tru'
says "$out" 'spillway run --softgpu tru'

# Without the command there is nothing, and no noise.
spillway=$TMPDIR/nowhere
typing stat ''
offers ''

finish
