# SPDX-License-Identifier: MIT
"""The driver API through cuda-bindings: the functions that it finds by cuGetProcAddress must work
together.

Prints "driver_api: checks=N failed=N checksum=X memory=N"; the checksum is over all results.
"""

import hashlib
import sys

import numpy
from cuda.bindings import driver, nvrtc

COUNT = 1 << 16

SOURCE = rb"""
__constant__ float scale;
__device__ unsigned int calls;

extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = scale * a * x[i] + y[i];
    if (threadIdx.x == 0)
        atomicAdd(&calls, 1);
}

extern "C" __global__ void block_sums(float *sums, const float *x)
{
    extern __shared__ float part[];
    part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}
"""

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry fill(.param .u64 to, .param .u32 value)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd1, %rd2;
    add.u32 %r3, %r1, %r2;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""

results = {"checks": 0, "failed": 0}
checksum = hashlib.sha256()


def check(good, what):
    results["checks"] += 1
    if not good:
        results["failed"] += 1
        print(f"FAILED: {what}")


def ok(answer):
    """What a call returned after its status, which must be success."""
    status, *values = answer
    if status.value != 0:
        raise RuntimeError(f"{status!r}")
    return values[0] if len(values) == 1 else tuple(values)


def same(got, expected, what):
    checksum.update(numpy.ascontiguousarray(got).tobytes())
    check(numpy.array_equal(got, expected), what)


def compile_source(device):
    attributes = driver.CUdevice_attribute
    major, minor = (
        ok(driver.cuDeviceGetAttribute(attribute, device))
        for attribute in (
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    program = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"kernels.cu", 0, [], []))
    options = [f"--gpu-architecture=compute_{major}{minor}".encode()]
    ok(nvrtc.nvrtcCompileProgram(program, len(options), options))
    text = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
    ok(nvrtc.nvrtcGetPTX(program, text))
    return text


def launch(function, grid, block, stream, *values, shared=0):
    """The driver copies the arguments, device addresses and numbers, before it returns."""
    numbers = [numpy.uint64(v) if isinstance(v, driver.CUdeviceptr) else v for v in values]
    held = [numpy.array([number]) for number in numbers]
    places = numpy.array([array.ctypes.data for array in held], numpy.uint64)
    sizes = (grid, 1, 1, block, 1, 1, shared)
    ok(driver.cuLaunchKernel(function, *sizes, stream, places.ctypes.data, 0))


def upload(array):
    address = ok(driver.cuMemAlloc(array.nbytes))
    ok(driver.cuMemcpyHtoD(address, array, array.nbytes))
    return address


def download(address, count, dtype):
    array = numpy.empty(count, dtype)
    ok(driver.cuMemcpyDtoH(array, address, array.nbytes))
    return array


