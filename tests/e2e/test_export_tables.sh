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

# libcudart hashes a device's UUID, place on the bus and attributes: all are the driver's own.
cat >"$scratch/identity.py" <<'END'
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
print(driver.cuInit(0))
for device in range(2):
    for name in "cuDeviceGetUuid", "cuDeviceGetUuid_v2":
        uuid = (ctypes.c_char * 16)()
        print(name, getattr(driver, name)(uuid, device), uuid.raw.hex())
    bus, value = (ctypes.c_char * 32)(), ctypes.c_int()
    print(driver.cuDeviceGetPCIBusId(bus, 32, device), bus.value)
    for attribute in range(1, 180):
        print(attribute, driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device), value.value)
END
export SOFTGPU_DEVICES=2
on_softgpu python3 "$scratch/identity.py" >"$scratch/alone"
SPILLWAY_MEMORY=16MiB under_shim python3 "$scratch/identity.py" >"$scratch/limited"
diff "$scratch/alone" "$scratch/limited" || fail "the device differs (< the driver's, > under a limit)"
[ "$(grep -c '^[0-9]* 0 ' "$scratch/alone")" -ge 200 ] || fail "only $(grep -c '^[0-9]* 0 ' "$scratch/alone") attributes"
