#!/bin/sh
# SPDX-License-Identifier: MIT
# A process writes random bytes over the turn file while paced jobs run. The jobs go on, to their
# ends, with right results. They believe the file for moments at most.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
train=$build/clients/train_mlp

plain=$(field checksum "$(on_softgpu "$train" --quiet --epochs 1)")
[ -n "$plain" ] || fail "the training says no checksum"
for job in a b; do
	SPILLWAY_JOB=forged-$job SPILLWAY_SHARE=60 LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$train" --quiet --epochs 1 \
		>"$scratch/$job" 2>&1 &
	eval "pid_$job=$!"
done
turn_file() { turns=$(find "$SPILLWAY_STATE_DIR" -name 'turns-*' -size +0 | head -n 1) && [ -n "$turns" ]; }
until_true $patience turn_file || fail "no turn file: $(cat "$scratch/a" "$scratch/b")"
size=$(stat -c %s "$turns")
# All but magic, version and size, which say that it is one; and now and then those as well.
(
	while :; do
		head -c $((size - 16)) /dev/urandom | dd of="$turns" bs=16 seek=1 conv=notrunc status=none
		head -c 16 /dev/urandom | dd of="$turns" conv=notrunc status=none
	done
) &
# shellcheck disable=SC2154 # set by eval
for pid in $pid_a $pid_b; do
	wait "$pid" || fail "status $?: $(cat "$scratch/a" "$scratch/b")"
done
same "weights of one" "$plain" "$(field checksum "$(cat "$scratch/a")")"
same "weights of the other" "$plain" "$(field checksum "$(cat "$scratch/b")")"
# Who comes now finds a file that is none, or whose lanes lie.
out=$(SPILLWAY_JOB=later SPILLWAY_SHARE=60 under_shim "$train" --quiet --epochs 1 2>&1) || fail "a later job: $out"
same "weights of a later one" "$plain" "$(field checksum "$out")"
same "the file's size" "$size" "$(stat -c %s "$turns")"
