#!/bin/sh
# SPDX-License-Identifier: MIT
# TensorFlow from PyPI, unmodified, trains operation by operation, and with Keras, compiled by XLA.
# It judges; two direct runs are compared first.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/tensorflow" ] || skip "no TensorFlow: make frameworks"
# Products of compiled code are cuBLAS's, too.
export XLA_FLAGS=--xla_gpu_gemm_rewrite_size_threshold=100 TF_CPP_MIN_LOG_LEVEL=0
member "TensorFlow, Keras" "$(version tensorflow), $(version keras)" "trains eagerly, and compiled by XLA"
program="python3 $here/tensorflow_trains.py eager compiled"

# weighed NAME: it was told the same total as the direct run.
total_of() {
	grep -o 'with [0-9]* MB memory' "$scratch/$1.err" | head -n 1
}
weighed() {
	same "$1: its total" "$(total_of direct)" "$(total_of "$1")"
}

# Twice, each on a machine of its own.
# shellcheck disable=SC2086 # its words
(SOFTGPU_STATE_DIR=$scratch/other && told again directly $program) &
# shellcheck disable=SC2086 # its words
told direct directly $program
wait $! || fail "the second direct run: $(cat "$scratch/again.err")"
if ! cmp -s "$scratch/direct" "$scratch/again"; then
	tolerance=0.0001
	echo "TensorFlow's own two direct runs differ: losses within $tolerance are compared, no weights"
fi
judge

# One refusal, by a count: TensorFlow asks again, as core/budget/README.md has it.
export SPILLWAY_SPILL_AFTER=1
program="python3 $here/tensorflow_trains.py eager"
within once $((peak_kib / 2)) --quiet
same "once: refusals" 1 "$(counter once refusals)"
[ -n "$tolerance" ] || same "once" "$(head -n 2 "$scratch/direct")" "$(cat "$scratch/once")"
