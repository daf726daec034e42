#!/bin/sh
# SPDX-License-Identifier: MIT
# spillway doctor: broken drivers, sources of values, programs that cannot be shimmed.
# shellcheck source=tests/e2e/tool.sh
. tests/e2e/tool.sh

# It survives a driver that does not; with that one, the machine's own makes no difference.
SPILLWAY_DRIVER=$build/tests/e2e/crashing_driver.so
export SPILLWAY_DRIVER
expect 1 "$spillway" doctor --all
says "$out" "^ok  shim: $tree/lib/libspillway.so"
says "$out" '^ok  driver: .*crashing_driver.so.*CUDA 12\.4, found by SPILLWAY_DRIVER$'
says "$out" '^no  driver: cuInit died of signal 6'
says "$out" "^ok  state directory: $SPILLWAY_STATE_DIR"
says "$out" '^ok  any gpu: memory = unlimited \(built-in\)$'
# What is wrong comes first, with what to try; then what is well; settings that are built in are not
# told; the end is a step.
[ "$(cut -c 1-2 "$out" | grep -E '^(ok|no|--)' | uniq | tr '\n' ' ')" = 'no -- ok ' ] || fail 'findings are not first'
sed -n 2p "$out" | grep -q '^      try: unset SPILLWAY_DRIVER$' || fail 'nothing to try against a bad driver'
says "$out" '^next: mend what says "no"'
expect 1 "$spillway" doctor
says_not "$out" '\(built-in'
expect 1 env SPILLWAY_DRIVER="$build/tests/e2e/empty.so" "$spillway" doctor
says "$out" '^no  driver: .*empty.so: has no cuDriverGetVersion$'
SPILLWAY_DRIVER=/nonexistent "$spillway" doctor >"$out"
says "$out" '^no  driver: SPILLWAY_DRIVER = /nonexistent: expected the absolute path'
mkdir "$TMPDIR/search"
ln -s "$tree/lib/libspillway.so" "$TMPDIR/search/libcuda.so.1"
SPILLWAY_DRIVER='' LD_LIBRARY_PATH=$TMPDIR/search "$spillway" doctor >"$out"
says_not "$out" 'found by LD_LIBRARY_PATH'
ln -sf "$build/tests/e2e/crashing_driver.so" "$TMPDIR/search/libcuda.so.1"
expect 1 env SPILLWAY_DRIVER= LD_LIBRARY_PATH="/nonexistent:$TMPDIR/search" "$spillway" doctor
says "$out" '^ok  driver: .*/search/libcuda.so.1 \(crashing_driver.so\), CUDA 12\.4, found by LD_LIBRARY_PATH$'

# What frameworks would take, and a variable that undoes what run does about it.
says "$out" '^ok  frameworks: .*vLLM takes 90 % of it'
says_not "$out" '^--  .*takes its part of the limit at once'
env XLA_PYTHON_CLIENT_MEM_FRACTION=.9 TF_FORCE_GPU_ALLOW_GROWTH=FALSE "$spillway" doctor >"$out"
says "$out" '^--  XLA_PYTHON_CLIENT_MEM_FRACTION = .9: JAX takes its part of the limit at once'
says "$out" '^      try: unset XLA_PYTHON_CLIENT_MEM_FRACTION$'
says "$out" '^--  TF_FORCE_GPU_ALLOW_GROWTH = FALSE: TensorFlow takes its part'
env XLA_PYTHON_CLIENT_PREALLOCATE=false TF_FORCE_GPU_ALLOW_GROWTH=True "$spillway" doctor >"$out"
says_not "$out" '^--  .*takes its part of the limit at once'

# So is the program that probes drivers, where it did not come along with what is preloaded; a job
# runs all the same.
says_not "$out" '^--  driver probe'
mv "$tree/lib/driver-probe" "$TMPDIR/"
SPILLWAY_DRIVER="$build/softgpu/libcuda.so.1" expect 0 "$spillway" doctor
says "$out" "^--  driver probe: $tree/lib/driver-probe: No such file or directory: without a probe, drivers before R595 "
says "$out" '^      try: copy driver-probe to where libspillway.so lies$'
SPILLWAY_DRIVER="$build/softgpu/libcuda.so.1" SOFTGPU_DRIVER_VERSION=12080 expect 1 "$spillway" doctor --probe
says "$out" "^no  driver probe: $tree/lib/driver-probe cannot be run: No such file or directory$"
mv "$TMPDIR/driver-probe" "$tree/lib/"

