# Sourced by the tests here, after tests/e2e/lib.sh: where the frameworks are and how one is run.
# shellcheck shell=sh disable=SC2034,SC2154
here=tests/clients/frameworks
frameworks=$(cd build/frameworks 2>/dev/null && pwd) || frameworks=

skip() { # skip REASON: ends the test as skipped
	echo "$1"
	exit 77
}

case ${SANITIZER:-} in
address | thread) skip "this sanitizer has to be in the program: Python is built without it" ;;
esac
[ -n "$frameworks" ] && [ -e "$frameworks/made" ] ||
	skip "$(cat build/frameworks.why 2>/dev/null || echo 'no frameworks: make frameworks')"

# Python keeps its bytecode outside the packages: without it TensorFlow takes 4 s more to start.
export PYTHONPATH="$frameworks/packages" PYTHONPYCACHEPREFIX="$frameworks/bytecode"
export LD_LIBRARY_PATH="$softgpu:$frameworks/stand_ins"

# Triton, by itself and in PyTorch: `ptxas` hands its PTX on. Compiled kernels are kept beside the
# packages.
export TRITON_PTXAS_PATH="$softgpu/cuda/bin/ptxas" TRITON_LIBCUDA_PATH="$softgpu"
export TRITON_PTXAS_BLACKWELL_PATH="$TRITON_PTXAS_PATH" TRITON_DEFAULT_FP_FUSION=1
export TRITON_CACHE_DIR="$frameworks/compiled/triton"

# triton_can_compile: skips the test unless Triton can make its launchers, which are C
triton_can_compile() {
	command -v "${CC:-cc}" >/dev/null || skip "no C compiler, with which Triton makes its launchers"
	header=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
	[ -e "$header" ] || skip "no Python.h, with which Triton makes its launchers"
}

# limited NAME MEMORY COMMAND...: as a job with a limit; its summary line too
limited() {
	name=$1 memory=$2
	shift 2
	"$spillway" run --name "$name" --memory "$memory" "$@" 2>&1
}
