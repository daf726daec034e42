/* Physical memory of the application. Rules: runs inside the user's process, within its calls. */
#include "core/memory/physical.h"

#include <pthread.h>
#include <stdbool.h>
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
	CUmemAllocationProp asked; /* by the program */
	bool imported;             /* charged to its owner */
	bool pinned;               /* must stay where it is */
	UT_hash_handle hh;
};

struct mapped_range {
	CUdeviceptr address;
	size_t size;
	struct physical *physical;
	uint16_t readable, writable; /* by which devices of the set, a bit each */
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
	if (!p->imported)
		device_uncharge(p->device, p->side, p->bytes);
	free(p);
}

/* prop: what the program asked for; NULL: the memory is another's. */
static void enter(struct device *device, enum segment_side side, uint64_t bytes,
                  const CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	struct physical *p = calloc(1, sizeof(*p));

	if (p) {
		p->handle = handle;
		p->device = device;
		p->side = side;
		p->bytes = bytes;
		p->references = p->handles = 1;
		p->imported = !prop;
		if (prop)
			p->asked = *prop;
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
	enter(device, SEGMENT_ON_HOST, size, prop, *handle);
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
	/* A size that is no multiple of any granularity is the driver's to refuse. */
	if (!device || size % ((size_t)2 << 20))
		return create(handle, size, prop, flags);
	if (!device_can_hold(device, size)) {
		result = create(handle, size, prop, flags);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		reason = SPILL_DEVICE_FULL;
	} else if (vmem_charge(device, size) == 0) {
		result = create(handle, size, prop, flags);
		if (result == CUDA_SUCCESS) {
			enter(device, SEGMENT_ON_DEVICE, size, prop, *handle);
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

/* One more handle, the first one again after all were released while it stayed mapped. With the lock held. */
static void add_handle(struct physical *p, CUmemGenericAllocationHandle handle)
{
	if (p->handles == 0) {
		p->handle = handle;
		HASH_ADD(hh, by_handle, handle, sizeof(p->handle), p);
		if (!p->hh.tbl)
			return; /* out of memory: charged as long as it is mapped */
	}
	p->handles++;
	p->references++;
}

void physical_retained(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
	const struct mapped_range key = {.address = address, .size = 1};
	struct mapped_range **node;
	struct physical *p;

	pthread_mutex_lock(&lock);
	p = find(handle);
	node = p ? NULL : tfind(&key, &ranges, by_range);
	if (node)
		p = (*node)->physical;
	if (p)
		add_handle(p, handle);
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

		*range = (struct mapped_range){.address = address, .size = size, .physical = p};
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

void physical_imported(struct device *device, CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	pthread_mutex_lock(&lock);
	p = find(handle);
	if (p)
		add_handle(p, handle);
	pthread_mutex_unlock(&lock);
	if (!p)
		enter(device, SEGMENT_ON_DEVICE, 0, NULL, handle);
}

void physical_pin(CUmemGenericAllocationHandle handle)
{
	struct physical *p;

	pthread_mutex_lock(&lock);
	p = find(handle);
	if (p)
		p->pinned = true;
	pthread_mutex_unlock(&lock);
}

/* Does something with each mapping in [address, address + size); with the lock held. */
static void each_mapped(CUdeviceptr address, size_t size,
                        void (*with)(struct mapped_range *range, void *cookie), void *cookie)
{
	CUdeviceptr end = size > UINT64_MAX - address ? UINT64_MAX : address + size;

	while (address < end) {
		struct mapped_range key = {.address = address, .size = 1}, **node;

		node = tfind(&key, &ranges, by_range);
		if (!node)
			return; /* programs map without holes what they then use as one range */
		with(*node, cookie);
		address = (*node)->address + (*node)->size;
	}
}

static void pin(struct mapped_range *range, void *cookie)
{
	(void)cookie;
	range->physical->pinned = true;
}

void physical_pin_range(CUdeviceptr address, size_t size)
{
	pthread_mutex_lock(&lock);
	each_mapped(address, size, pin, NULL);
	pthread_mutex_unlock(&lock);
}

static void allow(struct mapped_range *range, void *cookie)
{
	const CUmemAccessDesc *access = cookie;
	uint16_t bit = (uint16_t)(1u << access->location.id);

	range->readable &= (uint16_t)~bit;
	range->writable &= (uint16_t)~bit;
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		range->readable |= bit;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		range->writable |= bit;
}

void physical_accessed(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                       size_t count)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++) {
		CUmemAccessDesc one = access[i];

		if (one.location.type == CU_MEM_LOCATION_TYPE_DEVICE && one.location.id >= 0 &&
		    one.location.id < DEVICE_MAX)
			each_mapped(address, size, allow, &one);
	}
	pthread_mutex_unlock(&lock);
}

bool physical_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *prop)
{
	const struct physical *p;
	bool spilled;

	pthread_mutex_lock(&lock);
	p = find(handle);
	spilled = p && p->side == SEGMENT_ON_HOST;
	if (spilled)
		*prop = p->asked;
	pthread_mutex_unlock(&lock);
	return spilled;
}

size_t physical_granularity(struct device_set *devices, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option, size_t granularity)
{
	const struct device *device = NULL;
	size_t on_host;

	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = device_set_by_handle(devices, prop->location.id);
	if (!device || prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return granularity;
	on_host = provider_vmm_granularity(device, option);
	return on_host > granularity ? on_host : granularity;
}