# What the probe of a driver found, and the command that makes one. A driver that cannot be probed
# is named.
probed() { env SPILLWAY_DRIVER="$build/softgpu/libcuda.so.1" SPILLWAY_NODE_DIR=/dev/null/none SOFTGPU_STATE_DIR="$TMPDIR" "$@"; }
probed SOFTGPU_DRIVER_VERSION=12080 "$spillway" doctor >"$out"
says "$out" "^ok  gpu 0: driver probe: none yet of this driver since this boot.*'spillway doctor --probe' makes it"
expect 0 probed SOFTGPU_DRIVER_VERSION=12080 SOFTGPU_TRAITS=unmap-waits "$spillway" doctor --probe
says "$out" "^ok  driver probe: $SPILLWAY_STATE_DIR/driver-probe: made$"
expect 0 probed SOFTGPU_DRIVER_VERSION=12080 "$spillway" doctor --probe
says "$out" "^ok  driver probe: $SPILLWAY_STATE_DIR/driver-probe: has this driver since this boot$"
probed SOFTGPU_DRIVER_VERSION=12080 "$spillway" doctor >"$out"
says "$out" "^ok  gpu 0: driver probe: $SPILLWAY_STATE_DIR/driver-probe \(this user's\): CUDA 12\.8, this boot: memory of NUMA node 0 works, "
says "$out" ', copies over both tiers: works, unmapping beside work: waits for it$'
expect 1 probed SPILLWAY_DRIVER="$build/tests/e2e/crashing_driver.so" "$spillway" doctor --probe
says "$out" '^no  driver probe: .*crashing_driver.so: it cannot be initialised$'
expect 1 probed SOFTGPU_DRIVER_VERSION=12060 SOFTGPU_FAIL=cuDevicePrimaryCtxRetain:1=2 "$spillway" doctor --probe
says "$out" '^no  driver probe: .*: the GPU has no room for the probe now$'
[ "$(grep -c ' driver 12060 ' "$SPILLWAY_STATE_DIR/driver-probe")" = 0 ] || fail 'an answer without memory was kept'

# No driver at all is a sentence, and what to try is the software GPU, where it is installed.
mkdir -p "$tree/softgpu"
cp "$build/tests/e2e/empty.so" "$tree/softgpu/libcuda.so.1"
env XLA_FLAGS=--xla_gpu_autotune_level=4 TRITON_PTXAS_PATH=/mine "$spillway" doctor >"$out" || :
says "$out" '^ok  software GPU: spillway run --softgpu sets JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1$'
says_not "$out" 'sets TRITON_PTXAS_PATH='
# shellcheck disable=SC2016 # for the inner shell
without='for file in $(ldconfig -p | sed -n "s/.*libcuda.so.1 .*=> //p"); do mount --bind /dev/null "$file"; done; exec "$@"'
if unshare -rm true 2>/dev/null; then
	expect 0 env -u SPILLWAY_DRIVER -u LD_LIBRARY_PATH unshare -rm sh -c "$without" sh "$spillway" doctor
	says "$out" '^--  driver: no CUDA driver is installed here: there is no usable libcuda.so.1 in '
	says "$out" '^      try: spillway run --softgpu PROGRAM, which needs none$'
	says "$out" '^next: spillway run --softgpu --memory 50% PROGRAM, on the software GPU$'
	expect 1 env -u SPILLWAY_DRIVER -u LD_LIBRARY_PATH unshare -rm sh -c "$without" sh "$spillway" doctor nosuch
	says "$out" '^no  program: nosuch: '
	says "$out" '^next: mend what says "no"'
	expect 1 env -u SPILLWAY_DRIVER -u LD_LIBRARY_PATH unshare -rm sh -c "$without" sh "$spillway" doctor --setup --group root
	says "$err" 'no GPU is found.* For the software GPU: spillway run --softgpu spillway doctor --setup --group root$'
	rm -r "$tree/softgpu"
	expect 1 env -u SPILLWAY_DRIVER -u LD_LIBRARY_PATH unshare -rm sh -c "$without" sh "$spillway" doctor
	says "$out" '^no  driver: no CUDA driver is installed here'
	mkdir "$tree/softgpu"
	cp "$build/tests/e2e/empty.so" "$tree/softgpu/libcuda.so.1"
fi
# The next step for a program that is installed with the software GPU names it.
mkdir "$tree/clients"
cp /bin/true "$tree/clients/bundled"
SPILLWAY_DRIVER="$build/softgpu/libcuda.so.1" SOFTGPU_STATE_DIR=$TMPDIR expect 0 "$spillway" doctor bundled
says "$out" '^next: spillway run --softgpu --memory 50% bundled, on the software GPU$'
rm -r "$tree/softgpu" "$tree/clients"

