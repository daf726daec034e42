#!/bin/sh
# SPDX-License-Identifier: MIT
# CUPTI, libcudart and nvidia-smi reach past the public functions by private tables of the driver
# and of NVML. Under a limit these tables are the libraries' own: every pointer leads where it leads
# without Spillway.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

tables=$build/tests/e2e/export_tables
# compare WHAT FOLDER LIBRARY FUNCTION
compare() {
	what=$1 folder=$2
	shift 2
	LD_LIBRARY_PATH=$folder "$tables" "$@" >"$scratch/alone"
	LD_LIBRARY_PATH=$folder SPILLWAY_MEMORY=16MiB LD_PRELOAD=$shim "$tables" "$@" >"$scratch/limited"
	diff "$scratch/alone" "$scratch/limited" || fail "$what: tables differ (< its own, > under a limit)"
	pointers=$(grep -c '+0x' "$scratch/alone") || :
	[ "$pointers" -ge 4 ] || fail "$what: only $pointers pointers: $(cat "$scratch/alone")"
}
compare "driver" "$build/tests/e2e/later" libcuda.so.1 cuGetExportTable
compare "NVML" "$build/tests/e2e/nvml-fake" libnvidia-ml.so.1 nvmlInternalGetExportTable
