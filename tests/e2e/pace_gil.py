# SPDX-License-Identifier: MIT
"""Threads of Python that launch while they hold the interpreter's lock, which the host functions in their streams need.
Prints "ok" and how often the host functions ran."""
import ctypes
import sys
import threading

ROUNDS, THREADS = 10, 3
PTX = b""".version 6.4
.target sm_50
.address_size 64
.visible .entry nothing()
{
ret;
}
"""

held = ctypes.PyDLL("libcuda.so.1")  # its calls keep the interpreter's lock
free = ctypes.CDLL("libcuda.so.1")  # its calls give it up
ran = [0] * THREADS


def check(result):
    if result:
        sys.exit(f"error {result}")


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def count(which):
    ran[which or 0] += 1


context, module, function = (ctypes.c_void_p() for _ in range(3))
check(free.cuInit(0))
check(free.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(free.cuCtxSetCurrent(context))
check(free.cuModuleLoadData(ctypes.byref(module), PTX))
check(free.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"))


def launch(stream):
    check(held.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, None))


def work(which):
    stream = ctypes.c_void_p()
    check(free.cuCtxSetCurrent(context))
    check(free.cuStreamCreate(ctypes.byref(stream), 1))
    for _ in range(ROUNDS):
        launch(stream)
        check(free.cuLaunchHostFunc(stream, count, ctypes.c_void_p(which)))
        launch(stream)
    check(free.cuStreamSynchronize(stream))


threads = [threading.Thread(target=work, args=(which,)) for which in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("ok", *ran)
