#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory that is allocated in stream order lives in the arena. It answers as the driver's pools do
# and is ordered by its streams. It is given back, and moves with the limit.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
pools=$build/tests/e2e/pools

alone=$(on_softgpu "$pools")
has "alone" "$alone" "wrong words: 0"
has "alone" "$alone" "managed memory that is not known: 0"
# On the device; more than there is room for; nearly nothing on the device; not in the arena.
for how in "512:auto" "16:auto" "2:auto" "16:managed"; do
	limit=${how%:*} name=pools-$limit-${how#*:}
	limit_file "$scratch/$name.ini" $((limit * mib)) "spill = ${how#*:}"
	out=$("$spillway" run --softgpu --quiet --name "$name" --config "$scratch/$name.ini" timeout $patience "$pools" 2>&1) ||
		fail "$name: exit status $?: $out"
	[ "${how#*:}" != auto ] || same "$name" "$alone" "$out"
	has "$name" "$out" "wrong words: 0"
	same "$name: all is given back" "0 0" "$(counter "$name" device_used) $(counter "$name" host_used)"
	[ "$limit" != 2 ] || [ "$(counter "$name" spilled_bytes)" -gt 0 ] || fail "$name: nothing was on the host"
done

# Two devices: rights to a pool are rights to what the arena serves for it.
export SOFTGPU_DEVICES=2
for limit in 512 8; do
	limit_file "$scratch/peer.ini" $((limit * mib))
	has "a peer, alone" "$(on_softgpu "$pools" peer)" "a peer wrote there"
	same "a peer, $limit" "$(on_softgpu "$pools" peer)" \
		"$("$spillway" run --softgpu --quiet --name peer --config "$scratch/peer.ini" "$pools" peer 2>&1)"
done
unset SOFTGPU_DEVICES

# 48 MiB of a pool, of which a quarter and then all may be on the device.
limit_file "$scratch/moves.ini" $((256 * mib))
mkfifo "$scratch/in" "$scratch/out"
"$spillway" run --softgpu --quiet --name moves --config "$scratch/moves.ini" "$pools" moves <"$scratch/in" >"$scratch/out" &
job=$!
exec 8>"$scratch/in" 9<"$scratch/out"
wants_line() {
	read -r line <&9 || fail "no line '$1'"
	same "its line" "$1" "$line"
}
look() {
	printf x >&8
	wants_line looked
}
wants_line filled
same "not the driver's" 0 "$(counter moves demotions)"
limit_file "$scratch/moves.ini" $((12 * mib))
until_true $patience device_within $((12 * mib)) || fail "lowered: $(device_bytes) bytes on the device"
look
[ "$(counter moves demotions)" -gt 0 ] || fail "lowered: nothing moved"
limit_file "$scratch/moves.ini" $((256 * mib))
until_true $patience device_at_least $((48 * mib)) || fail "raised: $(device_bytes) bytes on the device"
look
exec 8>&-
wants_line "wrong words: 0"
wait $job || fail "moves: exit status $?"

# 24 MiB of managed pools, of which 16 MiB may be on the device: the rest is used where it is.
limit_file "$scratch/managed.ini" $((16 * mib))
alone=$(on_softgpu "$pools" managed </dev/null)
has "managed, alone" "$alone" "wrong buffers: 0"
mkfifo "$scratch/managed-in" "$scratch/managed-out"
"$spillway" run --softgpu --quiet --name managed --config "$scratch/managed.ini" "$pools" managed \
	<"$scratch/managed-in" >"$scratch/managed-out" &
job=$!
exec 8>"$scratch/managed-in" 9<"$scratch/managed-out"
wants_line "wrong buffers: 0"
device_within $((16 * mib)) || fail "managed: $(device_bytes) bytes on the device"
[ "$(counter managed device_used)" -gt $((12 * mib)) ] || fail "managed: only $(counter managed device_used) bytes count"
echo >&8
wants_line "freed again: 1"
wants_line "freed again: 1"
wants_line "to be freed"
[ "$(counter managed device_used)" -gt $((12 * mib)) ] || fail "managed: less counts before its stream is at the free"
echo >&8
wants_line freed
same "managed: all is given back" 0 "$(counter managed device_used)"
exec 8>&-
wait $job || fail "managed: exit status $?"

# Four threads, while the limit goes up and down. On a busy machine they may end before the limit
# changes: then they run once more.
churn() {
	"$spillway" run --softgpu --quiet --name churn --config "$scratch/churn.ini" timeout 300 "$pools" churn >"$scratch/churned" 2>&1 &
	job=$!
	while kill -0 $job 2>/dev/null; do
		limit=$(((limit * 37 + 11) % 90 + 4))
		"$spillway" set churn --memory ${limit}MiB --timeout 1 >/dev/null 2>&1 || true # it may be over
		sleep 0.05
	done
	wait $job || fail "churn: exit status $?: $(cat "$scratch/churned")"
	same "churn" "wrong words: 0" "$(cat "$scratch/churned")"
	same "churn: all is given back" "0 0" "$(counter churn device_used) $(counter churn host_used)"
}
limit_file "$scratch/churn.ini" $((64 * mib))
limit=64 tries=0
while churn && [ "$(counter churn demotions)" = 0 ]; do
	tries=$((tries + 1))
	[ $tries -lt 10 ] || fail "churn: nothing moved in $tries runs"
done
