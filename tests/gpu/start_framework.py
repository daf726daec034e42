# SPDX-License-Identifier: MIT
"""start_framework.py jax|cupy|triton|numba: computes something with a framework and prints a checksum of it and how much
memory it held. Knows nothing of Spillway."""
import hashlib
import os
import sys

import numpy

ROWS, BLOCKS = 4096, 24  # 64 MiB of floats each


def blocks_by_cupy():
    import cupy

    held = [cupy.full((ROWS, ROWS), i, dtype=cupy.float32) for i in range(BLOCKS)]
    for i, block in enumerate(held):
        block *= 2
        block += held[i - 1].sum() % 7
    return [cupy.asnumpy(block[::512, ::512]) for block in held]


def blocks_by_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")  # else it takes three quarters at once
    import jax
    import jax.numpy as jnp

    step = jax.jit(lambda block, other: block * 2 + other.sum() % 7)
    held = [jnp.full((ROWS, ROWS), i, dtype=jnp.float32) for i in range(BLOCKS)]
    held = [step(block, held[i - 1]) for i, block in enumerate(held)]
    return [numpy.asarray(block[::512, ::512]) for block in held]


def blocks_by_numba():
    from numba import cuda

    @cuda.jit
    def double(block):
        row, column = cuda.grid(2)
        if row < block.shape[0] and column < block.shape[1]:
            block[row, column] = block[row, column] * 2 + 1

    held = [cuda.to_device(numpy.full((ROWS, ROWS), i, dtype=numpy.float32)) for i in range(BLOCKS)]
    for block in held:
        double[(ROWS // 16, ROWS // 16), (16, 16)](block)
    return [block.copy_to_host()[::512, ::512] for block in held]


def blocks_by_triton():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(pointer, count, size: tl.constexpr):
        at = tl.program_id(0) * size + tl.arange(0, size)
        inside = at < count
        tl.store(pointer + at, tl.load(pointer + at, mask=inside) * 2 + 1, mask=inside)

    held = [torch.full((ROWS, ROWS), float(i), device="cuda") for i in range(BLOCKS)]
    for block in held:
        double[(triton.cdiv(block.numel(), 1024),)](block, block.numel(), size=1024)
    return [block[::512, ::512].cpu().numpy() for block in held]


name = sys.argv[1]
results = {"cupy": blocks_by_cupy, "jax": blocks_by_jax, "numba": blocks_by_numba, "triton": blocks_by_triton}[name]()
digest = hashlib.sha256()
for result in results:
    digest.update(numpy.ascontiguousarray(result).tobytes())
print(f"start_framework: name={name} working_set={BLOCKS * ROWS * ROWS * 4} checksum={digest.hexdigest()[:16]}")
