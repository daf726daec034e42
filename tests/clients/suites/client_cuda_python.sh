#!/bin/sh
# SPDX-License-Identifier: MIT
# The own tests of cuda-bindings and cuda-core, directly and under Spillway. Neither their wheels
# nor PyPI hold them: CUDA_PYTHON names a checkout of their repository (NVIDIA/cuda-python). For the
# pinned versions, cuda_bindings/tests are those of tag v13.0.3, and cuda_core/tests and the helpers
# those of 1.1.0 (July 2026).
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh
member "cuda-core's and cuda-bindings' own tests" "$(version cuda-core)" \
	"where CUDA_PYTHON names a checkout"
[ -d "${CUDA_PYTHON:-}/cuda_core/tests" ] ||
	skip "CUDA_PYTHON names no checkout of NVIDIA/cuda-python: PyPI does not hold these tests"
[ -e "$python_env/made-long" ] || skip "pytest was not fetched: make python-clients-long"
mkdir "$scratch/hidden"
: >"$scratch/hidden/libnvJitLink.so.13"
export LD_LIBRARY_PATH="$scratch/hidden:$LD_LIBRARY_PATH" PYTHON="$python_env/bin/python"
export PYTHONPATH="$CUDA_PYTHON/cuda_python_test_helpers"
status=0
for suite in ${SUITES:-cuda-bindings cuda-core}; do
	tests/clients/suites/compare "$suite" "$CUDA_PYTHON/$(echo "$suite" | tr - _)/tests" || status=1
done
[ $status = 0 ] || exit 1
judged "its output tells"
