#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory beyond the limit is on the host. The program gets it, its bytes are right, and it looks
# like device memory. The device's own count stays within the limit.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
allocate=$build/tests/e2e/allocate
mib=1048576

# Counted like everything else: limits are so much larger than what is to fit.
export SOFTGPU_CONTEXT_MEMORY=1M

is_used() {
	held=$(device_bytes)
	[ "$held" -ge $((17 * mib)) ]
}
for api in alloc pitch async create; do
	rm -f "$scratch/ready" "$scratch/enough"
	"$spillway" run --softgpu --quiet --name "limit-$api" --memory 25MiB "$allocate" --api $api --mib 8 \
		--count 6 --until "$scratch/enough" --ready "$scratch/ready" --rounds 2 >"$scratch/out" 2>&1 &
	until_true $patience test -e "$scratch/ready" || { cat "$scratch/out"; fail "$api: not ready"; }
	until_true $patience is_used || fail "$api: only $held bytes on the device: the limit is not used"
	[ "$held" -le $((25 * mib)) ] || fail "$api: $held bytes on the device, limit 25 MiB"
	: >"$scratch/enough"
	wait $! || { cat "$scratch/out"; fail "$api: exit status $?"; }
	out=$(cat "$scratch/out")
	has "$api: all blocks" "$out" "round 0: blocks=6 refused=0 free=0 total=$((25 * mib))"
	has "$api: bytes" "$out" "ok bad=0"
	has "$api: errno is the program's" "$out" "errno=kept"
	[ $api = create ] || has "$api: attributes" "$out" "type=2,2 host=0 managed=0 base_is_start=1"
	json=$("$spillway" stat "limit-$api" --json)
	case $json in *'"spilled_bytes":0'*) fail "$api: nothing spilled: $json" ;; esac
	case $json in *'"device_used":0'*) ;; *) fail "$api: not all given back: $json" ;; esac
	case $json in *'"host_used":0'*) ;; *) fail "$api: host memory not all given back: $json" ;; esac
done

# Each provider by name, and each where the better ones are missing.
for spill in vmm managed pinned; do
	printf '[gpu]\nmemory = 8MiB\nspill = %s\n' $spill >"$scratch/$spill.ini"
	out=$("$spillway" run --softgpu --quiet --config "$scratch/$spill.ini" "$allocate" --count 4)
	has "spill = $spill" "$out" "blocks=4 refused=0"
	has "spill = $spill" "$out" "ok bad=0"
done
out=$(SOFTGPU_NO_HOST_NUMA=1 SOFTGPU_NO_HOST_VMM=1 "$spillway" run --softgpu --quiet --memory 8MiB "$allocate")
has "no host VMM" "$out" "blocks=8 refused=0"
out=$(SOFTGPU_NO_VMM=1 "$spillway" run --softgpu --quiet --memory 8MiB "$allocate")
has "no VMM" "$out" "blocks=8 refused=0"

# host_memory and spill = off end in out of memory, and the program can go on.
out=$("$spillway" run --softgpu --quiet --memory 17MiB --host-memory 16MiB "$allocate" --count 8)
has "host limit" "$out" "blocks=4 refused=4"
printf '[gpu]\nmemory = 17MiB\nspill = off\n' >"$scratch/off.ini"
out=$("$spillway" run --softgpu --quiet --config "$scratch/off.ini" "$allocate" --count 8 --rounds 2)
has "spill = off" "$out" "round 1: blocks=2 refused=6"

segments() { find "$SPILLWAY_STATE_DIR" -name '*.segment' | wc -l; }
before=$(segments)
# Nobody named this process: it behaves as without us, except that it spills instead of dying.
out=$(SOFTGPU_MEMORY=64M under_shim "$allocate" --count 10)
has "unnamed" "$out" "blocks=10 refused=0"
has "unnamed" "$out" "total=$((64 * mib))"
out=$(SOFTGPU_MEMORY=64M on_softgpu "$allocate" --count 10)
has "without the shim" "$out" "refused=3"
same "segments after a job nobody named" "$before" "$(segments)"

# A forked child neither deadlocks nor touches its parent's books.
out=$("$spillway" run --softgpu --quiet --name forks --memory 8MiB "$allocate" --fork)
has "fork" "$out" "child=7"
has "fork" "$out" "ok bad=0"
