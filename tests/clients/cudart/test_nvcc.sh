#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs of nvcc -cudart shared, alone, under the shim, and with more memory than their limit.
# They are the same binaries that run on NVIDIA's own library.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
export SOFTGPU_CONTEXT_MEMORY=1M

skip() {
	echo "$*"
	exit 77
}
[ -z "$SANITIZER" ] || skip "nvcc's programs cannot load libraries that are built with sanitizers"

nvcc=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
command -v "$nvcc" >/dev/null || skip "no nvcc: put a CUDA toolkit's on PATH, or set NVCC"
case $("$nvcc" --version) in
*"release 13."*) ;;
*) skip "$nvcc is not of CUDA 13, whose libcudart.so.13 this is about" ;;
esac

programs=$build/clients/cudart
compile() { # compile NAME FLAG...: PTX alone is quickest, and all that the software GPU takes
	name=$1
	shift
	source=tests/clients/cudart/$name.cu
	if [ -n "$(find "$programs/$name" -newer "$source" -newer "$0" 2>/dev/null)" ]; then
		return
	fi
	"$nvcc" -O1 -arch=compute_75 -cudart shared "$@" -o "$programs/$name" "$source" \
		>"$scratch/nvcc.log" 2>&1 || {
		cat "$scratch/nvcc.log"
		fail "$name does not compile"
	}
}

# One for each way nvcc packs code.
compile vector_add
compile reduce --compress-mode=speed
compile symbols --compress-mode=none
compile managed --compress-mode=size
compile own_streams -default-stream per-thread
compile graph
compile prints
compile blocks -gencode arch=compute_80,code=compute_80

for name in vector_add reduce symbols managed own_streams graph; do
	same "$name" "$name: ok" "$(on_softgpu "$programs/$name")"
	same "$name under the shim" "$name: ok" "$(under_shim "$programs/$name")"
	same "$name within a limit" "$name: ok" \
		"$("$spillway" run --softgpu --quiet --memory 64MiB "$programs/$name")"
done

printed='block 1 thread 1: hello -7 1.500 x%'
for how in on_softgpu under_shim; do
	out=$($how "$programs/prints" 2>"$scratch/errors") || { cat "$scratch/errors"; fail "prints: $?"; }
	has "$how prints" "$out" "$printed"
	has "$how prints" "$out" "prints: ok"
	has "$how assert" "$(cat "$scratch/errors")" "values[threadIdx.x] <= most"
done

alone=$(on_softgpu "$programs/blocks" 24)
has "blocks" "$alone" "blocks: ok mib=24 checksum="
# shellcheck disable=SC2016 # expanded by the inner shell
"$spillway" run --softgpu --quiet --name cudart-nvcc --memory 8MiB sh -c \
	'"$0" 24 >"$1" & "$0" 24 >"$2" && wait $!' "$programs/blocks" "$scratch/first" "$scratch/second"
same "the first of two" "$alone" "$(cat "$scratch/first")"
same "the second of two" "$alone" "$(cat "$scratch/second")"
case $("$spillway" stat cudart-nvcc --json) in
*'"spilled_bytes":0'*) fail "nothing spilled" ;;
esac
