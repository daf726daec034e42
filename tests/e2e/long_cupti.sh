#!/bin/sh
# SPDX-License-Identifier: MIT
# NVIDIA's CUPTI under a limit, loaded by the program, preloaded before Spillway and after it: each
# answer is the one without Spillway, and private tables stay the driver's. With the software GPU,
# which has none of the tables that CUPTI wants, and with NVIDIA's driver 555, which finds no GPU.
# So no profile is made.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
tests/clients/frameworks/setup_beside build/cupti cupti
if [ -e build/cupti.why ]; then
	cat build/cupti.why
	exit 77
fi
tools/dev/fetch-deb experimental non-free amd64 "$build/debs/nvidia-555" libcuda1 >"$scratch/fetch" 2>&1 || :
nvidia=$(find "$build/debs/nvidia-555" -name libcuda.so.1 2>/dev/null | head -n 1)
[ -n "$nvidia" ] || echo "without NVIDIA's driver: $(tail -n 1 "$scratch/fetch")"
colons=$(echo "$shim" | tr ' ' :)
ran=0
# compare WHAT FOLDER PRELOAD PROGRAM...
compare() {
	what=$1 folder=$2 list=$3
	shift 3
	LD_LIBRARY_PATH=$folder "$@" >"$scratch/alone" 2>&1 || fail "$what, alone: $(cat "$scratch/alone")"
	LD_LIBRARY_PATH=$folder LD_PRELOAD=$list SPILLWAY_MEMORY=16MiB "$@" >"$scratch/limited" 2>&1 || fail "$what: $(cat "$scratch/limited")"
	diff "$scratch/alone" "$scratch/limited" || fail "$what: answers differ (< alone, > under a limit)"
	ran=$((ran + 1))
}
for cupti in "$PWD"/build/cupti/nvidia/*/lib/libcupti.so.1*; do
	for folder in "$softgpu" ${nvidia:+"${nvidia%/*}"}; do
		for list in "$colons" "$cupti:$colons" "$colons:$cupti"; do
			compare "$cupti, $folder, $list" "$folder" "$list" python3 tests/e2e/cupti.py "$cupti"
			case $folder in "$softgpu") same "allocations" 4 "$(grep -c '^allocated 0 0 0 True$' "$scratch/limited")" ;; esac
		done
		compare "tables, $cupti, $folder" "$folder" "$cupti:$colons" "$build/tests/e2e/export_tables" libcuda.so.1 cuGetExportTable
	done
done
echo "$ran comparisons"
