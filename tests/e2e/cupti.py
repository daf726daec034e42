# SPDX-License-Identifier: MIT
"""cupti.py LIBRARY: a profiler as a program loads it. It asks NVIDIA's CUPTI for everything, then
allocates and copies, and prints each answer."""
import ctypes
import sys

cupti = ctypes.CDLL(sys.argv[1])
driver = ctypes.CDLL("libcuda.so.1")
seen = []
SITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
site = SITE(lambda user, domain, number, data: seen.append((domain, number)))


def ask(name, *arguments):
    print(name, getattr(cupti, name)(*arguments))


version, subscriber, context = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_void_p()
ask("cuptiGetVersion", ctypes.byref(version))
print(version.value)
ask("cuptiSubscribe", ctypes.byref(subscriber), site, None)
for domain in range(1, 5):
    ask("cuptiEnableDomain", 1, subscriber, domain)
for kind in range(1, 12):
    ask("cuptiActivityEnable", kind)
print("cuInit", driver.cuInit(0))
print("context", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), driver.cuCtxSetCurrent(context))
ask("cuptiGetDeviceId", context, ctypes.byref(version))
SIZE = 8 << 20
for number in range(4):  # twice the limit
    address = ctypes.c_uint64()
    written, read = bytes([number]) * SIZE, ctypes.create_string_buffer(SIZE)
    print("allocated", driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(SIZE)),
          driver.cuMemcpyHtoD_v2(address, written, ctypes.c_size_t(SIZE)),
          driver.cuMemcpyDtoH_v2(read, address, ctypes.c_size_t(SIZE)), read.raw == written)
print("callbacks", seen)
ask("cuptiActivityFlushAll", 0)
ask("cuptiUnsubscribe", subscriber)
