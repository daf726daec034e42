#!/bin/sh
# SPDX-License-Identifier: MIT
# libvgpu.so in containers with the settings of HAMi's device plugin, of Volcano's and the DRA
# driver's, and of KAI's scheduler and isolator. Two processes, a fresh shell and a cleared
# environment are one quota; NVML tells of it; the region is as their monitors want it; root on the
# node sees the pod and changes it.
set -eu
# shellcheck source=tests/cluster/podman.sh
. tests/cluster/podman.sh
mib=1048576
uuid=GPU-7370696c-6c77-6179-2073-6f6674677000
hook=$node/hook # of the node: /usr/local/vgpu
mkdir "$hook" "$hook/containers" "$hook/claims" "$node/vgpulock"
chmod 777 "$node/vgpulock"
cp "$build/lib/libvgpu.so" "$hook"
echo /usr/local/vgpu/libvgpu.so >"$hook/ld.so.preload"
rmdir /run/spillway # nothing but what they mount

# device NAME ENV... -- HOST:CONTAINER:ACCESS...: a CDI device
device() {
	name=$1 env='' mounts=''
	shift
	while [ "$1" != -- ]; do
		env="$env${env:+,}\"$1\""
		shift
	done
	shift
	for mount; do
		host=${mount%%:*} rest=${mount#*:}
		mounts="$mounts${mounts:+,}{\"hostPath\":\"$host\",\"containerPath\":\"${rest%%:*}\",\"options\":[\"${rest#*:}\",\"nosuid\",\"nodev\",\"bind\"]}"
	done
	cat >"/etc/cdi/$name.json" <<-END
		{"cdiVersion":"0.5.0","kind":"test.dev/$name","devices":[{"name":"gpu",
		 "containerEdits":{"env":[$env],"mounts":[$mounts]}}]}
	END
}
# folder PATH: as they make one for a container
folder() {
	mkdir "$1"
	chmod 777 "$1"
}
region() { "$OLDPWD_/tests/e2e/region.py" "$1"; }
OLDPWD_=$PWD

# one_quota NAME: two processes, one of them with a cleared environment, and a third in a shell that
# would rather have another quota have 64 MiB together, and none of it is on the host
one_quota() {
	takes first "$1" 3 env
	# shellcheck disable=SC2086 # words
	takes second "$1" 6 env -i $machine
	takes third "$1" 6 sh -c 'export CUDA_DEVICE_MEMORY_LIMIT_0=1g CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/own.cache \
		CUDA_DISABLE_CONTROL=true SPILLWAY_MEMORY=1g SPILLWAY_JOB=own; exec "$@"' sh
	same "$1: on the device" $((64 * mib)) "$(device_bytes)"
	has "$1: in all" "$(cat "$scratch/out.third")" "refused="
	case $(cat "$scratch/out.third") in *refused=0*) fail "$1: nothing was refused" ;; esac
}
# NVIDIA's own binding for Python, if it can be had.
pynvml=$node/pynvml
python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$pynvml" nvidia-ml-py==12.560.30 >/dev/null 2>&1 ||
	mkdir -p "$pynvml"
# nvml_tells NAME: programs of NVML see the limit: in C, in Python as pynvml asks, and pynvml
nvml_tells() {
	has "$1: nvml" "$(within "$1" "$node/bin/nvml")" "0 total=$((64 * mib)) used=$((64 * mib)) free=0"
	has "$1: python" "$(within "$1" python3 -c '
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]
nvml.nvmlInit_v2()
handle, memory = ctypes.c_void_p(), Memory()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
print(memory.total, memory.used)')" "$((64 * mib)) $((64 * mib))"
	[ ! -e "$pynvml/pynvml.py" ] || has "$1: pynvml" "$(within "$1" env PYTHONPATH=/tmp/pynvml python3 -c '
from pynvml import *
nvmlInit()
memory = nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0))
print(memory.total, memory.used)')" "$((64 * mib)) $((64 * mib))"
}
# region_is_told FILE COUNT: so many processes, and what they hold
region_is_told() {
	out=$(region "$1") && [ "$(field processes "$out")" = "$2" ] && [ "$(field total0 "$out")" = $((64 * mib)) ]
}

