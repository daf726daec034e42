#!/bin/sh
# SPDX-License-Identifier: MIT
# numba-cuda from PyPI, unmodified, compiles Python to PTX by NVVM, has the driver link it, and
# judges. NVIDIA's nvJitLink would make machine code of it. An empty file of its name is found
# first.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh

mkdir "$scratch/hidden"
: >"$scratch/hidden/libnvJitLink.so.13"
export LD_LIBRARY_PATH="$scratch/hidden:$LD_LIBRARY_PATH"
member "numba-cuda" "$(version numba-cuda)" "smooths fields, adds up with shared memory and atomics"
program="$python_env/bin/python $here/numba_smooths.py"
judge
same "device bytes held when it is over" 0 "$(device_bytes)"
