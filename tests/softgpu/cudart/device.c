/* SPDX-License-Identifier: MIT */
/* Devices: which one a thread uses, its primary context, and the driver's facts about it. */
#include <pthread.h>

#include "tests/softgpu/cudart/cudart.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES]; /* retained once each, until cudaDeviceReset() */
static _Thread_local int chosen_device;

int primary_context(int device, CUcontext *context)
{
	int error = cudaSuccess, count = 0;
	if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS || device < 0 || device >= count ||
	    device >= MAX_DEVICES)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&lock);
	if (!primary[device])
		error = (int)driver.cuDevicePrimaryCtxRetain(&primary[device], device);
	*context = primary[device];
	pthread_mutex_unlock(&lock);
	return error;
}

static int use_device(int device)
{
	CUcontext context;
	int error = primary_context(device, &context);
	if (error == cudaSuccess)
		error = (int)driver.cuCtxSetCurrent(context);
	if (error == cudaSuccess)
		chosen_device = device;
	return error;
}

int enter(void)
{
	int error = open_driver();
	CUcontext current = NULL;
	if (error == cudaSuccess)
		error = (int)driver.cuCtxGetCurrent(&current);
	return error != cudaSuccess || current ? error : use_device(chosen_device);
}

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
	int error = open_driver();
	if (error != cudaSuccess)
		return finish(error);
	error = (int)driver.cuDeviceGetCount(count);
	return finish(error == cudaSuccess && *count == 0 ? (int)cudaErrorNoDevice : error);
}

EXPORT cudaError_t cudaSetDevice(int device)
{
	int error = open_driver();
	return finish(error != cudaSuccess ? error : use_device(device));
}

EXPORT cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
	int error = open_driver();
	CUcontext context;
	if (error == cudaSuccess && (flags & cudaInitDeviceFlagsAreValid))
		error = (int)driver.cuDevicePrimaryCtxSetFlags(device, device_flags);
	return finish(error != cudaSuccess ? error : primary_context(device, &context));
}

EXPORT cudaError_t cudaGetDevice(int *device)
{
	CUcontext current = NULL;
	int error = open_driver();
	if (error == cudaSuccess && !device)
		error = cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return finish(error);
	/* The program may have made a context current by the driver's own calls. */
	if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
		return finish((int)driver.cuCtxGetDevice(device));
	*device = chosen_device;
	return cudaSuccess;
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	int error = open_driver();
	return finish(error != cudaSuccess
	                  ? error
	                  : (int)driver.cuDevicePrimaryCtxSetFlags(chosen_device, flags));
}

EXPORT cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
	int active;
	RUN(driver.cuDevicePrimaryCtxGetState(chosen_device, flags, &active));
}

EXPORT cudaError_t cudaDeviceSynchronize(void)
{
	RUN(driver.cuCtxSynchronize());
}

EXPORT cudaError_t cudaDeviceReset(void)
{
	int device = 0;
	cudaError_t error = cudaGetDevice(&device);
	if (error != cudaSuccess)
		return error;
	pthread_mutex_lock(&lock);
	int result = (int)driver.cuDevicePrimaryCtxReset(device);
	if (device < MAX_DEVICES)
		primary[device] = NULL;
	pthread_mutex_unlock(&lock);
	chosen_device = device;
	driver.cuCtxSetCurrent(NULL);
	return finish(result);
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	int error = open_driver();
	return finish(error != cudaSuccess ? error
	                                   : (int)driver.cuDeviceGetAttribute(
	                                         value, (CUdevice_attribute)attribute, device));
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	int error = open_driver();
	return finish(error != cudaSuccess ? error
	                                   : (int)driver.cuDeviceGetPCIBusId(id, length, device));
}

EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	int error = open_driver();
	return finish(error != cudaSuccess ? error : (int)driver.cuDeviceGetByPCIBusId(device, id));
}

EXPORT cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	RUN(driver.cuCtxGetLimit(value, (CUlimit)limit));
}

EXPORT cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	RUN(driver.cuCtxSetLimit((CUlimit)limit, value));
}

EXPORT cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
	RUN(driver.cuCtxGetCacheConfig((CUfunc_cache *)config));
}

EXPORT cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
	RUN(driver.cuCtxSetCacheConfig((CUfunc_cache)config));
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	RUN(driver.cuCtxGetStreamPriorityRange(least, greatest));
}

EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	RUN(driver.cuDeviceGetDefaultMemPool(pool, device));
}

EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	RUN(driver.cuDeviceGetMemPool(pool, device));
}

EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	RUN(driver.cuDeviceSetMemPool(device, pool));
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	RUN(driver.cuDeviceCanAccessPeer(can, device, peer));
}

EXPORT cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from,
                                             int to)
{
	RUN(driver.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, from, to));
}

EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	CUcontext context;
	int error = enter();
	if (error == cudaSuccess)
		error = primary_context(peer, &context);
	return finish(error != cudaSuccess ? error
	                                   : (int)driver.cuCtxEnablePeerAccess(context, flags));
}

EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	CUcontext context;
	int error = enter();
	if (error == cudaSuccess)
		error = primary_context(peer, &context);
	return finish(error != cudaSuccess ? error : (int)driver.cuCtxDisablePeerAccess(context));
}

/* Their header is not everywhere. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

EXPORT cudaError_t cudaProfilerStart(void)
{
	RUN(driver.cuProfilerStart());
}

EXPORT cudaError_t cudaProfilerStop(void)
{
	RUN(driver.cuProfilerStop());
}

#if CUDART_MAJOR != 12
/* Since 13.1, where the structure is laid out as the driver's. */
EXPORT cudaError_t cudaDeviceGetDevResource(int device, CUdevResource *resource,
                                            CUdevResourceType type);
EXPORT cudaError_t cudaDeviceGetDevResource(int device, CUdevResource *resource,
                                            CUdevResourceType type)
{
	RUN(driver.cuDeviceGetDevResource(device, resource, type));
}
#endif
