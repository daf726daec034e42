#!/bin/sh
# SPDX-License-Identifier: MIT
# A program loads the GPU in many ways. Paced it computes the same result as alone, ends, and never
# has more than its share by the device's own clock. (A busy machine can only make it less; how much
# less is for the bench to say.)
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/pace.sh
. tests/e2e/pace.sh

# paced SHARE ARGUMENTS...: the load prints only if every kernel has run once
paced() {
	share=$1
	shift
	out=$(judged "$spillway" run --softgpu --quiet --name load --share "$share" "$load" --asleep --seconds 2 "$@" 2>&1) ||
		fail "$*: exit status $?: $out"
	[ "$(field kernels "$out")" -gt 0 ] || fail "$*: nothing ran: $out"
	held=$(held_by "$out")
	# Within two seconds a load may spend what it saved, and three launches, however long, may
	# be still to be paid for.
	awk -v held="$held" -v share="$share" -v n="$(field launches "$out")" 'BEGIN { exit held * (1 - 3 / n) > share + 4 }' ||
		off "$*: held $held % of $share %: $out"
	# What the machine could not keep at its share needs no slot, nor what is so slow on it that
	# the first of these launches took longer than all of them were made in.
	[ "$(counter load idle_ns)" -gt 0 ] || [ "$held" -lt "$share" ] || [ "$(field launches "$out")" -le 4 ] ||
		fail "$*: no slot: $out"
	[ "$(counter load busy_ns)" -gt 0 ] || fail "$*: no busy time was measured: $out"
}

undisturbed paced 30 --kernel-us 50
undisturbed paced 30
undisturbed paced 30 --kernel-us 50000
undisturbed paced 30 --kernel-us 50,1000,50000
undisturbed paced 30 --streams 4
undisturbed paced 30 --threads 2
undisturbed paced 30 --wait
undisturbed paced 30 --wait --kernel-us 50
undisturbed paced 30 --ahead-ms 1000
undisturbed paced 30 --graph 1
undisturbed paced 30 --graph 100 --kernel-us 50
undisturbed paced 30 --graph 2000 --kernel-us 50
undisturbed paced 30 --burst-ms 30 --pause-ms 30

# An event in the legacy stream holds it up: it gets no more of them than any other stream, some for
# each burst, where it has none to wait for; else one for each launch, because a later one would
# bind both.
# records LEGACY_EVENT_US ARGUMENTS...: whether 400 events were recorded for 400 launches
records() {
	us=$1
	shift
	SOFTGPU_LEGACY_EVENT_US=$us SOFTGPU_FAIL=cuEventRecord:400=700 "$spillway" run --softgpu --name legacy --share 90 \
		"$load" --asleep --launches 400 --kernel-us 50 "$@" >"$scratch/out" 2>"$scratch/err" || true
	grep -q "use 400 of cuEventRecord" "$scratch/err"
}
few_events() { ! records "$@" || off "400 events in 400 launches: $*"; }
undisturbed few_events 0 --legacy
undisturbed few_events 100 --legacy
undisturbed few_events 100
records 100 --legacy --beside || fail "the legacy stream beside one that it waits for: its launches have no events"

# Without a share there are no slots.
out=$("$spillway" run --softgpu --quiet --name free "$load" --asleep --launches 200)
same "launches without a share" 200 "$(counter free launches)"
same "idle time without a share" 0 "$(counter free idle_ns)"

# Natural pauses count: a load that wants less than its share is hardly held back.
pauses() {
	out=$("$spillway" run --softgpu --quiet --name pauses --share 90 "$load" --asleep --launches 100 --burst-ms 10 --pause-ms 90)
	[ "$(counter pauses idle_ns)" -le 500000000 ] || off "$(counter pauses idle_ns) ns of idle time beside a second of pauses: $out"
}
undisturbed pauses

# Kernels that wait for each other on several devices end, by threads and by processes.
ranks() {
	out=$(SOFTGPU_DEVICES=4 judged "$spillway" run --softgpu --quiet --name ranks --share 40 "$load" --asleep --seconds 2 \
		--kernel-us 2000 --ranks "$@" 2>&1) || fail "ranks $*: exit status $?: $out"
	[ "$(field steps "$out")" -gt 0 ] || fail "ranks $*: no step: $out"
	for device in 0 1; do
		held=$(held_by "$out" device=$device)
		[ "$held" -le 46 ] || off "ranks $*: device $device was held $held % of the time: $out"
	done
}
undisturbed ranks 2
undisturbed ranks 2 --processes
undisturbed ranks 4
undisturbed ranks 4 --processes
