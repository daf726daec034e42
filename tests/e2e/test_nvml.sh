#!/bin/sh
# SPDX-License-Identifier: MIT
# NVML's memory queries report the job's limit and the job's memory, however NVML is reached.
# Without a limit, switched off, or for another job's GPU they report the real figures. All other
# functions are the real NVML's.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
nvml=$build/tests/e2e/nvml
allocate=$build/tests/e2e/allocate
fake=$build/tests/e2e/nvml-fake
mib=1048576
whole=$((2048 * mib))

# told INDEX TOTAL USED FREE: what both queries print then
told() { printf '%s total=%s used=%s free=%s\n%s total=%s used=%s free=%s reserved=0' "$1" "$2" "$3" "$4" "$1" "$2" "$3" "$4"; }
# numbers OUTPUT: of the devices alone
numbers() { printf '%s\n' "$1" | grep '^[0-9]' || :; }
limited=$(told 0 $((64 * mib)) 0 $((64 * mib)))
truth=$(told 0 $whole 0 $whole)
same "without Spillway" "$truth" "$(numbers "$(on_softgpu "$nvml")")"

# What the program opens leads to the two queries of ours and else to NVML, in any form and scope.
ours="nvmlInit_v2 nvml, nvmlDeviceGetMemoryInfo shim, _v2 shim"
ln -s "$softgpu/libnvidia-ml.so.1" "$scratch/libnvidia-ml.so"
ln -s "$softgpu/libnvidia-ml.so.1" "$scratch/libnvidia-ml.so.580.65.06"
export SPILLWAY_MEMORY=64MiB
for name in libnvidia-ml.so.1 global:libnvidia-ml.so.1 "$softgpu/libnvidia-ml.so.1" "$softgpu/../softgpu/libnvidia-ml.so.1" \
	"$scratch/libnvidia-ml.so" "$scratch/libnvidia-ml.so.580.65.06"; do
	same "$name" "$name: $ours
$limited" "$(under_shim "$nvml" "$name")"
done
same "libnvidia-ml.so" "libnvidia-ml.so: $ours
$limited" "$(LD_LIBRARY_PATH=$scratch LD_PRELOAD=$shim "$nvml" libnvidia-ml.so)"
same "linked" "libnvidia-ml.so.1: $ours
$limited" "$(under_shim "${nvml}_linked")"
same "under spillway run" "libnvidia-ml.so.1: $ours
$limited" "$("$spillway" run --softgpu --quiet "$nvml")"
same "errors" "$(on_softgpu "$nvml" --errors | grep errors)" "$(under_shim "$nvml" --errors | grep errors)"
same "a forked child" "$limited
$limited" "$(numbers "$(under_shim "$nvml" --fork)")"

# RTLD_NOLOAD: only what is loaded, and then ours.
same "RTLD_NOLOAD" "noload:libnvidia-ml.so.1: none
libnvidia-ml.so.1: $ours
$limited
noload:libnvidia-ml.so.1: $ours
$limited" "$(under_shim "$nvml" noload:libnvidia-ml.so.1 libnvidia-ml.so.1 noload:libnvidia-ml.so.1)"

# What is not there, or no library, fails as without us.
echo text >"$scratch/libnvidia-ml.so.9"
for name in libnvidia-ml.so.1 libnvidia-ml.so /nonexistent/libnvidia-ml.so.1 "$scratch/libnvidia-ml.so.9"; do
	same "no $name" "$(LD_LIBRARY_PATH=/nonexistent "$nvml" "$name")" "$(LD_PRELOAD=$shim LD_LIBRARY_PATH=/nonexistent "$nvml" "$name")"
	case $("$nvml" "$name") in *nvmlInit*) fail "$name: this test needs a machine without it" ;; esac
done

# The file a program names is the one it gets; a second one beside the first is left alone.
has "another file" "$(under_shim "$nvml" "$fake/libnvidia-ml.so.1")" "total=$((64 * mib)) used=0"
out=$(under_shim "$nvml" libnvidia-ml.so.1 "$fake/libnvidia-ml.so.1")
has "the first of two" "$out" "$limited"
has "the second of two" "$out" "libnvidia-ml.so.1: nvmlInit_v2 nvml, nvmlDeviceGetMemoryInfo nvml, _v2 none
0 total=$((1024 * mib)) used=$((512 * mib))"

