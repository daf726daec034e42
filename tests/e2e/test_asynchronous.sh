#!/bin/sh
# SPDX-License-Identifier: MIT
# Asynchronous copies of spilled memory stay asynchronous, although the driver takes such memory for
# the host's and would wait. A stream that waits for the host's next step does not hold the host up.
# A copy that was captured while its memory was on the host is the CPU's for good with some drivers:
# its memory stays there.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
asynchronous=$build/tests/e2e/asynchronous
limited() {
	name=$1
	shift
	timeout $patience "$spillway" run --softgpu --quiet --name "$name" "$@" 2>"$scratch/err" ||
		fail "$name: exit status $?: $(cat "$scratch/err")"
}

on_softgpu "$asynchronous" || fail "the driver alone"
limited device --memory 64MiB "$asynchronous"
same "on the device: spills" 0 "$(counter device spills)"
limited host --memory 1MiB "$asynchronous"
[ "$(counter host spills)" -gt 0 ] || fail "nothing was spilled"
limited mixed --memory 8MiB "$asynchronous"
[ "$(counter mixed spills)" -gt 0 ] || fail "nothing was spilled"

# No copy needs memory of the device: not where the limit is filled by what cannot move, nor where
# there is none at all, nor where there would be room.
for limit in 8 0 20; do
	limited held$limit --memory ${limit}MiB "$asynchronous" held $((limit < 8 ? limit : 8)) "$scratch/held$limit" "$scratch/go$limit" &
	client=$!
	until_true $patience test -e "$scratch/held$limit" || fail "limit $limit: a copy waits for its stream"
	bytes=$(device_bytes) moved=$(counter held$limit spills)
	: >"$scratch/go$limit"
	wait $client || exit 1
	[ "$bytes" -le $((limit << 20)) ] || fail "limit $limit: $bytes bytes on the device"
	[ $limit -eq 20 ] || [ "${moved:-0}" -gt 0 ] || fail "limit $limit: nothing was spilled"
done

# A training on a busy machine: an epoch of 45 steps, whose kernels take 300 us each, is queued
# before the copies at its end.
SOFTGPU_KERNEL_TIME_US=300 limited busy --memory 24MiB "$build/clients/train_mlp" --epochs 3 --scale 2 --quiet >/dev/null
[ "$(counter busy spills)" -gt 0 ] || fail "busy: nothing was spilled"
[ "$(counter busy device_peak)" -le $((24 << 20)) ] || fail "busy: at most $(counter busy device_peak) bytes on the GPU"

# Copies by the CPU need memory that the CPU can reach, which spilled memory is not: so no
# asynchronous one may be.
export SOFTGPU_TRAITS=cpu-copies
probe_driver
limited cpu --memory 1MiB "$asynchronous"
export SOFTGPU_TRAITS=host-nodes
probe_driver

ini=$scratch/graph.ini
printf '[gpu]\nmemory = 1MiB\n' >"$ini"
limited graph --config "$ini" "$asynchronous" graph "$ini"