# Providers of host memory, each tried: the first that works serves.
providers() { # providers VARIABLE...: lines of the software GPU with it
	env SPILLWAY_DRIVER="$build/softgpu/libcuda.so.1" SOFTGPU_STATE_DIR="$TMPDIR" SOFTGPU_QUIET=1 "$@" "$spillway" doctor >"$out"
}
providers ANY=1 || fail 'the software GPU: expected status 0'
[ "$(tail -n 1 "$out")" = 'next: spillway run --memory 50% PROGRAM' ] || fail 'no next step'
says "$out" '^ok  gpu 0: provider vmm_numa$'
says "$out" '^ok  gpu 0: provider pinned$'
says "$out" '^ok  nvidia-smi: .* the list of processes is NVML.s own, from a private table$'
says "$out" '^ok  gpu 0: host memory: by vmm_numa, which can move$'
providers SOFTGPU_FAIL=cuMemCreate:1=800
says "$out" '^--  gpu 0: provider vmm_numa: not permitted$'
says "$out" '^ok  gpu 0: host memory: by vmm_host, which can move$'
providers SOFTGPU_NO_HOST_VMM=1
says "$out" '^--  gpu 0: provider vmm_host: not supported$'
says "$out" '^--  gpu 0: host memory: by managed, which cannot move$'
providers SOFTGPU_NO_HOST_VMM=1 SOFTGPU_FAIL=cuMemSetAccess:1=801,cuMemAllocManaged:1=801,cuMemHostAlloc:1=801
says "$out" '^--  gpu 0: host memory: no provider works, nothing can be spilled$'
providers SOFTGPU_FAIL=cuMemSetAccess:1=801 # what cannot be reached is of no use
says "$out" '^--  gpu 0: provider vmm_numa: not supported$'
providers SOFTGPU_FAIL=cuDevicePrimaryCtxRetain:1=46
says "$out" '^no  gpu 0: providers: not tried, a context cannot be had: error 46$'

# Sharing memory; whether a cgroup is charged with what is spilled.
providers ANY=1
says "$out" '^ok  gpu 0: IPC$'
says "$out" '^ok  gpu 0: spilled memory: (is charged|is not charged) to this memory cgroup$|^ok  gpu 0: spilled memory: .* is not known$'
providers SOFTGPU_FAIL=cuIpcGetMemHandle:1=801
says "$out" '^--  gpu 0: IPC: not supported$'
providers SOFTGPU_NO_HOST_VMM=1 # managed memory may be on the GPU
says "$out" '^ok  gpu 0: spilled memory: .* is not known$'
# cgroup COMMAND: doctor, where COMMAND has filled what the kernel's files of cgroups hold
cgroup() {
	# shellcheck disable=SC2016 # for the inner shell
	SPILLWAY_DRIVER=$build/softgpu/libcuda.so.1 SOFTGPU_STATE_DIR=$TMPDIR SOFTGPU_QUIET=1 unshare -rm sh -c '
		mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory && eval "$1" && exec "$2" doctor
	' sh "$1" "$spillway" >"$out" 2>"$err"
}
if unshare -rm mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; then
	cgroup 'for file in memory/memory.usage_in_bytes memory.current; do echo 4096 >/sys/fs/cgroup/$file; done'
	says "$out" '^ok  gpu 0: spilled memory: is not charged to this memory cgroup$'
	cgroup true
	says "$out" '^ok  gpu 0: spilled memory: .* is not known$'
fi

# What a container refuses.
deny=$build/tests/e2e/deny
SPILLWAY_NODE_DIR=$TMPDIR/absent "$spillway" doctor >"$out"
says "$out" "^--  node directory: $TMPDIR/absent: No such file or directory: jobs of other users"
says "$out" '^      try: where several users share the GPUs, as root: spillway doctor --setup --group GROUP$'
mkdir "$TMPDIR/there"
SPILLWAY_NODE_DIR=$TMPDIR/there "$spillway" doctor >"$out"
says "$out" "^ok  node directory: $TMPDIR/there$"
says_not "$out" '^--  container: (futex_waitv|memfd|membarrier)'
if "$deny" futex_waitv -- true 2>/dev/null; then
	"$deny" futex_waitv memfd_create membarrier=ENOSYS -- "$spillway" doctor >"$out"
	says "$out" '^--  container: futex_waitv: Operation not permitted: '
	says "$out" '^--  container: memfd_create: Operation not permitted: '
	says "$out" '^--  container: membarrier: Function not implemented: '
fi

# HAMi's variables: those that are honoured, and those that are not, and why.
CUDA_DEVICE_MEMORY_LIMIT_0=1g CUDA_DEVICE_MEMORY_LIMIT=0 CUDA_DEVICE_SM_LIMIT=30 CUDA_OVERSUBSCRIBE=true \
	CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/cache CUDA_TASK_PRIORITY=1 ACTIVE_OOM_KILLER=1 LIBCUDA_LOG_LEVEL=3 \
	GPU_CORE_UTILIZATION_POLICY=force CUDA_DISABLE_CONTROL=no LD_PRELOAD=/nonexistent/libvgpu.so "$spillway" doctor >"$out" 2>/dev/null
