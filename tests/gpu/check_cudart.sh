#!/bin/sh
# Programs of nvcc, with the CUDA runtime linked in and shared: 3 GiB of cudaMalloc under a limit of
# 2 GiB work, spill, and give the same results.
set -eu
. tests/gpu/needs.sh
need_gpu
command -v "$NVCC" >/dev/null || skip "no nvcc: put a CUDA toolkit's on PATH, or set NVCC"
limit=$((2 << 30))

for runtime in static shared; do
	program=$TMPDIR/cudart_blocks_$runtime
	libraries=$(dirname "$(dirname "$(readlink -f "$(command -v "$NVCC")")")")/lib64
	"$NVCC" -O2 -arch=native -cudart $runtime -Xlinker -rpath="$libraries" -o "$program" \
		tests/gpu/cudart_blocks.cu
	alone=$("$program" 48)
	limited=$("$BUILD/spillway" run --name "cudart-$runtime" --memory $limit "$program" 48)
	echo "$runtime alone:   $alone"
	echo "$runtime limited: $limited"
	same_within_limit "cudart-$runtime" $limit "$(echo "$alone" | field checksum)" \
		"$(echo "$limited" | field checksum)"
done
