/* SPDX-License-Identifier: MIT */
/* The properties of a device, laid out as the runtime's version has them (layouts.def). */
#include <string.h>

#include "tests/softgpu/cudart/cudart.h"
#include "tests/softgpu/cudart/layouts.h"

/* A field that is absent from a version has offset -1 there. */
struct place {
	int offset[LAYOUTS];
};

/* The columns of a row, and a name for each field. */
#define STRUCTURE(...)
#define FIELD(structure, field, o11, s11, o12, s12, o13, s13) structure##_##field,
#define GONE                                                  FIELD
enum field {
#include "tests/softgpu/cudart/layouts.def"
};
#undef FIELD
#define FIELD(structure, field, o11, s11, o12, s12, o13, s13) {{o11, o12, o13}},
static const struct place places[] = {
#include "tests/softgpu/cudart/layouts.def"
};
#undef STRUCTURE
#undef FIELD
#undef GONE

#define STRUCTURE(name, ...) name,
#define FIELD(...)
#define GONE(...)
enum structure {
#include "tests/softgpu/cudart/layouts.def"
};
#undef STRUCTURE
#define STRUCTURE(name, v11, v12, v13) {v11, v12, v13},
static const size_t sizes[][LAYOUTS] = {
#include "tests/softgpu/cudart/layouts.def"
};

/* The fields that are one attribute of the driver's each: field, index in it, attribute. */
#define INT_FIELDS(X)                                                                              \
	X(regsPerBlock, 0, MAX_REGISTERS_PER_BLOCK)                                                \
	X(warpSize, 0, WARP_SIZE)                                                                  \
	X(maxThreadsPerBlock, 0, MAX_THREADS_PER_BLOCK)                                            \
	X(maxThreadsDim, 0, MAX_BLOCK_DIM_X)                                                       \
	X(maxThreadsDim, 1, MAX_BLOCK_DIM_Y)                                                       \
	X(maxThreadsDim, 2, MAX_BLOCK_DIM_Z)                                                       \
	X(maxGridSize, 0, MAX_GRID_DIM_X)                                                          \
	X(maxGridSize, 1, MAX_GRID_DIM_Y)                                                          \
	X(maxGridSize, 2, MAX_GRID_DIM_Z)                                                          \
	X(clockRate, 0, CLOCK_RATE)                                                                \
	X(major, 0, COMPUTE_CAPABILITY_MAJOR)                                                      \
	X(minor, 0, COMPUTE_CAPABILITY_MINOR)                                                      \
	X(deviceOverlap, 0, GPU_OVERLAP)                                                           \
	X(multiProcessorCount, 0, MULTIPROCESSOR_COUNT)                                            \
	X(kernelExecTimeoutEnabled, 0, KERNEL_EXEC_TIMEOUT)                                        \
	X(integrated, 0, INTEGRATED)                                                               \
	X(canMapHostMemory, 0, CAN_MAP_HOST_MEMORY)                                                \
	X(computeMode, 0, COMPUTE_MODE)                                                            \
	X(concurrentKernels, 0, CONCURRENT_KERNELS)                                                \
	X(ECCEnabled, 0, ECC_ENABLED)                                                              \
	X(pciBusID, 0, PCI_BUS_ID)                                                                 \
	X(pciDeviceID, 0, PCI_DEVICE_ID)                                                           \
	X(pciDomainID, 0, PCI_DOMAIN_ID)                                                           \
	X(tccDriver, 0, TCC_DRIVER)                                                                \
	X(asyncEngineCount, 0, ASYNC_ENGINE_COUNT)                                                 \
	X(unifiedAddressing, 0, UNIFIED_ADDRESSING)                                                \
	X(memoryClockRate, 0, MEMORY_CLOCK_RATE)                                                   \
	X(memoryBusWidth, 0, GLOBAL_MEMORY_BUS_WIDTH)                                              \
	X(l2CacheSize, 0, L2_CACHE_SIZE)                                                           \
	X(persistingL2CacheMaxSize, 0, MAX_PERSISTING_L2_CACHE_SIZE)                               \
	X(maxThreadsPerMultiProcessor, 0, MAX_THREADS_PER_MULTIPROCESSOR)                          \
	X(streamPrioritiesSupported, 0, STREAM_PRIORITIES_SUPPORTED)                               \
	X(globalL1CacheSupported, 0, GLOBAL_L1_CACHE_SUPPORTED)                                    \
	X(localL1CacheSupported, 0, LOCAL_L1_CACHE_SUPPORTED)                                      \
	X(regsPerMultiprocessor, 0, MAX_REGISTERS_PER_MULTIPROCESSOR)                              \
	X(managedMemory, 0, MANAGED_MEMORY)                                                        \
	X(isMultiGpuBoard, 0, MULTI_GPU_BOARD)                                                     \
	X(multiGpuBoardGroupID, 0, MULTI_GPU_BOARD_GROUP_ID)                                       \
	X(hostNativeAtomicSupported, 0, HOST_NATIVE_ATOMIC_SUPPORTED)                              \
	X(singleToDoublePrecisionPerfRatio, 0, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)              \
	X(pageableMemoryAccess, 0, PAGEABLE_MEMORY_ACCESS)                                         \
	X(concurrentManagedAccess, 0, CONCURRENT_MANAGED_ACCESS)                                   \
	X(computePreemptionSupported, 0, COMPUTE_PREEMPTION_SUPPORTED)                             \
	X(canUseHostPointerForRegisteredMem, 0, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)           \
	X(cooperativeLaunch, 0, COOPERATIVE_LAUNCH)                                                \
	X(cooperativeMultiDeviceLaunch, 0, COOPERATIVE_MULTI_DEVICE_LAUNCH)                        \
	X(pageableMemoryAccessUsesHostPageTables, 0, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) \
	X(directManagedMemAccessFromHost, 0, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)                  \
	X(maxBlocksPerMultiProcessor, 0, MAX_BLOCKS_PER_MULTIPROCESSOR)                            \
	X(accessPolicyMaxWindowSize, 0, MAX_ACCESS_POLICY_WINDOW_SIZE)                             \
	X(hostRegisterSupported, 0, HOST_REGISTER_SUPPORTED)                                       \
	X(sparseCudaArraySupported, 0, SPARSE_CUDA_ARRAY_SUPPORTED)                                \
	X(hostRegisterReadOnlySupported, 0, READ_ONLY_HOST_REGISTER_SUPPORTED)                     \
	X(timelineSemaphoreInteropSupported, 0, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)              \
	X(memoryPoolsSupported, 0, MEMORY_POOLS_SUPPORTED)                                         \
	X(gpuDirectRDMASupported, 0, GPU_DIRECT_RDMA_SUPPORTED)                                    \
	X(gpuDirectRDMAFlushWritesOptions, 0, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)                \
	X(gpuDirectRDMAWritesOrdering, 0, GPU_DIRECT_RDMA_WRITES_ORDERING)                         \
	X(memoryPoolSupportedHandleTypes, 0, MEMPOOL_SUPPORTED_HANDLE_TYPES)                       \
	X(deferredMappingCudaArraySupported, 0, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)             \
	X(ipcEventSupported, 0, IPC_EVENT_SUPPORTED)                                               \
	X(clusterLaunch, 0, CLUSTER_LAUNCH)                                                        \
	X(unifiedFunctionPointers, 0, UNIFIED_FUNCTION_POINTERS)                                   \
	X(deviceNumaConfig, 0, NUMA_CONFIG)                                                        \
	X(deviceNumaId, 0, NUMA_ID)                                                                \
	X(mpsEnabled, 0, MPS_ENABLED)                                                              \
	X(hostNumaId, 0, HOST_NUMA_ID)

