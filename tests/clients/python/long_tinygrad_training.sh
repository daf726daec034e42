#!/bin/sh
# SPDX-License-Identifier: MIT
# tinygrad trains with each of its renderers, with its graph executor on and off, on one device and
# on two.
set -eu
. tests/e2e/lib.sh
. tests/clients/python/lib.sh
. tests/clients/python/tinygrad.sh

for jit in 1 2; do # 1: graphs of kernels; 2: kernels one by one
	for ptx in 0 1; do # the code comes from NVRTC, or is tinygrad's own PTX
		for devices in 1 2; do
			export JIT=$jit CUDA_PTX=$ptx SOFTGPU_DEVICES=$devices
			export SOFTGPU_STATE_DIR="$scratch/machine-of-$devices"
			mkdir -p "$SOFTGPU_STATE_DIR"
			# Graphs over several devices race by themselves: see
			# long_tinygrad_tests.sh.
			differs=fail
			[ "$jit$devices" != 12 ] || differs=off
			undisturbed train "jit$jit-ptx$ptx-gpus$devices" --devices $devices
			same "device bytes held when it is over" 0 "$(device_bytes)"
		done
	done
done
