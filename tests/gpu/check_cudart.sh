#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs of nvcc, with the CUDA runtime linked in and shared. 3 GiB of cudaMalloc under a limit of
# 2 GiB work, spill, and give the same results. They were made where this folder was built, if there
# was nvcc.
set -eu
. tests/gpu/needs.sh
need_gpu
[ -e "$BUILD/gpu/cudart_blocks_shared" ] || skip "no programs of nvcc here: there was none on the machine that built this"
blocks=$(by_gpu 48 3)
limit=$((blocks * 2 / 3 << 26))

for runtime in static shared; do
	program=$BUILD/gpu/cudart_blocks_$runtime
	# The runtime that is linked in wants a real driver's private tables.
	[ $runtime = shared ] || [ "$GPU" = real ] || continue
	# A driver that is older than this runtime, or than its PTX, takes them neither way.
	"$program" 1 >"$TMPDIR/said" 2>&1 || {
		echo "$runtime: not natively either: $(tail -n 1 "$TMPDIR/said")"
		continue
	}
	ran=yes
	framework nvcc "CUDA 13" failed
	alone=$("$program" "$blocks")
	echo "$runtime alone:   $alone"
	with_all "cudart-$runtime-all" "$(echo "$alone" | field checksum)" "$program" "$blocks"
	limited=$("$BUILD/spillway" run --name "cudart-$runtime" --memory ${limit}B "$program" "$blocks")
	echo "$runtime limited: $limited"
	same_within_limit "cudart-$runtime" $limit "$(echo "$alone" | field checksum)" \
		"$(echo "$limited" | field checksum)" "$for_good"
done
[ -n "${ran:-}" ] || skip "they do not run natively: $(tail -n 1 "$TMPDIR/said")"
framework nvcc "CUDA 13" ok
