#!/bin/sh
# SPDX-License-Identifier: MIT
# turn = exclusive: two jobs that each want most of a device have all of it by turns, and compute
# the same results as alone. One that is killed, stopped or set to fine turns in the middle leaves
# the other running, and one alone has no turns.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=48M SOFTGPU_KERNEL_TIME_US=2000
moves=$build/tests/e2e/moves

# starts JOB MODE: 32 MiB of buffers
starts() {
	"$spillway" run --softgpu --quiet --name "$1" --turn exclusive --turn-length 300ms "$moves" \
		--mode "$2" --mib 32 --until "$scratch/$1.stop" >"$scratch/$1" 2>"$scratch/$1.errors" &
}
# ends JOB MODE PID: right
ends() {
	touch "$scratch/$1.stop"
	wait "$3" || fail "$1: exit status $?: $(cat "$scratch/$1.errors")"
	got=$(cat "$scratch/$1")
	steps=$(printf '%s\n' "$got" | sed -n 's/^steps=\([0-9,]*\) .*/\1/p')
	same "$1" "$(SOFTGPU_KERNEL_TIME_US=0 SOFTGPU_STATE_DIR="$scratch/alone" on_softgpu "$moves" --mode "$2" --mib 32 --steps "$steps")" "$got"
}
# goes_on JOB: launches more than it has
goes_on() {
	before=$(counter "$1" launches)
	more() { counter_at_least "$1" launches $((before + 20)); }
	until_true $patience more "$1" || fail "$1 does not go on: $(cat "$scratch/$1.errors")"
}
mkdir -p "$scratch/alone"

starts left one
left=$!
until_true $patience counter_at_least left launches 100 || fail "left does not begin: $(cat "$scratch/left" "$scratch/left.errors")"
same 'moves of a job alone' 0 "$(counter left demotions)"
starts right four
right=$!
# Each has left the device for the other, more than once.
exchanged() { counter_at_least left demotions "$1" && counter_at_least right demotions "$2"; }
until_true $patience exchanged 4 4 || fail "no turns: $(counter left demotions), $(counter right demotions) moves"
[ "$(device_bytes)" -le $((48 * mib)) ] || fail "more than there is: $(device_bytes)"
goes_on left
goes_on right

# Stopped in the middle: the other does not wait for it for long; then both go on.
pid=$(pid_of left)
kill -STOP "$pid"
goes_on right
kill -CONT "$pid"
goes_on left
goes_on right

# Set to fine turns, and back: both run, whatever the other has.
"$spillway" set --timeout $patience left --turn fine >/dev/null
goes_on left
goes_on right
"$spillway" set --timeout $patience left --turn exclusive >/dev/null
goes_on left
goes_on right

# Paused it has nothing to do.
"$spillway" pause --timeout $patience left >/dev/null
goes_on right
"$spillway" resume --timeout $patience left >/dev/null
goes_on left

# A guaranteed one and an opportunistic one have exclusive turns all the same: who has none waits,
# and who has it runs.
"$spillway" set --timeout $patience left --priority guaranteed >/dev/null
"$spillway" set --timeout $patience right --priority opportunistic >/dev/null
until_true $patience counter_is left priority guaranteed || fail "left is $(counter left priority)"
until_true $patience exchanged $(($(counter left demotions) + 4)) $(($(counter right demotions) + 4)) || fail "no turns of a guaranteed job: $("$spillway" stat)"
goes_on left
goes_on right
"$spillway" set --timeout $patience left --priority normal >/dev/null
"$spillway" set --timeout $patience right --priority normal >/dev/null
ends left one $left

# Killed: the one that remains has it all back, and no turns.
starts victim one
victim=$!
until_true $patience counter_at_least victim launches 20 || fail "victim does not begin: $(cat "$scratch/victim.errors")"
kill -KILL "$(pid_of victim)"
wait $victim 2>/dev/null || true
back() { counter_is right host_used 0; }
until_true $patience back || fail "right: $(counter right host_used) bytes stay on the host"
goes_on right
ends right four $right
