# SPDX-License-Identifier: MIT
"""A training's shape: a parent with CUDA, and data loaders made in each way multiprocessing knows. Loaders
that were forked use no CUDA; those that were not use their own. Prints "ok"."""
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import time

MIB = 1 << 20


def open_cuda():
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for result in (
        cuda.cuInit(0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        cuda.cuCtxSetCurrent(context),
    ):
        if result != 0:
            return None
    return cuda


def allocate(cuda, mib):
    address = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib * MIB))


def books():
    tool = [os.environ["SPILLWAY_TOOL"], "stat", os.environ["SPILLWAY_JOB"], "--json"]
    stat = json.loads(subprocess.run(tool, check=True, stdout=subprocess.PIPE).stdout)
    live = sum(process["state"] == "live" for process in stat["processes"])
    return live, stat["devices"][0]["device_charged"] // MIB


def expect(what, expected, got):
    if expected != got:
        sys.exit(f"{what}: expected {expected}, got {got}")


def load(number):
    """Forked: works without CUDA, and learns that there is none for it."""
    return number * number, allocate(ctypes.CDLL("libcuda.so.1"), 1), os.getpid()


def use_cuda(ready, end):
    cuda = open_cuda()
    ready.put(-1 if cuda is None else allocate(cuda, 2))
    end.wait()


def main():
    cuda = open_cuda()
    expect("the parent's allocation", 0, allocate(cuda, 8))

    with multiprocessing.get_context("fork").Pool(3) as pool:
        for number, (square, result, pid) in enumerate(pool.map(load, range(12))):
            expect("a loader's work", number * number, square)
            expect("a forked loader's cuMemAlloc: CUDA_ERROR_NOT_INITIALIZED", 3, result)
            expect("a loader of its own", True, pid != os.getpid())
        expect("processes and MiB beside forked loaders", (1, 8), books())
    expect("processes and MiB after forked loaders", (1, 8), books())

    for method in ("spawn", "forkserver"):
        way = multiprocessing.get_context(method)
        ready, end = way.Queue(), way.Event()
        workers = [way.Process(target=use_cuda, args=(ready, end)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for _ in workers:
            expect(f"an allocation by {method}", 0, ready.get(timeout=100))
        expect(f"processes and MiB beside {method}", (3, 12), books())
        end.set()
        for worker in workers:
            worker.join()
            expect(f"exit status by {method}", 0, worker.exitcode)
        tries = 1000
        while books() != (1, 8) and tries:
            tries -= 1
            time.sleep(0.01)
        expect(f"processes and MiB after {method}", (1, 8), books())
    print("ok")


if __name__ == "__main__":
    main()