# HAMi: server.go's Allocate, for one GPU with gpumem 64 and gpucores 30.
pod=$hook/containers/6e7e2c9a-0000-4000-8000-000000000001_train
folder "$pod"
device hami NVIDIA_VISIBLE_DEVICES=$uuid CUDA_DEVICE_MEMORY_LIMIT_0=64m CUDA_DEVICE_SM_LIMIT=30 \
	CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/5f3a9c01-aaaa-4bbb-8ccc-000000000001.cache LIBCUDA_LOG_LEVEL=1 -- \
	"$hook/libvgpu.so:/usr/local/vgpu/libvgpu.so:ro" "$pod:/usr/local/vgpu:rw" "$node/vgpulock:/tmp/vgpulock:rw" \
	"$hook/ld.so.preload:/etc/ld.so.preload:ro"
container hami --device test.dev/hami=gpu -v "$pynvml:/tmp/pynvml:ro"
one_quota hami
nvml_tells hami
cache=$(echo "$pod"/*.cache)
until_true $patience region_is_told "$cache" 3 || fail "hami: region: $(region "$cache")"
has "hami: region" "$(region "$cache")" "device0=$uuid limit0=$((64 * mib)) sm_limit0=30"
# its monitor reads no cache beside which there is more than libvgpu.so
same "hami: files" 2 "$(find "$pod" -mindepth 1 | grep -c .)"
# Root on the node, by the directory that HAMi mounts.
SPILLWAY_NODE_DIR=$node/vgpulock
export SPILLWAY_NODE_DIR
is_seen() { [ "$("$spillway" stat | grep -c ' running ')" = "$1" ]; }
until_true $patience is_seen 1 || fail "hami: stat: $("$spillway" stat)"
job=$("$spillway" stat --format csv,noheader | cut -d , -f 1 | head -n 1)
has "hami: the job" "$job" "000000000001.cache-"
doctor=$(within hami "$node/bin/spillway" doctor || true)
has "hami: doctor" "$doctor" "ok  pod: /usr/local/vgpu/libvgpu.so is Spillway's"
has "hami: doctor" "$doctor" "ok  pod: the node sees this pod by /tmp/vgpulock"
# So do the metrics of conf/kubernetes/daemonset.yaml, with its rights and mounts.
container metrics --pid host --cap-drop ALL --cap-add SETUID --cap-add SETGID --cap-add SYS_PTRACE \
	--security-opt no-new-privileges --read-only -v "$node/vgpulock:/tmp/vgpulock:rw" -e SPILLWAY_NODE_DIR=/tmp/vgpulock
metrics=$(within metrics env SPILLWAY_NODE_DIR=/tmp/vgpulock "$node/bin/spillway" stat --format prometheus)
has "hami: metrics" "$(printf '%s\n' "$metrics" | grep '^spillway_device_used_bytes')" "job=\"$job\""
has "hami: metrics" "$(printf '%s\n' "$metrics" | grep '^spillway_refusals')" "job=\"$job\""
"$spillway" set "$job" --memory 128MiB >/dev/null || fail "hami: set"
takes fourth hami 2 env
same "hami: after set" $((80 * mib)) "$(device_bytes)"
gone

# Two pods: each its own quota, each to be seen.
for n in 1 2; do
	pod=$hook/containers/6e7e2c9a-0000-4000-8000-00000000001${n}_train
	folder "$pod"
	device "pod$n" CUDA_DEVICE_MEMORY_LIMIT_0=32m CUDA_DEVICE_SM_LIMIT=0 \
		CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/same.cache CUDA_OVERSUBSCRIBE=true -- \
		"$hook/libvgpu.so:/usr/local/vgpu/libvgpu.so:ro" "$pod:/usr/local/vgpu:rw" "$node/vgpulock:/tmp/vgpulock:rw" \
		"$hook/ld.so.preload:/etc/ld.so.preload:ro"
	container "pod$n" --device "test.dev/pod$n=gpu"
	takes "first$n" "pod$n" 6 env
	has "pod$n: oversubscribed" "$(cat "$scratch/out.first$n")" "refused=0"
done
until_true $patience is_on_device $((64 * mib)) || fail "two pods: $(device_bytes) bytes"
until_true $patience is_seen 2 || fail "two pods: $("$spillway" stat)"
# They see each other there, for priorities, and map nothing that a third could cut short.
peers() { find "$node/vgpulock" -name "$1" | grep -c .; }
sees_others() { [ "$(peers "card-$uuid-*")" = 2 ]; }
until_true $patience sees_others || fail "two pods: peers: $(ls "$node/vgpulock")"
same "two pods: turn files" 0 "$(peers 'turns-*')"
names() { "$spillway" stat | sed -n 's/^\([^ ]*same.cache-[0-9a-f]*@[0-9a-f]*\) .*/\1/p' | sort -u; }
have_names() { [ "$(names | grep -c .)" = 2 ]; }
until_true $patience have_names || fail "two pods: names: $("$spillway" stat)"
gone
unset SPILLWAY_NODE_DIR

# Volcano: the cache is in a folder of its own, and the job's files beside it.
pod=$hook/containers/6e7e2c9a-0000-4000-8000-000000000002_train
folder "$pod"
device volcano CUDA_DEVICE_MEMORY_LIMIT_0=64m CUDA_DEVICE_SM_LIMIT=30 \
	CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/vgpu/5f3a9c01-aaaa-4bbb-8ccc-000000000002.cache -- \
	"$hook/libvgpu.so:/usr/local/vgpu/libvgpu.so:ro" "$pod:/tmp/vgpu:rw" "$node/vgpulock:/tmp/vgpulock:rw" \
	"$hook/ld.so.preload:/etc/ld.so.preload:ro"
container volcano --device test.dev/volcano=gpu
one_quota volcano
until_true $patience region_is_told "$(echo "$pod"/*.cache)" 3 || fail "volcano: $(region "$(echo "$pod"/*.cache)")"
same "volcano: files" 2 "$(find "$pod" -mindepth 1 -maxdepth 1 | grep -c .)"
has "volcano: from the node" "$(SPILLWAY_STATE_DIR=$pod/spillway-0 "$spillway" stat)" "000000000002.cache-"
gone

# HAMi's DRA driver: the folder has one path inside and outside.
claim=$hook/claims/9b1d0000-0000-4000-8000-000000000003
folder "$claim"
device dra "CUDA_DEVICE_MEMORY_SHARED_CACHE=$claim/5f3a9c01-aaaa-4bbb-8ccc-000000000003.cache" CUDA_DEVICE_SM_LIMIT_0=60 \
	CUDA_DEVICE_MEMORY_LIMIT_0=64m -- "$claim:$claim:rw" "$hook/libvgpu.so:/usr/local/vgpu/libvgpu.so:ro" \
	"$hook/ld.so.preload:/etc/ld.so.preload:ro" "$node/vgpulock:/tmp/vgpulock:rw"
container dra --device test.dev/dra=gpu
one_quota dra
SPILLWAY_STATE_DIR=$claim/spillway-0
export SPILLWAY_STATE_DIR
job=$("$spillway" stat --format csv,noheader | cut -d , -f 1 | head -n 1)
"$spillway" set "$job" --memory 24MiB >/dev/null 2>&1 || true
same "dra: set from the node" $((24 * mib)) "$(counter "$job" limit_set)"
unset SPILLWAY_STATE_DIR
gone

# KAI: the scheduler sets the limit, its isolator mounts the folder of the node and the list.
containers_of_kai() {
	container kai -v "$pynvml:/tmp/pynvml:ro" -e CUDA_DEVICE_MEMORY_LIMIT=64m -v "$hook:/usr/local/vgpu:rw" -v "$hook/ld.so.preload:/etc/ld.so.preload:ro"
}
containers_of_kai
one_quota kai
nvml_tells kai
same "kai: files" "claims containers ld.so.preload libvgpu.so" "$(cd "$hook" && echo * | sed 's/ *$//')"
gone
