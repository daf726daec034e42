#!/bin/sh
# SPDX-License-Identifier: MIT
# Five ways out of a limit that the machine's file enforces, and some more: each ends below it.
set -eu
# shellcheck source=tests/cluster/node.sh
. tests/cluster/node.sh
mib=1048576
allocate=$node/bin/allocate

# takes N WHO COMMAND...: a process, started by COMMAND, that takes what it gets of N blocks of 8
# MiB
takes() {
	blocks=$1 who=$2
	shift 2
	rm -f "$scratch/end.$who" "$scratch/ready.$who"
	"$@" "$allocate" --mib 8 --count "$blocks" --until "$scratch/end.$who" --ready "$scratch/ready.$who" >"$scratch/out.$who" 2>&1 &
	until_true $patience test -e "$scratch/ready.$who" || fail "$who: not ready: $(cat "$scratch/out.$who")"
}
ends() { # ends WHO...
	for who in "$@"; do
		: >"$scratch/end.$who"
	done
	wait
	until_true $patience is_on_device 0 || fail "$(device_bytes) bytes are left on the device"
}
is_on_device() { [ "$(device_bytes)" -eq "$1" ]; }

# kept WHAT COMMAND...: beside a process that holds 16 MiB of the 24, COMMAND allocate has 8 more on
# the GPU; the job is one
kept() {
	what=$1
	shift
	takes 2 first env
	same "$what: held before" $((16 * mib)) "$(device_bytes)"
	takes 6 second "$@"
	# What those before them held may stay charged for a moment; what is beyond a limit stays.
	until_true $patience is_on_device $((24 * mib)) || fail "$what: $(device_bytes) bytes on the device"
	same "$what: processes of the job" 2 "$("$spillway" stat "$job" --json | grep -o '"state":"live"' | grep -c .)"
	same "$what: jobs that run" 1 "$("$spillway" stat | grep -c ' running ')"
	ends first second
}

