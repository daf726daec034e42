#!/bin/sh
# SPDX-License-Identifier: MIT
# README's first command, the demo, passes, and its figures agree with its picture.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

unset MAKEFLAGS MFLAGS MAKELEVEL
# It leaves the link to the host as `run --softgpu` models it (test_tool_run.sh).
! grep -q 'SOFTGPU_HOST_BANDWIDTH' tests/demo || fail "the demo has a link of its own"
demo=$(sed -n '/^## /q; s/^    \(make demo\) .*/\1/p' README.md)
[ -z "${SANITIZER:-}" ] || demo=tests/demo
# shellcheck disable=SC2086 # its words
DEPS=never LC_ALL=C SECONDS_ALONE=1 RESULTS="$scratch/lines" ${demo:?README has no demo} \
	>"$scratch/out" 2>"$scratch/err" || {
	cat "$scratch/out" "$scratch/err"
	fail "exit status $?"
}
same "runs" "alone limited live" "$(awk '{ print $1 }' "$scratch/lines" | tr '\n' ' ' | sed 's/ $//')"
same "one checksum" 1 "$(sed 's/.*checksum=\([0-9a-f]*\).*/\1/' "$scratch/lines" | sort -u | wc -l)"
same "one number of steps" 1 "$(sed 's/.*steps=\([0-9]*\).*/\1/' "$scratch/lines" | sort -u | wc -l)"
has "alone" "$(sed -n 1p "$scratch/lines")" "spilled_bytes=0 demoted_bytes=0 promoted_bytes=0 idle_ns=0"
for run in 2 3; do
	line=$(sed -n ${run}p "$scratch/lines")
	# Who has all its memory before the limit falls spills nothing: what it has moves.
	[ $run -eq 3 ] || [ "$(field spilled_bytes "$line")" -gt 0 ] || fail "nothing spilled: $line"
	[ "$(field idle_ns "$line")" -gt 0 ] || fail "no idle time: $line"
done
[ "$(field demoted_bytes "$line")" -gt 0 ] || fail "nothing moved to the host: $line"
[ "$(field promoted_bytes "$line")" -gt 0 ] || fail "nothing came back: $line"
has "says which GPU" "$(cat "$scratch/out")" "unning on the"

# The picture: alone all of it is on the GPU, and with a quarter of it at most so much.
marks() { # marks LINE MARK: how many of them the line of the picture has
	sed -n "s/^  *$1  *\([#.]* *\) .*/\1/p" "$scratch/out" | tr -cd "$2" | wc -c
}
[ "$(marks alone '#')" -gt 20 ] || fail "no picture: $(cat "$scratch/out")"
same "on the host alone" 0 "$(marks alone .)"
[ "$(marks 'limit lowered' '#')" -le $(($(marks alone '#') / 4 + 1)) ] || fail "the limit is not seen: $(cat "$scratch/out")"
[ "$(marks 'limit lowered' .)" -gt 0 ] || fail "the host is not seen: $(cat "$scratch/out")"
has "in words" "$(tail -n 2 "$scratch/out")" "the same weights to the last bit"
