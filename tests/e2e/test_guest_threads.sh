#!/bin/sh
# SPDX-License-Identifier: MIT
# Threads: a thousand first calls at once start one job; a thread that is cancelled inside a call
# leaves nothing locked.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
life_threads=$build/tests/e2e/life_threads
# Processes end with what they have, and threads on stacks that they left by being cancelled.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0:use_sigaltstack=0"
export SPILLWAY_TOOL="$spillway" LIFE_HOLDER="$build/tests/e2e/hold_lock 400" SOFTGPU_CONTEXT_MEMORY=1K

# The sanitizer does not see that a call comes through the table of entry points, which was filled
# before, nor the loader's lock.
printf 'race:^attach$\nrace:^binds_to_itself$\n' >"$scratch/suppressions"
export TSAN_OPTIONS="suppressions=$scratch/suppressions"

# guest DRIVER NAME=VALUE... CASE
guest() {
	driver=$1
	shift
	out=$(env LD_PRELOAD="$shim" LD_LIBRARY_PATH="$driver" SPILLWAY_JOB=threads-$jobs "$@" 2>&1) || fail "$*: $out"
	same "$*" ok "$out"
}

jobs=1
guest "$softgpu" "$life_threads" first
# The null driver waits for nothing: no thread is cancelled inside the driver, where the driver must
# care.
jobs=2
guest "$build/bench/null" SPILLWAY_SHARE=50 "$life_threads" cancel
jobs=3
guest "$softgpu" "$life_threads" wait
jobs=4
guest "$softgpu" SPILLWAY_SHARE=10 SOFTGPU_KERNEL_TIME_US=2000 "$life_threads" slot
jobs=5
guest "$softgpu" "$life_threads" contexts
jobs=6
guest "$softgpu" LIFE_LIBRARY="$build/tests/e2e/loading.so" "$life_threads" loading
jobs=7
guest "$build/bench/null" SPILLWAY_MEMORY=64MiB "$life_threads" room
