#!/bin/sh
# SPDX-License-Identifier: MIT
# A job that does nothing wakes twice a second at most, all its threads together, spilled or not,
# paced or not.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
if [ "${SANITIZER:-}" = thread ]; then
	echo "a thread of this sanitizer's own wakes ten times a second"
	exit 77
fi
guest=$build/tests/e2e/guest
mkfifo "$scratch/in"
exec 8<>"$scratch/in"
settled=7 seconds=6

# What the threads of a process did and what they waited for: each wait that has ended is one.
wakes() { cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'; }

# start NAME VARIABLE=VALUE...: a job that holds 64 MiB
jobs=
start() {
	job=$1
	shift
	env "$@" SPILLWAY_JOB="$job" LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" "$guest" init context alloc:8:8 "wait:$scratch/$job.here" free <"$scratch/in" >"$scratch/$job.out" 2>&1 &
	jobs="$jobs $job:$!"
}

start idle
start limited SPILLWAY_MEMORY=1GiB
start spilled SPILLWAY_MEMORY=24MiB
start paced SPILLWAY_MEMORY=24MiB SPILLWAY_SHARE=50%
start growing SPILLWAY_MEMORY=24MiB SPILLWAY_MEMORY_MAX=32MiB
for job in $jobs; do
	until_true $patience test -e "$scratch/${job%:*}.here" || fail "${job%:*}: not ready: $(cat "$scratch/${job%:*}.out")"
done
[ "$(counter spilled spilled_bytes)" -gt 0 ] || fail "nothing was spilled"
sleep $settled # the share that was held is measured for 5 s
# What a busy machine has put off until now wakes them, too; not each time.
sleeps() {
	from=$(date +%s%3N)
	for job in $jobs; do
		wakes "${job#*:}" >"$scratch/${job%:*}.before"
	done
	sleep $seconds
	for job in $jobs; do
		woken=$(($(wakes "${job#*:}") - $(cat "$scratch/${job%:*}.before"))) took=$(($(date +%s%3N) - from))
		# one more for what was under way at either end
		[ $((woken * 1000)) -le $((2 * took + 2000)) ] || off "${job%:*}: it woke $woken times in $took ms"
	done
}
undisturbed sleeps
for job in $jobs; do
	echo >&8
done
for job in $jobs; do
	wait "${job#*:}" || fail "${job%:*}: $(cat "$scratch/${job%:*}.out")"
done