#define SIZE_FIELDS(X)                                                      \
	X(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)                   \
	X(memPitch, MAX_PITCH)                                              \
	X(totalConstMem, TOTAL_CONSTANT_MEMORY)                             \
	X(textureAlignment, TEXTURE_ALIGNMENT)                              \
	X(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)                   \
	X(surfaceAlignment, SURFACE_ALIGNMENT)                              \
	X(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) \
	X(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)        \
	X(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK)

/* An attribute that the driver does not answer stays 0. */
static int properties_attribute(int device, CUdevice_attribute attribute)
{
	int value = 0;
	return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

static void properties_put(void *properties, enum layout layout, enum field field, size_t index,
                           const void *value, size_t size)
{
	int offset = places[field].offset[layout];
	if (offset >= 0)
		memcpy((char *)properties + offset + index * size, value, size);
}

static cudaError_t properties_get(void *properties, enum layout layout, int device)
{
	char name[256] = {0};
	CUuuid uuid;
	size_t total;
	int error = open_driver();
	if (error == cudaSuccess && !properties)
		error = cudaErrorInvalidValue;
	if (error == cudaSuccess)
		error = (int)driver.cuDeviceGetName(name, sizeof(name), device);
	if (error == cudaSuccess)
		error = (int)driver.cuDeviceGetUuid(&uuid, device);
	if (error == cudaSuccess)
		error = (int)driver.cuDeviceTotalMem(&total, device);
	if (error != cudaSuccess)
		return finish(error);
	memset(properties, 0, sizes[cudaDeviceProp][layout]);
#define PUT(field, index, value) \
	properties_put(properties, layout, cudaDeviceProp_##field, index, value, sizeof(*(value)))
	PUT(name, 0, &name);
	PUT(uuid, 0, &uuid);
	PUT(totalGlobalMem, 0, &total);
#define X(field, index, attribute) \
	PUT(field, index, &(int){properties_attribute(device, CU_DEVICE_ATTRIBUTE_##attribute)});
	INT_FIELDS(X)
#undef X
#define X(field, attribute) \
	PUT(field, 0,       \
	    &(size_t){(size_t)properties_attribute(device, CU_DEVICE_ATTRIBUTE_##attribute)});
	SIZE_FIELDS(X)
#undef X
	return cudaSuccess;
}

/* Under CUDA 12 this is cudaGetDeviceProperties_v2. */
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	return properties_get(properties, OWN_LAYOUT, device);
}

#if CUDART_MAJOR == 12
#undef cudaGetDeviceProperties
/* CUDA 12's header has no name for this one; it fills the structure of CUDA 11. */
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	return properties_get(properties, CUDA_11_8, device);
}
#endif