# An older NVML: what it lacks is not found, what it asks itself it is told.
with_fake() { LD_LIBRARY_PATH=$fake LD_PRELOAD=$shim "$nvml" --inside; }
fake_ours="libnvidia-ml.so.1: nvmlInit_v2 nvml, nvmlDeviceGetMemoryInfo shim, _v2 none"
fake_inside="inside: total=$((1024 * mib))"
same "an older NVML" "$fake_ours
0 total=$((64 * mib)) used=0 free=$((64 * mib))
$fake_inside" "$(with_fake)"
# A GPU divided by MIG is not what a job runs on.
same "MIG, the whole GPU" "$fake_ours
0 total=$((1024 * mib)) used=$((512 * mib)) free=$((512 * mib))
$fake_inside" "$(FAKE_MIG=whole with_fake)"

# Switched off.
same "SPILLWAY_NVML=no" "libnvidia-ml.so.1: nvmlInit_v2 nvml, nvmlDeviceGetMemoryInfo nvml, _v2 nvml
$truth" "$(SPILLWAY_NVML=no under_shim "$nvml")"
same "disabled" "libnvidia-ml.so.1: nvmlInit_v2 nvml, nvmlDeviceGetMemoryInfo nvml, _v2 nvml
$truth" "$(SPILLWAY_DISABLE=1 under_shim "$nvml")"
for off in SPILLWAY_NVML=no SPILLWAY_DISABLE=1 CUDA_DISABLE_CONTROL=1; do
	same "$off, linked" "$truth" "$(numbers "$(export "${off?}"; under_shim "${nvml}_linked")")"
done
printf '[job]\nnvml = no\n' >"$scratch/off.ini"
same "nvml = no" "$truth" "$(numbers "$(SPILLWAY_CONFIG=$scratch/off.ini under_shim "$nvml")")"
same "the environment goes before the file" "$limited" \
	"$(numbers "$(SPILLWAY_NVML=yes SPILLWAY_CONFIG=$scratch/off.ini under_shim "$nvml")")"
unset SPILLWAY_MEMORY
same "no limit" "$truth" "$(numbers "$(under_shim "$nvml")")"

# reported_memory, and spill = off: what others hold is not free then.
same "limit+host" "$(told 0 $((96 * mib)) 0 $((96 * mib)))" "$(numbers "$(SPILLWAY_MEMORY=64MiB SPILLWAY_HOST_MEMORY=32MiB \
	SPILLWAY_REPORTED_MEMORY=limit+host under_shim "$nvml")")"
same "a percentage" "$(told 0 $((512 * mib)) 0 $((512 * mib)))" "$(numbers "$(SPILLWAY_MEMORY=25% under_shim "$nvml")")"

# A job that holds memory: what it holds is used, for a process of the job that has no CUDA; the
# limit as it changes.
hold() { # hold NAME OPTIONS...: a job that has 4 blocks of 8 MiB, with the options of spillway run before "--"
	name=$1
	shift
	"$spillway" run --softgpu --quiet --name "$name" "$@" "$allocate" --mib 8 --count 4 --hold-ms 600000 \
		--ready "$scratch/$name.ready" >"$scratch/$name.out" 2>&1 &
	holders="$holders $!"
	until_true $patience [ -e "$scratch/$name.ready" ] || fail "$name did not start: $(cat "$scratch/$name.out")"
}
in_job() { name=$1; shift; SPILLWAY_JOB=$name under_shim "$@"; }
holders=

hold big --memory 64MiB
out=$(told 0 $((64 * mib)) $((32 * mib)) $((32 * mib)))
same "in use" "$out" "$(numbers "$(in_job big "$nvml")")"
same "in use, linked" "$out" "$(numbers "$(in_job big "${nvml}_linked")")"
same "in use, by --join" "$out" "$(numbers "$("$spillway" run --softgpu --quiet --join --name big "$nvml")")"
same "a MIG device" "0 total=$((64 * mib)) used=$((32 * mib)) free=$((32 * mib))" \
	"$(numbers "$(FAKE_MIG=part SPILLWAY_JOB=big with_fake)")"
truth=$(numbers "$(on_softgpu "$nvml")")
has "the truth" "$truth" "0 total=$whole used="
case $truth in *" used=0 "*) fail "the job's memory is not on the device: $truth" ;; esac
same "another job" "$truth" "$(numbers "$(in_job other "$nvml")")"
same "another job with a limit" "$limited" "$(numbers "$(SPILLWAY_MEMORY=64MiB in_job other "$nvml")")"
same "what others hold, without spilling" "$(told 0 $whole 0 "$(field free "$truth")")" \
	"$(numbers "$(SPILLWAY_MEMORY=${whole}B SPILLWAY_SPILL=off in_job other "$nvml")")"
