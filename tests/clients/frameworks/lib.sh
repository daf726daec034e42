# SPDX-License-Identifier: MIT
# Sourced by the tests here, after tests/e2e/lib.sh: where the frameworks are and how one is run.
# shellcheck shell=sh disable=SC2034,SC2154
here=tests/clients/frameworks
# shellcheck source=tests/clients/judge.sh
. tests/clients/judge.sh
frameworks=$(cd build/frameworks 2>/dev/null && pwd) || frameworks=
[ -n "$frameworks" ] && [ -e "$frameworks/made" ] ||
	skip "$(cat build/frameworks.why 2>/dev/null || echo 'no frameworks: make frameworks')"

# Python keeps its bytecode outside the packages: without it TensorFlow takes 4 s more to start.
export PYTHONPATH="$frameworks/packages" PYTHONPYCACHEPREFIX="$frameworks/bytecode"
unset PYTHONDONTWRITEBYTECODE # some machines set it, and JAX then takes twice as long
export OPTIONS=--softgpu
unset LD_LIBRARY_PATH # `run --softgpu` finds all

# Kernels that PyTorch and Triton compile are kept outside the clone: each is named by a checksum of
# all that it is made from.
compiled=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/spillway/compiled
export TRITON_CACHE_DIR="$compiled/triton" TORCHINDUCTOR_CACHE_DIR="$compiled/inductor"
# Triton by itself, without `run --softgpu`
export TRITON_LIBCUDA_PATH="$softgpu" TRITON_DEFAULT_FP_FUSION=1

# directly COMMAND...: without Spillway, with the variables that `run --softgpu` sets
directly() {
	set=$(mktemp "$scratch/set.XXXXXX")
	"$spillway" run --softgpu --quiet python3 -c 'import os, shlex
for name, value in os.environ.items():
    if name.startswith(("LD_LIB", "SOFTGPU_", "XLA_", "JAX_", "TF_", "TRITON_", "TORCHINDUCTOR_")):
        print(f"export {name}={shlex.quote(value)}")' >"$set"
	# shellcheck disable=SC2016 # for the inner shell
	LD_PRELOAD="$softgpu/libsoftgpu-node.so" sh -c '. "$0"; exec "$@"' "$set" "$@"
}

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
	"$spillway" run --softgpu --name "$name" --memory "$memory" "$@" 2>&1
}
