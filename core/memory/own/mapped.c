/* SPDX-License-Identifier: MIT */
/* Mappings of own memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/own/own.h"

#include <stdlib.h>

#include "core/base/address_map.h"
#include "core/base/lock.h"
#include "core/memory/own/books.h"

#include "core/budget/refusal.h"
#include "core/budget/wanted.h"
#include "core/memory/arena/heat.h"

static uint64_t mapped; /* so far */

struct mapped_range *own_mapping(CUdeviceptr address)
{
	struct address_range found;

	return address_map_find(address, &found) && found.kind == ADDRESS_OF_OWN ? found.owner
	                                                                         : NULL;
}

/* --- mappings --- */

static void mapped_take_out(struct mapped_range *range)
{
	struct mapped_range **at = &range->own->mappings;

	address_map_remove(range->address, range);
	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
}

/*
 * Forgets mappings that lie there and are this old, with the lock held. The device of some of it;
 * NULL: none was.
 */
static struct device *forget_mapped(CUdeviceptr address, CUdeviceptr end, uint64_t so_far)
{
	struct device *device = NULL;
	struct mapped_range *range;

	while (address < end && (range = address_map_hold(address, end - address, ADDRESS_OF_OWN,
	                                                  NULL, NULL)) != NULL) {
		address = range->address + range->size;
		if (range->number > so_far) /* another thread was given the addresses meanwhile */
			continue;
		device = range->own->device;
		mapped_take_out(range);
		own_recount(range->own);
		own_drop_unless_used(range->own);
		free(range);
	}
	return device;
}

void own_mapped(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
	struct mapped_range *range = malloc(sizeof(*range));
	struct own *p;

	lock_acquire(&own_lock);
	/*
	 * The driver maps nothing twice: a mapping known there is leaving, or gone by a way that we
	 * did not see.
	 */
	forget_mapped(address, address + size, UINT64_MAX);
	p = own_find(handle);
	if (p && own_is_ours(p->name) && !placement_ask(true, track, address, size))
		p->pinned = true;
	if (range && p) {
		const struct address_range entry = {address, size, range, ADDRESS_OF_OWN};

		*range = (struct mapped_range){.address = address,
		                               .size = size,
		                               .own = p,
		                               .number = ++mapped,
		                               .next = p->mappings};
		if (address_map_add(&entry) == 0) {
			p->mappings = range;
			range = NULL;
			own_recount(p);
		}
	}
	lock_release(&own_lock);
	free(range);
}

uint64_t own_mapped_so_far(void)
{
	uint64_t so_far;

	lock_acquire(&own_lock);
	so_far = mapped;
	lock_release(&own_lock);
	return so_far;
}

void own_unmapped(CUdeviceptr address, size_t size, uint64_t so_far)
{
	struct device *device;

	lock_acquire(&own_lock);
	/* One call may unmap several neighbouring mappings. */
	device = forget_mapped(address, address + size, so_far);
	lock_release(&own_lock);
	own_wake_for(device);
}

/* Does something with each mapping in [address, address + size); with the lock held. */
static void each_mapped(CUdeviceptr address, size_t size,
                        void (*with)(struct mapped_range *range, void *cookie), void *cookie)
{
	CUdeviceptr end = size > UINT64_MAX - address ? UINT64_MAX : address + size;

	while (address < end) {
		struct mapped_range *range = own_mapping(address);

		if (!range)
			return; /* programs map without holes if they then use it as one range */
		with(range, cookie);
		address = range->address + range->size;
	}
}

struct allowing {
	CUdeviceptr address;
	size_t size;
	const CUmemAccessDesc *access;
};

static void allow(struct mapped_range *range, void *cookie)
{
	const struct allowing *now = cookie;
	const CUmemAccessDesc *access = now->access;
	uint16_t bit = (uint16_t)(1u << (access->location.id & (DEVICE_MAX - 1)));

	/* Rights of the host, of many devices, of a part: such a mapping could not be made anew. */
	if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id < 0 ||
	    access->location.id >= DEVICE_MAX || range->address < now->address ||
	    range->size > now->size - (range->address - now->address)) {
		range->own->pinned = true;
	} else {
		range->readable &= (uint16_t)~bit;
		range->writable &= (uint16_t)~bit;
		if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			range->readable |= bit;
		if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			range->writable |= bit;
	}
	own_recount(range->own);
}

