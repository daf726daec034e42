#!/bin/sh
# SPDX-License-Identifier: MIT
# A probe outside of every job asks the questions that a driver may not survive, once per driver and
# boot. A cache keeps the answers. A program's process reads that, and makes no process. With any
# answers the program's bytes are right.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # the search for leaks makes a process
childless=$build/tests/e2e/childless
known=$SPILLWAY_STATE_DIR/driver-probe
limited() {
	name=$1
	shift
	"$spillway" run --softgpu --name "$name" "$@" "$childless" 2>"$scratch/err" ||
		fail "$name: exit status $?: $(cat "$scratch/err")"
}
provider() { "$spillway" stat "$1" --json | sed 's/,"processes":.*//; s/.*"provider":"\([^"]*\)".*/\1/'; }
# spilled JOB: bytes that lie on the host
spilled() { "$spillway" stat "$1" --json | sed 's/,"processes":.*//; s/.*"spilled_bytes":\([0-9]*\).*/\1/'; }
probing() { LD_LIBRARY_PATH=$softgpu "$build/lib/driver-probe" "$softgpu/libcuda.so.1" "$@"; }

# --- the cache is there ---

limited cached --memory 10MiB
same "cached: provider" vmm_numa "$(provider cached)"
same "cached: an allocation may be on both tiers" $((14 * mib)) "$(spilled cached)"
[ ! -e "$SPILLWAY_STATE_DIR/driver-probe.lock" ] || fail "a probe was made although the cache was there"
# It counts for its driver alone. A driver that crashes on a node is not asked for memory there.
sed -i 's/NUMA node 0: 0/NUMA node 0: crash/' "$known"
limited crashed --memory 8MiB
same "crashed: provider, by what is known" vmm_host "$(provider crashed)"
has "it is said" "$(cat "$scratch/err")" "this driver crashes when memory is made on NUMA node 0"
# One that cannot copy what the CPU was not given makes the memory in another way.
export SOFTGPU_TRAITS=host-numa-crashes,cpu-copies
probe_driver
limited copies --memory 8MiB
case $(provider copies) in managed | pinned) ;; *) fail "crashes on copies: provider $(provider copies)" ;; esac
# So does one that has nothing of the kind.
unset SOFTGPU_TRAITS
SOFTGPU_NO_HOST_VMM=1
export SOFTGPU_NO_HOST_VMM
probe_driver
has "what is known" "$(cat "$known")" "host 801 copy 801 node 801 mixed 801 unmap 801"
limited refused --memory 1MiB
unset SOFTGPU_NO_HOST_VMM

# --- there is no cache: the program spills, and each allocation is on one tier ---

without() {
	rm -f "$known"
	SPILLWAY_JOB=$1 SPILLWAY_MEMORY=$2 LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$childless" 2>"$scratch/err" ||
		fail "$1: exit status $?: $(cat "$scratch/err")"
}
without whole 10MiB
same "whole: spilled" $((16 * mib)) "$(spilled whole)"
same "whole: provider of a driver before R595" vmm_host "$(provider whole)"
SOFTGPU_TRAITS=host-numa-crashes
export SOFTGPU_TRAITS
without survives 8MiB
unset SOFTGPU_TRAITS
[ ! -e "$known" ] || fail "a process wrote the cache"
[ -z "$(find "$SPILLWAY_STATE_DIR" -name '*.probe')" ] || fail "a process asked for a probe that nobody makes"
# A damaged cache is as none, and so is one that is another file, or that others may write to.
damaged() {
	SPILLWAY_JOB=damaged$1 SPILLWAY_MEMORY=10MiB under_shim "$childless" 2>"$scratch/err" || fail "damaged $1: $(cat "$scratch/err")"
	same "damaged $1: spilled" $((16 * mib)) "$(spilled "damaged$1")"
}
printf 'boot x\0\n\n%s' "$(head -c 5000 /dev/zero | tr '\0' a)" >"$known"
damaged 1
probe_driver
chmod 0666 "$known"
damaged 2
chmod 0600 "$known"
mv "$known" "$scratch/moved"
ln -s "$scratch/moved" "$known"
damaged 3
rm "$known"

