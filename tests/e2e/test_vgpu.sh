#!/bin/sh
# SPDX-License-Identifier: MIT
# libvgpu.so in place of HAMi-core's: alone in the preload list, with the variables that HAMi hands
# out. A container has one quota, and memory that does not fit is refused. NVML reports the quota,
# and the monitor's region is written and followed.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
unset SPILLWAY_STATE_DIR SLURM_JOB_ID SLURM_CLUSTER_NAME || true
mib=1048576
vgpu=$scratch/vgpu # as HAMi mounts it at /usr/local/vgpu
mkdir "$vgpu" "$scratch/beside" "$scratch/home" "$scratch/node"
cp "$build/lib/libvgpu.so" "$vgpu"
cache=$vgpu/5f3a.cache
# Not what other tests leave, nor what this machine has.
SPILLWAY_NODE_DIR=$scratch/nowhere
export SPILLWAY_NODE_DIR

# given NAME=VALUE... COMMAND...: in a container with these variables
given() {
	env LD_PRELOAD="$vgpu/libvgpu.so" LD_LIBRARY_PATH="$softgpu" SPILLWAY_STATE_DIR="$scratch/home" \
		CUDA_DEVICE_MEMORY_LIMIT_0=64m CUDA_DEVICE_SM_LIMIT=30 CUDA_DEVICE_MEMORY_SHARED_CACHE="$cache" "$@"
}
region() { tests/e2e/region.py "$cache" "$@"; }
is_told() { # is_told NAME VALUE: in the region
	[ "$(field "$1" "$(region)")" = "$2" ]
}
allocate=$build/tests/e2e/allocate

# takes WHO COUNT COMMAND...: holds what it gets of so many blocks of 8 MiB
takes() {
	who=$1 count=$2
	shift 2
	rm -f "$scratch/end.$who" "$scratch/ready.$who"
	"$@" "$allocate" --mib 8 --count "$count" --until "$scratch/end.$who" --ready "$scratch/ready.$who" >"$scratch/out.$who" 2>&1 &
	until_true $patience test -e "$scratch/ready.$who" || fail "$who: not ready: $(cat "$scratch/out.$who")"
}
ends() {
	for who in "$@"; do : >"$scratch/end.$who"; done
	wait
}

# Out of memory at the limit; all processes have one quota, whatever they think it is, and also with
# a cleared environment, which knows neither limit nor cache.
takes first 6 given
takes second 6 given SPILLWAY_JOB=another CUDA_DEVICE_MEMORY_LIMIT_0=1g
until_true $patience is_told processes 2 || fail "region: $(region)"
takes third 6 env -i ${ASAN_OPTIONS:+"ASAN_OPTIONS=$ASAN_OPTIONS"} LD_PRELOAD="$vgpu/libvgpu.so" \
	LD_LIBRARY_PATH="$softgpu" SOFTGPU_STATE_DIR="$SOFTGPU_STATE_DIR" \
	SOFTGPU_CONTEXT_MEMORY=0 SPILLWAY_STATE_DIR="$scratch/home"
same "on the device" $((64 * mib)) "$(device_bytes)"
stat=$(SPILLWAY_STATE_DIR=$scratch/home "$spillway" stat --json)
same "jobs" 1 "$(printf '%s' "$stat" | grep -o '"job":' | grep -c .)"
has "the job" "$stat" '"job":"cache-5f3a.cache-'
case $stat in *'"host_used":'[1-9]*) fail "something is on the host: $stat" ;; esac

# What HAMi's monitor finds: version, limits, and the three of them with what they hold.
until_true $patience is_told processes 3 || fail "region: $(region)"
until_true $patience is_told total0 $((64 * mib)) || fail "region: $(region)"
out=$(region)
has "region" "$out" "version=1.2 semaphore=1"
has "region" "$out" "limit0=$((64 * mib)) sm_limit0=30"
has "region" "$out" "priority=1"
has "region" "$out" "device0=GPU-"
same "files beside it" "5f3a.cache libvgpu.so" "$(cd "$vgpu" && echo ./* | sed 's/\.\///g')"
ends first second third
until_true $patience is_told processes 0 || fail "region: $(region)"

# NVML's answers, of one file.
nvml=$(given "$build/tests/e2e/nvml")
has "nvml" "$nvml" "0 total=$((64 * mib)) used=0"
same "nvml, linked" "$(printf '%s\n' "$nvml" | grep '^0 ')" "$(given "${build}/tests/e2e/nvml_linked" | grep '^0 ')"

# The driver by its second name, and as it is opened by path. (The thread sanitizer has to be in the
# program: Python is built without it.)
for name in libcuda.so libcuda.so.1 "$softgpu/libcuda.so.1"; do
	[ "${SANITIZER:-}" != thread ] || continue
	same "$name" $((64 * mib)) "$(given python3 -c '
import ctypes, sys
cuda, total = ctypes.CDLL(sys.argv[1]), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0) == 0
print(total.value)' "$name")"
done

# The monitor's orders are followed: a limit, a share, a stop.
takes first 6 given
job=$(SPILLWAY_STATE_DIR=$scratch/home "$spillway" stat --format csv,noheader | cut -d , -f 1 | head -n 1)
SPILLWAY_STATE_DIR=$scratch/home
export SPILLWAY_STATE_DIR
is_set() { [ "$(counter "$job" "$1")" = "$2" ]; }
until_true $patience is_set share_set 30000 || fail "share: $("$spillway" stat "$job")"
region limit=$((24 * mib)) sm_limit=50
until_true $patience is_set limit_set $((24 * mib)) || fail "limit: $("$spillway" stat "$job")"
until_true $patience is_set share_set 50000 || fail "share: $("$spillway" stat "$job")"
region recent_kernel=-1
until_true $patience is_set share_set 0 || fail "blocked: $("$spillway" stat "$job")"
region recent_kernel=0
until_true $patience is_set share_set 50000 || fail "let go: $("$spillway" stat "$job")"
"$spillway" set --timeout $patience "$job" --memory 40MiB >/dev/null
until_true $patience is_set limit_set $((40 * mib)) || fail "set: $("$spillway" stat "$job")"
ends first
rm "$cache"

