#!/bin/sh
# SPDX-License-Identifier: MIT
# [ceiling] reserve: jobs leave memory of the GPU free, and give it up when a program without
# Spillway takes some.
set -eu
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
SOFTGPU_MEMORY=256M
export SOFTGPU_MEMORY
mib=1048576
configured '[ceiling]' 'reserve = 64MiB'
device() { test "$(counter "$1" device_used)" "$2" $(($3 * mib)); }

hold() { # hold NAME BLOCKS: a job that holds blocks of 8 MiB
	LD_PRELOAD="$lib/libspillway.so $lib/libspillway-alias.so" LD_LIBRARY_PATH=$node/driver SPILLWAY_JOB=$1 \
		"$node/bin/allocate" --count "$2" --ready "$scratch/$1.ready" --until "$scratch/end" >"$scratch/$1.out" 2>&1 &
	until_true $patience [ -e "$scratch/$1.ready" ] || fail "$1: $(cat "$scratch/$1.out")"
}

hold one 30
one=$!
until_true $patience device one -le 192 || fail "more than is not kept free: $("$spillway" stat one)"
device one -ge 176 || fail "more is kept free than is to be: $("$spillway" stat one)"

has "stat tells it" "$("$spillway" stat one)" 'gpu 0: 64.0 MiB are left free ([ceiling] reserve)'
has "the metrics tell it" "$("$spillway" stat --format prometheus | grep '^spillway_reserve_bytes{spillway_job="one"')" "} $((64 * mib))"

# An engine that has no part in it takes what it was kept for; the jobs make it free again.
LD_LIBRARY_PATH=$node/driver "$node/bin/allocate" --count 8 --ready "$scratch/engine.ready" --until "$scratch/engine.end" >"$scratch/engine.out" 2>&1 &
engine=$!
until_true $patience [ -e "$scratch/engine.ready" ] || fail "the engine: $(cat "$scratch/engine.out")"
until_true $patience device one -le 128 || fail "nothing was given up: $("$spillway" stat one)"
device one -ge 112 || fail "more was given up than is missing: $("$spillway" stat one)"
: >"$scratch/engine.end"
wait "$engine" || fail "the engine was refused: $(cat "$scratch/engine.out")"
until_true $patience device one -ge 176 || fail "nothing came back: $("$spillway" stat one)"

# Without it all of the device is the job's.
configured '[gpu]'
until_true $patience device one -eq 240 || fail "the reserve is not lifted: $("$spillway" stat one)"
: >"$scratch/end"
wait "$one" || fail "$(cat "$scratch/one.out")"
has "all bytes are right" "$(cat "$scratch/one.out")" "refused=0"
has "all bytes are right" "$(cat "$scratch/one.out")" "ok bad=0"
