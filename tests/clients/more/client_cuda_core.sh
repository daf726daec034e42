#!/bin/sh
# SPDX-License-Identifier: MIT
# cuda-core from PyPI, unmodified, compiles C++ by NVRTC, takes memory from a pool, and judges.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
member "cuda-core" "$(version cuda-core)" "compiles by NVRTC, adds up vectors from a pool, replays a graph"
program="$python $here/core_adds.py"
judge