# By the whole machine: two processes of one user share 24 MiB, whatever they say.
escapes() { # escapes HOW
	kept "$1: no escape" env
	kept "$1: another job name" env SPILLWAY_JOB=other
	kept "$1: SPILLWAY_DISABLE" env SPILLWAY_DISABLE=yes
	kept "$1: CUDA_DISABLE_CONTROL" env CUDA_DISABLE_CONTROL=true
	# shellcheck disable=SC2086 # words
	kept "$1: a cleared environment" env -i $machine
	kept "$1: unset LD_PRELOAD" env -u LD_PRELOAD
	mkdir -p "$scratch/elsewhere"
	chmod 700 "$scratch/elsewhere"
	kept "$1: another state directory" env SPILLWAY_STATE_DIR="$scratch/elsewhere"
	[ -z "$(ls -A "$scratch/elsewhere")" ] || fail "$1: another state directory: it is used"
	kept "$1: HAMi's variables" env CUDA_DEVICE_MEMORY_LIMIT=1g CUDA_DEVICE_MEMORY_LIMIT_0=1g CUDA_OVERSUBSCRIBE=true \
		CUDA_DEVICE_MEMORY_SHARED_CACHE="$scratch/elsewhere/pod.cache" CUDA_TASK_PRIORITY=0 GPU_CORE_UTILIZATION_POLICY=disable
	[ -z "$(ls -A "$scratch/elsewhere")" ] || fail "$1: another cache: it is used"
	for driver in libcuda.so.1 "$node/driver/libcuda.so.1" "$node/copy.so" "$node/other/libspillway.so"; do
		not_run "$1: LD_PRELOAD=$driver" env LD_PRELOAD="$driver"
	done
	kept "$1: another library before it" env LD_PRELOAD=libjemalloc.so.2
	mkdir -p "$scratch/root/etc/spillway" "$scratch/root/dev/shm"
	kept "$1: other files in the place of these" env LD_PRELOAD="$build/tests/e2e/neighbour_redirect.so" REDIRECT_TO="$scratch/root"
	not_run "$1: the loader's --preload" "$loader" --preload "$node/driver/libcuda.so.1"
	# Numba, for one, opens what NUMBA_CUDA_DRIVER names.
	for driver in libcuda.so.1 "$node/driver/libcuda.so.1" "$node/copy.so" "$node/link.so"; do
		same "$1: opened: $driver" $((24 * mib)) "$(python3 -c "$opens" "$driver")"
	done
}
loader=$(readelf -l "$node/bin/guest" | sed -n 's/.*Requesting program interpreter: \(.*\)]/\1/p')
opens='import ctypes, sys
driver, total = ctypes.CDLL(sys.argv[1]), ctypes.c_size_t()
assert driver.cuInit(0) == 0 and driver.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
print(total.value)'
# not_run WHAT COMMAND...: what a program would call in place of Spillway keeps it from running
not_run() {
	what=$1
	shift
	! "$@" "$node/bin/guest" init context alloc:8:4 >"$scratch/out" 2>"$scratch/err" || fail "$what: it runs: $(cat "$scratch/out")"
	same "$what: it says" "" "$(cat "$scratch/out")"
	same "$what: lines: $(cat "$scratch/err")" 1 "$(grep -c . "$scratch/err")"
	has "$what" "$(cat "$scratch/err")" "comes before Spillway, as LD_PRELOAD may say, and has the driver's functions; the program is not run, because $ini is enforced"
}
cp "$node/driver/libcuda.so.1" "$node/copy.so"
ln -s "$node/driver/libcuda.so.1" "$node/link.so"
mkdir "$node/other"
cp "$lib"/*.so "$node/other"
preloaded yes
configured '[ceiling]' 'enforce = yes' 'per = user' '[gpu]' 'memory = 24MiB'
escapes "per user"

# The same where it is a ceiling, and the machine names the job; and more ways.
job=slurm-7
configured '[job]' 'name = slurm-7' '[ceiling]' 'enforce = yes' 'per = job' 'memory = 24MiB'
escapes "per job"
printf '[job]\nname = mine\n[gpu]\nmemory = unlimited\n' >"$scratch/own.ini"
kept "another configuration" env SPILLWAY_CONFIG="$scratch/own.ini" SPILLWAY_MEMORY=1GiB
cp "$softgpu/libcuda.so.1" "$scratch/driver.so"
kept "another driver" env SPILLWAY_DRIVER="$scratch/driver.so"
kept "spillway run" "$spillway" run --join --name mine --memory 1GiB
has "spillway run: said" "$(cat "$scratch/out.second")" \
	"spillway: --name mine: not followed: $ini is enforced and the job is called slurm-7"
has "spillway run: said" "$(cat "$scratch/out.second")" "lowered to the ceiling of 24MiB"
takes 2 first env
has "set" "$("$spillway" set slurm-7 --memory 1GiB 2>&1)" "limit 24.0 MiB"
has "set to less" "$("$spillway" set slurm-7 --memory 8MiB 2>&1)" "limit 8.00 MiB"
# What was moved may be exchanged for what is used more, and is on neither side for a moment.
holds_less() { [ "$(device_bytes)" -eq $((8 * mib)) ]; }
until_true $patience holds_less || fail "set to less: $(device_bytes) bytes on the device"
ends first
printf '[gpu]\nmemory = unlimited\n' >"$own/slurm-7.override.ini"
kept "an override that somebody wrote" env
rm "$own/slurm-7.override.ini"
if [ "$(id -u)" -eq 0 ]; then
	chgrp 1 "$allocate"
	chmod 2755 "$allocate"
	kept "a set-gid program" setpriv --regid 2 --clear-groups env SPILLWAY_DISABLE=yes SPILLWAY_STATE_DIR="$scratch"
	chmod 755 "$allocate"
fi

# The same where libvgpu.so is preloaded, to which the environment names jobs and places.
echo "$lib/libvgpu.so" >/etc/ld.so.preload
mkdir -p "$scratch/pod-1" "$scratch/pod-2"
takes 2 first env CUDA_DEVICE_MEMORY_SHARED_CACHE="$scratch/pod-1/a.cache" CUDA_DEVICE_MEMORY_LIMIT=1g CUDA_OVERSUBSCRIBE=true
takes 6 second env CUDA_DEVICE_MEMORY_SHARED_CACHE="$scratch/pod-2/b.cache" CUDA_DEVICE_MEMORY_LIMIT=1g CUDA_OVERSUBSCRIBE=true
same "libvgpu.so: on the device" $((24 * mib)) "$(device_bytes)"
same "libvgpu.so: processes of the job" 2 "$("$spillway" stat "$job" --json | grep -o '"state":"live"' | grep -c .)"
ends first second
takes 4 first env CUDA_DISABLE_CONTROL=true
same "libvgpu.so, CUDA_DISABLE_CONTROL: on the device" $((24 * mib)) "$(device_bytes)"
ends first
preloaded yes

# No key that a user may set lets the job hold more: two processes take what they get.
crowd() { # crowd VARIABLE=VALUE
	rm -f "$scratch/end.crowd" "$scratch"/crowd.*
	for kib in 8192 4; do
		env "$1" "$node/bin/small" hold $kib 4 "$scratch/crowd.$kib" "$scratch/end.crowd" 2>/dev/null &
		until_true $patience test -s "$scratch/crowd.$kib" || fail "$1: not ready"
	done
	held=$(device_bytes)
	[ "$held" -le $((24 * mib)) ] || fail "$1: $held bytes on the device"
	[ "$held" -ge $((16 * mib)) ] || [ "$1" = SPILLWAY_EVICT=yes ] || fail "$1: $held bytes on the device: too few to tell"
	ends crowd
}
for pair in STEPS=on STEPS=off SPILL=vmm SPILL=managed SPILL=pinned SPILL=off SPILL_AFTER=0 SPILL_AFTER=9 REPORTED_MEMORY=limit+host \
	MIXED=whole PLACEMENT=balanced PLACEMENT=heat SHRINK=gentle DEFERRED_FREE=yes PIN_NEW=yes EVICT=yes; do
	crowd "SPILLWAY_$pair"
done

# By the machine's own choice, too: the slabs of small allocations are charged before they are had.
configured '[job]' 'name = slurm-7' '[ceiling]' 'enforce = yes' 'memory = 24MiB' '[gpu]' 'spill = off'
crowd SPILLWAY_STEPS=auto
configured '[job]' 'name = slurm-7' '[ceiling]' 'enforce = yes' 'per = job' 'memory = 24MiB'

# A limit that is lowered is kept, although the job asked that its memory stay, or that none of it
# go to the host.
for asked in 'SPILLWAY_PIN_NEW=yes SPILLWAY_SPILL=off' SPILLWAY_HOST_MEMORY=0; do
	# shellcheck disable=SC2086 # words
	takes 3 first env $asked
	same "$asked: held before" $((24 * mib)) "$(device_bytes)"
	configured '[job]' 'name = slurm-7' '[ceiling]' 'enforce = yes' 'per = job' 'memory = 8MiB'
	until_true $patience holds_less || fail "$asked: $(device_bytes) bytes on the device"
	ends first
	configured '[job]' 'name = slurm-7' '[ceiling]' 'enforce = yes' 'per = job' 'memory = 24MiB'
done

# What is not followed is told.
takes 2 first env SPILLWAY_JOB=other SPILLWAY_SHARE_POLICY=weight
has "stat" "$("$spillway" stat slurm-7)" "SPILLWAY_JOB = other: not followed: $ini is enforced"
has "stat" "$("$spillway" stat slurm-7)" "share_policy = weight: not followed: $ini is enforced"
ends first

# It is the file that does it: where it is not enforced both get out.
configured '[gpu]' 'memory = 24MiB'
takes 3 first env SPILLWAY_JOB=one
takes 3 second env SPILLWAY_JOB=two
takes 2 third env SPILLWAY_DISABLE=yes
same "not enforced: on the device" $((64 * mib)) "$(device_bytes)"
ends first second third
takes 4 first env LD_PRELOAD=libcuda.so.1
same "not enforced, the driver preloaded: on the device" $((32 * mib)) "$(device_bytes)"
same "not enforced, a copy of the driver: total" $((24 * mib)) "$(python3 -c "$opens" "$node/copy.so")"
ends first
