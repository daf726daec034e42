/* SPDX-License-Identifier: MIT */
/* Virtual memory management: addresses, physical memory and access, each by itself. */
#include "tests/softgpu/memory.h"

#include <signal.h>
#include <stdlib.h>

#include "tests/softgpu/machine.h"
#include "tests/softgpu/vmm.h"

/* One cuMemAddressReserve. */
struct reservation {
	uint64_t base, size;
	struct reservation *prev, *next;
};

static struct reservation *reservations;

/* Virtual memory calls need no context, but a driver that has them. */
static CUresult enter(const char *call)
{
	CUresult result = enter_driver(call);
	if (result == CUDA_SUCCESS &&
	    !device_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	return result;
}

static bool is_whole(uint64_t base, uint64_t size)
{
	uint64_t unit = config()->granularity;
	return size && base % unit == 0 && size % unit == 0 && window_holds(base) &&
	       size <= window_size() - (base - window_base());
}

static struct reservation *reservation_of(uint64_t base, uint64_t size)
{
	struct reservation *reservation;
	DL_FOREACH (reservations, reservation) {
		if (base >= reservation->base &&
		    base + size <= reservation->base + reservation->size)
			return reservation;
	}
	return NULL;
}

bool reservation_find(uint64_t address, uint64_t *base, uint64_t *size)
{
	const struct reservation *reservation = reservation_of(address, 1);
	if (reservation) {
		*base = reservation->base;
		*size = reservation->size;
	}
	return reservation != NULL;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment,
                                    CUdeviceptr wish, unsigned long long flags)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags != 0 || size == 0 || size % config()->granularity != 0 ||
	    (alignment & (alignment - 1)) != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct reservation *reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	pthread_rwlock_wrlock(&memory_lock);
	if (alignment < config()->granularity)
		alignment = config()->granularity;
	reservation->base = window_reserve(size, alignment, wish);
	pthread_rwlock_unlock(&memory_lock);
	if (!reservation->base) {
		free(reservation);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	reservation->size = size;
	DL_APPEND(reservations, reservation);
	*out = reservation->base;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr base, size_t size)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct reservation *reservation = size ? reservation_of(base, size) : NULL;
	if (!reservation || reservation->base != base || reservation->size != size ||
	    range_overlaps(base, size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	pthread_rwlock_wrlock(&memory_lock);
	window_unreserve(base, size);
	pthread_rwlock_unlock(&memory_lock);
	DL_DELETE(reservations, reservation);
	free(reservation);
	return leave(CUDA_SUCCESS);
}

/* The node of the host, or NULL where there is none of that number. */
static const struct numa_node *node_of(int id)
{
	return id >= 0 && id < config()->node_count ? &config()->nodes[id] : NULL;
}

/* The memory of each node that virtual memory of this process takes. */
static uint64_t taken[MAX_NUMA_NODES];

/*
 * Takes memory of a node. Drivers were seen to refuse nodes without processors (NVIDIA/nccl#2190).
 */
static CUresult take_of_node(int id, uint64_t size)
{
	const struct numa_node *node = node_of(id);
	if (config()->traits.host_numa_crashes || node->crashes)
		raise(SIGSEGV);
	if (!node->has_cpus || !node->memory)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > node->memory - taken[id])
		return CUDA_ERROR_OUT_OF_MEMORY;
	taken[id] += size;
	return CUDA_SUCCESS;
}

void node_give_back(const struct physical *physical)
{
	if (physical->properties.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
		taken[physical->properties.location.id] -= physical->size;
}

/*
 * Returns whether memory can be made with these properties; the device it takes memory of, or -1.
 */
static CUresult check_properties(const CUmemAllocationProp *properties, int *device)
{
	if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    properties->win32HandleMetaData)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
		/* Memory of the host cannot be exported, and descriptors are all there is. */
		if (properties->location.type == CU_MEM_LOCATION_TYPE_HOST)
			return CUDA_ERROR_INVALID_VALUE;
		if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		    !device_attribute(
		        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
			return CUDA_ERROR_NOT_SUPPORTED;
	}
	bool has_host_vmm =
	    device_attribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	bool has_host_numa =
	    device_attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	switch ((int)properties->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*device = properties->location.id;
		return device_of(*device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
		*device = -1;
		return has_host_vmm ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		*device = -1;
		if (!has_host_numa)
			return CUDA_ERROR_NOT_SUPPORTED;
		return node_of(properties->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	default: /* HOST_NUMA_CURRENT, too */
		return CUDA_ERROR_INVALID_VALUE;
	}
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	int device;
	if (!out || flags != 0 || size == 0 || size % config()->granularity != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	result = check_properties(properties, &device);
	bool of_node =
	    result == CUDA_SUCCESS && properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
	if (of_node)
		result = take_of_node(properties->location.id, size);
	if (result != CUDA_SUCCESS)
		return leave(result);
	struct physical *physical;
	result = properties->requestedHandleTypes
	             ? physical_create_exportable(device, size, &physical)
	             : physical_create(device, size, &physical);
	if (result != CUDA_SUCCESS && of_node)
		taken[properties->location.id] -= size;
	if (result != CUDA_SUCCESS)
		return leave(result);
	physical->properties = *properties;
	physical->references = 1;
	physical->exposed = true;
	*out = (CUmemGenericAllocationHandle)physical;
	return leave(CUDA_SUCCESS);
}

struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
	struct physical *physical = handle_find((const void *)handle, HANDLE_PHYSICAL);
	return physical && physical->exposed && physical->references ? physical : NULL;
}

/* Drivers differ: some wait for the work of all contexts before memory goes. */
static void wait_where_drivers_do(void)
{
	if (!config()->traits.unmap_waits && !config()->traits.unmap_holds)
		return;
	if (config()->traits.unmap_holds)
		hold_driver();
	for (struct context *context = contexts; context; context = context->next)
		context_drain(context);
	let_driver_go();
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	wait_where_drivers_do();
	struct physical *physical = physical_of(handle);
	if (!physical)
		return leave(CUDA_ERROR_INVALID_VALUE);
	physical->references--;
	physical_drop(physical);
	return leave(CUDA_SUCCESS);
}

static void count_mapped(const struct physical *physical, int64_t bytes)
{
	if (physical->device >= 0)
		machine_count_mapped(devices[physical->device].machine_index, bytes);
}

EXPORT CUresult cuMemMap(CUdeviceptr base, size_t size, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct physical *physical = physical_of(handle);
	if (!physical || flags != 0 || offset != 0 || size != physical->size ||
	    !is_whole(base, size) || !reservation_of(base, size) || range_overlaps(base, size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct range *range = range_add(RANGE_MAPPING, base, size, NULL);
	if (!range)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	pthread_rwlock_wrlock(&memory_lock);
	range->physical = physical;
	range->device = physical->device;
	window_map(base, physical);
	pthread_rwlock_unlock(&memory_lock);
	count_mapped(physical, (int64_t)size);
	return leave(CUDA_SUCCESS);
}

/* Returns whether [base, base + size) is exactly a run of whole mappings. */
static bool is_mapped_whole(uint64_t base, uint64_t size)
{
	uint64_t at = base;
	while (at < base + size) {
		const struct range *range = range_find(at);
		if (!range || range->kind != RANGE_MAPPING || range->base != at)
			return false;
		at += range->size;
	}
	return at == base + size;
}

/* Work that still uses the memory faults, on hardware, too. */
EXPORT CUresult cuMemUnmap(CUdeviceptr base, size_t size)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	wait_where_drivers_do();
	if (!is_whole(base, size) || !is_mapped_whole(base, size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (uint64_t at = base; at < base + size;) {
		struct range *range = range_find(at);
		struct physical *physical = range->physical;
		at += range->size;
		pthread_rwlock_wrlock(&memory_lock);
		window_unmap(range->base, range->size);
		pthread_rwlock_unlock(&memory_lock);
		range_remove(range);
		count_mapped(physical, -(int64_t)physical->size);
		physical_drop(physical);
	}
	return leave(CUDA_SUCCESS);
}

static bool is_mapped(uint64_t base, uint64_t size)
{
	for (uint64_t at = base; at < base + size; at += GRANULARITY)
		if (!window_page(at)->physical)
			return false;
	return true;
}

static CUresult set_access(uint64_t base, uint64_t size, const CUmemAccessDesc *wanted)
{
	bool read = wanted->flags & CU_MEM_ACCESS_FLAGS_PROT_READ;
	bool write = wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		struct device *device = device_of(wanted->location.id);
		if (!device)
			return CUDA_ERROR_INVALID_DEVICE;
		if (!window_view(device) || !window_allow(base, size, device, read, write))
			return CUDA_ERROR_OUT_OF_MEMORY;
		return CUDA_SUCCESS;
	}
	if (wanted->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	    !node_of(wanted->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = base; at < base + size; at += GRANULARITY)
		if (!is_on_host(at))
			return CUDA_ERROR_NOT_SUPPORTED;
	return window_allow_host(base, size, read, write) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr base, size_t size, const CUmemAccessDesc *wanted,
                               size_t count)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!wanted || count == 0 || !is_whole(base, size) || !reservation_of(base, size) ||
	    !is_mapped(base, size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++)
		if (wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return leave(CUDA_ERROR_INVALID_VALUE);
	pthread_rwlock_wrlock(&memory_lock);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = set_access(base, size, &wanted[i]);
	pthread_rwlock_unlock(&memory_lock);
	return leave(result);
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                               CUdeviceptr address)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !window_holds(address) || !window_page(address)->physical)
		return leave(CUDA_ERROR_INVALID_VALUE);
	const struct device *device = device_of(location->id);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	const struct page *page = window_page(address);
	*flags = page->writable >> device->index & 1   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	         : page->readable >> device->index & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ
	                                               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                              const CUmemAllocationProp *properties,
                                              CUmemAllocationGranularity_flags option)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	int device;
	if (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return leave(CUDA_ERROR_INVALID_VALUE);
	result = check_properties(properties, &device);
	if (result == CUDA_SUCCESS)
		*granularity = config()->granularity;
	return leave(result);
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                       CUmemGenericAllocationHandle handle)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct physical *physical = physical_of(handle);
	if (!properties || !physical)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*properties = physical->properties;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
	CUresult result = enter(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct range *range = range_find((uint64_t)address);
	if (!out || !range || range->kind != RANGE_MAPPING)
		return leave(CUDA_ERROR_INVALID_VALUE);
	range->physical->references++;
	*out = (CUmemGenericAllocationHandle)range->physical;
	return leave(CUDA_SUCCESS);
}
