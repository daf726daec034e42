#!/bin/sh
# SPDX-License-Identifier: MIT
# A training without a reachable limit uses all of its memory in each step, which is larger than the
# device. Memory moves once to where it costs kernels least, for the memory that has left, and then
# stays. Its data has the counted values. Nothing could be tried of the driver on the full device,
# so that allocations move as a whole.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
# shellcheck source=tests/e2e/elastic.sh
. tests/e2e/elastic.sh
# Kernels of 1 ms; a link so slow that they wait for it.
export SOFTGPU_KERNEL_TIME_US=1000 SOFTGPU_HOST_BANDWIDTH=900M SOFTGPU_THREADS=1 SOFTGPU_MEMORY=170M TRAINING_QUIET_S=8
[ -z "${SANITIZER:-}" ] || TRAINING_QUIET_S=30 # steps take longer, and so does a survey
limit_file "$scratch/full.ini" $((1024 * mib))
SPILLWAY_LOG=info "$spillway" run --softgpu --name full --config "$scratch/full.ini" --summary=json \
	"$build/bench/training" seen 300 10 >"$scratch/out" 2>"$scratch/log" || fail "$(tail -n 3 "$scratch/log")"
grep -q "first spill.*device full" "$scratch/log" || fail "the device is not full: $(cat "$scratch/log")"
grep -q "best placement \([2-9][.]\|1[.][1-9]\)[0-9]* times: it moves" "$scratch/log" ||
	fail "a quarter on the host costs nothing: $(grep "best placement" "$scratch/log")"
moved=$(sed -n 's/.*"promoted_bytes":\([0-9]*\).*/\1/p' "$scratch/log")
[ "${moved:-0}" -gt 0 ] || fail "nothing has come back for what has left: $(cat "$scratch/log")"
# On a busy machine kernels may take longer than before for its sake: then all goes back, once.
same decisions 1 "$(grep -c "with the best placement" "$scratch/log")"
if back=$(grep -c "it goes back" "$scratch/log"); then
	same "times that memory went back" 1 "$back"
	[ "$moved" -le $((96 * mib)) ] || fail "it goes to and fro: $(cat "$scratch/log")"
else
	same "of a million closed, once it has settled" 0 "$(sed -n 's/^closed_[0-9]*% //p' "$scratch/out")"
fi