says "$out" '^ok  hami: CUDA_DEVICE_MEMORY_LIMIT_0=1g: honoured as memory$'
says "$out" '^ok  hami: CUDA_DEVICE_MEMORY_LIMIT=0: honoured: no memory$'
says "$out" '^ok  hami: CUDA_DEVICE_SM_LIMIT=30: honoured as share$'
says "$out" '^ok  hami: GPU_CORE_UTILIZATION_POLICY=force: honoured as '
says "$out" '^ok  hami: CUDA_DISABLE_CONTROL=no: honoured as SPILLWAY_DISABLE$'
says "$out" '^ok  hami: CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/cache: honoured as the processes that share a limit$'
for variable in CUDA_OVERSUBSCRIBE CUDA_TASK_PRIORITY ACTIVE_OOM_KILLER LIBCUDA_LOG_LEVEL; do
	says "$out" "^--  hami: $variable=.*: not honoured: "
done
says "$out" '^--  hami: libvgpu.so is preloaded, too'
says "$out" '^--  pod: /nonexistent/libvgpu.so is not Spillway'
# A pod: what limits it, what the monitor and the node find.
check_pod() {
	cache=$TMPDIR/pod/5f.cache
	mkdir "$TMPDIR/pod"
	cp "$build/lib/libvgpu.so" "$TMPDIR/pod"
	in_pod() {
		env -u SPILLWAY_DRIVER SPILLWAY_STATE_DIR="$TMPDIR/pods" SPILLWAY_NODE_DIR="$TMPDIR/absent" LD_LIBRARY_PATH="$build/softgpu" \
			LD_PRELOAD="$TMPDIR/pod/libvgpu.so" "$@" 2>/dev/null
	}
	in_pod env CUDA_TASK_PRIORITY=1 CUDA_OVERSUBSCRIBE=true "$spillway" doctor >"$out" || true
	says "$out" "^ok  pod: $TMPDIR/pod/libvgpu.so is Spillway"
	says "$out" '^no  pod: no limit on memory: '
	says "$out" '^ok  pod: no CUDA_DEVICE_MEMORY_SHARED_CACHE: '
	says "$out" '^ok  hami: CUDA_TASK_PRIORITY=1: honoured as priority$'
	says "$out" '^ok  hami: CUDA_OVERSUBSCRIBE=true: honoured as whether'
	in_pod env CUDA_DEVICE_MEMORY_LIMIT=64m CUDA_DEVICE_MEMORY_SHARED_CACHE="$cache" "$spillway" doctor >"$out"
	says "$out" "^ok  pod: shared region: $cache: not there yet"
	says "$out" '^ok  gpu 0: spill = off \(libvgpu.so\)$'
	says "$out" '^next: start the program as ever'
	in_pod env CUDA_DEVICE_MEMORY_LIMIT=64m CUDA_DEVICE_MEMORY_SHARED_CACHE="$cache" "$build/tests/e2e/allocate" >/dev/null
	in_pod "$spillway" doctor >"$out" # the environment is not needed
	says "$out" '^ok  pod: shared region: GPU-.*: memory = 64.0 MiB, share = 100$'
	tests/e2e/region.py "$cache" recent_kernel=-1 minor_version=1
	in_pod "$spillway" doctor >"$out"
	says "$out" '^--  pod: shared region: HAMi.s monitor has stopped'
	tests/e2e/region.py "$cache" minor_version=7
	in_pod "$spillway" doctor >"$out" || true
	says "$out" "^--  pod: shared region: $cache: expected version 1.1 or 1.2"
}
# NVML has a namespace of its own in a pod, and these sanitizers may be in a process only once.
case ${SANITIZER:-} in address | thread) ;; *) ! built_in vgpu || check_pod ;; esac
LD_PRELOAD=$build/lib/libspillway-alias.so "$spillway" doctor >"$out" 2>/dev/null
says "$out" '^no  preload: libspillway-alias.so is preloaded without libspillway.so: '
LD_PRELOAD="$build/lib/libspillway.so $build/lib/libspillway-alias.so" "$spillway" doctor >"$out" 2>/dev/null
! grep 'preload: libspillway-alias' "$out" || fail "both are preloaded"
# KAI's variables.
NVIDIA_GPU_MEMORY_REQUEST=2147 NVIDIA_GPU_MEMORY_LIMIT=4294 SPILLWAY_MEMORY_MAX=8GiB "$spillway" doctor >"$out"
says "$out" '^ok  kai: NVIDIA_GPU_MEMORY_REQUEST=2147: honoured as memory$'
says "$out" '^--  kai: NVIDIA_GPU_MEMORY_LIMIT=4294: not honoured: SPILLWAY_MEMORY_MAX goes before it$'
CUDA_DEVICE_SM_LIMIT=30 SPILLWAY_SHARE=20 CUDA_DEVICE_SM_LIMIT_1=40 "$spillway" doctor >"$out"
says "$out" '^--  hami: CUDA_DEVICE_SM_LIMIT=30: not honoured: SPILLWAY_SHARE goes before it$'
CUDA_DEVICE_SM_LIMIT=30 GPU_CORE_UTILIZATION_POLICY=disable "$spillway" doctor >"$out"
says "$out" '^--  hami: CUDA_DEVICE_SM_LIMIT=30: not honoured: GPU_CORE_UTILIZATION_POLICY says so$'
"$spillway" doctor >"$out"
says_not "$out" ' hami: '

