# SPDX-License-Identifier: MIT
# Sourced by the tests here, after tests/e2e/lib.sh: the Python environment and how a client is run.
# shellcheck shell=sh disable=SC2034,SC2154
here=tests/clients/python
# shellcheck source=tests/clients/judge.sh
. tests/clients/judge.sh
python_env=$(cd build/python 2>/dev/null && pwd) || python_env=
packages=$(echo "$python_env"/lib/python3*/site-packages)

[ -n "$python_env" ] && [ -e "$python_env/made" ] ||
	skip "$(cat build/python.why 2>/dev/null || echo 'no Python environment: make python-clients')"

# tinygrad asks one variable for the driver and the headers, as it would a toolkit's folder.
cuda=$scratch/cuda
mkdir -p "$cuda"
ln -sfn "$softgpu/libcuda.so.1" "$cuda/libcuda.so.1"
ln -sfn "$packages/nvidia/cu13/include" "$cuda/include"

export CUDA_PATH="$cuda" NVRTC_PATH="$packages/nvidia/cu13/lib" DEV=CUDA
export XDG_CACHE_HOME="$scratch/cache" PYTHONDONTWRITEBYTECODE=1
# NVRTC looks for its built-in functions by name alone.
export LD_LIBRARY_PATH="$softgpu:$packages/nvidia/cu13/lib"
unset CI # tinygrad reads it

# client PROGRAM ARGUMENTS...: without Spillway
client() {
	"$python_env/bin/python" "$@"
}

# limited_client NAME MEMORY SHARE PROGRAM ARGUMENTS...: as a job with limits; its summary line too
limited_client() {
	name=$1 memory=$2 share=$3
	shift 3
	"$spillway" run --name "$name" --memory "$memory" --share "$share" \
		"$python_env/bin/python" "$@" 2>&1
}

# at_least WHAT MINIMUM VALUE
at_least() {
	awk "BEGIN { exit !(${3:-0} >= $2) }" || fail "$1: expected at least $2, got '$3'"
}
