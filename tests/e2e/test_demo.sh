#!/bin/sh
# The demo passes, and its last three lines say what it promises.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

SECONDS_ALONE=2 tests/demo >"$scratch/out" 2>"$scratch/err" || {
	cat "$scratch/out" "$scratch/err"
	fail "exit status $?"
}
tail -n 3 "$scratch/out" >"$scratch/lines"
same "runs" "alone limited live" "$(awk '{ print $1 }' "$scratch/lines" | tr '\n' ' ' | sed 's/ $//')"
same "one checksum" 1 "$(sed 's/.*checksum=\([0-9a-f]*\).*/\1/' "$scratch/lines" | sort -u | wc -l)"
same "one number of steps" 1 "$(sed 's/.*steps=\([0-9]*\).*/\1/' "$scratch/lines" | sort -u | wc -l)"
has "alone" "$(sed -n 1p "$scratch/lines")" "spilled_bytes=0 demoted_bytes=0 idle_ns=0"
for run in 2 3; do
	line=$(sed -n ${run}p "$scratch/lines")
	[ "$(field spilled_bytes "$line")" -gt 0 ] || fail "nothing spilled: $line"
	[ "$(field idle_ns "$line")" -gt 0 ] || fail "no idle time: $line"
done
has "says which GPU" "$(cat "$scratch/out")" "unning on the"
