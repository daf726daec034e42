#!/bin/sh
# What a driver may not survive is tried by a child that the program does not notice, when something
# is first spilled, once; whatever comes of it, the program's bytes are right.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
childless=$build/tests/e2e/childless
known=$SPILLWAY_STATE_DIR/driver-probe
limited() {
	name=$1
	shift
	"$spillway" run --softgpu --name "$name" "$@" "$childless" 2>"$scratch/err" ||
		fail "$name: exit status $?: $(cat "$scratch/err")"
}
provider() { "$spillway" stat "$1" --json | sed 's/,"processes":.*//; s/.*"provider":"\([^"]*\)".*/\1/'; }

# Nothing is tried where nothing is spilled.
limited fits --memory 64MiB
[ ! -e "$known" ] || fail "tried without need: $(cat "$known")"
limited plain --memory 8MiB
has "what is known" "$(cat "$known")" "numa 0 host 0 copy 0 node 0 mixed 0 unmap 0"
same "plain: provider" vmm_numa "$(provider plain)"

# It is asked once; another version of the driver is another question.
sed -i 's/numa 0/numa crash/' "$known"
limited again --memory 8MiB
same "again: provider, by what is known" vmm_host "$(provider again)"
SOFTGPU_DRIVER_VERSION=12080 limited older --memory 8MiB
same "older: provider" vmm_numa "$(provider older)"
same "lines" 2 "$(wc -l <"$known")"
# Whoever damages the file makes it be asked again.
printf 'boot x\0\n\n%s' "$(head -c 5000 /dev/zero | tr '\0' a)" >"$known"
limited damaged --memory 8MiB
same "damaged: provider" vmm_numa "$(provider damaged)"
rm "$known"

# A driver that waits for what runs before memory goes.
SOFTGPU_DRIVER_VERSION=12080 SOFTGPU_TRAITS=unmap-waits limited waits --memory 8MiB
has "what is known" "$(cat "$known")" "mixed 0 unmap 600"
rm "$known"

# A driver that ends the process on a NUMA node.
export SOFTGPU_TRAITS=host-numa-crashes
limited node --memory 8MiB
same "crashes on a node: provider" vmm_host "$(provider node)"
has "it is said" "$(cat "$scratch/err")" "this driver crashes when memory is made on NUMA node"
rm "$known"
# One that also cannot copy what the CPU was not given: the memory is made in another way.
export SOFTGPU_TRAITS=host-numa-crashes,cpu-copies
limited copies --memory 8MiB
case $(provider copies) in managed | pinned) ;; *) fail "crashes on copies: provider $(provider copies)" ;; esac
rm "$known"
# One that has nothing of the kind.
SOFTGPU_FAIL=$(for i in 1 2 3 4 5 6 7 8; do printf 'cuMemCreate:%d=801,' $i; done)
export SOFTGPU_FAIL SOFTGPU_TRAITS=
limited refused --memory 1MiB
unset SOFTGPU_FAIL
rm -f "$known"

# All nodes are tried that may be used: a further one is only asked when the first is full.
tried() { SOFTGPU_NUMA_NODES=$1 "$build/lib/driver-probe" "$softgpu/libcuda.so.1" "$2" | tr '\n' ' '; }
has "two nodes" "$(tried 4M,16M 1,0)" "numa 0 host 0 copy 0"
has "one has no memory" "$(tried none,16M 1,0)" "numa 0 host 0"
has "the first has no memory" "$(tried none,16M 0,1)" "numa 1 host 0"
has "the second crashes" "$(tried 4M,16M:crashes 0,1)" "numa crash host 0"

# Without the program, as in a container that was given the preloaded file alone.
mkdir "$scratch/alone"
cp "$build/lib/libspillway.so" "$scratch/alone/"
export SOFTGPU_TRAITS=host-numa-crashes
alone() {
	SPILLWAY_JOB=$1 SPILLWAY_MEMORY_LIMIT=8MiB LD_PRELOAD=$scratch/alone/libspillway.so LD_LIBRARY_PATH=$softgpu \
		"$childless" 2>"$scratch/err" || fail "alone: exit status $?: $(cat "$scratch/err")"
}
alone alone
same "alone: provider" vmm_host "$(provider alone)"
[ ! -e "$known" ] || fail "what was not tried is known"

# A driver that takes long: the program goes on without an answer, and the next one has it.
mkdir "$scratch/slow"
cp "$build/lib/libspillway.so" "$scratch/slow/"
cat >"$scratch/slow/driver-probe" <<-END
	#!/bin/sh
	while [ ! -e "$scratch/go" ]; do sleep 0.1; done
	exec "$build/lib/driver-probe" "\$@"
END
chmod +x "$scratch/slow/driver-probe"
slowly() {
	SPILLWAY_JOB=$1 SPILLWAY_MEMORY_LIMIT=8MiB LD_PRELOAD=$scratch/slow/libspillway.so LD_LIBRARY_PATH=$softgpu \
		exec "$childless" "$scratch/done-$1" "$2" 2>"$scratch/err-$1"
}
export SOFTGPU_TRAITS=
slowly late "$known" &
late=$!
until_true $patience [ -e "$scratch/done-late" ]
[ ! -e "$known" ] || fail "known before it was tried: $(cat "$known")"
touch "$scratch/go"
wait $late || fail "late: exit status $?: $(cat "$scratch/err-late")"
same "it is said once" 1 "$(grep -c "takes more than [16]0 s" "$scratch/err-late")"
case $(provider late) in managed | pinned) ;; *) fail "late: provider $(provider late)" ;; esac
has "what is known later" "$(cat "$known")" "numa 0 host 0 copy 0 node 0 mixed 0 unmap 0"
(slowly next /)
same "next: provider" vmm_numa "$(provider next)"

# The machine's other NUMA nodes serve before the program is out of memory, the nearest first; what
# has no processors or no memory, and what is not this process's, is not asked.
unset SOFTGPU_TRAITS
rm -f "$known"
nodes=$scratch/nodes
mkdir -p "$nodes/node1"
echo 0-3 >"$nodes/online"
echo 0,2-3 >"$nodes/has_normal_memory"
echo 0-1,3 >"$nodes/has_cpu"
echo 10 20 30 40 >"$nodes/node1/distance"
# Mems_allowed names this machine's own nodes: only node 0 is everybody's.
here() { unshare ${unshared:-} --mount sh -euc "mount --bind '$nodes' /sys/devices/system/node; $1"; }
[ "$(id -u)" -eq 0 ] || unshared="--user --map-root-user"
if here true 2>"$scratch/err"; then
	export SOFTGPU_NUMA_NODES=64M,none SOFTGPU_ATTRIBUTES=HOST_NUMA_ID=1
	here "'$spillway' run --softgpu --name nearest --memory 8MiB '$childless'" 2>"$scratch/err" || fail "nearest: $(cat "$scratch/err")"
	same "nearest: provider" vmm_numa "$(provider nearest)"
	has "the node that has what it needs is tried" "$(cat "$known")" " memory of 0:"
fi