# --- spillway run makes it, beside a program that uses CUDA, once ---

"$spillway" run --softgpu --quiet --name no-cuda sh -c 'sleep 0.5'
same "without CUDA there is none" "" "$(find "$SPILLWAY_STATE_DIR" -name 'driver-probe' -o -name '*.probe')"
# together NAME...: runs of the program at once, which have all spilled when this returns
together() {
	rm -f "$scratch/go"
	for i in "$@"; do
		rm -f "$scratch/done-$i"
		"$spillway" run --softgpu --quiet --name "$i" --memory 8MiB "$childless" "$scratch/done-$i" "$scratch/go" 2>"$scratch/err-$i" &
	done
	for i in "$@"; do until_true $patience [ -e "$scratch/done-$i" ] || fail "$i: $(cat "$scratch/err-$i")"; done
}
# Each process that opens the driver leaves a line.
mkdir "$scratch/counting"
cp "$build/spillway" "$scratch/counting/"
cp -R "$build/lib" "$build/softgpu" "$scratch/counting/"
rm "$scratch/counting/lib/driver-probe"
cat >"$scratch/counting/lib/driver-probe" <<-END
	#!/bin/sh
	echo "\$#" >>"$scratch/probes"
	exec "$build/lib/driver-probe" "\$@"
END
chmod +x "$scratch/counting/lib/driver-probe"
tool=$spillway spillway=$scratch/counting/spillway
together first second
until_true $patience [ -e "$known" ] || fail "run made no probe"
touch "$scratch/go"
wait
spillway=$tool
same "probes of two runs at once" 1 "$(grep -c 3 "$scratch/probes")"
has "what is known" "$(cat "$known")" "host 0 copy 0 node 0 mixed 0 unmap 0"
spillway=$scratch/counting/spillway
: >"$scratch/probes"
together again
sleep 0.5
touch "$scratch/go"
wait
spillway=$tool
same "the next run asks nothing" "" "$(cat "$scratch/probes")"
same "marks" "" "$(find "$SPILLWAY_STATE_DIR" -name '*.probe')"
# Another version of the driver is another question, and the answers stay beside each other.
SOFTGPU_DRIVER_VERSION=12080
export SOFTGPU_DRIVER_VERSION
SPILLWAY_DRIVER=$softgpu/libcuda.so.1 "$spillway" doctor >"$scratch/out" 2>&1 || true
has "doctor" "$(cat "$scratch/out")" "gpu 0: driver probe: none yet of this driver since this boot"
SOFTGPU_TRAITS=unmap-waits probe_driver
unset SOFTGPU_DRIVER_VERSION
same "lines" 4 "$(wc -l <"$known")"
has "of the older" "$(cat "$known")" "mixed 0 unmap 600"

# --- root's serves all users; nobody else's does ---

if [ "$(id -u)" -eq 0 ]; then
	rm "$known"
	node=$scratch/node
	SPILLWAY_NODE_DIR=$node
	export SPILLWAY_NODE_DIR
	SPILLWAY_DRIVER=$softgpu/libcuda.so.1 "$spillway" doctor --probe >"$scratch/out" || fail "doctor: $(cat "$scratch/out")"
	has "doctor" "$(cat "$scratch/out")" "driver probe: $node/driver-probe: made"
	same "root's cache" "644 root" "$(stat -c '%a %U' "$node/driver-probe")"
	without roots 10MiB
	same "root's: spilled" $((14 * mib)) "$(spilled roots)"
	chown 65534 "$node/driver-probe"
	without strangers 10MiB
	same "a stranger's: spilled" $((16 * mib)) "$(spilled strangers)"
	SPILLWAY_DRIVER=$softgpu/libcuda.so.1 "$spillway" doctor >"$scratch/out" 2>&1 || true
	has "doctor" "$(cat "$scratch/out")" "--  driver probe: $node/driver-probe is not read: another user owns it or may write to it"
	unset SPILLWAY_NODE_DIR
