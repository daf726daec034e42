/* SPDX-License-Identifier: MIT */
/* Launches, and the driver's facts about kernels. */
#include "tests/softgpu/cudart/cudart.h"

/* kernel<<<...>>>(...) pushes its configuration; the kernel's stub, called next, pops it. */
struct configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};

/* More than one is there only while arguments of a launch are computed by another launch. */
static _Thread_local struct configuration pushed[16];
static _Thread_local size_t depth;

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                cudaStream_t stream)
{
	if (depth == sizeof(pushed) / sizeof(*pushed))
		return (unsigned int)finish(cudaErrorMissingConfiguration);
	pushed[depth++] = (struct configuration){grid, block, shared, stream};
	return cudaSuccess;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	if (depth == 0)
		return finish(cudaErrorMissingConfiguration);
	const struct configuration *top = &pushed[--depth];
	*grid = top->grid;
	*block = top->block;
	*shared = top->shared;
	*(cudaStream_t *)stream = top->stream;
	return cudaSuccess;
}

/* Grids that no device runs are this error here, INVALID_VALUE in the driver. */
static int check_shape(dim3 grid, dim3 block)
{
	CUdevice device;
	int most = 0;
	int error = (int)driver.cuCtxGetDevice(&device);
	if (error == cudaSuccess)
		error = (int)driver.cuDeviceGetAttribute(
		    &most, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
	if (error != cudaSuccess)
		return error;
	bool empty = !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z;
	uint64_t limit = (uint64_t)most;
	bool large = block.x > limit || block.y > limit || block.z > 64 ||
	             (uint64_t)block.x * block.y * block.z > limit || grid.x > INT32_MAX ||
	             grid.y > UINT16_MAX || grid.z > UINT16_MAX;
	return empty || large ? cudaErrorInvalidConfiguration : cudaSuccess;
}

static int launch(enum twin twin, CUkernel kernel, dim3 grid, dim3 block, void **arguments,
                  size_t shared, cudaStream_t stream, bool cooperative)
{
	int error = enter();
	if (error == cudaSuccess)
		error = check_shape(grid, block);
	if (error == cudaSuccess && shared > UINT32_MAX)
		error = cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return error;
	CUfunction function = (CUfunction)kernel;
	unsigned int bytes = (unsigned int)shared;
	if (cooperative)
		return (int)driver.cuLaunchCooperativeKernel[twin](function, grid.x, grid.y, grid.z,
		                                                   block.x, block.y, block.z, bytes,
		                                                   stream, arguments);
	return (int)driver.cuLaunchKernel[twin](function, grid.x, grid.y, grid.z, block.x, block.y,
	                                        block.z, bytes, stream, arguments, NULL);
}

static cudaError_t cudaLaunchKernel_on(enum twin twin, const void *host, dim3 grid, dim3 block,
                                       void **arguments, size_t shared, cudaStream_t stream)
{
	CUkernel kernel;
	int error = kernel_of(host, &kernel);
	return finish(error != cudaSuccess
	                  ? error
	                  : launch(twin, kernel, grid, block, arguments, shared, stream, false));
}
EXPORT_TWINS(cudaLaunchKernel, _ptsz,
             (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
              cudaStream_t stream),
             host, grid, block, arguments, shared, stream)

static cudaError_t cudaLaunchCooperativeKernel_on(enum twin twin, const void *host, dim3 grid,
                                                  dim3 block, void **arguments, size_t shared,
                                                  cudaStream_t stream)
{
	CUkernel kernel;
	int error = kernel_of(host, &kernel);
	return finish(error != cudaSuccess
	                  ? error
	                  : launch(twin, kernel, grid, block, arguments, shared, stream, true));
}
EXPORT_TWINS(cudaLaunchCooperativeKernel, _ptsz,
             (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
              cudaStream_t stream),
             host, grid, block, arguments, shared, stream)

/* Launches for stubs of nvcc 13.0, with what __cudaGetKernel() gave; NULL: it told the reason. */
static cudaError_t __cudaLaunchKernel_on(enum twin twin, cudaKernel_t kernel, dim3 grid, dim3 block,
                                         void **arguments, size_t shared, cudaStream_t stream)
{
	if (!kernel)
		return pending_error() != cudaSuccess ? pending_error()
		                                      : finish(cudaErrorInvalidDeviceFunction);
	return finish(
	    launch(twin, (CUkernel)kernel, grid, block, arguments, shared, stream, false));
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);
EXPORT_TWINS(__cudaLaunchKernel, _ptsz,
             (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
              cudaStream_t stream),
             kernel, grid, block, arguments, shared, stream)

static cudaError_t cudaLaunchKernelExC_on(enum twin twin, const cudaLaunchConfig_t *config,
                                          const void *host, void **arguments)
{
	CUkernel kernel;
	int error = config ? kernel_of(host, &kernel) : (int)cudaErrorInvalidValue;
	if (error == cudaSuccess)
		error = check_shape(config->gridDim, config->blockDim);
	if (error == cudaSuccess && config->dynamicSmemBytes > UINT32_MAX)
		error = cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return finish(error);
	CUlaunchConfig same = {
	    .gridDimX = config->gridDim.x,
	    .gridDimY = config->gridDim.y,
	    .gridDimZ = config->gridDim.z,
	    .blockDimX = config->blockDim.x,
	    .blockDimY = config->blockDim.y,
	    .blockDimZ = config->blockDim.z,
	    .sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
	    .hStream = config->stream,
	    .attrs = (CUlaunchAttribute *)config->attrs,
	    .numAttrs = config->numAttrs,
	};
	return finish(
	    (int)driver.cuLaunchKernelEx[twin](&same, (CUfunction)kernel, arguments, NULL));
}
EXPORT_TWINS(cudaLaunchKernelExC, _ptsz,
             (const cudaLaunchConfig_t *config, const void *host, void **arguments), config, host,
             arguments)

EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host)
{
	CUkernel kernel;
	int device;
	if (!attributes)
		return finish(cudaErrorInvalidValue);
	int error = kernel_of(host, &kernel);
	if (error == cudaSuccess)
		error = (int)driver.cuCtxGetDevice(&device);
	struct cudaFuncAttributes a = {0};
	const struct {
		CUfunction_attribute attribute;
		int *number;
		size_t *size;
	} fields[] = {
	    {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, NULL, &a.sharedSizeBytes},
	    {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, NULL, &a.constSizeBytes},
	    {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, NULL, &a.localSizeBytes},
	    {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &a.maxThreadsPerBlock, NULL},
	    {CU_FUNC_ATTRIBUTE_NUM_REGS, &a.numRegs, NULL},
	    {CU_FUNC_ATTRIBUTE_PTX_VERSION, &a.ptxVersion, NULL},
	    {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &a.binaryVersion, NULL},
	    {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &a.cacheModeCA, NULL},
	    {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &a.maxDynamicSharedSizeBytes, NULL},
	    {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &a.preferredShmemCarveout, NULL},
	};
	for (size_t i = 0; error == cudaSuccess && i < sizeof(fields) / sizeof(*fields); i++) {
		int value = 0;
		error =
		    (int)driver.cuKernelGetAttribute(&value, fields[i].attribute, kernel, device);
		if (fields[i].number)
			*fields[i].number = value;
		else
			*fields[i].size = (size_t)value;
	}
	if (error == cudaSuccess)
		*attributes = a;
	return finish(error);
}

