#!/bin/sh
# SPDX-License-Identifier: MIT
# Every way a program opens the driver leads to the shim; functions without a hook are the driver's
# own.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
entry=$build/tests/e2e/entry

for name in libcuda.so.1 libcuda.so noload:libcuda.so.1 next "$softgpu/libcuda.so.1" \
	"$softgpu/libcuda.so" "$softgpu/../softgpu/libcuda.so.1"; do
	same "dlopen($name)" "$name: shim" "$(under_shim "$entry" "$name")"
done
# A sanitizer refuses RTLD_DEEPBIND by itself.
[ -n "${SANITIZER:-}" ] ||
	same "RTLD_DEEPBIND" "deepbind:libcuda.so.1: shim" "$(under_shim "$entry" deepbind:libcuda.so.1)"
same "a path that is not there" "/nonexistent/libcuda.so.1: none" \
	"$(under_shim "$entry" /nonexistent/libcuda.so.1)"
same "another library" "libm.so.6: none" "$(under_shim "$entry" libm.so.6)"
same "without the shim" "libcuda.so.1: driver" "$(on_softgpu "$entry" libcuda.so.1)"

# The file the program named is the driver it gets, whatever the search would have found first.
out=$(LD_PRELOAD=$shim LD_LIBRARY_PATH=$softgpu "$entry" --symbol-in "$build/bench/null/libcuda.so.1" cuInit cuMemcpyBatchAsync_v2)
has "named file" "$out" "cuInit: shim"
has "named file" "$out" "cuMemcpyBatchAsync_v2: none"
same "disabled, by path" "$softgpu/libcuda.so.1: driver" \
	"$(SPILLWAY_DISABLE=1 under_shim "$entry" "$softgpu/libcuda.so.1")"

# The alias alone must not stop a program: it finds the shim beside itself.
same "alias alone" "libcuda.so: shim" \
	"$(LD_PRELOAD="$build/lib/libspillway-alias.so" "$entry" libcuda.so)"

# cuGetProcAddress: our hook for each ABI version, the driver's address for the rest, misses as they
# are.
out=$(under_shim "$entry" --gpa cuMemAlloc@3020 cuMemAlloc@2000 cuGetProcAddress@12000 cuCtxCreate@3020 \
	cuDeviceGetName@2000 cuNoSuchThing@12000 cuMemAllocAsync@3020)
has "hooked" "$out" "cuMemAlloc@3020: shim 0 0"
has "32-bit ABI" "$out" "cuMemAlloc@2000: shim 0 0"
has "itself" "$out" "cuGetProcAddress@12000: shim 0 0"
has "context" "$out" "cuCtxCreate@3020: shim 0 0"
has "not hooked" "$out" "cuDeviceGetName@2000: driver 0 0"
has "unknown name" "$out" "cuNoSuchThing@12000: none 0 1"
has "too old" "$out" "cuMemAllocAsync@3020: none 0 2"

# SPILLWAY_DISABLE leaves trampolines: every address is the driver's.
out=$(SPILLWAY_DISABLE=1 under_shim "$entry" --gpa cuMemAlloc@3020)
has "disabled" "$out" "cuMemAlloc@3020: driver 0 0"

# A driver that looks its symbols up in what it opens by its own name hands out ours; that is no
# news.
out=$(LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$entry" --gpa cuMemAlloc@12000 cuMemcpyDtoDAsync@12000 2>&1)
same "a driver that opens itself" "cuMemAlloc@12000: shim 0 0
cuMemcpyDtoDAsync@12000: shim 0 0" "$out"

# dlsym finds what the driver at hand has: a program that probes for features learns the truth.
out=$(under_shim "$entry" --symbol cuMemAlloc_v2 cuMemcpyBatchAsync_v2 cuNoSuchThing)
has "new driver" "$out" "cuMemAlloc_v2: shim"
has "new driver" "$out" "cuMemcpyBatchAsync_v2: shim"
has "no driver has it" "$out" "cuNoSuchThing: none, said"
out=$(LD_PRELOAD=$shim LD_LIBRARY_PATH=$build/bench/null "$entry" --symbol cuMemAlloc_v2 cuMemcpyBatchAsync_v2)
has "old driver" "$out" "cuMemAlloc_v2: shim"
has "old driver" "$out" "cuMemcpyBatchAsync_v2: none, said"
# Bound at once or not, linked directly or not, nothing of it happens before the program starts.
has "LD_BIND_NOW" "$(LD_BIND_NOW=1 under_shim "$build/tests/e2e/allocate" --count 1)" "ok bad=0"

# The loader passes over a preloaded library that does not fit into RLIMIT_AS, which a program may
# have raised later: so what is large is mapped when it is needed.
if [ -z "${SANITIZER:-}" ]; then
	mapped=$(readelf -lW "$build/lib/libspillway.so" | awk '$1 == "LOAD" { print $3, $6 }' | python3 -c '
import sys
spans = [[int(word, 16) for word in line.split()] for line in sys.stdin]
print((max(at + size for at, size in spans) - min(at for at, size in spans)) // 1024)')
	echo "the shim maps $mapped KiB"
	[ "$mapped" -le 1228 ] || fail "the shim maps $mapped KiB when it is loaded, expected at most 1228"
fi
