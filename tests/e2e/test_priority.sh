#!/bin/sh
# SPDX-License-Identifier: MIT
# Priorities: a guaranteed job waits for no other. Opportunistic and normal ones work in the time
# that it leaves, and go on when it stops, dies or has gaps. Two guaranteed jobs hold up
# opportunistic and normal ones alone. Judged by the jobs' books and the device's own.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# shellcheck source=tests/e2e/priority.sh
. tests/e2e/priority.sh
# goes_on JOB NUMBER: launches so many more
goes_on() {
	before=$(counter "$1" launches)
	until_true $patience counter_at_least "$1" launches $((before + $2)) ||
		fail "$1 does not go on: $(cat "$scratch/$1"; "$spillway" stat)"
}
ends() {
	kill -9 "$(pid_of "$1")"
	until_true $patience has_ended "$1" || fail "$1 does not end"
}
has_ended() { "$spillway" stat "$1" --json | grep -q '"state":"ended"'; }
# busy JOB: nanoseconds for which the device was its process's, by the device's own book
busy() { "$softgpu/softgpu-truth" | awk -v pid="$(pid_of "$1")" '$1 == 0 && $2 == pid { print $4 }'; }
# part ONE OTHER: thousandths that the first had of the device's time of both, while the other made
# 1000 launches
part() {
	one=$(busy "$1") other=$(busy "$2")
	goes_on "$2" 1000
	one=$(($(busy "$1") - one)) other=$(($(busy "$2") - other))
	echo $((1000 * one / (one + other)))
}
# leaves ONE OTHER MOST: what it has besides is what the other cannot use, where the machine lets it
# run
leaves() {
	had=$(part "$1" "$2")
	[ "$had" -le "$3" ] || off "$1 has $had of 1000 beside $2"
}
waited_for_nobody() { same "$1 waits" '0 0' "$(counter "$1" idle_slots) $(counter "$1" idle_ns)"; }

# A best-effort job alone has the device to itself; beside a guaranteed job that leaves no time next
# to nothing, but something. Time-slices alone would give it half.
starts fill opportunistic --kernel-us 500
goes_on fill 1000
starts prod guaranteed --kernel-us 1000
undisturbed leaves fill prod 200
goes_on fill 3
waited_for_nobody prod
[ "$(counter fill idle_slots)" -gt 0 ] || fail 'the best-effort job never waited'

# It stands still: the best-effort job goes on, and makes way when it does.
kill -STOP "$(pid_of prod)"
goes_on fill 2000
kill -CONT "$(pid_of prod)"
undisturbed leaves fill prod 200

# Two guaranteed jobs wait for nobody, neither for each other.
starts prod2 guaranteed --kernel-us 1000
undisturbed leaves fill prod2 200
goes_on prod 100
waited_for_nobody prod
waited_for_nobody prod2
goes_on fill 3
ends prod2

# It dies: the best-effort job has the device.
# What it is shows in every form.
report=$("$spillway" stat prod)
has 'the report' "$report" guaranteed
has 'JSON' "$("$spillway" stat prod --json)" '"priority":"guaranteed"'
# Of the gaps it takes all, or less where the machine is so busy that prod loses by it; that is told
# while it asks for them, in both forms alike.
tells_what_it_takes() {
	takes=$(counter fill takes)
	[ "$takes" -ge 15625 ] && [ "$takes" -le 1000000 ] &&
		"$spillway" stat fill | grep -qwF "$(awk -v ppm="$takes" 'BEGIN { printf "%.1f%%", ppm / 10000 }')"
}
until_true $patience tells_what_it_takes || fail "what the best-effort job takes: $("$spillway" stat fill --json) $("$spillway" stat fill)"
has 'metrics' "$("$spillway" stat --format prometheus)" 'priority="guaranteed"} 1'
has 'top' "$("$spillway" top)" guar
"$spillway" events --since @0 fill >"$scratch/events" || ! built_in events
! built_in events || grep -q 'why priority' "$scratch/events" || fail "no slot in the events: $(tail -n 5 "$scratch/events")"

ends prod
goes_on fill 2000

# One with gaps keeps what it needs, and the best-effort job has the gaps.
starts prod guaranteed --kernel-us 500 --burst-ms 20 --pause-ms 30
goes_on fill 2000
goes_on prod 400
waited_for_nobody prod
ends prod
ends fill

# A normal job waits for nobody, until there is a guaranteed one; and no more when that has gone.
starts plain normal --kernel-us 500
goes_on plain 1000
waited_for_nobody plain
starts prod guaranteed --kernel-us 1000
has_waited() { [ "$(counter plain idle_slots)" -gt 0 ]; }
until_true $patience has_waited || fail 'the normal job does not give way'
undisturbed leaves plain prod 200
waited_for_nobody prod
ends prod
goes_on plain 2000
slots=$(counter plain idle_slots)
stands() { before=$slots slots=$(counter plain idle_slots) && [ "$slots" = "$before" ]; }
until_true $patience stands || fail 'the normal job still waits'
goes_on plain 1000

# A best-effort job beside a normal job makes way as beside a guaranteed one.
starts fill opportunistic --kernel-us 500
undisturbed leaves fill plain 200
goes_on fill 3
"$spillway" set --timeout $patience fill --priority normal
goes_on fill 1000
ends plain
ends fill
