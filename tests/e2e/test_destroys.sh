#!/bin/sh
# SPDX-License-Identifier: MIT
# Eight threads destroy, reset and release contexts while the mover moves their memory, and while
# its calls fail. No thread hangs or crashes, bytes are right, and no memory stays taken.
# DESTROYS_MS, DESTROYS_SEED.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
seed=${DESTROYS_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
ms=${DESTROYS_MS:-1500}
export SOFTGPU_MEMORY=256M SOFTGPU_HOST_BANDWIDTH=1G

# destroys NAME [OPTION...]: all is given back
destroys() {
	name=$1
	shift
	limit_file "$scratch/$name.ini" 256MiB
	SPILLWAY_CONFIG=$scratch/$name.ini SPILLWAY_JOB=$name under_shim timeout $patience "$build/tests/e2e/destroys" \
		--ini "$scratch/$name.ini" --seed "$seed" --ms "$ms" "$@" >"$scratch/$name" 2>"$scratch/$name.errors" ||
		fail "$name, seed $seed: status $?: $(tail -n 5 "$scratch/$name.errors")"
	has "$name, seed $seed" "$(cat "$scratch/$name")" "bad=0"
	same "$name, seed $seed: bytes that stay" "0 0" "$(counter "$name" device_used) $(counter "$name" host_used)"
}
destroys right
[ "$(counter right host_peak)" -gt 0 ] || fail "nothing moved: $(cat "$scratch/right")"
# A call of each kind fails, early in the first threads and now and then later.
faults=
for call in cuMemMap cuMemCreate cuMemSetAccess cuMemcpyAsync cuStreamCreate cuStreamQuery cuCtxPushCurrent_v2 cuCtxSynchronize; do
	for use in 3 11 29 71; do faults="$faults${faults:+,}$call:$use=999"; done
done
SOFTGPU_FAIL=$faults destroys faulty --faulty
echo "seed $seed: $(cat "$scratch/right"), $(counter right demotions) demotions"
