#!/bin/sh
# A share inserts idle slots and changes no result; share 0 pauses; resume lets the program end.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
busy=$build/clients/gpu_busy
counter() { "$spillway" stat "$1" --json | sed "s/,\"processes\":.*//; s/.*\"$2\":\\([0-9]*\\).*/\\1/"; }

"$spillway" run --softgpu --quiet --name paced --share 50 "$busy" --seconds 2 >"$scratch/out" ||
	fail "exit status $?: $(cat "$scratch/out")"
idle=$(counter paced idle_ns) gpu=$(counter paced busy_ns) launches=$(counter paced launches)
[ "$launches" -gt 0 ] || fail "no launch was counted"
[ "$gpu" -gt 0 ] || fail "no busy time was measured"
# How much is for the checks below, by the program's own work.
[ "$idle" -gt 0 ] || fail "no idle time was inserted for $gpu ns of busy time"

# The share is not exceeded, whether the program waits for its kernels or queues them, short or long. (A
# busy machine can only make it less; that it is not much less is for the bench to say.)
for us in 1000 40000; do
	for how in "" --sync; do
		# shellcheck disable=SC2086 # no word, or one
		out=$(SOFTGPU_KERNEL_TIME_US=$us "$spillway" run --softgpu --quiet --name bound --share 30 \
			"$busy" --loops 1 --seconds 2 $how | tail -n 1)
		held=$(awk -v n="$(field launches "$out")" -v us=$us -v ms="$(field elapsed_ms "$out")" \
			'BEGIN { printf "%d", n * us / 10 / ms }')
		[ "$held" -le 34 ] || fail "share 30, kernels of $us us $how: held $held %: $out"
		[ "$held" -ge 1 ] || fail "share 30, kernels of $us us $how: nothing ran: $out"
	done
done

"$spillway" run --softgpu --quiet --name free "$busy" --seconds 1 >/dev/null
[ "$(counter free idle_ns)" -eq 0 ] || fail "idle time was inserted without a share"

# pause stops launches, the process lives on; resume restores the share that was set.
"$spillway" run --softgpu --quiet --name held --share 80 "$busy" --seconds 6 >"$scratch/out" 2>&1 &
runner=$!
started() { [ "$(counter held launches)" -gt 0 ]; }
until_true 20 started || fail "not started: $(cat "$scratch/out")"
"$spillway" pause held >/dev/null
is_paused() { [ "$(counter held paused)" -eq 1 ]; }
until_true 20 is_paused || fail "not paused: $("$spillway" stat held)"
before=$(counter held launches) waited=$(counter held idle_ns)
sleep 0.5
[ "$(counter held idle_ns)" -gt "$waited" ] || fail "idle time does not grow while paused"
[ "$(counter held launches)" -eq "$before" ] || fail "launches went on while paused"
kill -0 $runner || fail "the program ended while paused"
"$spillway" resume held >/dev/null
goes_on() { [ "$(counter held launches)" -gt "$before" ]; }
until_true 20 goes_on || fail "resume did not let launches go on"
[ "$(counter held share_set)" -eq 80000 ] || fail "resume did not restore 80 %: $(counter held share_set)"
wait $runner || fail "exit status $? after resume"
