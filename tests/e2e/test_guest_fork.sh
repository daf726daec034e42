#!/bin/sh
# SPDX-License-Identifier: MIT
# Forking: a child that uses no CUDA costs its parent nothing. A child that uses CUDA has a slot of
# its own. None hangs, however it was forked.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
life_fork=$build/tests/e2e/life_fork
# Children end with what they have.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
export SPILLWAY_TOOL="$spillway" SOFTGPU_CONTEXT_MEMORY=1K SOFTGPU_QUIET=1
jobs=0

# guest NAME=VALUE... CASE HOW: under the shim, in a job of its own
guest() {
	jobs=$((jobs + 1))
	# Bound at once: the null driver lacks some of the functions called.
	out=$(env LD_BIND_NOW=1 LD_PRELOAD="$shim" LD_LIBRARY_PATH="$driver" SPILLWAY_JOB=fork-$jobs "$@" 2>&1) || fail "$*: $out"
	same "$*" ok "$out"
}

# A job nobody named, whose segment only its own exit may remove.
driver=$softgpu
ways="fork raw"
[ -n "$SANITIZER" ] || ways="$ways shared" # a sanitizer ends the parent with such a child
for how in $ways; do
	guest SPILLWAY_JOB= "$life_fork" idle "$how"
done
guest SPILLWAY_JOB= LIFE_NO_WIPE=1 "$life_fork" idle raw

# The software GPU answers a forked child as drivers do; the null driver lets it do everything.
guest "$life_fork" calls fork
driver=$build/bench/null
for how in fork raw; do
	guest "$life_fork" calls $how
	guest LIFE_NO_WIPE=1 "$life_fork" calls $how
done

driver=$softgpu
guest "$life_fork" outlived fork &
other=$!
jobs=$((jobs + 1))
guest "$life_fork" outlived raw
wait $other
guest "$life_fork" own
guest "$life_fork" first
guest SPILLWAY_SHARE=50 "$life_fork" busy
