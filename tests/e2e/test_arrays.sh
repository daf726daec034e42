#!/bin/sh
# SPDX-License-Identifier: MIT
# Arrays and mipmapped arrays cannot be on the host. They are charged to the limit and freed from
# it, and make room where other memory can move. Beyond the limit they are refused as a device of
# that size would refuse them. The program's answers and the software GPU's books decide.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck disable=SC2034 # start_driven reads it
driven_by=arrays

# free_is BYTES: what the program is told once all is counted
free_is() {
	tell info
	[ "$answer" = "$1" ]
}
told_free() {
	until_true $patience free_is "$1" || fail "$2: expected $1 bytes free, the program is told $answer"
}
# holds NAME...: of the resources that stat shows these many are arrays
holds() {
	built_in resources || return 0
	same "arrays in the registry" "$1" "$("$spillway" stat "$driven_job" --resources | grep -c '/array/')"
}

limit_file "$scratch/limit.ini" 64MiB
start_driven arrays "$scratch/limit.ini"
wants "$((64 * mib))" info
pid=$(pid_of arrays)

# 24 MiB of words, and all levels of 24 MiB: a third more.
wants 0 array a word 1024 6144 0
wants 0 fill a 7
told_free $((40 * mib)) 'an array'
wants 0 mipmaps b 1024 4096 99
wants 0 fill b 9
holds 2
same 'on the device' $((46 * mib)) "$(held_by "$pid")"
told_free $((18 * mib)) 'a mipmapped array'
wants 0 check a 7
wants 0 check b 9

# More than the limit has left: refused, nothing is made, and a smaller one is served.
wants 2 array c word 1024 6144 0
wants 2 mipmaps c 1024 6144 1
same 'on the device' $((46 * mib)) "$(held_by "$pid")"
holds 2
refused() { counter_at_least arrays refusals 2; }
until_true $patience refused || fail "refusals: $(counter arrays refusals)"
wants 0 array c word 1024 2048 2
holds 3
wants 0 free c
told_free $((18 * mib)) 'freed'

# What the driver refuses to make is charged to nobody.
wants 1 array c word 0 1 0
wants 1 array c word 131073 0 0
told_free $((18 * mib)) 'refused by the driver'
# No levels at all are one: what the driver makes is charged.
wants 2 mipmaps c 1024 6144 0
wants 0 free a
wants 0 free b
holds 0
told_free $((64 * mib)) 'all freed'
same 'on the device' 0 "$(held_by "$pid")"

# Planes and compressed blocks are charged before they are made, like any other: 24 MiB of one and a
# half bytes to a pixel, 16 MiB of one; what is beyond the limit is refused, and never is there.
wants 0 array a nv12 8192 2048 0
told_free $((40 * mib)) 'an array of planes'
wants 0 array b bc7 8192 2048 0
told_free $((24 * mib)) 'a compressed array'
wants 2 array c nv12 8192 4096 0
wants 2 array c bc7 8192 4096 0
same 'on the device' $((40 * mib)) "$(held_by "$pid")"
wants 0 free a
wants 0 free b
told_free $((64 * mib)) 'planes freed'

# Memory that can move makes room, is the same on the host, and is copied to and from arrays there.
wants 0 alloc a $((48 * 1024))
wants 0 fill a 3
wants 0 array b word 1024 8192 0
same 'within the limit' yes "$([ "$(held_by "$pid")" -le $((64 * mib)) ] && echo yes)"
[ "$(counter arrays host_used)" -ge $((16 * mib)) ] || fail "only $(counter arrays host_used) bytes are on the host"
wants 0 check a 3
wants 0 fill b 5
wants 0 copy b a
wants 0 check b 3
wants 0 fill b 6
wants 0 copy a b
wants $((16 * mib)) check a 6
wants 0 array c word 65536 0 0
wants 0 fill c 4
wants 0 copy a c
wants 0 copy c a
wants 0 check c 4
wants 0 free a
wants 0 free b
wants 0 free c
told_free $((64 * mib)) 'all freed'

# They go with their context.
wants 0 context
wants 0 array a word 1024 6144 0
wants 0 mipmaps b 1024 1024 4
holds 2
wants 0 leave
holds 0
told_free $((64 * mib)) 'gone with the context'
end_driven
