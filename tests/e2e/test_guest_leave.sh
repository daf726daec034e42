#!/bin/sh
# SPDX-License-Identifier: MIT
# A process ends in every way, in the middle of every call. It ends as it would without Spillway,
# and its memory comes back to its job.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
life_leave=$build/tests/e2e/life_leave
# Processes end with what they have.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
export SPILLWAY_TOOL="$spillway" SOFTGPU_CONTEXT_MEMORY=1K
printf '[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/all.ini"
printf '[gpu]\nmemory = 17MiB\n' >"$scratch/spill.ini"

# ends STATUS JOB NAME=VALUE... COMMAND: its output in $scratch/JOB.out
ends() {
	expected=$1 job=$2
	shift 2
	rc=0
	under_shim env SPILLWAY_JOB="$job" "$@" >"$scratch/$job.out" 2>&1 || rc=$?
	[ "$rc" -eq "$expected" ] || fail "$job: $*: exit status $rc, expected $expected: $(cat "$scratch/$job.out")"
}

# leaves HOW STATUS: unpaced, then in the middle of slots; then another process gets all the memory
leaves() {
	export SPILLWAY_CONFIG="$scratch/all.ini" SOFTGPU_KERNEL_TIME_US=2000
	ends "$2" "$1-unpaced" "$life_leave" "$1"
	ends "$2" "$1-paced" SPILLWAY_SHARE=20 "$life_leave" "$1"
	for job in "$1-unpaced" "$1-paced"; do
		ends 7 "$job" "$life_leave" after
	done
}

for how in return exit _exit quick_exit thread handler exec exec-thread; do
	leaves $how 7 &
	waited="${waited:-} $!"
done
leaves kill 137 &
waited="$waited $!"
leaves abort 134 &
waited="$waited $!"

# One library after the other ends, ours, the driver's, and one that frees what is gone by then.
late=$build/tests/e2e/late.so
export SPILLWAY_CONFIG="$scratch/spill.ini"
ends 7 late-first LD_PRELOAD="$late $shim" "$life_leave" late -
ends 7 late-last LD_PRELOAD="$shim $late" "$life_leave" late -
ends 7 late-opened "$life_leave" late "$late"
for job in late-first late-last late-opened; do
	grep -Eqx 'late:( [0-9]+){7}' "$scratch/$job.out" || fail "$job: $(cat "$scratch/$job.out")"
done
grep -q "late: 4 4 4 4 4 4 4" "$scratch"/late-*.out || fail "no library freed after the driver's end: $(cat "$scratch"/late-*.out)"

ends 7 close "$life_leave" close
ends 7 spawn "$life_leave" spawn

# A job nobody named or limited leaves no segment where it ends by itself.
printf '[gpu]\nspill = auto\n' >"$scratch/unlimited.ini"
export SPILLWAY_CONFIG="$scratch/unlimited.ini"
left() { set -- "$SPILLWAY_STATE_DIR"/life_leave-*.segment && [ -e "$1" ]; }
for how in return exit quick_exit thread handler; do
	ends 7 "" "$life_leave" $how
	! left || fail "left behind by $how: $(ls "$SPILLWAY_STATE_DIR")"
done

# What it leaves otherwise goes with the next of its kind, once the memory has drained; named jobs
# stay.
ends 7 "" "$life_leave" _exit
ends 137 "" "$life_leave" kill
left || fail "nothing was left behind by _exit and kill"
next_leaves_nothing() { ends 7 "" "$life_leave" after && ! left; }
until_true $patience next_leaves_nothing || fail "left behind: $(ls "$SPILLWAY_STATE_DIR")"
[ -e "$SPILLWAY_STATE_DIR/late-first.segment" ] || fail "the segment of a job with a name was removed"

for process in $waited; do
	wait "$process"
done
