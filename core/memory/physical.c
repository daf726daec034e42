/* Physical memory of the application. Rules: runs inside the user's process, within its calls. */
#include "core/memory/physical.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/base/log.h"
#include "core/memory/provider.h"
#include "core/memory/vmem.h"

struct physical {
	CUmemGenericAllocationHandle handle;
	struct device *device;
	enum segment_side side;
	uint64_t bytes;
	unsigned int references; /* handles and mappings */
	unsigned int handles;
	UT_hash_handle hh;
};

struct mapped_range {
	CUdeviceptr address;
	size_t size;
	struct physical *physical;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *by_handle; /* those with a live handle */
static void *ranges;               /* ordered by address, never overlapping */

static int by_range(const void *a, const void *b)
{
	const struct mapped_range *x = a, *y = b;

	if (x->address + x->size <= y->address)
		return -1;
	return x->address >= y->address + y->size;
}

/* With the lock held. */
static void drop_reference(struct physical *p)
{
	if (--p->references > 0)
		return;
	device_uncharge(p->device, p->side, p->bytes);
	free(p);
}

static void enter(struct device *device, enum segment_side side, uint64_t bytes,
                  CUmemGenericAllocationHandle handle)
{
	struct physical *p = calloc(1, sizeof(*p));

	if (p) {
		p->handle = handle;
		p->device = device;
		p->side = side;
		p->bytes = bytes;
		p->references = p->handles = 1;
		pthread_mutex_lock(&lock);
		HASH_ADD(hh, by_handle, handle, sizeof(p->handle), p);
		pthread_mutex_unlock(&lock);
	}
	if (!p || !p->hh.tbl) {
		/* Not followed any more: charged until the process ends, which errs on the safe
		 * side. */
		log_once(LOG_WARNING, "out of host memory for book-keeping of cuMemCreate");
		free(p);
	}
}

static CUresult create_on_host(struct device *device, CUmemGenericAllocationHandle *handle,
                               size_t size, const CUmemAllocationProp *prop,
                               enum spill_reason reason)
{
	struct config_gpu settings = device_settings(device);
	CUresult result;

	if (settings.spill != SPILL_AUTO && settings.spill != SPILL_VMM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (vmem_charge_host(device, size) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = provider_vmm_create(device, size, prop, handle);
	if (result != CUDA_SUCCESS) {
		device_uncharge(device, SEGMENT_ON_HOST, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	enter(device, SEGMENT_ON_HOST, size, *handle);
	vmem_note_spill(device, size, reason);
	return CUDA_SUCCESS;
}

CUresult physical_create(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                         size_t size, const CUmemAllocationProp *prop, unsigned long long flags,
                         __typeof__(&cuMemCreate) create)
{
	enum spill_reason reason = SPILL_LIMIT;
	struct device *device = NULL;
	CUresult result;

	if (handle && size && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = device_set_by_handle(devices, prop->location.id);
	if (!device)
		return create(handle, size, prop, flags);
	if (vmem_charge(device, size) == 0) {
		result = create(handle, size, prop, flags);
		if (result == CUDA_SUCCESS) {
			enter(device, SEGMENT_ON_DEVICE, size, *handle);
			return result;
		}
		device_uncharge(device, SEGMENT_ON_DEVICE, size);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		reason = SPILL_DEVICE_FULL;
	}
	result = create_on_host(device, handle, size, prop, reason);
	if (result != CUDA_SUCCESS)
		statistics_add(&device->statistics->refusals, 1);
	return result;
}

/* With the lock held. */
static struct physical *find(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	HASH_FIND(hh, by_handle, &handle, sizeof(handle), p);
	return p;
}

void physical_released(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	pthread_mutex_lock(&lock);
	p = find(handle);
	if (p) {
		if (--p->handles == 0)
			HASH_DEL(by_handle, p);
		drop_reference(p);
	}
	pthread_mutex_unlock(&lock);
}

void physical_retained(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	pthread_mutex_lock(&lock);
	p = find(handle);
	if (p) {
		p->handles++;
		p->references++;
	}
	pthread_mutex_unlock(&lock);
}

void physical_mapped(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
	struct mapped_range *range = malloc(sizeof(*range));
	struct physical *p;

	pthread_mutex_lock(&lock);
	p = find(handle);
	if (range && p) {
		struct mapped_range **node;

		*range = (struct mapped_range){address, size, p};
		node = tsearch(range, &ranges, by_range);
		if (node && *node == range) {
			p->references++;
			range = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	free(range);
}

void physical_unmapped(CUdeviceptr address, size_t size)
{
	struct mapped_range key = {.address = address, .size = size};
	struct mapped_range **node;

	pthread_mutex_lock(&lock);
	/* One call may unmap several neighbouring mappings. */
	while ((node = tfind(&key, &ranges, by_range)) != NULL) {
		struct mapped_range *range = *node;

		tdelete(range, &ranges, by_range);
		drop_reference(range->physical);
		free(range);
	}
	pthread_mutex_unlock(&lock);
}