# Who takes turns: what would be used, and what would not.
uuid=GPU-7370696c-6c77-6179-2073-6f6674677000
turns() { providers SPILLWAY_NODE_DIR="$1" SOFTGPU_NO_HOST_VMM=1; }
mkdir "$TMPDIR/node"
turns "$TMPDIR/absent"
says "$out" "^ok  gpu 0: turns: by $SPILLWAY_STATE_DIR/turns-$uuid, among jobs of this user; shares of several users do not hold together until root runs"
says_not "$out" '^--  gpu 0: turns'
turns "$TMPDIR/node"
says "$out" "^ok  gpu 0: turns: by $TMPDIR/node/turns-$uuid-$(id -u), among jobs of this user; shares of several users do not hold together until root runs"
[ -z "$(ls "$TMPDIR/node")" ] || fail 'doctor has made a turn file'
touch "$TMPDIR/node/turns-$uuid"
chmod 666 "$TMPDIR/node/turns-$uuid"
turns "$TMPDIR/node"
says "$out" "^--  gpu 0: turns: $TMPDIR/node/turns-$uuid: (mode 0666 lets others cut it short|belongs to user)"
says "$out" "^ok  gpu 0: turns: by $TMPDIR/node/turns-$uuid-$(id -u), among jobs of this user; shares of several users do not hold together until root runs"
if [ "$(id -u)" = 0 ]; then
	chmod 660 "$TMPDIR/node/turns-$uuid"
	turns "$TMPDIR/node"
	says "$out" "^ok  gpu 0: turns: by $TMPDIR/node/turns-$uuid, among jobs of all users that may write to it\$"
fi

# Root makes the place for turns of several users; only so do their shares hold together.
expect 2 "$spillway" doctor --group root
says "$err" "^spillway: --group and --dry-run: expected --setup beside them$"
expect 2 "$spillway" doctor --setup
says "$err" "^spillway: --setup: which group's users may share the GPUs"
expect 1 "$spillway" doctor --setup --group nobodys-group
says "$err" "^spillway: --group 'nobodys-group': there is no such group; make it by 'groupadd nobodys-group'"
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
	cat >"$TMPDIR/setup.sh" <<'END'
set -eu
mkdir -p /etc/tmpfiles.d && mount -t tmpfs none /etc/tmpfiles.d
rm -rf "$2"
export SPILLWAY_NODE_DIR="$2" SPILLWAY_DRIVER="$3"
"$1" doctor --setup --group games --dry-run >"$4/dry"
[ ! -e "$2" ] && [ -z "$(ls /etc/tmpfiles.d)" ] || echo 'the dry run did something'
"$1" doctor --setup --group games >"$4/first"
"$1" doctor --setup --group games >"$4/second"
cp /etc/tmpfiles.d/spillway-turns.conf "$4/conf"
stat -c '%U %G %a %n' "$2" "$2"/turns-*
setpriv --reuid 65533 --regid 65533 --clear-groups "$1" doctor --setup --group games 2>&1 || true
rm "$2"/turns-* && touch "$2/turns-$5" && chown 65533 "$2/turns-$5"
"$1" doctor --setup --group games 2>&1 && echo 'took the file of a user' || true
END
	expect 0 unshare --mount sh "$TMPDIR/setup.sh" "$spillway" "$TMPDIR/node" "$build/softgpu/libcuda.so.1" "$TMPDIR" "$uuid"
	says "$TMPDIR/dry" "^$TMPDIR/node/turns-$uuid: would be made, for group games, mode 0660\$"
	says "$TMPDIR/first" "^$TMPDIR/node/turns-$uuid: made, for group games, mode 0660\$"
	says "$TMPDIR/first" '^/etc/tmpfiles.d/spillway-turns.conf: written'
	[ "$(grep -c ': stands already$' "$TMPDIR/second")" -eq 3 ] || fail "again: $(cat "$TMPDIR/second")"
	says "$TMPDIR/conf" "^d $TMPDIR/node 1777 root root -\$"
	says "$TMPDIR/conf" "^f $TMPDIR/node/turns-$uuid 0660 root games -\$"
	says "$out" "^root root 1777 $TMPDIR/node\$"
	says "$out" "^root games 660 $TMPDIR/node/turns-$uuid\$"
	says "$out" '^spillway: --setup: only root may make turn files'
	says "$out" "^spillway: $TMPDIR/node/turns-$uuid: belongs to user 65533"
	says_not "$out" '^(took|the dry run)'
fi

