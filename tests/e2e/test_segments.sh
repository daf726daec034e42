#!/bin/sh
# SPDX-License-Identifier: MIT
# The program's own physical memory moves. With expandable segments the bits are the same as without
# Spillway while the limit moves. The books are those of the software GPU, and a handle stays the
# same on either tier.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
restless='' runner='' driven=''
segments=$build/tests/e2e/segments

# moved JOB DEMOTIONS PROMOTIONS: so many, or its program has ended
moved() {
	{ [ "$(counter "$1" demotions)" -ge "$2" ] && [ "$(counter "$1" promotions)" -ge "$3" ]; } ||
		! kill -0 "$runner" 2>/dev/null
}

# of_segments JOB PROMOTIONS [OPTION]: until so many
of_segments() {
	job=$1 promotions=$2
	shift 2
	ini=$scratch/$job.ini
	limit_file "$ini" $((64 * mib)) "demote_deadline = 1ms"
	"$spillway" run --softgpu --quiet --name "$job" --config "$ini" "$segments" "$@" --until "$scratch/$job.stop" \
		>"$scratch/$job" 2>"$scratch/$job.errors" &
	runner=$!
	"$build/tests/e2e/restless" "$ini" $((60 * mib)) $((300 * mib)) 50 "demote_deadline = 1ms" &
	restless=$!
	until_true $patience moved "$job" $demotions "$promotions" ||
		echo "$job: only $(counter "$job" demotions) demotions, $(counter "$job" promotions) promotions in $patience s"
	kill $restless
	wait $restless 2>/dev/null || true
	restless=
	# At rest, the books are those of the software GPU.
	limit_file "$ini" $((100 * mib))
	until_true $patience device_within $((100 * mib)) || fail "$job: $(device_bytes) bytes on the device"
	touch "$scratch/$job.stop"
	wait $runner || fail "$job: exit status $?: $(cat "$scratch/$job.errors")"
	runner=
	got=$(cat "$scratch/$job")
	echo "$job: $got, $(counter "$job" demotions) demotions, $(counter "$job" promotions) promotions"
	[ "$(counter "$job" demotions)" -ge 10 ] || fail "$job: hardly anything moved"
	same "$job" "$(on_softgpu "$segments" "$@" --steps "$(field steps "$got")")" "$got"
	same "$job: nothing is left" "0 0 0" "$(counter "$job" device_used) $(counter "$job" host_used) $(counter "$job" pinned_chunks)"
}
if [ "${FORM:-}" = long ]; then demotions=40; else demotions=20; fi
of_segments plain $demotions
# Where others make room for what is new, they do not come back at once.
of_segments export 0 --export

# Each limit is reached, by the software GPU's own count, and stat says what it says.
ini=$scratch/books.ini
limit_file "$ini" $((128 * mib))
start_driven books "$ini"
tell info
pinned=$(truth host_bytes)
wants 0 alloc a 40960 create
wants 0 alloc b 20480 create
wants 0 alloc c 2048 create
wants 0 alloc d 16384
for name in a b c d; do wants 0 fill $name 17; done
wants 0 mix a b 5 3
tell sum a b c d
sum=$answer
# agree: but for what the program has pinned itself
agree() {
	[ "$(counter books device_used)" = "$(device_bytes)" ] &&
		[ $(($(counter books host_used) + pinned)) = "$(truth host_bytes)" ]
}
for limit in 48 20 2 70 128; do
	limit_file "$ini" $((limit * mib))
	until_true $patience device_within $((limit * mib)) ||
		fail "limit $limit MiB: $(device_bytes) bytes on the device; pending: $(counter books move_pending)"
	until_true $patience agree ||
		fail "limit $limit MiB: $(counter books device_used) and $(counter books host_used), the device says $(device_bytes) and $(truth host_bytes)"
	wants "$sum" sum a b c d
done
until_true $patience counter_is books host_used 0 || fail "raised, but $(counter books host_used) bytes stay on the host"
same "nothing must stay" 0 "$(counter books pinned_chunks)"
# What is beyond the limit from the start comes to the device later.
limit_file "$ini" $((80 * mib))
until_true $patience counter_is books limit_set $((80 * mib)) || fail "the limit of 80 MiB is not in force"
until_true $patience device_within $((80 * mib)) || fail "$(device_bytes) bytes on the device, limit 80 MiB"
wants 0 alloc e 40960 create
wants 0 fill e 18
[ "$(counter books host_used)" -gt 0 ] || fail "nothing was spilled"
limit_file "$ini" $((128 * mib))
until_true $patience counter_is books host_used 0 || fail "raised, but $(counter books host_used) bytes stay on the host"
wants 0 check e 18
for name in a b c d e; do wants 0 free $name; done
# Larger than all that is moved at once.
limit_file "$ini" $((1024 * mib))
wants 0 alloc f $((600 * 1024)) create
wants 0 fill f 19
limit_file "$ini" $((64 * mib))
until_true $patience device_within $((64 * mib)) || fail "600 MiB in one piece stay on the device: $(counter books move_pending)"
wants 0 check f 19
wants 0 free f
end_driven
same "nothing is left" "0 0" "$(counter books device_used) $(counter books host_used)"

# Handles and rights: on the device, and of memory that has gone to the host.
export SOFTGPU_DEVICES=2
SOFTGPU_STATE_DIR=$scratch/softgpu-2
mkdir -p "$SOFTGPU_STATE_DIR"
handles=$build/tests/e2e/handles
direct=$(echo go | on_softgpu "$handles")
shim=$(echo go | "$spillway" run --softgpu --quiet --name near --memory 64MiB "$handles")
same "handles, on the device" "$direct" "$shim"
ini=$scratch/far.ini
limit_file "$ini" $((64 * mib))
mkfifo "$scratch/go"
"$spillway" run --softgpu --quiet --name far --config "$ini" "$handles" <"$scratch/go" >"$scratch/far" &
runner=$!
exec 8>"$scratch/go"
until_true $patience grep -q ready "$scratch/far" || fail "handles: not ready"
limit_file "$ini" $((2 * mib))
# The one that is mapped nowhere cannot move.
until_true $patience device_within $((2 * mib)) || fail "handles: $(device_bytes) bytes on the device"
same "handles: what cannot move" $((2 * mib)) "$(counter far pinned_chunks)"
limit_file "$ini" $((5 * mib))
until_true $patience device_at_least $((4 * mib)) || fail "handles: nothing came back"
limit_file "$ini" $((2 * mib))
until_true $patience device_within $((2 * mib)) || fail "handles: $(device_bytes) bytes on the device"
# Room for what is to be exported.
limit_file "$ini" $((4 * mib)) "host_memory = 0"
until_true $patience counter_is far limit_set $((4 * mib)) || fail "handles: the limit does not rise"
echo go >&8
exec 8>&-
wait $runner || fail "handles: exit status $?"
runner=
same "handles, on the host" "$direct" "$(cat "$scratch/far")"