fi

# --- eight processes of one job that first spill together stay within its limit ---

# Contexts take 896 of 1,024 MiB, so that 64 of 192 MiB lie on the host.
rm -f "$known" "$scratch/go" "$scratch/start"
SOFTGPU_STATE_DIR=$scratch/eight
SOFTGPU_CONTEXT_MEMORY=112M
export SOFTGPU_STATE_DIR SOFTGPU_CONTEXT_MEMORY
mkdir "$SOFTGPU_STATE_DIR"
for i in 1 2 3 4 5 6 7 8; do
	SPILLWAY_JOB=eight SPILLWAY_MEMORY=1GiB under_shim "$childless" "$scratch/done-$i" "$scratch/go" \
		"$scratch/ready-$i" "$scratch/start" 2>"$scratch/err-$i" &
done
have_all() {
	for i in 1 2 3 4 5 6 7 8; do [ -e "$scratch/$1-$i" ] || return 1; done
}
until_true $patience have_all ready || fail "eight: $(cat "$scratch"/err-*)"
touch "$scratch/start"
most=0
have_spilled() {
	bytes=$(device_bytes)
	[ "$bytes" -le "$most" ] || most=$bytes
	have_all 'done'
}
until_true $patience have_spilled || fail "eight: $(cat "$scratch"/err-*)"
same "eight: held beyond the limit" 0 $((most > 1024 * mib ? most - 1024 * mib : 0))
same "eight: uncounted" 0 $(($(device_bytes) - $(counter eight device_used)))
[ "$(spilled eight)" -ge $((64 * mib)) ] || fail "eight: only $(spilled eight) bytes were spilled"
touch "$scratch/go"
wait
unset SOFTGPU_CONTEXT_MEMORY
SOFTGPU_STATE_DIR=$scratch/softgpu

# --- the probe itself ---

same "kinds" "version 13000 device 0 node 0 Spillway software GPU " "$(SOFTGPU_DEVICES=2 probing | tr '\n' ' ')"
# All nodes are tried that may be used: a further one is only asked when the first is full.
tried() { SOFTGPU_NUMA_NODES=$1 probing 0 "$2" | tr '\n' ' '; }
has "two nodes" "$(tried 4M,16M 1,0)" "numa 1 0 numa 0 0 host 0 copy 0"
has "one has no memory" "$(tried none,16M 1,0)" "numa 1 0 numa 0 1 host 0"
has "the first has no memory" "$(tried none,16M 0,1)" "numa 0 1 numa 1 0 host 0"
has "the second crashes" "$(tried 4M,16M:crashes 0,1)" "numa 0 0 numa 1 crash host 0"
has "the first crashes" "$(tried 4M:crashes,16M 0,1)" "numa 0 crash numa 1 0 host 0"

# The machine's other NUMA nodes serve before the program is out of memory, the nearest first; what
# has no processors or no memory, and what is not this process's, is not asked.
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
	here "SPILLWAY_NODE_DIR=/dev/null/none SPILLWAY_DRIVER='$softgpu/libcuda.so.1' '$spillway' doctor --probe
		'$spillway' run --softgpu --name nearest --memory 8MiB '$childless'" >"$scratch/out" 2>"$scratch/err" || fail "nearest: $(cat "$scratch/err")"
	same "nearest: provider" vmm_numa "$(provider nearest)"
	same "the node that has what it needs is tried" 1 "$(grep -c 'NUMA node' "$known")"
	has "the node that has what it needs is tried" "$(cat "$known")" "NUMA node 0: 0"
fi