# Values with their sources; a bad configuration.
printf '[gpu]\nmemory = 8GiB\n' >"$TMPDIR/job.ini"
expect 1 env SPILLWAY_CONFIG="$TMPDIR/job.ini" SPILLWAY_SHARE=30 "$spillway" doctor
says "$out" '^ok  any gpu: memory = 8GiB \(.*/job\.ini:2\)$'
says "$out" '^ok  any gpu: share = 30 \(environment SPILLWAY_SHARE\)$'
says_not "$out" 'nvml|\(built-in'
expect 1 "$spillway" doctor --all
says "$out" '^ok  job: nvml = yes \(built-in\)$'
expect 1 env SPILLWAY_NVML=no "$spillway" doctor
says "$out" '^ok  job: nvml = no \(environment SPILLWAY_NVML\)$'
echo 'nonsense' >"$TMPDIR/job.ini"
expect 1 env SPILLWAY_CONFIG="$TMPDIR/job.ini" "$spillway" doctor
says "$out" '^no  configuration: .*/job\.ini:1'
expect 1 env SPILLWAY_DISABLE=1 "$spillway" doctor
says "$out" '^no  configuration: the environment disables Spillway$'
says "$out" '^      try: unset SPILLWAY_DISABLE '
expect 1 env SPILLWAY_STATE_DIR="$TMPDIR/job.ini" "$spillway" doctor
says "$out" '^no  state directory: '
expect 1 env SPILLWAY_STATE_DIR=/proc/spillway "$spillway" doctor
says "$out" '^no  state directory: /proc/spillway: cannot be made'
expect 1 env SPILLWAY_STATE_DIR="$TMPDIR/new" "$spillway" doctor
says "$out" "^ok  state directory: $TMPDIR/new$"

# A cgroup's limits of GPU memory, and the traps that NVIDIA documents.
mkdir -p "$TMPDIR/slice/leaf"
echo 'nvidia/0000:01:00.0/vidmem 67108864' | tee "$TMPDIR/slice/dmem.max" >"$TMPDIR/slice/leaf/dmem.current"
echo 'nvidia/0000:01:00.0/vidmem max' >"$TMPDIR/slice/leaf/dmem.max"
expect 1 env SPILLWAY_CGROUP="$TMPDIR/slice/leaf" CUDA_MPS_PIPE_DIRECTORY=/no/pipe CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G "$spillway" doctor
says "$out" "^ok  gpu 0000:01:00.0: the cgroup leaves 64\\.0 MiB \\($TMPDIR/slice/dmem.max\\), 0 B safe"
says "$out" '^--  gpu 0000:01:00.0: no dmem.min: '
says "$out" '^--  gpu 0000:01:00.0: dmem.max of a parent holds, but '
says "$out" '^--  mps: CUDA_MPS_PIPE_DIRECTORY=/no/pipe: no MPS control there \(No such file or directory\)'
for trap in 'a cgroup removed while its memory is in use' 'managed memory is counted' 'no part of a GPU \(MIG\)' 'memory bandwidth'; do
	says "$out" "^--  gpu limits: .*$trap"
done
says "$out" '^--  mps: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G: it shows in free memory'
expect 1 env CUDA_VISIBLE_DEVICES=0,1 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=2G "$spillway" doctor
grep -q 'which drops all limits' "$out" && fail "both GPUs are visible: $(cat "$out")"
expect 1 env CUDA_VISIBLE_DEVICES=0 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=2G "$spillway" doctor
says "$out" '^--  mps: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=2G: it names a GPU that is not visible, which drops all limits$'
echo "$TMPDIR/slice/leaf 16777216 33554432" >"$TMPDIR/nvml-limits"
expect 1 env SPILLWAY_CGROUP="$TMPDIR/slice/leaf" SOFTGPU_NVML_LIMITS="$TMPDIR/nvml-limits" LD_LIBRARY_PATH="$build/softgpu" "$spillway" doctor
says "$out" '^ok  gpu GPU-.*: NVML keeps a limit of the cgroup: 32\.0 MiB, 16\.0 MiB safe$'

# A sandbox of gVisor and a coherent GPU, by files of /proc that this machine does not have.
echo 'Linux version 4.19.0-gvisor #1 SMP' >"$TMPDIR/version"
map=
[ "$(id -u)" -eq 0 ] || map="--user --map-root-user"
for mode in driver numa; do
	printf 'EnableMSI: 1\nCoherentGPUMemoryMode: "%s"\n' "$mode" >"$TMPDIR/params"
	# shellcheck disable=SC2086,SC2016 # options; for the inner shell
	unshare $map --mount sh -euc 'mount --bind "$0/version" /proc/version; mount -t tmpfs none /proc/driver
		mkdir /proc/driver/nvidia; cp "$0/params" /proc/driver/nvidia/; exec "$1" doctor' \
		"$TMPDIR" "$spillway" >"$out" 2>"$err" || :
	grep -q '^next:\|^ok  ' "$out" || break # no mounts here
	says "$out" "^--  container: gVisor: it ignores the node's /etc/ld.so.preload\$"
	case $mode in
	driver) says "$out" "^ok  driver: CDMM: the GPU's memory is no NUMA node\$" ;;
	numa) says "$out" "^--  driver: the GPU's memory is a NUMA node: " ;;
	esac
