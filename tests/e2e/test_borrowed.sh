#!/bin/sh
# SPDX-License-Identifier: MIT
# A job borrows memory beyond the soft limit of its cgroup, and gets no CPU time for longer than a
# start waits for memory to leave. Another job that starts within its own soft limit waits on, so
# that the software GPU's limiter, an imitation, ends none of them.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=256M SPILLWAY_LOG=error
for name in one two; do
	mkdir -p "$scratch/tree/$name"
	echo "nvidia/0000:01:00.0/vidmem $((256 * mib))" >"$scratch/tree/$name/dmem.max"
done
echo "nvidia/0000:01:00.0/vidmem $((64 * mib))" >"$scratch/tree/one/dmem.min"
echo "nvidia/0000:01:00.0/vidmem $((128 * mib))" >"$scratch/tree/two/dmem.min"

# hold NAME COUNT VARIABLE...: a program of so many blocks of 8 MiB, until NAME.end is there
hold() {
	name=$1 count=$2
	shift 2
	env "$@" SPILLWAY_CGROUP="$scratch/tree/$name" SOFTGPU_CGROUP="$scratch/tree/$name" SPILLWAY_JOB="$name" LD_PRELOAD="$shim" \
		LD_LIBRARY_PATH="$softgpu" "$build/tests/e2e/allocate" --count "$count" --ready "$scratch/$name.ready" \
		--until "$scratch/$name.end" >"$scratch/$name.out" 2>&1 &
	eval "$name=$!"
}
is_ready() { [ -e "$scratch/$1.ready" ]; }

hold one 28 SPILLWAY_MEMORY_MAX=100%
until_true $patience is_ready one || fail "one: $(cat "$scratch/one.out")"
until_true $patience device_at_least $((140 * mib)) || fail "one has borrowed too little: $(device_bytes)"
sleep 2 # its peer record says so within a second
# shellcheck disable=SC2154 # by hold
kill -STOP "$one"
hold two 16 A=b
sleep 12
! is_ready two || fail "two has not waited"
kill -CONT "$one"
until_true $patience is_ready two || fail "two: $(cat "$scratch/two.out")"
device_at_least $((120 * mib)) || fail "two has too little: $(device_bytes)"
for name in one two; do
	: >"$scratch/$name.end"
	eval "wait \$$name" || fail "$name: $(cat "$scratch/$name.out")"
	has "$name" "$(cat "$scratch/$name.out")" "ok bad=0"
	has "$name" "$(cat "$scratch/$name.out")" "refused=0 "
done
