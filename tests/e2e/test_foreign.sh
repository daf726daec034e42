#!/bin/sh
# SPDX-License-Identifier: MIT
# A program without Spillway uses the device of a paced job. The job pays for its own time and not
# for the other's, and marks its figures as estimates. Jobs that take turns are not taken for such
# programs; NVML is asked while paced alone.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
busy=$build/clients/gpu_busy
pids=
export SOFTGPU_KERNEL_TIME_US=1000 SOFTGPU_QUIET=1

is() { [ "$(counter "$1" "$2")" = "$3" ]; }
# busy_ns PID: how long the device was the process's, by the device's own clock, and the time
busy_ns() { "$softgpu/softgpu-truth" | awk -v pid="$1" -v now="$(date +%s%N)" '$1 == 0 && $2 == pid { print $4, now }'; }
starts() { # starts JOB SHARE: a paced job that is busy until it is killed
	"$spillway" run --softgpu --quiet --name "$1" --share "$2" "$busy" --loops 1 --seconds 600 >"$scratch/$1" 2>&1 &
	pids="$pids $!"
	until_true $patience launches "$1" || fail "$1 does not start: $(cat "$scratch/$1")"
}
launches() { [ "$(counter "$1" launches)" -gt 0 ]; }
ends() { # ends JOB
	kill "$(pid_of "$1")"
	until_true $patience has_ended "$1" || fail "$1 does not end"
}
has_ended() { "$spillway" stat "$1" --json | grep -q '"state":"ended"'; }

# compare JOB MOST LEAST: what is told of five seconds differs from what the device says by no more,
# and the job held no less; thousandths of a percent. A busy machine comes between the looks at the
# one and the other: so it is in one of several times.
compare() {
	sleep 1
	for _ in 1 2 3 4 5 6 7 8; do
		sleep 5
		pid=$(pid_of "$1")
		before=$(busy_ns "$pid")
		sleep 5
		after=$(busy_ns "$pid") told=$(counter "$1" share_held)
		is "$1" share_estimated 1 || fail "$1: it is no estimate any more"
		# shellcheck disable=SC2086 # two numbers each
		truth=$(set -- $before $after; echo $((($3 - $1) * 100000 / ($4 - $2))))
		echo "$1: of the device $truth thousandths of a percent; told: $told"
		[ "$((told - truth))" -gt "$2" ] || [ "$((truth - told))" -gt "$2" ] || [ "$truth" -lt "$3" ] || return 0
	done
	fail "$1: share_held $told, but the device says $truth; expected no less than $3"
}

# Half of what is measured is the other's. What is told of five seconds is within five points of
# what the device says.
LD_LIBRARY_PATH=$softgpu "$busy" --loops 1 --seconds 600 >"$scratch/foreign" 2>&1 &
foreign=$!
pids="$pids $foreign"
starts beside 30
until_true $patience is beside share_estimated 1 || fail "beside a program without Spillway nothing is estimated"
# Without the correction it would be about half of its share.
compare beside 5000 22000

# Where NVML does not tell it by process, roughly.
export SOFTGPU_NVML=totals
starts roughly 30
unset SOFTGPU_NVML
ends beside
until_true $patience is roughly share_estimated 1 || fail "by totals nothing is estimated"
compare roughly 15000 0
ends roughly
starts beside 30
until_true $patience is beside share_estimated 1 || fail "nothing is estimated again"

# It ends: what is measured is the job's own again.
kill $foreign
until_true $patience is beside share_estimated 0 || fail "alone, and still an estimate"

# One that takes turns is not foreign.
starts other 30
for _ in 1 2 3 4 5 6 7 8 9 10; do
	sleep 0.5
	is beside share_estimated 0 || fail "beside a job that takes turns: estimated"
	! is other share_estimated 1 || fail "the other, beside a job that takes turns: estimated"
done
[ "$(counter other share_held)" -gt 0 ] || fail "the other holds nothing"
ends other

# A job that is not paced any more holds nobody knows what.
"$spillway" set --timeout $patience beside --share 100 >/dev/null
until_true $patience is beside share_held null || fail "unpaced, and share_held is $(counter beside share_held)"
is beside share_estimated null || fail "unpaced, and share_estimated is $(counter beside share_estimated)"
ends beside

# NVML is brought into the program only where it is asked: not while unpaced, if nobody named the
# job; and where it is not there the program goes on as measured.
loads_nvml() { grep -q libnvidia-ml "/proc/$1/maps"; }
LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$busy" --loops 1 --seconds 600 >/dev/null 2>&1 &
unpaced=$!
SPILLWAY_SHARE=50 LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$busy" --loops 1 --seconds 600 >/dev/null 2>&1 &
paced=$!
pids="$pids $unpaced $paced"
works() { [ "$(busy_ns "$1" | cut -d ' ' -f 1)" -gt 100000000 ]; }
until_true $patience loads_nvml $paced || fail "paced, and NVML is not asked"
until_true $patience works $unpaced || fail "the program that is not paced does not work"
! loads_nvml $unpaced || fail "NVML is loaded into a program that is not paced"
kill $unpaced $paced
mkdir "$scratch/driver"
ln -s "$softgpu/libcuda.so.1" "$scratch/driver"
LD_PRELOAD=$shim LD_LIBRARY_PATH=$scratch/driver SPILLWAY_JOB=without SPILLWAY_SHARE=50 \
	"$busy" --loops 1 --seconds 3 >"$scratch/without" 2>&1 || fail "without NVML: $(cat "$scratch/without")"
[ "$(counter without idle_slots)" -gt 0 ] || fail "without NVML nothing was paced"
