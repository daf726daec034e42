#!/bin/sh
# SPDX-License-Identifier: MIT
# Two jobs fight over a device that holds less than both want, limits aside: each computes the same
# result as alone. One is killed with its memory still held for a while: the other goes on, and gets
# the memory when it is free.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SOFTGPU_MEMORY=96M SOFTGPU_RELEASE_DELAY_MS=300 SOFTGPU_KERNEL_TIME_US=2000
moves=$build/tests/e2e/moves
pids=

# starts JOB MODE [LIMIT]: 64 MiB of buffers, limited to the device's size unless said otherwise
starts() {
	"$spillway" run --softgpu --quiet --name "$1" --memory "${3:-96MiB}" "$moves" --mode "$2" --until "$scratch/$1.stop" \
		>"$scratch/$1" 2>"$scratch/$1.errors" &
	pids="$pids $!"
}
spilled() { [ "$(counter "$1" spilled_bytes)" -gt 0 ] || [ "$(counter "$1" demotions)" -gt 0 ]; }
# ends JOB MODE PID: right
ends() {
	touch "$scratch/$1.stop"
	wait "$3" || fail "$1: exit status $?: $(cat "$scratch/$1.errors")"
	got=$(cat "$scratch/$1")
	steps=$(printf '%s\n' "$got" | sed -n 's/^steps=\([0-9,]*\) .*/\1/p')
	same "$1" "$(SOFTGPU_KERNEL_TIME_US=0 SOFTGPU_STATE_DIR="$scratch/alone" on_softgpu "$moves" --mode "$2" --steps "$steps")" "$got"
}
mkdir -p "$scratch/alone"

starts left one
left=$!
starts right four
right=$!
either() { spilled left || spilled right; }
until_true $patience either || fail "128 MiB on a device of 96, and nothing is on the host"
sleep 2
[ "$(device_bytes)" -le $((96 * mib)) ] || fail "more than there is: $(device_bytes)"
kill -0 $left || fail "left has ended: $(cat "$scratch/left.errors")"
kill -0 $right || fail "right has ended: $(cat "$scratch/right.errors")"
ends left one $left
ends right four $right

# Killed: its memory stays held for a while. The one that remains is brought back to the device
# then.
starts victim one
until_true $patience device_at_least $((48 * mib)) || fail "victim: only $(device_bytes) bytes"
pid=$(pid_of victim)
starts heir one
heir=$!
until_true $patience spilled heir || fail "heir: nothing on the host of a device that is full"
kill -KILL "$pid"
promoted() { counter_is heir host_used 0; }
until_true $patience promoted || fail "the device is free, but $(counter heir host_used) bytes stay on the host: $(counter heir move_pending)"
ends heir one $heir
pids=