# Who asks for it spills: by HAMi's variable, or an INI.
takes first 10 given CUDA_OVERSUBSCRIBE=true
same "oversubscribed: on the device" $((64 * mib)) "$(device_bytes)"
has "oversubscribed" "$(cat "$scratch/out.first" && ends first && cat "$scratch/out.first")" "refused=0"
printf '[gpu]\nspill = auto\n' >"$scratch/spill.ini"
has "an INI" "$(given SPILLWAY_CONFIG="$scratch/spill.ini" "$allocate" --mib 8 --count 10)" "refused=0"
has "neither" "$(given "$allocate" --mib 8 --count 10)" "refused=2"

# The files of the job are beside the cache where that is in a folder of its own, as Volcano has it.
env -u SPILLWAY_STATE_DIR LD_PRELOAD="$vgpu/libvgpu.so" LD_LIBRARY_PATH="$softgpu" CUDA_DEVICE_MEMORY_LIMIT=64m \
	CUDA_DEVICE_MEMORY_SHARED_CACHE="$scratch/beside/a.cache" "$allocate" --hold-ms 600000 --ready "$scratch/ready" >/dev/null &
pid=$!
until_true $patience test -e "$scratch/ready" || fail "not ready"
has "beside the cache" "$(SPILLWAY_STATE_DIR=$scratch/beside/spillway-$(id -u) "$spillway" stat)" "cache-a.cache-"
kill -KILL $pid
wait $pid 2>/dev/null || true

# A region of another version is left alone, and that is said; its version is a setting, and so is
# that there is none.
rm "$cache"
takes first 1 given SPILLWAY_REGION=1.1
until_true $patience is_told version 1.1 || fail "region: $(region)"
region minor_version=9
until_true $patience grep -q "version 1.9, expected 1.1 or 1.2; HAMi's monitor does not see" "$scratch/out.first" ||
	fail "not said: $(cat "$scratch/out.first")"
ends first
rm "$cache"
given SPILLWAY_REGION=off "$allocate" --hold-ms 1500 >/dev/null
[ ! -e "$cache" ] || fail "there is a region"

# A task's priority needs others to be seen, and says so once where they are not.
takes first 1 given CUDA_TASK_PRIORITY=1
until_true $patience grep -q "no directory of the node" "$scratch/out.first" || fail "not said: $(cat "$scratch/out.first")"
same "said" 1 "$(grep -c "no directory of the node" "$scratch/out.first")"
ends first
takes first 1 given CUDA_TASK_PRIORITY=1 SPILLWAY_NODE_DIR="$scratch/node"
until_true $patience is_told processes 1 || fail "region: $(region)"
ends first
case $(cat "$scratch/out.first") in *"no directory"*) fail "$(cat "$scratch/out.first")" ;; esac

# What is preloaded by its own name stands in for nobody.
has "libspillway.so" "$(LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu CUDA_DEVICE_MEMORY_LIMIT=64m "$allocate" --mib 8 --count 10)" "refused=0"

# HAMi's default policy: the share holds while the monitor says that the GPU is shared, which is so
# until it says something else.
given "$build/clients/gpu_busy" --seconds 600 >/dev/null 2>"$scratch/busy" &
busy=$!
job=
until_true $patience test -e "$cache" || fail "no region"
is_busy() {
	job=$("$spillway" stat --format csv,noheader | grep ',running,' | cut -d , -f 1 | head -n 1)
	[ -n "$job" ] && [ "$(counter "$job" idle_slots)" -gt 0 ]
}
until_true $patience is_busy || fail "not held to its share: $("$spillway" stat)"
# rests: the job launches, and no idle slot is inserted
rests() {
	slots=$(counter "$job" idle_slots) launches=$(counter "$job" launches)
	until_true $patience launches_on
	[ "$(counter "$job" idle_slots)" = "$slots" ]
}
launches_on() { [ "$(counter "$job" launches)" -gt $((launches + 20)) ]; }
region utilization_switch=0
until_true $patience rests || fail "held although nobody else is there: $("$spillway" stat)"
slots=$(counter "$job" idle_slots)
is_held() { [ "$(counter "$job" idle_slots)" -gt "$slots" ]; }
region utilization_switch=1
until_true $patience is_held || fail "not held again: $("$spillway" stat)"
kill -KILL $busy
wait $busy 2>/dev/null || true
rm "$cache"

# One that cannot be written is followed all the same, and that nobody sees the process is said.
if unshare --mount true 2>/dev/null; then
	given "$allocate" --mib 8 --count 1 >/dev/null # makes it
	rm -f "$scratch/end.first" "$scratch/ready.first"
	# shellcheck disable=SC2016 # for the inner shell
	takes first 6 given unshare --mount sh -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"' sh "$cache"
	until_true $patience grep -q "Read-only file system; HAMi's monitor does not see this process" "$scratch/out.first" ||
		fail "not said: $(cat "$scratch/out.first")"
	job=$("$spillway" stat --format csv,noheader | grep ',running,' | cut -d , -f 1 | head -n 1)
	region limit=$((24 * mib))
	until_true $patience is_set limit_set $((24 * mib)) || fail "a region that is read: $("$spillway" stat "$job")"
	ends first
fi
