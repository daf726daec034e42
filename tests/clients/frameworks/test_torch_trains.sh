#!/bin/sh
# SPDX-License-Identifier: MIT
# PyTorch from PyPI, unmodified, trains a network by torch.compile and judges. Its eager kernels are
# machine code, so a step is one compiled graph: forward, backward and AdamW. The first run ever
# compiles for two minutes; its kernels are kept.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/torch" ] || skip "no PyTorch: make frameworks"
triton_can_compile
member "PyTorch, compiled" "$(version torch)" "trains an MLP with AdamW by torch.compile"
program="python3 $here/torch_trains.py"
# The first run's peak has memory that compiling takes.
# shellcheck disable=SC2086 # its words
told compiled directly $program
judge
same "the run that compiled" "$(cat "$scratch/compiled")" "$(cat "$scratch/direct")"

# Products by cuBLAS, where the user asks Inductor for them
export TORCHINDUCTOR_NATIVE_MATMUL=0
# shellcheck disable=SC2086 # its words
SOFTGPU_TRACE=$scratch/launches told direct directly $program
grep -q product_f32_f32 "$scratch/launches" || fail "PyTorch has asked cuBLAS for no product"
within products $((peak_kib / 2))
weigh products
