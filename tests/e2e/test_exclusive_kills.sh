#!/bin/sh
# SPDX-License-Identifier: MIT
# turn = exclusive under kills: processes of two jobs are killed and stopped at random and start
# anew, 3 s of it or EXCLUSIVE_KILLS_SECONDS. No job stands still for longer than two minutes, as
# spillway-sharing(7) says, and afterwards nothing is left.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SOFTGPU_MEMORY=96M SOFTGPU_KERNEL_TIME_US=500
seconds=${EXCLUSIVE_KILLS_SECONDS:-3}
seed=${EXCLUSIVE_KILLS_SEED:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
told=$(LD_LIBRARY_PATH=$softgpu SPILLWAY_TURN=exclusive SPILLWAY_TURN_LENGTH=300ms KILLS_PRELOAD=$shim \
	python3 tests/e2e/exclusive_kills.py "$seconds" "$seed" 120 "$scratch" "$spillway" "$build/tests/e2e/moves") ||
	fail "seed $seed: $told $(tail -n 3 "$scratch"/*.errors)"
echo "$told"

# What the killed held is nobody's, and one that comes has it all and no turns.
nothing_is_held() { [ "$(device_bytes)" -eq 0 ]; }
until_true $patience nothing_is_held || fail "seed $seed: $(device_bytes) bytes are held by the dead"
has_gone() {
	"$spillway" doctor --clean >/dev/null 2>&1 || true
	[ ! -e "$SPILLWAY_STATE_DIR/left.segment" ] && [ ! -e "$SPILLWAY_STATE_DIR/right.segment" ]
}
until_true $patience has_gone || fail "seed $seed: left behind: $(ls "$SPILLWAY_STATE_DIR")"
