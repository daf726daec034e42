#!/bin/sh
# SPDX-License-Identifier: MIT
# Triton from PyPI, unmodified, multiplies matrices in fp16, bf16 and tf32 with loads ahead of its
# loop. A kernel of Gluon's waits at mbarriers. The results agree with numpy's, and judge.
set -eu
. tests/e2e/lib.sh
. tests/clients/frameworks/lib.sh
[ -e "$frameworks/packages/triton" ] || skip "no Triton: make frameworks"
triton_can_compile
member "Triton" "$(version triton)" "multiplies matrices in fp16, bf16 and tf32"
program="python3 $here/triton_multiplies.py" few_launches=yes
peak_kib=$((52 << 10)) # thirteen arrays of 4 MiB
judge