in_job big "$nvml" --watch 600 >"$scratch/watch" &
holders="$holders $!"
until_true $patience grep -qF "total=$((64 * mib)) used=$((32 * mib))" "$scratch/watch" || fail "the watcher sees: $(cat "$scratch/watch")"
"$spillway" set --timeout $patience big --memory 128MiB >/dev/null
until_true $patience grep -qF "total=$((128 * mib)) used=$((32 * mib)) free=$((96 * mib))" "$scratch/watch" ||
	fail "the watcher does not see 128 MiB: $(tail -n 2 "$scratch/watch")"

# A question is a glance at the segment, not a copy of it, and no configuration file is read again:
# a few KB without CUDA, nothing but what the helper thread reads with it. A changed limit is seen,
# by the segment or a file alone.
cost() { field bytes "$(in_job big "$nvml" "$@" | grep '^cost:')"; }
bytes=$(cost --cost)
[ "$bytes" -gt 0 ] || fail "nothing was counted"
[ "$bytes" -le 24576 ] || fail "without CUDA a question reads $bytes bytes"
bytes=$(cost --cuda --cost)
[ "$bytes" -le 2048 ] || fail "in a process of the job a question reads $bytes bytes"
in_job big "$nvml" --cuda --watch 600 >"$scratch/taking" &
holders="$holders $!"
until_true $patience grep -qF "total=$((128 * mib)) used=$((32 * mib))" "$scratch/taking" || fail "with CUDA: $(cat "$scratch/taking")"
"$spillway" set --timeout $patience big --memory 96MiB >/dev/null
until_true $patience grep -qF "total=$((96 * mib)) used=$((32 * mib)) free=$((64 * mib))" "$scratch/taking" ||
	fail "with CUDA 96 MiB are not seen: $(tail -n 2 "$scratch/taking")"
until_true $patience grep -qF "total=$((96 * mib)) used=$((32 * mib)) free=$((64 * mib))" "$scratch/watch" ||
	fail "without CUDA 96 MiB are not seen: $(tail -n 2 "$scratch/watch")"
# Nobody of this job takes part: the file alone says what the limit is, and that NVML tells of it.
printf '[gpu]\nmemory = 48MiB\n' >"$scratch/watched.ini"
SPILLWAY_CONFIG=$scratch/watched.ini in_job alone "$nvml" --watch 600 >"$scratch/file" &
holders="$holders $!"
until_true $patience grep -qF "total=$((48 * mib)) used=0" "$scratch/file" || fail "the file: $(cat "$scratch/file")"
printf '[gpu]\nmemory = 40MiB\n' >"$scratch/watched.new" && mv "$scratch/watched.new" "$scratch/watched.ini"
until_true $patience grep -qF "total=$((40 * mib)) used=0" "$scratch/file" || fail "the changed file: $(tail -n 2 "$scratch/file")"
printf '[job]\nnvml = no\n[gpu]\nmemory = 40MiB\n' >"$scratch/watched.ini"
until_true $patience grep -qF "total=$whole" "$scratch/file" || fail "nvml = no: $(tail -n 2 "$scratch/file")"

# Two devices, of which the second is limited, whatever order CUDA has them in.
export SOFTGPU_DEVICES=2
mkdir "$scratch/two"
export SOFTGPU_STATE_DIR="$scratch/two"
second="$(told 0 $whole 0 $whole)
$(told 1 $((64 * mib)) 0 $((64 * mib)))"
same "the second GPU" "$second" "$(numbers "$(SPILLWAY_MEMORY_1=64MiB under_shim "$nvml")")"
for visible in 1 1,0 GPU-7370696c-6c77-6179-2073-6f6674677001,0; do
	same "ordinal 0 of $visible" "$second" \
		"$(numbers "$(CUDA_VISIBLE_DEVICES=$visible SPILLWAY_MEMORY_0=64MiB under_shim "$nvml")")"
done
for selector in GPU-7370696c-6c77-6179-2073-6f6674677001 0000:02:00.0; do
	printf '[gpu %s]\nmemory = 64MiB\n' "$selector" >"$scratch/selector.ini"
	same "[gpu $selector]" "$second" "$(numbers "$(SPILLWAY_CONFIG=$scratch/selector.ini under_shim "$nvml")")"
done
CUDA_VISIBLE_DEVICES=1,0 hold pair --limit-gpu 0 --memory 64MiB
same "the living processes know their GPUs" "$(told 0 $whole 0 $whole)
$(told 1 $((64 * mib)) $((32 * mib)) $((32 * mib)))" "$(numbers "$(in_job pair "$nvml")")"

# The stand-in is empty and needs the shim before NVML.
same "exports of the stand-in" "" "$(nm -D --defined-only "$build/lib/libspillway-nvml.so")"
needed=$(readelf -d "$build/lib/libspillway-nvml.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v 'lib[a-z]*san\|libc\.so')
same "what the stand-in needs" "libcuda.so.1
libnvidia-ml.so.1" "$needed"
