#!/bin/sh
# SPDX-License-Identifier: MIT
# A part of tinygrad's own tests runs on the software GPU, with each of its renderers, and a smaller
# part under the shim with a limit. The tensor operations are compared one by one with numpy.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh
[ -e "$python_env/made-long" ] || skip "tinygrad's own tests were not fetched: make check-all does"

# Without those that need PyTorch, and those about the compiler alone.
everything="tiny arange assign const_folding custom_kernel dtype_alu fusion_op gc graph jit jit_cases
	jit_footguns linearizer memory_planner opt_gemm outerworld pickle rangeify
	renderer_failures schedule setitem softmax_fusion subbuffer symbolic_jit tensor_variable
	to_numpy transcendental uops uops_stats"
memory="tiny assign graph jit setitem subbuffer symbolic_jit"
# With graphs off: tinygrad launches a graph over several devices on one device's stream, and makes
# the others' later work wait for nothing. CUDA orders a graph in the stream it is launched into
# alone, so that is a race, which Python's slowness hides where the GPU is fast.
devices=multitensor

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
for ptx in 0 1; do
	export CUDA_PTX=$ptx
	[ $ptx = 0 ] && renderer=cuda || renderer=ptx
	export JIT=1
	chosen=$(tests_of $renderer $everything)
	run_tests "renderer $renderer" "$python_env/bin/python"
	export JIT=2
	chosen=$(tests_of $renderer $devices)
	run_tests "renderer $renderer, several devices" "$python_env/bin/python"

	client $here/tensor_ops.py >"$scratch/ops" 2>&1 || failed="$failed; tensor operations, $renderer"
	cat "$scratch/ops"
	counts=$(sed -n 's/^tensor_ops: //p' "$scratch/ops")
	echo "tensor operations against numpy, renderer $renderer: $counts" >>"$report"
done

under_limit() { # under_limit NAME TEST...
	name=$1
	shift
	chosen=$(tests_of cuda "$@")
	run_tests "renderer cuda, $name, under the shim" "$spillway" run --name "$name" \
		--memory 1MiB --share 90 "$python_env/bin/python"
}
export CUDA_PTX=0 JIT=1
# shellcheck disable=SC2086
under_limit memory $memory
export JIT=2
under_limit devices $devices
[ -z "$failed" ] || fail "${failed#; }"
