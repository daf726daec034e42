#!/bin/sh
# SPDX-License-Identifier: MIT
# A limit is lowered further than memory can move. set and stat say how much stays on the GPU, and
# why.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576
runners=

hold() { # hold NAME OPTIONS...: a job that holds 8 blocks of 8 MiB, with the options of spillway run
	name=$1
	shift
	"$spillway" run --softgpu --quiet --name "$name" --memory 128MiB "$@" "$allocate" --mib 8 --count 8 --hold-ms 600000 \
		--ready "$scratch/$name.ready" >"$scratch/$name.out" 2>&1 &
	runners="$runners $!"
	until_true $patience [ -e "$scratch/$name.ready" ] || fail "$name did not start: $(cat "$scratch/$name.out")"
}
stat_has() { "$spillway" stat "$1" | grep -qF "$2"; }
lower() { # lower NAME: to half of what it holds; set's words in $out
	out=$("$spillway" set "$1" --memory 32MiB --timeout $patience) || fail "set $1: $out"
}

# The host has room for two blocks.
hold host --host-memory 16MiB
lower host
has "host full" "$out" "limit 32.0 MiB, share 100 %; 48.0 MiB in use: the host has no room: raise it with --host-memory, or end other programs (host_full)"
until_true $patience stat_has host "gpu 0: 48.0 MiB in use, above the limit: the host has no room: raise it with --host-memory, or end other programs (host_full)" ||
	fail "stat: $("$spillway" stat host)"
same "on the device" $((48 * mib)) "$(device_bytes)"
# With room it goes on by itself, and set waits for that.
out=$("$spillway" set host --host-memory 64MiB --timeout $patience) || fail "set: $out"
has "room on the host" "$out" "limit 32.0 MiB, share 100 %"
stat_has host "above the limit" && fail "stat: $("$spillway" stat host)"
same "on the device" $((32 * mib)) "$(device_bytes)"

# Memory that does not move at all.
printf '[gpu]\nspill = managed\n' >"$scratch/managed.ini"
hold managed --config "$scratch/managed.ini"
lower managed
has "spill = managed" "$out" "share 100 %; 64.0 MiB in use: memory that the driver allocated, such as contexts and arrays, cannot leave the GPU (foreign). New memory goes to the host until less than the limit is in use"
stat_has managed "gpu 0: elastic no: memory made by spill = managed or pinned cannot move" || fail "stat: $("$spillway" stat managed)"

# Memory that was to be pinned from the beginning.
printf '[gpu]\npin_new = yes\n' >"$scratch/pinned.ini"
hold pinned --config "$scratch/pinned.ini"
lower pinned
has "pin_new" "$out" "64.0 MiB in use: exported, registered or pinned memory cannot leave the GPU (pinned)"
until_true $patience stat_has pinned "gpu 0: a move waits: the memory that is left must stay where it is" || fail "stat: $("$spillway" stat pinned)"
out=$("$spillway" set pinned --memory 64MiB --timeout $patience)
has "raised again" "$out" "limit 64.0 MiB, share"

# What must stay on the GPU is refused where it cannot be there, and makes room where others can go.
out=$("$spillway" run --softgpu --quiet --memory 32MiB --config "$scratch/pinned.ini" "$allocate" --mib 8 --count 8 --rounds 2)
has "pin_new beyond the limit" "$out" "round 1: blocks=4 refused=4"
has "pin_new beyond the limit" "$out" "ok bad=0"
