#!/bin/sh
# SPDX-License-Identifier: MIT
# A paced launch allocates nothing, nor does the end of a step: ten times the launches, as many
# blocks.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/pace.sh
. tests/e2e/pace.sh

case ${SANITIZER:-} in
address | thread)
	echo "SANITIZER=$SANITIZER has an allocator of its own"
	exit 77
	;;
esac

steps=yes
built_in steps || steps=
blocks() { # blocks LAUNCHES: what an allocator counts in a program that is paced, and whose steps are found
	env LD_LIBRARY_PATH="$build/bench/null" NULL_KERNEL_NS=5000 SPILLWAY_JOB=blocks SPILLWAY_SHARE=99 ${steps:+SPILLWAY_STEPS=on} \
		LD_PRELOAD="$build/tests/e2e/neighbour_malloc.so $build/lib/libspillway.so $build/lib/libspillway-alias.so" \
		"$build/tests/e2e/launch_often" "$1" 2>"$scratch/said" >"$scratch/out" || fail "$1: $(cat "$scratch/said" "$scratch/out")"
	sed -n 's/^neighbour_malloc: \([0-9]*\).*/\1/p' "$scratch/said"
}
few=$(blocks 5000) many=$(blocks 50000)
counter_above blocks busy_ns 0 || fail "nothing was measured: $("$spillway" stat blocks --json)"
[ "${few:-0}" -gt 0 ] || fail "nothing was counted: $(cat "$scratch/said")"
# The helper looks at files now and then, and the second run takes longer.
[ "$many" -le $((few + 400)) ] || fail "$few blocks for 5,000 launches, $many for 50,000"
