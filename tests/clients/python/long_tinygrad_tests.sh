#!/bin/sh
# A part of tinygrad's own tests on the software GPU, with each of its renderers, and a smaller part
# under the shim with a limit; and the tensor operations one by one against numpy.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh
[ -e "$python_env/made-long" ] || skip "tinygrad's own tests were not fetched: make check-clients does"

# Without those that need PyTorch, and those about the compiler alone.
everything="tiny arange assign const_folding custom_kernel dtype_alu fusion_op gc graph jit jit_cases
	jit_footguns linearizer memory_planner multitensor opt_gemm outerworld pickle rangeify
	renderer_failures schedule setitem softmax_fusion subbuffer symbolic_jit tensor_variable
	to_numpy transcendental uops uops_stats"
memory="tiny assign graph jit multitensor setitem subbuffer symbolic_jit"

tests=$(cd "$python_env/tinygrad-tests" && pwd)
left_out=$(pwd)/$here/tinygrad_left_out.txt
report=$(cd "$BUILD" && pwd)/clients/report
export SOFTGPU_DEVICES=8

# tests_of RENDERER NAME...: the arguments of pytest
tests_of() {
	sed -n "s,^\(test_.*\),--deselect test/\1,p; s,^$1 \(.*\),--deselect test/\1,p" "$left_out"
	shift
	printf 'test/test_%s.py\n' "$@"
}

# run_tests WHAT COMMAND...: pytest, whose last line goes into the report
run_tests() {
	what=$1
	shift
	echo "tinygrad's own tests, $what"
	# shellcheck disable=SC2086 # the words of $chosen
	(cd "$tests" && "$@" -m pytest -q -rfE --tb=native --hypothesis-seed=1 -p no:cacheprovider \
		$chosen) >"$scratch/pytest" 2>&1 || failed="$failed; $what"
	tail -n 60 "$scratch/pytest"
	counts=$(grep -aE '[0-9]+ (passed|failed)' "$scratch/pytest" | tail -n 1)
	echo "tinygrad's own tests, $what: $counts" >>"$report"
}

failed=
# shellcheck disable=SC2086 # lists of names
chosen=$(tests_of cuda $everything)
CUDA_PTX=0 run_tests "kernels of NVRTC" "$python_env/bin/python"
# shellcheck disable=SC2086
chosen=$(tests_of ptx $everything)
CUDA_PTX=1 run_tests "kernels of its PTX renderer" "$python_env/bin/python"
# shellcheck disable=SC2086
chosen=$(tests_of cuda $memory)
CUDA_PTX=0 run_tests "under the shim" "$spillway" run --name unit --memory 1MiB --share 90 \
	"$python_env/bin/python"

for ptx in 0 1; do
	CUDA_PTX=$ptx client $here/tensor_ops.py >"$scratch/ops" 2>&1 ||
		failed="$failed; tensor operations, CUDA_PTX=$ptx"
	cat "$scratch/ops"
	counts=$(sed -n 's/^tensor_ops: //p' "$scratch/ops")
	echo "tensor operations against numpy, CUDA_PTX=$ptx: $counts" >>"$report"
done
[ -z "$failed" ] || fail "${failed#; }"
