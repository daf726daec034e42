#!/bin/sh
# SPDX-License-Identifier: MIT
# NVIDIA's own Python binding (nvidia-ml-py, from PyPI, unmodified) reads the NVML stand-in while a
# program keeps the device busy.
set -eu
: "${BUILD:=build}" "${SANITIZER:=}"
version=12.560.30

skip() {
	echo "$1"
	exit 77
}
[ -z "$SANITIZER" ] || skip "python is not built with a sanitizer"
command -v python3 >/dev/null || skip "there is no python3"
packages=$BUILD/python/nvidia-ml-py-$version
if [ ! -e "$packages/pynvml.py" ]; then
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$TMPDIR/nvml" \
		"nvidia-ml-py==$version" || skip "nvidia-ml-py $version cannot be had"
	mkdir -p "${packages%/*}"
	mv "$TMPDIR/nvml" "$packages" 2>/dev/null || [ -e "$packages/pynvml.py" ]
fi

LD_LIBRARY_PATH=$BUILD/softgpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
SOFTGPU_STATE_DIR=$TMPDIR/state
export SOFTGPU_STATE_DIR
"$BUILD/clients/gpu_busy" --seconds 60 >/dev/null &
busy=$!
trap 'kill $busy 2>/dev/null || true' EXIT

PYTHONPATH=$packages python3 - "$busy" <<'END'
import sys, time
from pynvml import *

pid = int(sys.argv[1])
nvmlInit()
assert nvmlDeviceGetCount() == 1
device = nvmlDeviceGetHandleByIndex(0)
assert "software" in nvmlDeviceGetName(device)
uuid = nvmlDeviceGetUUID(device)
assert nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID(uuid)) == uuid
pci = nvmlDeviceGetPciInfo(device)
assert nvmlDeviceGetUUID(nvmlDeviceGetHandleByPciBusId(pci.busId)) == uuid
assert nvmlSystemGetCudaDriverVersion() == 13000 and nvmlSystemGetDriverVersion()

for _ in range(600):  # until the program is seen at work
    processes = {p.pid: p.usedGpuMemory for p in nvmlDeviceGetComputeRunningProcesses(device)}
    rates = nvmlDeviceGetUtilizationRates(device)
    if processes.get(pid) and rates.gpu:
        break
    time.sleep(0.05)
assert list(processes) == [pid] and processes[pid] >= 8 << 20, processes
assert 0 < rates.gpu <= 100, rates.gpu
for _ in range(600):
    try:
        samples = nvmlDeviceGetProcessUtilization(device, 0)
        break
    except NVMLError_NotFound:
        time.sleep(0.05)
assert samples[0].pid == pid and 0 < samples[0].smUtil <= 100
memory = nvmlDeviceGetMemoryInfo(device)
assert memory.total == 2 << 30 and memory.used + memory.free == memory.total
assert nvmlDeviceGetMemoryInfo(device, version=nvmlMemory_v2).total == memory.total
try:
    nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU)
    raise AssertionError("a software GPU has no temperature")
except NVMLError_NotSupported:
    pass
nvmlShutdown()
END
