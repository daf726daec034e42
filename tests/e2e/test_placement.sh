#!/bin/sh
# SPDX-License-Identifier: MIT
# A training uses all of its memory in each step, which is larger than its limit. Its steps are
# found and surveyed. Memory moves once to where it costs kernels least, and then stays. Its data
# has the counted values. The kernels that the survey sees, and the settings, decide whether memory
# moves.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# Kernels of 1 ms; a link so slow that they wait for it.
export SOFTGPU_KERNEL_TIME_US=1000 SOFTGPU_HOST_BANDWIDTH=900M SOFTGPU_THREADS=1 TRAINING_QUIET_S=8
[ -z "${SANITIZER:-}" ] || TRAINING_QUIET_S=30 # steps take longer, and so does a survey

# training CASE PLACED PERCENT [later] [NAME=VALUE...]
training() {
	case=$1 placed=$2 percent=$3 later=
	shift 3
	[ "${1:-}" != later ] || later=later
	[ -z "$later" ] || shift
	limit_file "$scratch/$case.ini" $((1024 * mib))
	# shellcheck disable=SC2086 # it is a word or none
	env SPILLWAY_STATE_DIR="$scratch/state" SPILLWAY_JOB="$case" SPILLWAY_CONFIG="$scratch/$case.ini" SPILLWAY_LOG=info "$@" \
		LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$build/bench/training" "$placed" "$percent" 10 $later \
		>"$scratch/out" 2>"$scratch/log" || fail "$case: $(tail -n 3 "$scratch/log")"
}
says() { grep -q "$1" "$scratch/log" || fail "$case: nothing says '$1': $(cat "$scratch/log")"; }
says_not() { ! grep -q "$1" "$scratch/log" || fail "$case: $(grep "$1" "$scratch/log")"; }
# Nothing moves once it has settled.
is_left_alone() { same "$case: of a million closed" 0 "$(sed -n 's/^closed_[0-9]*% //p' "$scratch/out")"; }
mkdir -m 700 "$scratch/state"
cp "$SPILLWAY_STATE_DIR/driver-probe" "$scratch/state/"

# It falls later, with all of it on the device.
training later seen 75 later
says "with the best placement.*it moves"
is_left_alone
# The kernels find their memory in a table: there is nothing that could be said to be better
# elsewhere.
training order order 75
says_not "it moves"
is_left_alone
# Where no steps are looked for, frequency alone: at a quarter most of what is used often is on the
# host at first.
training frequency seen 25 SPILLWAY_PLACEMENT=balanced SPILLWAY_STEPS=off
says "with the best placement.*it moves"
is_left_alone
