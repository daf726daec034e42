#!/bin/sh
# SPDX-License-Identifier: MIT
# The memory of a process that exits stays charged until the driver can have given it back, however
# long exit() took.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576

# Of the 300 ms for which the memory of an exited process is charged the driver needs 150; a machine
# that is busy enough comes between the two.
export SOFTGPU_RELEASE_DELAY_MS=150
printf '[job]\nname = lingers\n[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/job.ini"
export SPILLWAY_CONFIG="$scratch/job.ini"

# It holds all there is, exits by an error, and one of its destructors takes its time.
nothing_charged() { [ "$(counter lingers device_used || echo 0)" -eq 0 ]; }
exits() {
	[ ! -e "$scratch/second" ] || until_true $patience nothing_charged || fail "stays charged"
	: >"$scratch/lingers"
	LINGERS=$scratch/lingers SOFTGPU_FAIL=cuPointerGetAttribute:1=999 LD_PRELOAD="$shim $build/tests/e2e/lingers.so" \
		LD_LIBRARY_PATH=$softgpu "$allocate" --mib 8 --count 2 --ready "$scratch/ready" >"$scratch/first" 2>&1 &
	first=$!
	is_exiting() { grep -q "cuPointerGetAttribute.*error" "$scratch/first"; }
	until_true $patience is_exiting || fail "does not exit: $(cat "$scratch/first")"
	has "holds all" "$(cat "$scratch/first")" "blocks=2 refused=0"

	# The next tries again and again to have as much.
	under_shim "$allocate" --mib 8 --count 2 --hold-ms 5 --rounds 1000000 >"$scratch/second" 2>&1 &
	second=$!
	"$softgpu/softgpu-truth" --watch 2 >/dev/null & # who looks, notices a death
	watcher=$!
	until_true $patience grep -q "blocks=0" "$scratch/second" || fail "is not refused: $(cat "$scratch/second")"
	sleep 0.5 # an exit that takes longer than such memory is charged
	kill -0 $first || fail "has ended: $(cat "$scratch/first")"
	! grep -q "blocks=[12]" "$scratch/second" || fail "got memory that is still held: $(cat "$scratch/second")"

	rm "$scratch/lingers"
	most=0 samples=0
	until grep -q "blocks=2" "$scratch/second" && [ $samples -gt 5 ]; do
		held=$(device_bytes)
		[ "$held" -le $most ] || most=$held
		samples=$((samples + 1))
		kill -0 $second || fail "has ended: $(tail "$scratch/second")"
	done
	kill $second $watcher
	wait $first || true
	[ "$most" -le $((17 * mib)) ] || off "the job held $most bytes; its limit is 17 MiB"
}
undisturbed exits
