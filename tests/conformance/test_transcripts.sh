#!/bin/sh
# SPDX-License-Identifier: MIT
# Every transcript program on the software GPU: its answers are those recorded on a real driver, or
# else those documented. Under the shim, without limits, they are the same.
set -eu
: "${BUILD:=build}" "${TMPDIR:?set by tests/run}" "${SANITIZER:=}"
export SOFTGPU_STATE_DIR="$TMPDIR/softgpu" SOFTGPU_QUIET=1
mkdir -p "$SOFTGPU_STATE_DIR"
here=tests/conformance
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# ask WHERE PROGRAM COMMAND...: the transcript in $TMPDIR/PROGRAM.WHERE
ask() {
	where=$1 program=$2
	shift 2
	if ! "$@" >"$TMPDIR/$program.$where" 2>"$TMPDIR/stderr"; then
		fail "$program ($where) did not come to its end; its last words:"
		tail -n 2 "$TMPDIR/$program.$where" "$TMPDIR/stderr"
	fi
}

for source in "$here"/*.c; do
	program=${source##*/}
	program=${program%.c}
	case $program in transcript | identity) continue ;; esac
	path=$BUILD/conformance/$program
	expected=$here/recorded/$program.txt
	[ -e "$expected" ] || expected=$here/documented/$program.txt
	LD_LIBRARY_PATH=$BUILD/softgpu ask direct "$program" "$path"
	if "$here/compare" "$expected" "$TMPDIR/$program.direct"; then
		echo "$program: as in ${expected#"$here/"}"
	else
		fail "$program: other answers than in ${expected#"$here/"}"
	fi
	ask shim "$program" "$BUILD/spillway" run --softgpu --quiet --name "transcript-$program" "$path"
	if ! cmp -s "$TMPDIR/$program.direct" "$TMPDIR/$program.shim"; then
		fail "$program: other answers under the shim"
		diff "$TMPDIR/$program.direct" "$TMPDIR/$program.shim" | sed 's/^/  /' || true
	fi
done

# The comparison sees what differs: a wrong answer, a line too many, a line too few.
printf 'a: 1  # source\nb: x: 2 | 3  # source\nc: ?  # source\n' >"$TMPDIR/expected"
verdict() { # verdict STATUS LINES: of a transcript with these lines
	printf "$2" >"$TMPDIR/got"
	rc=0
	"$here/compare" "$TMPDIR/expected" "$TMPDIR/got" >/dev/null || rc=$?
	[ $rc -eq "$1" ] || fail "comparing '$2': status $rc, expected $1"
}
verdict 0 'a: 1\nb: x: 2\nc: 9\n'
verdict 0 'a: 1\nb: x: 3\nc: none at all\n'
verdict 1 'a: 2\nb: x: 2\nc: 9\n'
verdict 1 'a: 1\nb: x: 4\nc: 9\n'
verdict 1 'a: 1\nb: x: 2\nd: 9\n'
verdict 1 'a: 1\nb: x: 2\n'
verdict 1 'a: 1\nb: x: 2\nc: 9\nd: 1\n'
[ $failures -eq 0 ]
