#!/bin/sh
# SPDX-License-Identifier: MIT
# numba-cuda's own tests, which its wheel holds, directly and under Spillway. nvJitLink, which would
# make machine code, is hidden as in ../python/test_numba.sh.
set -eu
. tests/e2e/lib.sh
. tests/clients/more/lib.sh
[ -e "$python_env/made-long" ] || skip "pytest was not fetched: make python-clients-long"
mkdir "$scratch/hidden"
: >"$scratch/hidden/libnvJitLink.so.13"
export LD_LIBRARY_PATH="$scratch/hidden:$LD_LIBRARY_PATH" PYTHON="$python_env/bin/python"
# numba-cuda and pytest have their bytecode beside them, and the suite's folder is new each time.
export PYTHONDONTWRITEBYTECODE=1
unset PYTHONPYCACHEPREFIX
export SOFTGPU_MEMORY=4G # doc_examples/test_random.py takes 1.8
# A copy: in its place pytest would put first the folder of numba-cuda's `cuda`, which
# hides NVIDIA's. The wheel lacks core/__init__.py, which tests there need to import what is beside
# them.
mkdir "$scratch/suite"
cp -r "$packages/numba_cuda/numba/cuda/tests" "$scratch/suite/"
touch "$scratch/suite/tests/core/__init__.py"
export PYTHONPATH="$scratch/suite:$PYTHONPATH" # for tests that start a process by a test's name
member "numba-cuda's own tests" "$(version numba-cuda)" "directly and as a job"
tests/clients/suites/compare numba-cuda "$scratch/suite/tests"
judged "its output tells"
