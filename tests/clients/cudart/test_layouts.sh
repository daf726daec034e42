#!/bin/sh
# SPDX-License-Identifier: MIT
# Each libcudart has its own version's functions, symbol version and structures. These have the size
# and the offsets of that version's headers (tests/softgpu/cudart/layouts.def).
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh

# Every value is one that no other field has.
attributes=MULTIPROCESSOR_COUNT=37,CLOCK_RATE=1410001,MEMORY_CLOCK_RATE=1215002,COMPUTE_MODE=3
attributes=$attributes,ASYNC_ENGINE_COUNT=5,GLOBAL_MEMORY_BUS_WIDTH=5120,L2_CACHE_SIZE=41943040
attributes=$attributes,SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO=9,PCI_BUS_ID=65
export SOFTGPU_ATTRIBUTES=$attributes

for major in 12 13; do
	on_softgpu "$build/clients/cudart/layouts" $major || fail "libcudart.so.$major"
	sed -n "s/^X\($major\)*(\(.*\))$/\2/p" tests/softgpu/cudart/exports.def | sort >"$scratch/wanted"
	nm -D --defined-only "$softgpu/libcudart.so.$major" |
		sed -n "s/.* [TW] \(.*\)@@libcudart.so.$major$/\1/p" | sort >"$scratch/exported"
	diff "$scratch/wanted" "$scratch/exported" || fail "libcudart.so.$major exports other names"
done
