/* Provider vmm: host-located physical memory by cuMemCreate, mapped into a reserved range. */
#include "core/memory/arena/reach.h"
#include "core/memory/alloc/provider.h"

#include "core/base/log.h"

/* What will not be otherwise as long as the process lives. */
static bool never_works(uint64_t error)
{
	return error == CUDA_ERROR_NOT_SUPPORTED || error == CUDA_ERROR_NOT_PERMITTED;
}

static void note(struct device *device, _Atomic uint64_t *error, CUresult result,
                 enum provider_code code)
{
	if (result == CUDA_SUCCESS)
		statistics_set(&device->statistics->provider, code);
	if (result != CUDA_ERROR_OUT_OF_MEMORY && statistics_get(error) != (uint64_t)result)
		statistics_set(error, (uint64_t)result);
}

/* HOST_NUMA needs a 12.2 driver and a container that allows NUMA calls; HOST a later driver still.
 */
CUresult provider_vmm_create(struct device *device, size_t size, const CUmemAllocationProp *like,
                             CUmemGenericAllocationHandle *handle)
{
	struct statistics *s = device->statistics;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUresult result;

	if (like)
		prop.requestedHandleTypes = like->requestedHandleTypes;
	if (!never_works(statistics_get(&s->numa_error))) {
		prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
		prop.location.id = device->host_node;
		result = driver.cuMemCreate(handle, size, &prop, 0);
		note(device, &s->numa_error, result, PROVIDER_NUMA);
		if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		log_once(LOG_INFO, "gpu %d: HOST_NUMA memory is refused (error %d); trying HOST",
		         device->id.ordinal, (int)result);
	}
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	prop.location.id = 0;
	result = driver.cuMemCreate(handle, size, &prop, 0);
	note(device, &s->host_error, result, PROVIDER_HOST);
	return result;
}

size_t provider_vmm_granularity(const struct device *device,
                                CUmemAllocationGranularity_flags option)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	size_t answer = 0;

	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	prop.location.id = device->host_node;
	if (driver.cuMemGetAllocationGranularity(&answer, &prop, option) == CUDA_SUCCESS)
		return answer;
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	prop.location.id = 0;
	return driver.cuMemGetAllocationGranularity(&answer, &prop, option) == CUDA_SUCCESS ? answer
	                                                                                    : 0;
}

static size_t granularity(struct device *device)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	size_t answer = 0;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device->handle;
	if (driver.cuMemGetAllocationGranularity(
	        &answer, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
	    !answer)
		answer = (size_t)2 << 20;
	return answer;
}

static size_t vmm_rounded(struct device *device, size_t size)
{
	size_t unit = granularity(device);

	return size > SIZE_MAX - unit ? size : (size + unit - 1) / unit * unit;
}

static CUresult vmm_allocate(struct device *device, size_t size, struct backing *backing)
{
	CUmemAccessDesc access[DEVICE_MAX];
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address = 0;
	CUresult result;

	size = vmm_rounded(device, size);
	result = provider_vmm_create(device, size, NULL, &handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemAddressReserve(&address, size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		goto release;
	result = driver.cuMemMap(address, size, 0, handle, 0);
	if (result != CUDA_SUCCESS)
		goto unreserve;
	result = driver.cuMemSetAccess(address, size, access, reach_rights(device, access));
	if (result != CUDA_SUCCESS)
		goto unmap;
	backing->address = address;
	backing->size = size;
	backing->handle = handle;
	return CUDA_SUCCESS;
unmap:
	driver.cuMemUnmap(address, size);
unreserve:
	driver.cuMemAddressFree(address, size);
release:
	driver.cuMemRelease(handle);
	return result;
}

static CUresult vmm_release(const struct backing *backing)
{
	CUresult unmapped = driver.cuMemUnmap(backing->address, backing->size);
	CUresult freed = driver.cuMemAddressFree(backing->address, backing->size);
	CUresult released = driver.cuMemRelease(backing->handle);

	return unmapped != CUDA_SUCCESS ? unmapped : freed != CUDA_SUCCESS ? freed : released;
}

const struct provider provider_vmm = {
    .factory = {"vmm", 300},
    .kind = SPILL_VMM,
    .outlives_context = true,
    .allocate = vmm_allocate,
    .release = vmm_release,
    .rounded = vmm_rounded,
};