done

# What cannot take effect.
expect 1 env SPILLWAY_SHARE_POLICY=weight SPILLWAY_MEMORY=1M \
	SPILLWAY_MEMORY_MAX=1G "$spillway" doctor
says "$out" '^ok  any gpu: share_policy = weight \(.*\)$'
says "$out" '^ok  any gpu: memory_max = 1GiB \(.*\)$'
expect 1 env SPILLWAY_MEMORY_MAX=50% SPILLWAY_MEMORY=unlimited "$spillway" doctor
says "$out" '^--  any gpu: memory_max = 50% \(environment SPILLWAY_MEMORY_MAX\): has no effect, memory is unlimited$'
expect 1 env SPILLWAY_MEMORY_MAX=50% SPILLWAY_MEMORY=1G "$spillway" doctor
says "$out" '^ok  any gpu: memory_max = 50% \(environment SPILLWAY_MEMORY_MAX\)$'
expect 0 "$spillway" run --name far --limit-gpu 5 --share 50 "$fake_job" -1
expect 1 "$spillway" doctor
says "$out" '^--  configuration: .*/far\.override\.ini: \[gpu 5\]: there is no such GPU'
says "$out" '^      try: spillway doctor --clean, which removes the file once its job has ended$'
expect 0 "$spillway" run --name far --limit-gpu 0 --share 50 "$fake_job" -1
expect 1 "$spillway" doctor
says_not "$out" 'there is no such GPU'
expect 1 "$spillway" doctor --clean

# Programs.
expect 1 "$spillway" doctor /bin/sh -c 'any --argument'
says "$out" '^ok  program: .* can be run under the shim$'
# verdict STATUS PATTERN PROGRAM: the line about the program
verdict() {
	expect 1 "$spillway" doctor "$3" # 1: of the driver
	says "$out" "^$1  program: $2"
}
mkdir "$TMPDIR/programs"
cd "$TMPDIR/programs" || exit 1
script() { # script NAME LINE
	printf '%s\n' "$2" >"$1"
	chmod +x "$1"
}
script script '#!/usr/bin/env sh'
verdict ok '\./script: /.*/sh can be run under the shim$' ./script
script of_script "#!$PWD/script"
verdict ok '\./of_script: /.*/script: /.*/sh can be run' ./of_script
script plain 'echo no first line'
verdict ok '\./plain: /bin/sh can be run' ./plain
script orphan '#!/nonexistent/python'
verdict no '\./orphan: /nonexistent/python: No such file or directory$' ./orphan
script nothing '#!'
verdict no '\./nothing: its first line names no interpreter$' ./nothing
script endless "#!$PWD/endless"
verdict no '.*a script run by a script, more than 4 deep$' ./endless
head -c 100 /bin/true >damaged
chmod +x damaged
verdict no '\./damaged is a damaged ELF file$' ./damaged
verdict no 'no-such-program: No such file' no-such-program
# As `run --softgpu` finds it: beside the tool.
mkdir "${spillway%/*}/clients"
cp /bin/true "${spillway%/*}/clients/train"
verdict ok '.*/clients/train can be run under the shim' train
: >text
chmod -x text
verdict no '\./text: is not executable: its mode, or its file system is mounted noexec$' ./text
verdict no '/etc: is a directory, expected a program$' /etc

# Of other architectures: the same program, but for two bytes (e_machine) and one (the class).
patched() { # patched NAME MACHINE CLASS: octal
	cp /bin/true "$1"
	printf "\\$2\\0" | dd of="$1" bs=1 seek=18 conv=notrunc 2>/dev/null
	printf "\\$3" | dd of="$1" bs=1 seek=4 conv=notrunc 2>/dev/null
}
case $(uname -m) in
x86_64) machine=x86-64 number=76 other=aarch64 other_number=267 ;;
*) machine=aarch64 number=267 other=x86-64 other_number=76 ;;
esac
patched foreign $other_number 2
verdict no "\\./foreign is built for $other, expected $machine as the shim is\$" ./foreign
patched narrow 3 1
verdict no "\\./narrow is built for 32-bit x86, expected $machine" ./narrow
patched x32 76 1
verdict no '\./x32 is an x32 program' ./x32
script of_foreign "#!$PWD/foreign"
verdict no "\\./of_foreign: .*/foreign is built for $other" ./of_foreign
patched itself "$number" 2
verdict ok '\./itself can be run under the shim$' ./itself
cp /bin/true object
printf '\001' | dd of=object bs=1 seek=16 conv=notrunc 2>/dev/null # e_type: to be linked
verdict no '\./object is an ELF file, but not a program$' ./object