def kernels(module, stream):
    random = numpy.random.default_rng(1)
    # Small integers: sums are exact in any order, and so is a product with a power of two.
    x = random.integers(-100, 100, COUNT).astype(numpy.float32)
    y = random.integers(-100, 100, COUNT).astype(numpy.float32)
    device_x, device_y = upload(x), upload(y)
    device_sums = ok(driver.cuMemAlloc(COUNT // 256 * 4))

    constant, size = ok(driver.cuModuleGetGlobal(module, b"scale"))
    check(size == 4, f"size of a constant: {size}")
    ok(driver.cuMemcpyHtoD(constant, numpy.array([0.5], numpy.float32), 4))

    start, end = (ok(driver.cuEventCreate(0)) for _ in range(2))
    ok(driver.cuEventRecord(start, stream))
    saxpy = ok(driver.cuModuleGetFunction(module, b"saxpy"))
    grid = (COUNT // 256, 256)
    launch(saxpy, *grid, stream, device_y, device_x, numpy.float32(3), numpy.int32(COUNT))
    sums = ok(driver.cuModuleGetFunction(module, b"block_sums"))
    launch(sums, *grid, stream, device_sums, device_y, shared=256 * 4)
    ok(driver.cuEventRecord(end, stream))
    ok(driver.cuEventSynchronize(end))
    elapsed = ok(driver.cuEventElapsedTime(start, end))
    check(elapsed > 0, f"time between two events: {elapsed} ms")

    expected = numpy.float32(1.5) * x + y
    same(download(device_y, COUNT, numpy.float32), expected, "saxpy")
    got = download(device_sums, COUNT // 256, numpy.float32)
    same(got, expected.reshape(-1, 256).sum(1), "sums of blocks")
    counter, _ = ok(driver.cuModuleGetGlobal(module, b"calls"))
    same(download(counter, 1, numpy.uint32), [COUNT // 256], "count of blocks")
    for address in device_x, device_y, device_sums:
        ok(driver.cuMemFree(address))
    for event in start, end:
        ok(driver.cuEventDestroy(event))


def written_ptx(stream):
    module = ok(driver.cuModuleLoadData(PTX))
    fill = ok(driver.cuModuleGetFunction(module, b"fill"))
    address = ok(driver.cuMemAllocAsync(64 * 4, stream))
    launch(fill, 1, 64, stream, address, numpy.uint32(7))
    got = numpy.empty(64, numpy.uint32)
    ok(driver.cuMemcpyDtoHAsync(got, address, got.nbytes, stream))
    ok(driver.cuMemFreeAsync(address, stream))
    ok(driver.cuStreamSynchronize(stream))
    same(got, numpy.arange(7, 71), "written PTX on a stream")
    ok(driver.cuModuleUnload(module))


def memory():
    free, total = ok(driver.cuMemGetInfo())
    check(free <= total and total > 0, f"free {free} of {total}")
    address = ok(driver.cuMemAlloc(1 << 20))
    ok(driver.cuMemsetD32(address, 0x12345678, 1 << 18))
    ok(driver.cuMemsetD8(int(address) + 5, 0xFF, 3))
    expected = numpy.full(1 << 18, 0x12345678, numpy.uint32)
    expected.view(numpy.uint8)[5:8] = 0xFF
    same(download(address, 1 << 18, numpy.uint32), expected, "fills")
    base, size = ok(driver.cuMemGetAddressRange(int(address) + 100))
    check(int(base) == int(address) and size == 1 << 20, "range of an address within an allocation")
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    kind = ok(driver.cuPointerGetAttribute(attribute, address))
    check(kind == driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, f"memory type: {kind}")
    ok(driver.cuMemFree(address))
    (status,) = driver.cuMemFree(address)
    check(status == driver.CUresult.CUDA_ERROR_INVALID_VALUE, f"freed twice: {status!r}")


def entry_points():
    address, found = ok(driver.cuGetProcAddress(b"cuMemAlloc", 12000, 0))
    check(address != 0 and found.value == 0, f"cuMemAlloc is not found: {found!r}")
    address, found = ok(driver.cuGetProcAddress(b"cuNoSuchCall", 12000, 0))
    check(address == 0 and found.value == 1, f"a call there is not: {found!r}")


def main():
    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    name = ok(driver.cuDeviceGetName(64, device)).split(b"\0")[0].decode()
    context = ok(driver.cuDevicePrimaryCtxRetain(device))
    ok(driver.cuCtxSetCurrent(context))
    stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    module = ok(driver.cuModuleLoadData(compile_source(device)))

    held = [upload(numpy.arange(COUNT, dtype=numpy.uint32) + i) for i in range(16)]
    entry_points()
    memory()
    kernels(module, stream)
    written_ptx(stream)
    for i, address in enumerate(held):
        expected = numpy.arange(COUNT) + i
        same(download(address, COUNT, numpy.uint32), expected, f"buffer {i} in the end")
        ok(driver.cuMemFree(address))

    ok(driver.cuModuleUnload(module))
    ok(driver.cuStreamDestroy(stream))
    ok(driver.cuDevicePrimaryCtxRelease(device))
    print(
        f"driver_api: checks={results['checks']} failed={results['failed']}"
        f" checksum={checksum.hexdigest()[:16]} memory={16 * COUNT * 4} device={name}"
    )
    sys.exit(results["failed"] != 0)


main()
