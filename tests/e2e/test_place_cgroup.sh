#!/bin/sh
# SPDX-License-Identifier: MIT
# host_memory = auto follows the memory cgroups above the process, as systemd and Slurm make them.
# Memory that they do not leave is refused, and no process is killed. Their files are ours; the
# process is shown them where the kernel shows its own.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
tree=$scratch/tree

# within COMMAND...: in the cgroup that $scratch/cgroup names, with the mounts in $scratch/mountinfo
within() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare -rm sh -c '
		mount --bind "$1/cgroup" /proc/$$/cgroup && mount --bind "$1/mountinfo" /proc/$$/mountinfo || exit 77
		shift
		exec "$@"
	' sh "$scratch" "$@"
}
echo '0::/' >"$scratch/cgroup"
: >"$scratch/mountinfo"
within true 2>/dev/null || {
	echo "SKIP: files of /proc cannot be covered here"
	exit 77
}

# program: eight blocks of 8 MiB, two of which fit on the GPU
program() {
	SPILLWAY_MEMORY=17MiB LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu within "$allocate" --count 8
}

# Version 2 without a namespace: the slice has next to nothing left, the service no limit.
mkdir -p "$tree/batch.slice/train.service"
echo '0::/batch.slice/train.service' >"$scratch/cgroup"
echo "30 23 0:26 / $tree rw - cgroup2 cgroup2 rw" >"$scratch/mountinfo"
echo 1073741824 >"$tree/batch.slice/memory.max"
echo 1071644672 >"$tree/batch.slice/memory.current" # 2 MiB less
echo max >"$tree/batch.slice/train.service/memory.max"
echo 4096 >"$tree/batch.slice/train.service/memory.current"
has "a full slice" "$(program)" "blocks=2 refused=6"
out=$(SPILLWAY_DRIVER=$softgpu/libcuda.so.1 SOFTGPU_QUIET=1 within "$spillway" doctor) || true
has "doctor" "$out" "host memory: the memory cgroup $tree/batch.slice leaves 2.00 MiB of 1.00 GiB"
# Most of it is file cache.
echo 'inactive_file 1050673152' >"$tree/batch.slice/memory.stat"
has "a slice full of cache" "$(program)" "blocks=8 refused=0"
rm "$tree/batch.slice/memory.stat"
echo max >"$tree/batch.slice/memory.max"
has "a slice without a limit" "$(program)" "blocks=8 refused=0"

# Version 1: the limit is the job's, above the task.
rm -r "$tree"
job=$tree/slurm/uid_1000/job_42
mkdir -p "$job/step_0/task_0"
echo '4:memory:/slurm/uid_1000/job_42/step_0/task_0' >"$scratch/cgroup"
echo "33 32 0:29 / $tree rw - cgroup cgroup rw,memory" >"$scratch/mountinfo"
for level in "$tree" "$tree/slurm" "$tree/slurm/uid_1000" "$job/step_0" "$job/step_0/task_0"; do
	echo 9223372036854771712 >"$level/memory.limit_in_bytes"
	echo 0 >"$level/memory.usage_in_bytes"
done
echo 1073741824 | tee "$job/memory.limit_in_bytes" >"$job/memory.usage_in_bytes"
has "a full job" "$(program)" "blocks=2 refused=6"
echo 0 >"$job/memory.usage_in_bytes"
has "an empty job" "$(program)" "blocks=8 refused=0"
