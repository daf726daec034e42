# SPDX-License-Identifier: MIT
"""numba_smooths.py: compiles kernels with numba-cuda, and compares their results with numpy.

Fields of 2 MiB are smoothed in turns, sums of blocks go through shared memory and atomics. Prints a
checksum of all results and the memory that it takes.
"""
import hashlib

import numpy as np
from numba import cuda, float32

FIELDS, SIDE, TURNS = 12, 724, 4
THREADS = (32, 8)


@cuda.jit
def smooth(new, old):
    column, row = cuda.grid(2)
    if row >= old.shape[0] or column >= old.shape[1]:
        return
    if row in (0, old.shape[0] - 1) or column in (0, old.shape[1] - 1):
        new[row, column] = old[row, column]
    else:
        new[row, column] = float32(0.25) * (
            (old[row - 1, column] + old[row + 1, column]) +
            (old[row, column - 1] + old[row, column + 1]))


@cuda.jit
def add_up(sums, counts, values):
    part = cuda.shared.array(256, float32)
    me, place = cuda.threadIdx.x, cuda.grid(1)
    part[me] = values[place] if place < values.size else float32(0)
    cuda.syncthreads()
    half = 128
    while half > 0:
        if me < half:
            part[me] += part[me + half]
        cuda.syncthreads()
        half //= 2
    if me == 0:
        sums[cuda.blockIdx.x] = part[0]
        cuda.atomic.add(counts, cuda.blockIdx.x % 4, 1)


def smoothed(old):
    new = old.copy()
    new[1:-1, 1:-1] = np.float32(0.25) * (
        (old[:-2, 1:-1] + old[2:, 1:-1]) + (old[1:-1, :-2] + old[1:-1, 2:]))
    return new


def main():
    random = np.random.default_rng(11)
    hosts = [random.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(FIELDS)]
    fields = [cuda.to_device(host) for host in hosts]
    spare = cuda.device_array_like(fields[0])
    grid = tuple(-(-SIDE // each) for each in THREADS)
    for _ in range(TURNS):
        for i in range(FIELDS):
            smooth[grid, THREADS](spare, fields[i])
            fields[i], spare = spare, fields[i]
            hosts[i] = smoothed(hosts[i])
    blocks = -(-SIDE * SIDE // 256)
    sums, counts = cuda.device_array(blocks, np.float32), cuda.to_device(np.zeros(4, np.int32))
    checksum = hashlib.sha256()
    for field, host in zip(fields, hosts):
        add_up[blocks, 256](sums, counts, field.reshape(SIDE * SIDE))
        got = field.copy_to_host()
        assert np.abs(got - host).max() < 1e-5, np.abs(got - host).max()
        padded = np.zeros(blocks * 256, np.float64)
        padded[:host.size] = host.ravel()
        assert np.abs(sums.copy_to_host() - padded.reshape(blocks, 256).sum(1)).max() < 1e-3
        checksum.update(got.tobytes())
        checksum.update(sums.copy_to_host().tobytes())
    assert counts.copy_to_host().sum() == blocks * FIELDS
    print(f"numba_smooths checksum={checksum.hexdigest()[:16]} peak={(FIELDS + 1) * 2}MiB")


main()
