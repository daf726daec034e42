/* SPDX-License-Identifier: MIT */
/* Handles of own memory. Rules: runs inside the user's process, within its calls. */
#include "core/base/lock.h"
#include "core/memory/own/own.h"

#include "core/memory/own/books.h"

#include "core/budget/exported.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/spare.h"

bool own_translate(CUmemGenericAllocationHandle *handle)
{
	struct own *p;
	bool lives;

	if (!own_is_ours(*handle))
		return true;
	lock_acquire(&own_lock);
	p = own_find(*handle);
	lives = p && p->handles;
	if (lives)
		*handle = p->handle;
	lock_release(&own_lock);
	return lives;
}

struct device *own_unreadable_on_host(CUmemGenericAllocationHandle handle, unsigned int types,
                                      uint64_t *bytes)
{
	struct device *device = NULL;
	const struct own *p;

	lock_acquire(&own_lock);
	p = own_is_ours(handle) ? own_find(handle) : NULL;
	if (p && p->handles && !own_is_movable(p) && p->tier == SEGMENT_ON_HOST &&
	    p->asked.requestedHandleTypes & types) {
		device = p->device;
		*bytes = p->bytes;
	}
	lock_release(&own_lock);
	return device;
}

bool own_release(CUmemGenericAllocationHandle handle, CUresult *result)
{
	struct device *device = NULL;
	struct own *p;

	if (!own_is_ours(handle))
		return false;
	*result = CUDA_ERROR_INVALID_VALUE;
	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p && p->handles) {
		*result = CUDA_SUCCESS;
		device = p->device;
		if (p->handles == 1 && !p->mappings)
			*result = driver.cuMemRelease(p->handle);
		if (*result == CUDA_SUCCESS && --p->handles == 0 && !p->mappings)
			own_forget(p);
	}
	lock_release(&own_lock);
	own_wake_for(device);
	return true;
}

struct own *own_leave(CUmemGenericAllocationHandle handle)
{
	struct own *p;

	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p)
		p->leaving++;
	lock_release(&own_lock);
	return p;
}

void own_left(struct own *p, bool gone)
{
	struct device *device;

	if (!p)
		return;
	lock_acquire(&own_lock);
	device = p->device;
	p->leaving--;
	if (gone && p->handles && --p->handles == 0)
		own_unname(p);
	own_drop_unless_used(p);
	lock_release(&own_lock);
	if (gone)
		own_wake_for(device);
}

/*
 * Adds a handle that the program has: `handle`, which the driver has given it and which of ours it
 * never sees. With the lock held.
 */
static void handles_add_handle(struct own *p, CUmemGenericAllocationHandle *handle)
{
	if (own_is_ours(p->name)) {
		driver.cuMemRelease(*handle);
		*handle = p->name;
	} else if (p->handles == 0) { /* the first one again after all were released */
		p->name = p->handle = *handle;
		if (!own_name(p))
			return; /* out of memory: charged as long as it is mapped */
	}
	p->handles++;
}

void own_retained(CUmemGenericAllocationHandle *handle, CUdeviceptr address)
{
	struct mapped_range *range;
	struct own *p;

	lock_acquire(&own_lock);
	range = own_mapping(address);
	p = range ? range->own : own_find(*handle);
	if (p)
		handles_add_handle(p, handle);
	lock_release(&own_lock);
}

/*
 * Finds memory that this process has exported and imports again: it is pinned, so the driver's
 * handle is still the same.
 */
static struct own *exported_by_us(CUmemGenericAllocationHandle handle)
{
	struct own *p = own_by_name;

	while (p && !(own_is_ours(p->name) && p->pinned && p->handle == handle))
		p = p->hh.next;
	return p;
}

bool own_import_again(CUmemGenericAllocationHandle *handle)
{
	struct own *p;

	lock_acquire(&own_lock);
	p = own_find(*handle);
	if (!p)
		p = exported_by_us(*handle);
	if (p)
		handles_add_handle(p, handle);
	lock_release(&own_lock);
	return p != NULL;
}

struct device *own_uncharged(CUmemGenericAllocationHandle handle, uint64_t end, uint64_t *bytes)
{
	struct device *device = NULL;
	const struct own *p;

	*bytes = 0;
	if (!atomic_load_explicit(&own_imports, memory_order_relaxed))
		return NULL;
	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p && p->imported && !p->is_weightless && !p->imported_as && end > p->charged) {
		device = p->device;
		*bytes = end - p->charged;
	}
	lock_release(&own_lock);
	return device;
}

void own_charged(struct device *device, CUmemGenericAllocationHandle handle, uint64_t bytes)
{
	struct own *p;

	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p) {
		p->charged += bytes;
		device_count_elsewhere(device, (int64_t)bytes);
	}
	lock_release(&own_lock);
	if (!p) /* released meanwhile */
		device_uncharge(device, SEGMENT_ON_DEVICE, bytes);
}

void own_not_mapped(CUmemGenericAllocationHandle handle, uint64_t charged)
{
	struct own *p;

	if (!charged)
		return;
	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p && p->charged >= charged) {
		p->charged -= charged;
		device_count_elsewhere(p->device, -(int64_t)charged);
		device_uncharge(p->device, SEGMENT_ON_DEVICE, charged);
	}
	lock_release(&own_lock);
}

void own_exported(struct device_set *devices, CUmemGenericAllocationHandle handle,
                  CUmemAllocationHandleType type, const void *shareable)
{
	bool is_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	struct device *device = devices->count ? &devices->device[0] : NULL;
	uint64_t key = 0, bytes = 0;
	struct own *p;

	lock_acquire(&own_lock);
	p = own_find(handle);
	if (p && p->imported && !p->is_weightless && !p->imported_as && !p->charged) {
		/* Its size is not known yet: the importer finds no mark, either. */
		device = NULL;
	} else if (p && p->imported_as) {
		device = p->device;
		key = p->imported_as;
		bytes = segment_exported_bytes(device->segment, key);
	} else if (p && p->charged) {
		device = p->device;
		if (!p->exported_as)
			p->exported_as = exported_as(device, p->charged);
		key = p->exported_as;
		bytes = p->charged;
	}
	if (is_descriptor && device)
		exported_mark(device, *(const int *)shareable, key, bytes);
	else if (type == CU_MEM_HANDLE_TYPE_FABRIC && device && key)
		segment_export_name(device->segment, key, shareable, sizeof(CUmemFabricHandle));
	lock_release(&own_lock);
}

/* --- answers to the program --- */

bool own_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *prop)
{
	const struct own *p;
	bool spilled;

	lock_acquire(&own_lock);
	p = own_find(handle);
	spilled = p && p->tier == SEGMENT_ON_HOST;
	if (spilled)
		*prop = p->asked;
	lock_release(&own_lock);
	return spilled;
}
