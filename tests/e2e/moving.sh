# SPDX-License-Identifier: MIT
# Sourced after elastic.sh: programs work while their limit moves at random every 50 ms between 20 %
# and 120 % of their working set. They end with the same bits as without Spillway.
# shellcheck shell=sh disable=SC2034,SC2154
restless='' runner=''
total_moves=0 total_queued=0

# disturb FILE WORKING_SET: in the background
disturb() {
	"$build/tests/e2e/restless" "$1" $(($2 / 5)) $(($2 * 6 / 5)) 50 "demote_deadline = 1ms" &
	restless=$!
}
calm() {
	kill $restless
	wait $restless 2>/dev/null || true
	restless=
}
# book JOB: adds what it moved
book() {
	moves=$(($(counter "$1" demotions) + $(counter "$1" promotions)))
	queued=$(counter "$1" queued_moves)
	echo "$1: $moves moves, $queued of them while work was queued, longest copy window $(counter "$1" move_longest_ns) ns"
	total_moves=$((total_moves + moves)) total_queued=$((total_queued + queued))
}

# moved JOB COUNT: so many moves, or its program has ended
moved() {
	[ "$(counter "$1" queued_moves)" -ge "$2" ] || ! kill -0 "$runner" 2>/dev/null
}

steps_of() {
	printf '%s\n' "$1" | sed -n 's/^steps=\([0-9,]*\) .*/\1/p'
}

size=128
kernel_us=300 # so that time, and not the processor, is what the steps take
# of_mode MODE COUNT: until so many moves found work queued
of_mode() {
	mode=$1
	ini=$scratch/$mode.ini
	limit_file "$ini" $((size * mib)) "demote_deadline = 1ms"
	SOFTGPU_KERNEL_TIME_US=$kernel_us "$spillway" run --softgpu --quiet --name "$mode" --config "$ini" "$build/tests/e2e/moves" --mode "$mode" --mib $size \
		--until "$scratch/$mode.stop" >"$scratch/$mode" 2>"$scratch/$mode.errors" &
	runner=$!
	disturb "$ini" $((size * mib))
	until_true $patience moved "$mode" "$2" ||
		echo "$mode: only $(counter "$mode" queued_moves) moves with work queued in $patience s"
	touch "$scratch/$mode.stop"
	wait $runner || fail "$mode: exit status $?: $(cat "$scratch/$mode.errors")"
	calm
	book "$mode"
	[ "$moves" -gt 0 ] || fail "$mode: nothing moved"
	got=$(cat "$scratch/$mode")
	same "$mode" "$(on_softgpu "$build/tests/e2e/moves" --mode "$mode" --mib $size --steps "$(steps_of "$got")")" "$got"
}