void own_accessed(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	lock_acquire(&own_lock);
	for (size_t i = 0; i < count; i++) {
		struct allowing now = {address, size, &access[i]};

		each_mapped(address, size, allow, &now);
	}
	lock_release(&own_lock);
}

/* --- staying on the device --- */

static void mapped_pin(struct mapped_range *range, void *cookie)
{
	(void)cookie;
	range->own->pinned = true;
	own_recount(range->own);
}

/* Returns whether it is on the host and could come, and in *address where it is mapped. */
static bool is_to_come(const struct own *p, CUdeviceptr *address)
{
	if (p->tier != SEGMENT_ON_HOST || p->pinned || !own_is_movable(p))
		return false;
	*address = p->mappings->address;
	return true;
}

CUresult own_pin(CUmemGenericAllocationHandle handle, unsigned int types)
{
	struct device *device = NULL;
	CUresult result = CUDA_SUCCESS;
	bool comes = false;
	CUdeviceptr address = 0;
	struct refused refused;
	uint64_t bytes = 0;
	struct own *p;

	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p && (!types || p->asked.requestedHandleTypes & types)) {
		device = p->device;
		bytes = p->bytes;
		comes = is_to_come(p, &address);
		if (!comes && p->tier == SEGMENT_ON_HOST && types)
			result =
			    CUDA_ERROR_OUT_OF_MEMORY; /* it must stay there, or is not mapped */
		p->pinned |= !comes && result == CUDA_SUCCESS;
		own_recount(p);
	}
	lock_release(&own_lock);
	if (comes &&
	    wanted_pin(device, address, false, &DEADLINE_IN(WANTED_ANSWER_NS)) != CUDA_SUCCESS)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		refused = refusal_of_unmovable(device, bytes);
		refusal_note(device, REFUSED_GIVE, &refused);
	}
	return result;
}

struct coming {
	CUdeviceptr address;
	struct device *device;
};

static void find_to_come(struct mapped_range *range, void *cookie)
{
	struct coming *coming = cookie;

	if (!coming->device && is_to_come(range->own, &coming->address))
		coming->device = range->own->device;
}

void own_pin_range(CUdeviceptr address, size_t size)
{
	struct coming coming;
	CUresult result;

	do {
		coming = (struct coming){0};
		lock_acquire(&own_lock);
		each_mapped(address, size, find_to_come, &coming);
		lock_release(&own_lock);
		result = coming.device ? wanted_pin(coming.device, coming.address, false,
		                                    &DEADLINE_IN(WANTED_ANSWER_NS))
		                       : CUDA_SUCCESS;
	} while (coming.device && result == CUDA_SUCCESS);
	lock_acquire(&own_lock);
	each_mapped(address, size, mapped_pin, NULL);
	lock_release(&own_lock);
}

/* --- answers to the program --- */

struct device *own_device(CUdeviceptr address)
{
	const struct mapped_range *range;
	struct device *device;

	lock_acquire(&own_lock);
	range = own_mapping(address);
	device = range ? range->own->device : NULL;
	lock_release(&own_lock);
	return device;
}

/* Returns whether the answer differs from the driver's, and in *result and *data the answer. */
static bool mapped_answer(const struct own *p, CUpointer_attribute attribute, void *data,
                          CUresult *result)
{
	CUresult answer = CUDA_SUCCESS;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = p->device->handle;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = p->asked.requestedHandleTypes;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(int *)data = p->asked.allocFlags.gpuDirectRDMACapable != 0;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER: /* device memory has none */
		answer = CUDA_ERROR_INVALID_VALUE;
		break;
	default:
		return false;
	}
	*result = answer;
	return true;
}

bool own_attribute(CUpointer_attribute attribute, CUdeviceptr address, void *data, CUresult *result)
{
	const struct mapped_range *range;
	bool is_answered;

	if (!own_mapping(address))
		return false;
	lock_acquire(&own_lock);
	range = own_mapping(address);
	is_answered = range && range->own->tier == SEGMENT_ON_HOST &&
	              mapped_answer(range->own, attribute, data, result);
	lock_release(&own_lock);
	return is_answered;
}
