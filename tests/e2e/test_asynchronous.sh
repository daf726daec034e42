#!/bin/sh
# Asynchronous copies of memory that was spilled stay asynchronous, although the driver takes such
# memory for the host's and would wait: a stream that waits for the host's next step does not hold
# the host up. A copy that was captured while its memory was on the host is the CPU's for good with
# some drivers: its memory stays there.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
asynchronous=$build/tests/e2e/asynchronous
limited() {
	name=$1
	shift
	timeout $patience "$spillway" run --softgpu --quiet --name "$name" "$@" 2>"$scratch/err" ||
		fail "$name: exit status $?: $(cat "$scratch/err")"
}

on_softgpu "$asynchronous" || fail "the driver alone"
limited device --memory 64MiB "$asynchronous"
same "on the device: spills" 0 "$(counter device spills)"
limited host --memory 1MiB "$asynchronous"
[ "$(counter host spills)" -gt 0 ] || fail "nothing was spilled"
limited mixed --memory 8MiB "$asynchronous"
[ "$(counter mixed spills)" -gt 0 ] || fail "nothing was spilled"

# Copies by the CPU need memory that the CPU can reach, which spilled memory is not: so no
# asynchronous one may be.
rm "$SPILLWAY_STATE_DIR/driver-probe" # another driver
export SOFTGPU_TRAITS=cpu-copies
limited cpu --memory 1MiB "$asynchronous"
rm "$SPILLWAY_STATE_DIR/driver-probe"
export SOFTGPU_TRAITS=host-nodes

ini=$scratch/graph.ini
printf '[gpu]\nmemory_limit = 1MiB\n' >"$ini"
limited graph --config "$ini" "$asynchronous" graph "$ini"