EXPORT cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute attribute,
                                        int value)
{
	CUkernel kernel;
	int device;
	int error = kernel_of(host, &kernel);
	if (error == cudaSuccess)
		error = (int)driver.cuCtxGetDevice(&device);
	if (error == cudaSuccess)
		error = (int)driver.cuKernelSetAttribute((CUfunction_attribute)attribute, value,
		                                         kernel, device);
	return finish(error);
}

EXPORT cudaError_t cudaFuncSetCacheConfig(const void *host, enum cudaFuncCache config)
{
	CUkernel kernel;
	int device;
	int error = kernel_of(host, &kernel);
	if (error == cudaSuccess)
		error = (int)driver.cuCtxGetDevice(&device);
	if (error == cudaSuccess)
		error = (int)driver.cuKernelSetCacheConfig(kernel, (CUfunc_cache)config, device);
	return finish(error);
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *host, int block_size, size_t shared, unsigned int flags)
{
	CUkernel kernel;
	int error = kernel_of(host, &kernel);
	if (error == cudaSuccess)
		error = (int)driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		    blocks, (CUfunction)kernel, block_size, shared, flags);
	return finish(error);
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host,
                                                                 int block_size, size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size,
	                                                              shared, 0);
}

EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *size, const void *host,
                                                             int blocks, int block_size)
{
	CUkernel kernel;
	int error = kernel_of(host, &kernel);
	if (error == cudaSuccess)
		error = (int)driver.cuOccupancyAvailableDynamicSMemPerBlock(
		    size, (CUfunction)kernel, blocks, block_size);
	return finish(error);
}
