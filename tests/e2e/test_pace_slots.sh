#!/bin/sh
# SPDX-License-Identifier: MIT
# A slot holds back a launch alone. Processes end, fork, synchronise, destroy contexts and hold
# locks around it. The program's own timings are those of its kernels.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
slots=$build/tests/e2e/slots
export SPILLWAY_TOOL="$spillway"
# Processes end with what they have.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" TSAN_OPTIONS="${TSAN_OPTIONS:-}:report_thread_leaks=0"
limit=$patience # a slot of share 0.01 % lasts 1000 seconds and more

# case STATUS NAME SHARE KERNEL_US: its output in $scratch/NAME
run_case() {
	rc=0
	SPILLWAY_JOB=$2 SPILLWAY_SHARE=$3 SOFTGPU_KERNEL_TIME_US=$4 under_shim timeout -s KILL $limit "$slots" "$2" >"$scratch/$2" 2>&1 || rc=$?
	[ "$rc" -eq "$1" ] || fail "$2: exit status $rc, expected $1: $(cat "$scratch/$2")"
}

for how in return exit quick_exit pthread_exit fork; do
	run_case 7 $how 0.01% 200000 &
	waited="${waited:-} $!"
done
for how in synchronise destroy; do
	run_case 0 $how 0.01% 200000 &
	waited="$waited $!"
done
for pid in $waited; do wait "$pid" || exit 1; done

run_case 0 lock 30 2000
run_case 0 need 30 2000
is_in_time() {
	run_case 0 timing 25 20000
	has "timing" "$(cat "$scratch/timing")" ok
	for way in waited queued; do
		ms=$(field $way " $(cat "$scratch/timing")")
		# A slot in between would be 60 ms.
		awk "BEGIN { exit !($ms >= 20 && $ms < 40) }" || off "kernels of 20 ms take $ms ms when $way, by the program's own events"
	done
}
undisturbed is_in_time

python=${PYTHON:-python3}
case ${SANITIZER:-} in address | thread) exit 0 ;; esac # those have to be in the program
rc=0
out=$(SPILLWAY_SHARE=30 SOFTGPU_KERNEL_TIME_US=2000 PYTHONDONTWRITEBYTECODE=1 under_shim timeout -s KILL $limit "$python" tests/e2e/pace_gil.py 2>&1) || rc=$?
same "the interpreter's lock, status $rc" "ok 10 10 10" "$out"