# What its loader makes of it.
compiled() { # compiled NAME FLAGS...
	name=$1
	shift
	echo 'void _start(void) { __builtin_trap(); }' | ${CC:-cc} -nostartfiles "$@" -x c -o "$name" - ||
		fail "no $name program can be made"
}
compiled static -nostdlib -static
verdict no '\./static is statically linked: nothing can be preloaded' ./static
compiled static_pie -nostdlib -static-pie
verdict no '\./static_pie is statically linked' ./static_pie
compiled musl -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1
verdict no '\./musl is built for musl \(/lib/ld-musl-x86_64.so.1\): the shim needs glibc$' ./musl
script of_musl "#!$PWD/musl"
verdict no '\./of_musl: .*/musl is built for musl' ./of_musl
compiled android -Wl,--dynamic-linker=/system/bin/linker64
verdict no '\./android is built for another C library' ./android
compiled lost -Wl,--dynamic-linker=/nonexistent/ld-linux.so.2
verdict no '\./lost asks for the loader /nonexistent/ld-linux.so.2: No such file or directory$' ./lost

# Privileged or not is what the kernel says: each verdict is compared with what comes of it.
agrees() { # agrees PREFIX...: whether the shim gets into ./privileged, for what $spillway says of it
	"$@" "$spillway" doctor ./privileged >"$out" 2>"$err"
	"$@" env LD_PRELOAD="$tree/lib/libspillway.so" ./privileged /proc/self/maps >"$TMPDIR/maps" 2>"$err" ||
		fail "$*: the program does not run"
	if grep -q libspillway "$TMPDIR/maps"; then
		says "$out" '^ok  program: \./privileged can be run under the shim'
	else
		says "$out" '^no  program: \./privileged .*: the loader ignores LD_PRELOAD for it$'
	fi
}
setting() { # setting MODE OWNER
	cp /bin/cat privileged
	[ -z "$2" ] || chown "$2" privileged
	chmod "$1" privileged
}
setting 4755 ''
agrees env
says "$out" '^ok ' # a user's own gives nobody anything
if [ "$(id -u)" -eq 0 ]; then
	for owner in 65534:0 0:65534 65534:65534; do
		for mode in 4755 2755 2745; do # 2745: locks, not set-gid
			setting $mode $owner
			agrees env
			agrees setpriv --no-new-privs
		done
	done
	setting 4755 65534:65534
	agrees env
	says "$out" '^no  program: \./privileged is set-uid to another user'
	agrees setpriv --no-new-privs
	says "$out" '\(its set-uid has no effect here: no-new-privs is set\)$'
	chmod a+x "$TMPDIR" "$TMPDIR/.." "$TMPDIR/../.." # so that another user gets here
	another="setpriv --reuid 65533 --clear-groups env SPILLWAY_STATE_DIR=$TMPDIR/another"
	# shellcheck disable=SC2086 # a list of words
	agrees $another
	setting 755 0:0
	if PATH=$PATH:/sbin:/usr/sbin setcap cap_net_bind_service+ep privileged 2>/dev/null; then
		agrees env # to root they add nothing
		# shellcheck disable=SC2086
		agrees $another
		says "$out" '^no  program: \./privileged has file capabilities'
		# shellcheck disable=SC2086
		agrees setpriv --no-new-privs $another
	fi
fi
cd - >/dev/null || exit 1

# What ended jobs left is counted, and removed when asked.
start_job gone
kill "$pid"
wait "$pid"
expect 1 "$spillway" doctor
says "$out" '^ok  jobs: 1, of which 1 ended'
expect 1 "$spillway" doctor --clean
says "$out" '^ok  ended job gone: removed$'
[ ! -e "$SPILLWAY_STATE_DIR/gone.segment" ] || fail 'the segment of an ended job is still there'
# One of another version may be in use.
start_job newer
kill -9 "$pid"
wait "$pid" 2>/dev/null
printf '\143' | dd of="$SPILLWAY_STATE_DIR/newer.segment" bs=1 seek=8 conv=notrunc 2>/dev/null
record=$SPILLWAY_STATE_DIR/card-GPU-1-$(id -u)-00000000000000ab # of one that was killed, before it wrote
: >"$record"
exec 9<>"$SPILLWAY_STATE_DIR/newer.segment" # as a mapping would
expect 1 "$spillway" doctor --clean
[ ! -e "$record" ] || fail "the record of a killed process is still there"
says "$err" 'newer\.segment: segment of version 99, expected version'
says "$out" '^--  job newer: (is in use|cannot be read), .*left alone'
says "$out" '^      try: (spillway doctor --clean, 5 s from now|rm )'
[ -e "$SPILLWAY_STATE_DIR/newer.segment" ] || fail 'the segment of another version was removed'
# The processes of an ended job of any version have left the file: it is in nobody's way.
exec 9>&-
case $(stat -f -c %T "$SPILLWAY_STATE_DIR") in
tmpfs | ext2/ext3 | xfs | btrfs)
	expect 1 "$spillway" doctor --clean
	says "$out" '^ok  ended job newer: removed$'
	[ ! -e "$SPILLWAY_STATE_DIR/newer.segment" ] || fail 'the segment of an ended job of another version stays'
	;;
esac
finish
