#!/bin/sh
# SPDX-License-Identifier: MIT
# The files of the state directory go while a job runs, as RemoveIPC of logind removes them when a
# user's last session ends. The job keeps its limit, its memory and its pause. Programs that start
# later, and the tool, report a sensible state.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export SPILLWAY_STATE_DIR="$scratch/shared" SPILLWAY_NODE_DIR="$scratch/no-node"
ini=$scratch/job.ini

# started JOB: with 64 MiB by its configuration, lowered to 16
started() {
	until_true $patience rm -rf "$SPILLWAY_STATE_DIR" # its process may make its record anew meanwhile
	limit_file "$ini" $((64 * mib))
	start_driven "$1" "$ini"
	wants 0 alloc a 24576
	wants 0 fill a 7
	"$spillway" set --timeout $patience "$1" --memory 16MiB >"$scratch/set" 2>&1 || fail "set: $(cat "$scratch/set")"
	wants 0 settle $((16 * mib))
}
# goes_on: what it has is right, and it holds no more than 16 MiB whatever it asks for
goes_on() {
	wants 0 check a 7
	wants 0 alloc b 16384
	wants 0 fill b 9
	wants 0 settle $((16 * mib))
	wants 0 check a 7
	wants 0 check b 9
}
told() { grep -q "override.ini was removed while it runs" "$scratch/driven-errors"; }

# What is removed first is told of before the rest is gone.
started override
rm "$SPILLWAY_STATE_DIR/override.override.ini"
until_true $patience told || fail "override: says nothing: $(cat "$scratch/driven-errors")"
goes_on
"$spillway" set --timeout $patience override --memory 32MiB >"$scratch/set" 2>&1 || fail "set anew: $(cat "$scratch/set")"
wants 0 settle $((32 * mib))
end_driven

for what in files folder; do
	started "$what"
	if [ $what = files ]; then find "$SPILLWAY_STATE_DIR" -type f -delete; else until_true $patience rm -rf "$SPILLWAY_STATE_DIR"; fi
	until_true $patience told || fail "$what: says nothing: $(cat "$scratch/driven-errors")"
	goes_on
	"$spillway" stat "$what" >"$scratch/out" 2>&1 && fail "stat of a job without files: $(cat "$scratch/out")"
	has "stat" "$(cat "$scratch/out")" "$what"
	# Another program of that job begins anew.
	SPILLWAY_JOB=$what SPILLWAY_MEMORY=8MiB under_shim "$build/tests/e2e/allocate" --mib 4 --count 2 >"$scratch/out" 2>&1 ||
		fail "$what: a later program: $(cat "$scratch/out")"
	has "a later program" "$(cat "$scratch/out")" "blocks=2 refused=0"
	"$spillway" stat "$what" >"$scratch/out" 2>&1 || fail "stat of the later program: $(cat "$scratch/out")"
	goes_on_at=$(device_bytes)
	[ "$goes_on_at" -le $((16 * mib)) ] ||
		fail "$what: $goes_on_at bytes on the device: $(cat "$scratch/driven-errors"; "$softgpu/softgpu-truth"; ls "$SPILLWAY_STATE_DIR")"
	end_driven
done
