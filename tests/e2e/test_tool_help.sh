#!/bin/sh
# SPDX-License-Identifier: MIT
# Help, versions, mistakes on the command line, and that the man pages know every option.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

expect 0 "$spillway" --version
says "$out" '^spillway [0-9]+\.[0-9]+\.[0-9]+$'
expect 0 "$spillway" --help
says "$out" '^Usage: spillway \[OPTION'
says "$out" '^  doctor '
expect 0 "$spillway" help
says "$out" '^Usage: spillway \[OPTION'

commands=$("$spillway" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 7 ] || fail 'help names too few commands'
for command in $commands; do
	expect 0 "$spillway" help $command
	says "$out" "^Usage: spillway $command "
	cp "$out" "$TMPDIR/help"
	expect 0 "$spillway" $command --help
	cmp -s "$out" "$TMPDIR/help" || fail "help $command and $command --help differ"
	expect 0 "$spillway" $command --version
	case $command in
	pause | resume) page=tools/man/spillway-set.1.scd ;;
	*) page=tools/man/spillway-$command.1.scd ;;
	esac
	# shellcheck disable=SC2013 # options are words
	for option in $(grep -Eo -- '--[a-z-]+' "$TMPDIR/help" | sort -u); do
		grep -q -- "\*$option\*" "$page" || fail "$option of $command is not in $page"
	done
	for option in $(grep -Eo -- '\*--[a-z-]+\*' "$page" | tr -d '*' | sort -u); do
		[ $command = pause ] || [ $command = resume ] ||
			{ [ $command = set ] && "$spillway" help pause | grep -q -- "$option"; } ||
			grep -q -- "$option" "$TMPDIR/help" || grep -q "spillway doctor $option" "$page" ||
			fail "$option in $page is none of $command"
	done
done

# Every command is on the first page, and every variable on one; keys are
# tests/unit/test_config.c's.
for command in $commands; do
	grep -q "^\*.*\*$command\*\|^\*$command\*" tools/man/spillway.1.scd || fail "$command is not in spillway(1)"
done
for variable in $(grep -rhoE --include='*.c' '"SPILLWAY_[A-Z_]+["=]' core shim tools | tr -d '"=' | sort -u); do
	grep -q "\*${variable}[*[]" tools/man/*.scd || fail "$variable is on no man page"
done

# What cannot be printed is said, once, whatever was to be printed.
for words in --version help 'help stat' stat 'stat --json' doctor; do
	status=0
	# shellcheck disable=SC2086 # words
	"$spillway" $words >/dev/full 2>"$err" || status=$?
	[ $status -eq 1 ] || fail "$words >/dev/full: status $status"
	[ "$(cat "$err")" = 'spillway: standard output: No space left on device' ] || fail "$words >/dev/full: $(cat "$err")"
done

expect 2 "$spillway"
says "$err" '^spillway: expected a command'
expect 2 "$spillway" stta
says "$err" "^spillway: 'stta' is not a command; did you mean 'stat'\?$"
expect 2 "$spillway" frobnicate
says "$err" "^spillway: 'frobnicate' is not a command$"
expect 2 "$spillway" help rum
says "$err" "did you mean 'run'"
expect 2 "$spillway" --frob
expect 2 "$spillway" stat --frob
expect 2 "$spillway" stat one two
expect 2 "$spillway" stat --watch 0
expect 2 "$spillway" stat --watch soon
expect 2 "$spillway" pause
expect 2 "$spillway" set job
says "$err" '^spillway: nothing to set'
expect 2 "$spillway" set --memory 1G
says "$err" '^spillway: expected a job'
expect 2 "$spillway" set job --memory 12Q
says "$err" "^spillway: --memory '12Q': expected a size"
expect 2 "$spillway" set job --share 101
says "$err" "^spillway: --share '101': expected"
expect 2 "$spillway" set job --share 0.0001
says "$err" "^spillway: --share '0.0001': expected 0 or at least 0.001$"
expect 2 "$spillway" set job --memory ''
# 20 bytes would put the whole job on the host, and a share of 0.7 % looks like a hang.
expect 2 "$spillway" set job --memory 20
says "$err" "^spillway: --memory '20': no unit; did you mean 20GiB\?$"
expect 125 "$spillway" run --host-memory 512 true
says "$err" "^spillway: --host-memory '512': no unit; did you mean 512GiB\?$"
expect 125 "$spillway" run --share 0.7 true
says "$err" "^spillway: --share '0.7': less than 1 %; did you mean 70%\? If not, write 0.7%$"
expect 125 "$spillway" run --turn-length 30 true
says "$err" "^spillway: --turn-length '30': no unit; did you mean 30s\?$"
expect 2 "$spillway" cdi --device half=12
says "$err" "^spillway: --device half=12: no unit; did you mean 12GiB\?$"
expect 2 "$spillway" set job --share 5 --limit-gpu 'x]'
says "$err" "^spillway: --limit-gpu 'x\]': expected"
expect 2 "$spillway" set job --share 5 --limit-gpu zzz
says "$err" "^spillway: --limit-gpu 'zzz': expected an ordinal"
expect 2 "$spillway" set job --memory 2G --memory-max 1024M
says "$err" "^spillway: --memory-max '1024M': below --memory '2G'; expected"
expect 2 "$spillway" set job --memory 50% --memory-max 40%
expect 2 "$spillway" set job --share 5 --timeout never
expect 125 "$spillway" run
expect 125 "$spillway" run --frob true
expect 125 "$spillway" run --memory -1 true
expect 125 "$spillway" run --name 'a/b' true
expect 125 "$spillway" run --name -job true
says "$err" "^spillway: --name '-job': expected .* a dash$"
expect 125 "$spillway" run --limit-gpu zzz --share 5 true
says "$err" "^spillway: --limit-gpu 'zzz': expected an ordinal"
expect 125 "$spillway" run --limit-gpu 0 true
says "$err" "^spillway: --limit-gpu '0': expected a limit"
[ ! -e "$SPILLWAY_STATE_DIR/job.override.ini" ] || fail 'a mistake has left an override file'
finish
