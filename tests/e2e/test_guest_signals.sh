#!/bin/sh
# SPDX-License-Identifier: MIT
# Signals reach the program's own threads and disturb no call; errno is the program's; a stopped
# process holds up no other for ever.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
life_signals=$build/tests/e2e/life_signals
# Processes end with what they have.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
export SPILLWAY_TOOL="$spillway" LIFE_HOLDER="$build/tests/e2e/hold_lock" SOFTGPU_CONTEXT_MEMORY=1K

# guest NAME=VALUE... CASE
guest() {
	jobs=$((jobs + 1))
	out=$(under_shim env SPILLWAY_JOB=signals-$jobs "$@" 2>"$scratch/said") || fail "$*: $out $(cat "$scratch/said")"
}
passes() {
	guest "$@"
	same "$*" ok "$out"
}
jobs=0

passes "$life_signals" sigwait
passes SPILLWAY_MEMORY=9MiB SPILLWAY_SHARE=5 SOFTGPU_KERNEL_TIME_US=300 "$life_signals" storm
passes "$life_signals" setxid
# An unlimited job that is alone on its device charges without the lock.
passes SPILLWAY_LOG=info SPILLWAY_MEMORY=64MiB "$life_signals" stop
has "stop: the reason" "$(cat "$scratch/said")" "another process of the job stands still with the job's books. Let"
passes SPILLWAY_MEMORY=64MiB "$life_signals" stop
has "stop" "$(cat "$scratch/said")" "another process of the job holds its segment"
same "stop: lines on stderr" 1 "$(grep -c . "$scratch/said")"

# What keeps errno without us keeps it under us, whatever happens inside.
on_softgpu "$life_signals" errno >"$scratch/direct"
for settings in SPILLWAY_SHARE=100 SPILLWAY_SHARE=20 "SPILLWAY_MEMORY=4MiB SPILLWAY_SHARE=20" \
	"SPILLWAY_MEMORY=4MiB SPILLWAY_HOST_MEMORY=0" SPILLWAY_LOG=debug "SPILLWAY_SHARE=20 SOFTGPU_DEVICES=2"; do
	# shellcheck disable=SC2086 # a list
	guest SOFTGPU_KERNEL_TIME_US=20000 $settings "$life_signals" errno
	printf '%s\n' "$out" | sed 's/ [0-9]*:/:/' >"$scratch/ours"
	sed 's/ [0-9]*:/:/' "$scratch/direct" | diff - "$scratch/ours" >"$scratch/diff" ||
		fail "$settings: errno: without us <, with us >: $(cat "$scratch/diff")"
done
has "the list of calls" "$(cat "$scratch/ours")" "cuMemAlloc_v2: errno kept"
