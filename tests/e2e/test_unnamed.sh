#!/bin/sh
# SPDX-License-Identifier: MIT
# A limit of a job without a name is one quota for all processes of one HAMi cache, Slurm job,
# container or POSIX session. A process with other limits is of another job. A process without
# limits is a job of its own.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576
unset SLURM_JOB_ID SLURM_CLUSTER_NAME CUDA_DEVICE_MEMORY_SHARED_CACHE || true
shims() { LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu exec "$@"; }
jobs_of() { "$spillway" stat --format csv,noheader | sed -n "s/^\($1[^,]*\),.*/\1/p" | sort -u; }
running() { # running JOB: how many processes
	"$spillway" stat "$1" --json | grep -o '"pid":' | grep -c .
}

# start NAME=VALUE...: another process that takes 6 blocks of 8 MiB and keeps them; in $session, if
# that is set
number=0 pids=
start() {
	number=$((number + 1))
	(shims env "$@" ${session:-} "$allocate" --mib 8 --count 6 --hold-ms 600000 --ready "$scratch/ready.$number" \
		>"$scratch/out.$number" 2>&1) &
	pids="$pids $!"
	until_true $patience test -e "$scratch/ready.$number" || fail "$number: not ready: $(cat "$scratch/out.$number")"
}
kill_all() {
	for file in "$SPILLWAY_STATE_DIR"/*.segment; do
		job=${file##*/}
		for pid in $("$spillway" stat "${job%.segment}" --json | grep -o '"pid":[0-9]*' | cut -d : -f 2); do
			kill -KILL "$pid" 2>/dev/null || true
		done
	done
	for pid in $pids; do
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" || true
	done
	pids=
}
# stop: all of them, without a moment for farewell
stop() {
	kill_all
	until_true $patience is_on_device 0 || fail "$(device_bytes) bytes are left on the device"
	find "$SPILLWAY_STATE_DIR" -maxdepth 1 -type f -delete
	rm -f "$scratch"/ready.*
	number=0
}
is_on_device() { [ "$(device_bytes)" -eq "$1" ]; }

# one_quota KIND TEXT: the processes that run hold 40 MiB together and are one job, which says whose
# it is
one_quota() {
	same "$1: bytes on the device" $((40 * mib)) "$(device_bytes)"
	job=$(jobs_of '')
	case $job in $1-*) ;; *) fail "$1: expected one job of that kind, got: $job" ;; esac
	same "$1: processes" "$number" "$(running "$job")"
	has "$1" "$("$spillway" stat "$job")" "the job has no name: its limits are shared by all processes of $2"
	has "$1" "$("$spillway" stat "$job" --json)" "\"shared_by\":\"$2"
	stop
}

# Of this session, whoever said the limit and in whatever words; the first line says so.
sid=$(ps -o sid= -p $$ | tr -d ' ')
if [ "$(readlink /proc/self/ns/pid)" = "pid:[4026531836]" ]; then
	kind=session whose="POSIX session $sid"
else
	kind=container whose="the container"
fi
start CUDA_DEVICE_MEMORY_LIMIT=40m SPILLWAY_LOG=info
has "first line" "$(head -n 1 "$scratch/out.1")" "spillway: info: job $kind-"
has "first line" "$(head -n 1 "$scratch/out.1")" ": limit of 40MiB is shared by all processes of $whose"
printf '[gpu 0]\nmemory = 40MiB\n[gpu]\nmemory = 40MiB\n' >"$scratch/job.ini"
start SPILLWAY_CONFIG="$scratch/job.ini"
start SPILLWAY_MEMORY=40960K SPILLWAY_SPILL=off
has "nothing is left" "$(cat "$scratch/out.3")" "blocks=0 refused=6"
one_quota $kind "$whose"

# Other limits are another job, no limit is none, and a name is a name.
start SPILLWAY_MEMORY=16MiB
start SPILLWAY_MEMORY=8MiB
same "two limits" $((24 * mib)) "$(device_bytes)"
same "two limits" 2 "$(jobs_of $kind | grep -c .)"
start A=b
start A=b
same "no limits" $((120 * mib)) "$(device_bytes)"
same "no limits" 2 "$(jobs_of allocate | grep -c .)"
start SPILLWAY_MEMORY=16MiB SPILLWAY_JOB=named
same "named" $((136 * mib)) "$(device_bytes)"
same "named" named "$(jobs_of named)"
# A limit for a device that is not here limits nothing.
start SPILLWAY_MEMORY_5=16MiB
same "elsewhere" 3 "$(jobs_of allocate | grep -c .)"
stop

