#!/bin/sh
# SPDX-License-Identifier: MIT
# The table of reports. A report adds its row and the cells that it tested. A later one of the same
# GPU and driver replaces these alone. Cells without a report are untested, and the software GPU has
# no row. While there is no row README's headline says so.
set -eu
: "${TMPDIR:?set by tests/run}"
fail() {
	echo "FAILED: $*"
	exit 1
}
command -v python3 >/dev/null || {
	echo 'there is no python3 here'
	exit 77
}
cp tests/gpu/README.md "$TMPDIR/README.md"

# add NAME LINE...: a report of these lines, added to a copy of the table
add() {
	name=$1
	shift
	mkdir -p "$TMPDIR/$name/1-machine"
	printf '%b\n' "$@" >"$TMPDIR/$name/report.tsv"
	cp "$TMPDIR/$name/report.tsv" "$TMPDIR/$name/1-machine/report.tsv"
	tar -cf "$TMPDIR/$name.tar" -C "$TMPDIR" "$name"
	tests/gpu/add_report.py --readme "$TMPDIR/README.md" "$TMPDIR/$name.tar"
}
row() { # row TEXT EXPECTED: the row with this text
	[ "$(grep -F "| $1 |" "$TMPDIR/README.md")" = "$2" ] || fail "expected '$2' in: $(grep '^|' "$TMPDIR/README.md")"
}

# Nothing added changes nothing: the table has the form that the script writes.
tests/gpu/add_report.py --readme "$TMPDIR/README.md"
cmp tests/gpu/README.md "$TMPDIR/README.md" || fail 'the table has another form than add_report.py gives it'
row 'any other' '| any other | any | untested | untested | untested | untested | untested | untested | untested | untested |'

add one 'gpu\tNVIDIA Example 9000' 'driver\t999.1.2' 'spillway\t0.3.0' 'steps\t20 ok, 1 failed, 3 skipped' 'pytorch\t2.15.0\tok' 'jax\t0.10|2\tfailed'
row 999.1.2 '| NVIDIA Example 9000 | 999.1.2 | 0.3.0 | 20 ok, 1 failed, 3 skipped | untested | ok 2.15.0 | failed 0.10/2 | untested | untested | untested |'
add two 'gpu\tNVIDIA Example 9000' 'driver\t999.1.2' 'spillway\t0.3.1' 'steps\t24 ok, 0 failed, 0 skipped' 'jax\t0.11\tok'
row 999.1.2 '| NVIDIA Example 9000 | 999.1.2 | 0.3.1 | 24 ok, 0 failed, 0 skipped | untested | ok 2.15.0 | ok 0.11 | untested | untested | untested |'
add three 'gpu\tNVIDIA Example 9000' 'driver\t888' 'spillway\t0.3.1' 'steps\t1 ok, 0 failed, 0 skipped'
[ "$(grep -c '^| NVIDIA Example' "$TMPDIR/README.md")" -eq 2 ] || fail "expected two rows: $(grep '^|' "$TMPDIR/README.md")"
[ "$(sed '/^| NVIDIA Example/d' "$TMPDIR/README.md")" = "$(cat tests/gpu/README.md)" ] || fail 'the rest of the page changed'
if add soft 'gpu\tSpillway software GPU' 'driver\t' 'spillway\t0.3.0' 'steps\t1 ok, 0 failed, 0 skipped' 2>"$TMPDIR/said"; then
	fail 'a report of the software GPU is in the table'
fi
grep -q 'of no GPU' "$TMPDIR/said" || fail "$(cat "$TMPDIR/said")"

rows=$(sed -n '/^## Reports/,/^After/p' tests/gpu/README.md | grep '^| ' | grep -cv '^| GPU \|^| any other ' || :)
qualified=$(grep -c '^No real GPU has run this yet' README.md || :)
[ "$qualified" = $((rows == 0)) ] || fail "$rows GPUs are in the table, and README says $qualified times that none has run this"
