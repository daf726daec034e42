/* SPDX-License-Identifier: MIT */
/*
 * Pointer queries for memory that is placed by us. Rules: runs inside the user's process, within
 * its calls.
 */
#include "core/memory/alloc/pointer.h"

#include "core/base/log.h"
#include "core/budget/network.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/small.h"
#include "core/memory/own/own.h"
#include "core/memory/alloc/ipc_calls.h"
#include "core/memory/alloc/freed.h"

/*
 * Finds the range that the driver would call its mapping: the chunks it lies in. Returns their
 * bytes.
 */
static uint64_t mapping_of(const struct allocation *a, CUdeviceptr *base)
{
	*base = a->address / ARENA_UNIT * ARENA_UNIT;
	return (a->address + a->size - *base + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
}

/*
 * Returns the number of an allocation's bytes. The driver numbers mappings: theirs would change
 * with each move, and all blocks of a chunk would have the same, which caches of registrations
 * compare.
 */
static uint64_t id_of(struct allocation *a)
{
	static _Atomic uint64_t last = UINT64_C(1) << 62; /* beyond any number of a driver */
	uint64_t found = 0, fresh;

	if ((found = atomic_load(&a->buffer_id)) != 0)
		return found;
	fresh = atomic_fetch_add(&last, 1) + 1;
	return atomic_compare_exchange_strong(&a->buffer_id, &found, fresh) ? fresh : found;
}

/* Returns whether the driver's answer is right: it made the memory, perhaps of several blocks. */
static bool is_the_drivers(const struct allocation *a, CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return !elastic_is(a) && !small_is(a);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return !elastic_is(a) && (atomic_load(&ipc_calls) || !small_is(a));
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return !elastic_is(a);
	default:
		return false;
	}
}

/* Answers for an allocation. Returns false where the answer is the driver's. */
static bool pointer_answer(struct allocation *a, CUpointer_attribute attribute, CUdeviceptr address,
                           void *data, CUresult *result)
{
	CUresult answered = CUDA_SUCCESS;
	CUdeviceptr base;

	if (is_the_drivers(a, attribute))
		return false;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT: /* a pool belongs to its device */
		if (a->pool)
			answered = CUDA_ERROR_INVALID_VALUE;
		else
			*(CUcontext *)data = a->context.handle;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER: /* device memory has none */
		answered = CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = a->context.device->handle;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = a->address;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = a->size;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = a->pool ? pool_handle(a->pool) : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned int *)data = !a->pool && atomic_load(&ipc_calls);
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = id_of(a);
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned int *)data = atomic_load(&a->is_in_order);
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = mapping_of(a, &base);
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		mapping_of(a, (CUdeviceptr *)data);
		break;
	default:
		return false;
	}
	*result = answered;
	return true;
}

/*
 * Returns whether the address is in memory of another process, which the driver takes for a mapping
 * of the program's.
 */
static bool imported_at(CUdeviceptr address, struct allocation *imported)
{
	const struct ipc_calls *ipc = atomic_load(&ipc_calls);
	struct ipc_place place;

	if (!ipc || !ipc->find(address, &place))
		return false;
	*imported = (struct allocation){
	    .context = place.context, .address = place.base, .size = place.size};
	return true;
}

bool pointer_attribute(CUpointer_attribute attribute, CUdeviceptr address, void *data,
                       CUresult *result)
{
	struct allocation *a, imported;
	bool is_ours;

	if (!data)
		return false;
	if (own_attribute(attribute, address, data, result))
		return true;
	if (imported_at(address, &imported))
		return pointer_answer(&imported, attribute, address, data, result);
	a = vmem_at(address);
	if (!a)
		return false;
	is_ours = pointer_answer(a, attribute, address, data, result);
	resource_release(&a->resource);
	return is_ours;
}

static void tell_range(const struct allocation *a, CUdeviceptr *base, size_t *size)
{
	if (base)
		*base = a->address;
	if (size)
		*size = a->size;
}

bool pointer_range(CUdeviceptr address, CUdeviceptr *base, size_t *size)
{
	struct allocation *a, imported;

	if (imported_at(address, &imported)) {
		tell_range(&imported, base, size);
		return true;
	}
	a = vmem_at(address);
	if (!a)
		return false;
	tell_range(a, base, size);
	resource_release(&a->resource);
	return true;
}

/*
 * Brings the memory there in arenas to the device and keeps it there: other processes know its
 * addresses.
 */
static CUresult pin_in_arena(CUdeviceptr address, size_t size)
{
	CUdeviceptr end = address + size;
	CUresult result = CUDA_SUCCESS;
	struct allocation *a;

	while (result == CUDA_SUCCESS && address < end &&
	       (a = allocation_in_arena(address)) != NULL) {
		a->is_shared = true;
		if (!elastic_pin(a->context.device, address))
			result = wanted_pin(a->context.device, address, false,
			                    &DEADLINE_IN(WANTED_ANSWER_NS));
		address = a->address + (a->size + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
		resource_release(&a->resource);
	}
	return result;
}

void pointer_pin(CUdeviceptr address, size_t size)
{
	struct allocation *a = vmem_at(address);

	if (!a)
		a = allocation_find(address);
	if (a) {
		a->is_shared = true;
		resource_release(&a->resource);
	}
	own_pin_range(address, size);
	if (pin_in_arena(address, size) != CUDA_SUCCESS)
		log_once(LOG_WARNING, "memory that other hardware accesses does not fit on the "
		                      "GPU: it stays on the host");
}

/* Set once a program has asked for it, so that copies of programs that did not pay one load. */
static _Atomic bool any_in_order;

bool pointer_keep_order(CUdeviceptr address, bool on)
{
	struct allocation *a = vmem_at(address);
	bool is_ours = a && (elastic_is(a) || small_is(a));

	if (is_ours) {
		atomic_store(&a->is_in_order, on);
		if (on)
			atomic_store(&any_in_order, true);
	}
	if (a)
		resource_release(&a->resource);
	return is_ours;
}

static bool is_in_order(CUdeviceptr address)
{
	struct allocation *a = vmem_at(address);
	bool in_order = a && atomic_load(&a->is_in_order);

	if (a)
		resource_release(&a->resource);
	return in_order;
}

bool pointer_is_in_order(CUdeviceptr one, CUdeviceptr other)
{
	if (__builtin_expect(!atomic_load_explicit(&any_in_order, memory_order_relaxed), 1))
		return false;
	return is_in_order(one) || is_in_order(other);
}
