#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads a shared region as HAMi's monitor does, by the declarations of HAMi-core's public header, and
writes the same fields as the monitor.

region.py FILE                   name=value lines: version, devices, processes
region.py FILE FIELD=VALUE...    sets limit, sm_limit (of all devices), recent_kernel, utilization_switch, minor_version
"""

import ctypes
import mmap
import sys

u64, i32, u32 = ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint32


class Memory(ctypes.Structure):
    _fields_ = [("context", u64), ("module", u64), ("data", u64), ("offset", u64), ("total", u64), ("unused", u64 * 3)]


class Utilization(ctypes.Structure):
    _fields_ = [("decoder", u64), ("encoder", u64), ("sm", u64), ("unused", u64 * 3)]


class Process(ctypes.Structure):
    _fields_ = [("pid", i32), ("host_pid", i32), ("used", Memory * 16), ("monitor_used", u64 * 16),
                ("utilization", Utilization * 16), ("status", i32), ("sequence", u64), ("unused", u64 * 2)]


class Region(ctypes.Structure):
    _fields_ = [("magic", i32), ("major_version", u32), ("minor_version", u32), ("sm_initialized", i32), ("owner", u64),
                ("semaphore", u64 * 4), ("devices", u64), ("uuid", (ctypes.c_char * 96) * 16), ("limit", u64 * 16),
                ("sm_limit", u64 * 16), ("process", Process * 1024), ("processes", i32), ("utilization_switch", i32),
                ("recent_kernel", i32), ("priority", i32), ("last_kernel_time", u64), ("later", u64 * 4)]


with open(sys.argv[1], "r+b") as file:
    data = mmap.mmap(file.fileno(), 0)
if len(data) != ctypes.sizeof(Region) + 1:
    sys.exit(f"{len(data)} bytes, expected {ctypes.sizeof(Region) + 1}")
region = Region.from_buffer(data)
if region.magic != 19920718:
    sys.exit(f"magic {region.magic}")
for word in sys.argv[2:]:
    name, value = word.split("=")
    if name in ("limit", "sm_limit"):
        for i in range(region.devices):
            getattr(region, name)[i] = int(value)
    else:
        setattr(region, name, int(value))
if sys.argv[2:]:
    sys.exit()
print(f"version={region.major_version}.{region.minor_version} semaphore={region.semaphore[0] & 0xffffffff}")
print(f"devices={region.devices} priority={region.priority} utilization_switch={region.utilization_switch} "
      f"recent_kernel={region.recent_kernel} launched={int(region.last_kernel_time > 0)}")
for i in range(region.devices):
    total = sum(p.used[i].total for p in region.process[:region.processes])
    print(f"device{i}={region.uuid[i].value.decode()} limit{i}={region.limit[i]} sm_limit{i}={region.sm_limit[i]} "
          f"total{i}={total}")
print(f"processes={region.processes} pids=" + ",".join(str(p.pid) for p in region.process[:region.processes]))
