# SPDX-License-Identifier: MIT
"""core_adds.py: cuda-core compiles a kernel, and adds each vector to the next, directly and by a
graph. Prints a checksum of all results and the memory that it takes."""
import ctypes
import hashlib

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = """extern "C" __global__ void add(float *y, const float *x, float a, unsigned long long n) {
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + 0.5f * y[i];
}"""
VECTORS, LENGTH, TURNS = 12, 1 << 19, 6


def main():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch="compute_80")).compile("ptx").get_kernel("add")
    pinned = LegacyPinnedMemoryResource().allocate(LENGTH * 4, stream=stream)
    host = np.frombuffer((ctypes.c_char * (LENGTH * 4)).from_address(int(pinned.handle)), np.float32)
    random = np.random.default_rng(5)
    wanted, vectors = [], []
    for _ in range(VECTORS):
        wanted.append(random.standard_normal(LENGTH, dtype=np.float32))
        vectors.append(device.allocate(LENGTH * 4, stream=stream))
        host[:] = wanted[-1]
        vectors[-1].copy_from(pinned, stream=stream)
        stream.sync()

    def turn(where):
        for i in range(VECTORS):
            launch(where, LaunchConfig(grid=64, block=256), kernel, vectors[i],
                   vectors[(i + 1) % VECTORS], np.float32(0.25), np.uint64(LENGTH))

    turn(stream)
    builder = device.create_graph_builder().begin_building()
    turn(builder)
    graph = builder.end_building().complete()
    for _ in range(TURNS - 1):
        graph.launch(stream)
    for _ in range(TURNS):
        for i in range(VECTORS):
            wanted[i] = np.float32(0.25) * wanted[(i + 1) % VECTORS] + np.float32(0.5) * wanted[i]
    checksum = hashlib.sha256()
    for vector, want in zip(vectors, wanted):
        vector.copy_to(pinned, stream=stream)
        stream.sync()
        assert np.abs(host - want).max() < 1e-5, np.abs(host - want).max()
        checksum.update(host.tobytes())
    print(f"core_adds checksum={checksum.hexdigest()[:16]} peak={VECTORS * LENGTH * 4 >> 20}MiB")


main()
