# SPDX-License-Identifier: MIT
"""triton_multiplies.py: compiles kernels with Triton, and compares their results with numpy.

A product of matrices runs in fp16, bf16 and tf32. Its sizes are no multiples of its blocks, so all
loads are masked, and three stages of its loop load ahead. A second kernel sums rows of bf16. In
Triton's lower language Gluon, a third one waits at mbarriers for copies that run ahead of its loop.
Prints a checksum of all results.
"""
import ctypes
import hashlib
import sys

import numpy as np
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mbarrier

M, N, K = 72, 48, 112
ARRAY_MIB = 4


class Driver:
    """libcuda by its own names, in the first device's primary context, which Triton uses, too.
    Each answer but CUDA_SUCCESS ends the program."""

    def __init__(self):
        self.library, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        self.cuInit(0)
        self.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.cuCtxSetCurrent(context)

    def __getattr__(self, name):
        def call(*arguments):
            status = getattr(self.library, name)(*arguments)
            assert status == 0, f"{name}: {status}"
        return call


class Array:
    """An array on the device, as far as Triton asks: its address and the type of its elements. It
    is never freed, and takes more memory than it needs, so that a limit has a meaning."""

    def __init__(self, values, dtype):
        self.values, self.dtype = np.ascontiguousarray(values), dtype
        self.address = ctypes.c_uint64()
        driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(ARRAY_MIB << 20))
        driver.cuMemcpyHtoD_v2(self.address, self.values.ctypes.data_as(ctypes.c_void_p),
                               ctypes.c_size_t(self.values.nbytes))

    def data_ptr(self):
        return self.address.value

    def fetch(self):
        driver.cuMemcpyDtoH_v2(self.values.ctypes.data_as(ctypes.c_void_p), self.address,
                               ctypes.c_size_t(self.values.nbytes))
        return self.values


@triton.jit
def multiply(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        depth = first + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + depth[None, :],
                       mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(b + depth[:, None] * n + columns[None, :],
                        mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * n + columns[None, :], sums,
             mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def add_rows(a, sums, m, k, BK: tl.constexpr):
    row = tl.program_id(0)
    depth = tl.arange(0, BK)
    values = tl.load(a + row * k + depth, mask=depth < k, other=0.0).to(tl.float32)
    tl.store(sums + row, tl.sum(values, axis=0), mask=row < m)


@gluon.jit
def copy_ahead(a, row, m, place, barrier, BM: gl.constexpr, layout: gl.constexpr):
    """Begins to copy BM values of a row to PLACE. BARRIER's phase ends when they are there."""
    at = gl.arange(0, BM, layout)
    async_copy.async_load(place, a + row * m + at, mask=at < m)
    async_copy.mbarrier_arrive(barrier)
    mbarrier.arrive(barrier)


@gluon.jit
def add_columns(a, sums, m, k, BM: gl.constexpr, AHEAD: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    row_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    places = gl.allocate_shared_memory(gl.float32, [AHEAD, BM], row_layout)
    barriers = mbarrier.allocate_mbarrier(batch=AHEAD)
    for i in gl.static_range(AHEAD):
        mbarrier.init(barriers.index(i), count=1)
    for i in gl.static_range(AHEAD):
        copy_ahead(a, i, m, places.index(i), barriers.index(i), BM, layout)
    total = gl.zeros([BM], gl.float32, layout)
    for row in range(0, k):
        at = row % AHEAD
        mbarrier.wait(barriers.index(at), row // AHEAD & 1)
        total += places.index(at).load(layout)
        gl.barrier()
        if row + AHEAD < k:
            copy_ahead(a, row + AHEAD, m, places.index(at), barriers.index(at), BM, layout)
    for i in gl.static_range(AHEAD):
        mbarrier.invalidate(barriers.index(i))
    column = gl.arange(0, BM, layout)
    gl.store(sums + column, total, mask=column < m)


def short(values, dtype):
    """The bits of VALUES in that type, and the values that a product takes them for."""
    if dtype == "float16":
        half = values.astype(np.float16)
        return half.view(np.int16), half.astype(np.float32)
    bits = values.view(np.uint32)
    if dtype == "float32":  # tf32 as Triton has it: the low 13 bits are not looked at
        return values, (bits >> 13 << 13).view(np.float32)
    cut = (bits + 0x7fff + (bits >> 16 & 1)) >> 16  # to the nearest, ties to even
    return cut.astype(np.uint16).view(np.int16), (cut << 16).astype(np.uint32).view(np.float32)


def near(what, got, wanted, bound):
    off = np.abs(got - wanted).max()
    assert np.isfinite(got).all() and off <= bound, f"{what}: off by {off}"
    print(f"{what} off={off:.2e}", flush=True)


def main():
    checksum = hashlib.sha256()
    random = np.random.default_rng(5)
    left, right = (random.standard_normal(shape, dtype=np.float32) for shape in ((M, K), (K, N)))
    for dtype in sys.argv[1:] or ("float16", "bfloat16", "float32"):
        (a, a_means), (b, b_means) = short(left, dtype), short(right, dtype)
        c = Array(np.full((M, N), np.nan, np.float32), "float32")
        kernel = multiply[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            Array(a, dtype), Array(b, dtype), c, M, N, K, 32, 32, 32, num_warps=4, num_stages=3)
        ptx = kernel.asm["ptx"]
        for instruction in "mma.sync", "cp.async", "ldmatrix":
            assert instruction in ptx, f"{dtype}: Triton did without {instruction}"
        product = c.fetch()
        near(f"multiply {dtype}", product, a_means.astype(np.float64) @ b_means, 1e-4)
        checksum.update(product.tobytes())
    bits, means = short(left, "bfloat16")
    sums = Array(np.full(M, np.nan, np.float32), "float32")
    add_rows[(M,)](Array(bits, "bfloat16"), sums, M, K, triton.next_power_of_2(K))
    near("add_rows", sums.fetch(), means.astype(np.float64).sum(axis=1), 1e-4)
    checksum.update(sums.values.tobytes())
    sums = Array(np.full(N, np.nan, np.float32), "float32")
    kernel = add_columns[(1,)](Array(right, "float32"), sums, N, K, triton.next_power_of_2(N), 4)
    for instruction in "mbarrier.init", "cp.async.mbarrier.arrive", "mbarrier.t", "mbarrier.inval":
        assert instruction in kernel.asm["ptx"], f"Gluon did without {instruction}"
    near("add_columns", sums.fetch(), right.astype(np.float64).sum(axis=0), 1e-4)
    checksum.update(sums.values.tobytes())
    print(f"checksum={checksum.hexdigest()[:16]}")


driver = Driver()
main()
