#!/bin/sh
# SPDX-License-Identifier: MIT
# A limit below the memory in use is reached, by the driver's own count. A higher limit, or freed
# memory, brings memory back. The bytes stay right. Where something stands in the way, the limit
# that is held differs from the one set, and why is said.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
driven=

# shrinks_to JOB BYTES: the device's own count, and what stat says
shrinks_to() {
	until_true $patience device_within "$2" ||
		fail "$1: $(device_bytes) bytes on the device, limit $2; pending: $(counter "$1" move_pending)"
	until_true $patience counter_is "$1" limit_held "$2" ||
		fail "$1: limit $2 is reached, but limit_held is $(counter "$1" limit_held)"
	same "$1: limit set" "$2" "$(counter "$1" limit_set)"
}
# pending JOB REASON
pending() {
	until_true $patience counter_is "$1" move_pending "$2" ||
		fail "$1: expected a move to wait for '$2', got '$(counter "$1" move_pending)'"
}

# Of all kinds that come from the arena, large and small.
ini=$scratch/shrink.ini
limit_file "$ini" $((128 * mib))
start_driven shrink "$ini"
wants 0 alloc a 40960
wants 0 alloc b 10240 pitch
wants 0 alloc c 6144
wants 0 alloc d 300
wants 0 alloc e 20
for name in a b c d e; do wants 0 fill $name 17; done
wants 0 mix a c 5 3
tell sum a b c d e
sum=$answer
whole=$(device_bytes)
tell number a
number=$answer
[ "$whole" -ge $((56 * mib)) ] || fail "all fits, but only $whole bytes are on the device"
same "nothing on the host" 0 "$(counter shrink host_used)"

for limit in 32 10 2 24; do
	limit_file "$ini" $((limit * mib))
	shrinks_to shrink $((limit * mib))
	wants "$sum" sum a b c d e
	wants "$number" number a
done
[ "$(counter shrink host_used)" -ge $((32 * mib)) ] || fail "host_used is $(counter shrink host_used)"
[ "$(counter shrink demotions)" -gt 0 ] || fail "no demotion is counted"
limit_file "$ini" $((128 * mib))
until_true $patience counter_is shrink host_used 0 || fail "raised, but $(counter shrink host_used) bytes stay on the host"
device_at_least $((56 * mib)) || fail "all fits again, but only $(device_bytes) bytes are on the device"
[ "$(counter shrink promotions)" -gt 0 ] || fail "no promotion is counted"
wants "$sum" sum a b c d e

# Memory that is freed makes room for what is on the host.
limit_file "$ini" $((24 * mib))
shrinks_to shrink $((24 * mib))
wants 0 free a
until_true $patience counter_is shrink host_used 0 || fail "freed, but $(counter shrink host_used) bytes stay on the host"
wants 0 check b 17
end_driven
same "nothing is left" "0 0" "$(counter shrink device_used) $(counter shrink host_used)"

# Gently, as the file says or from now on, it is reached as well.
limit_file "$ini" $((64 * mib)) "shrink = gentle"
start_driven gently "$ini"
wants 0 alloc a 40960
wants 0 fill a 3
limit_file "$ini" $((16 * mib)) "shrink = gentle"
shrinks_to gently $((16 * mib))
wants 0 check a 3
limit_file "$ini" $((64 * mib))
until_true $patience counter_is gently host_used 0 || fail "gently: $(counter gently host_used) bytes stay on the host"
"$spillway" set --timeout $patience --shrink gentle gently >/dev/null || fail 'set --shrink is refused'
! "$spillway" set --shrink slowly gently 2>"$scratch/said" || fail 'set --shrink slowly is taken'
has 'what is wrong with it' "$(cat "$scratch/said")" 'expected fast or gentle'
"$spillway" set --timeout $patience --memory 8MiB gently >/dev/null || fail 'set --memory is refused'
until_true $patience device_within $((8 * mib)) || fail "gently: $(device_bytes) bytes on the device"
wants 0 check a 3
end_driven

# What must stay on the device: named at some point inside, exported.
for pin in memops range ipc tokens; do
	[ $pin != ipc ] || built_in ipc || continue
	limit_file "$ini" $((64 * mib))
	start_driven "$pin" "$ini"
	wants 0 alloc a 16384
	wants 0 alloc b 16384
	wants 0 fill a 5
	wants 0 fill b 6
	tell $pin a
	limit_file "$ini" $((8 * mib))
	pending "$pin" pinned
	until_true $patience device_within $((18 * mib)) || fail "$pin: what may move stayed: $(device_bytes) bytes"
	device_at_least $((16 * mib)) || fail "$pin: what must stay has moved"
	held=$(counter "$pin" limit_held)
	[ "$held" -ge $((16 * mib)) ] || fail "$pin: limit_held is $held"
	has "$pin: why" "$("$spillway" stat "$pin")" pinned
	wants 0 check a 5
	wants 0 check b 6
	# With the pinned memory gone, it is reached.
	wants 0 free a
	shrinks_to "$pin" $((8 * mib))
	wants 0 check b 6
	end_driven
done

# pin_new: what comes from then on stays, large and small.
limit_file "$ini" $((64 * mib))
start_driven pin_new "$ini"
wants 0 alloc a 16384
wants 0 fill a 5
limit_file "$ini" $((64 * mib)) "pin_new = yes"
pinned() { counter_at_least pin_new pinned_chunks $((8 * mib)); }
allocates_pinned() {
	tell alloc b 8192
	pinned || { wants 0 free b && return 1; }
}
until_true $patience allocates_pinned || fail "pin_new: nothing is pinned"
wants 0 alloc c 100
wants 0 fill b 6
wants 0 fill c 7
same "pin_new: pinned" $((10 * mib)) "$(counter pin_new pinned_chunks)"
limit_file "$ini" $((4 * mib)) "pin_new = yes"
pending pin_new pinned
until_true $patience device_within $((10 * mib)) || fail "pin_new: $(device_bytes) bytes on the device"
device_at_least $((10 * mib)) || fail "pin_new: what is pinned has moved"
wants 0 check a 5
wants 0 check b 6
wants 0 check c 7
wants 0 free b
wants 0 free c
shrinks_to pin_new $((4 * mib))
same "pin_new: pinned, freed" 0 "$(counter pin_new pinned_chunks)"
wants 0 check a 5
end_driven

# The host has too little room.
limit_file "$ini" $((64 * mib)) "host_memory = 8MiB"
start_driven host "$ini"
wants 0 alloc a 32768
wants 0 fill a 9
limit_file "$ini" $((8 * mib)) "host_memory = 8MiB"
pending host host_memory
device_at_least $((24 * mib)) || fail "more was moved than the host may hold"
[ "$(counter host host_used)" -le $((8 * mib)) ] || fail "host_memory is broken: $(counter host host_used)"
until_true $patience device_within $((24 * mib)) || fail "the host has room for 8 MiB"
[ "$(counter host limit_held)" -ge $((24 * mib)) ] || fail "host: limit_held is $(counter host limit_held)"
wants 0 check a 9
limit_file "$ini" $((8 * mib)) "host_memory = 64MiB"
shrinks_to host $((8 * mib))
wants 0 check a 9
end_driven
