#!/bin/sh
# SPDX-License-Identifier: MIT
# Python's ctypes finds the shim by every name, calls through it, and learns of missing functions as
# without it.
set -eu
# shellcheck source=tests/e2e/lib.sh
. tests/e2e/lib.sh
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
	echo "there is no $python"
	exit 77
fi

cat >"$scratch/ways.py" <<'P'
import ctypes, ctypes.util, os, sys

def attempt(what):
    try:
        return what()
    except (AttributeError, OSError) as error:
        return type(error).__name__

folder = sys.argv[1]
found = ctypes.util.find_library("cuda")
print("find_library", found, ctypes.util.find_library("nosuchlibrary"))
names = ["libcuda.so.1", "libcuda.so", found or "libcuda.so.1", folder + "/libcuda.so.1", folder + "/libcuda.so"]
libraries = [ctypes.CDLL(name) for name in names] + [
    ctypes.cdll.LoadLibrary("libcuda.so.1"), ctypes.PyDLL("libcuda.so.1"),
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL),
    ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)]
print("one library", len({library._handle for library in libraries}) == 1)
cuda = libraries[0]
for name in ["libcuda.so.9", "/nonexistent/libcuda.so.1", folder + "/libcuda.so.1.1"]:
    print(os.path.basename(name), attempt(lambda: ctypes.CDLL(name) and "opened"))
for symbol in ["cuNoSuchThing", "cuMemAlloc_v2", "cuMemcpyBatchAsync_v2"]:
    print(symbol, attempt(lambda: getattr(cuda, symbol) and "there"), hasattr(cuda, symbol))

context, pointer, version = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
print("calls", cuda.cuInit(0), cuda.cuDriverGetVersion(ctypes.byref(version)), version.value,
      cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
      [cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) for i in range(3)])
function = ctypes.c_void_p()
status = ctypes.c_int(99)
print("cuGetProcAddress", cuda.cuGetProcAddress_v2(b"cuMemFree", ctypes.byref(function), 12000, ctypes.c_uint64(0),
      ctypes.byref(status)), status.value,
      ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64)(function.value)(pointer))
print("address", function.value == ctypes.cast(cuda.cuMemFree_v2, ctypes.c_void_p).value)
P
case ${SANITIZER:-} in
address | thread)
	echo "this sanitizer has to be in the program: Python is built without it"
	exit 77
	;;
esac
without=$(on_softgpu "$python" "$scratch/ways.py" "$softgpu" 2>&1) || fail "alone: $without"
has "alone" "$without" "one library True"
has "alone" "$without" "calls 0 0 13000 0 [0, 0, 0]"
has "alone" "$without" "cuMemcpyBatchAsync_v2 there True"
has "alone" "$without" "address True"
same "under the shim" "$without" "$(under_shim "$python" "$scratch/ways.py" "$softgpu" 2>&1)"

# The calls are counted: three megabytes, one given back.
out=$("$spillway" run --softgpu --quiet --name python "$python" "$scratch/ways.py" "$softgpu" 2>&1) ||
	fail "in a job: $out"
has "in a job" "$out" "cuGetProcAddress 0 0 0"
json=$("$spillway" stat python --json)
has "books" "$json" '"device_peak":4194304,'
has "books" "$json" '"device_used":4194304,'

# A driver that lacks a function: AttributeError, with and without us.
old=$scratch/old
mkdir "$old"
ln -s "$build/bench/null/libcuda.so.1" "$old/libcuda.so.1"
ln -s libcuda.so.1 "$old/libcuda.so"
out=$(LD_LIBRARY_PATH=$old LD_PRELOAD=$shim "$python" "$scratch/ways.py" "$old" 2>&1) || fail "an older driver: $out"
has "an older driver" "$out" "cuMemcpyBatchAsync_v2 AttributeError False"
has "an older driver" "$out" "cuMemAlloc_v2 there True"
has "the rest of it works" "$out" "calls 0 0 13000 0 [0, 0, 0]"