# A session is whose leader began it, also when that has gone; each setsid is a quota of its own.
if [ $kind = session ]; then
	start SPILLWAY_MEMORY=40MiB
	session=setsid
	start SPILLWAY_MEMORY=40MiB
	session=
	same "two sessions" $((80 * mib)) "$(device_bytes)"
	same "two sessions" 2 "$(jobs_of session | grep -c .)"
	stop
	mkfifo "$scratch/go"
	export SPILLWAY_MEMORY=40MiB
	cat >"$scratch/member" <<-END
		#!/bin/sh
		export LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu"
		"$allocate" --mib 8 --count 6 --hold-ms 600000 --ready "$scratch/ready.1" >"$scratch/out.1" 2>&1 &
		(read -r line; exec "$allocate" --mib 8 --count 6 --hold-ms 600000 --ready "$scratch/ready.2") <"$scratch/go" >"$scratch/out.2" 2>&1 &
	END
	chmod +x "$scratch/member"
	setsid --wait "$scratch/member" # ends at once, and leads them
	until_true $patience test -e "$scratch/ready.1" || fail "no member: $(cat "$scratch/out.1")"
	echo >"$scratch/go"
	until_true $patience test -e "$scratch/ready.2" || fail "no member after the leader: $(cat "$scratch/out.2")"
	unset SPILLWAY_MEMORY
	number=2
	one_quota session "POSIX session"
fi

# The others reach over sessions.
session=setsid
for i in 1 2; do start SPILLWAY_MEMORY=40MiB SLURM_JOB_ID=77 SLURM_CLUSTER_NAME=alps; done
one_quota slurm "Slurm job 77 of cluster alps"
for i in 1 2; do start SPILLWAY_MEMORY=40MiB SLURM_JOB_ID=$i CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/vgpu/x.cache; done
one_quota cache "the cache /tmp/vgpu/x.cache"
if ! unshare --pid --fork true 2>/dev/null; then
	echo "no namespaces can be made here: a container is not tried"
else
	cat >"$scratch/container" <<-END
		#!/bin/sh
		export LD_PRELOAD="$shim" LD_LIBRARY_PATH="$softgpu" SPILLWAY_MEMORY=40MiB
		for i in 1 2; do
			setsid "$allocate" --mib 8 --count 6 --hold-ms 600000 --ready "$scratch/ready.\$i" >"$scratch/out.\$i" 2>&1 &
		done
		wait
	END
	chmod +x "$scratch/container"
	rm -f "$scratch"/ready.*
	unshare --pid --fork --mount-proc --kill-child "$scratch/container" >"$scratch/out" 2>&1 &
	pids=$!
	for i in 1 2; do
		until_true $patience test -e "$scratch/ready.$i" || fail "container: $(cat "$scratch/out" "$scratch/out.$i")"
	done
	number=2
	one_quota container "the container (pid namespace "
fi
session=

# What was set live is of the processes that live, and the files are gone with the last, or when
# another comes.
export SPILLWAY_MEMORY=40MiB
start A=b
job=$(jobs_of $kind)
"$spillway" set --timeout $patience "$job" --memory 16MiB >/dev/null
same "set" $((16 * mib)) "$(device_bytes)"
start A=b
same "set, for who comes later" $((16 * mib)) "$(device_bytes)"
for pid in $pids; do kill -KILL "$pid"; done
for pid in $pids; do wait "$pid" || true; done
pids=
[ -e "$SPILLWAY_STATE_DIR/$job.segment" ] || fail "killed: the next could not know what still drains"
start A=b
until_true $patience is_on_device $((40 * mib)) || fail "an override outlived its processes: $(device_bytes)"
stop
under_shim "$allocate" --count 1 >/dev/null
next_leaves_nothing() {
	SPILLWAY_MEMORY="" under_shim "$allocate" --count 1 --hold-ms 100 >/dev/null &&
		[ -z "$(find "$SPILLWAY_STATE_DIR" -maxdepth 1 -name "*.segment" -o -name "*.ini" -o -name "*.events")" ]
}
until_true $patience next_leaves_nothing || fail "left behind: $(ls "$SPILLWAY_STATE_DIR")"
