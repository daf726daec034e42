/* Physical memory of the application, and its handles. Rules: runs inside the user's process, within its calls. */
#include "core/memory/own/own.h"

#include <stdlib.h>

#include "core/memory/own/books.h"

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/memory/arena/arena.h"
#include "core/budget/exported.h"
#include "core/memory/alloc/provider.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/room.h"
#include "core/memory/alloc/vmem.h"

pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
/* Ours as long as they have a name or mapping, the driver's while the program has them. */
struct own *own_by_name;

/* No address looks like this, and no handle of a driver is known to. */
#define OURS      ((CUmemGenericAllocationHandle)0x5350 << 48)
#define OURS_MASK ((CUmemGenericAllocationHandle)0xffff << 48)
static _Atomic uint64_t names;
static _Atomic size_t imports; /* in the books; mostly none */

bool own_is_ours(CUmemGenericAllocationHandle handle)
{
	return (handle & OURS_MASK) == OURS;
}

static bool is_ours(const struct own *p)
{
	return own_is_ours(p->name);
}

struct own *own_find(CUmemGenericAllocationHandle name)
{
	struct own *p;

	HASH_FIND(hh, own_by_name, &name, sizeof(name), p);
	return p;
}

/* --- making --- */

/* Whether it is to have a handle of ours; else it stays where it is made. */
static bool can_move(struct device *device, enum segment_side side, const CUmemAllocationProp *prop)
{
	/* A job that nobody named or limited moves nothing but what the device was too full for. */
	return !prop->allocFlags.usage && (vmem_is_elastic() || side == SEGMENT_ON_HOST) &&
	       arena_of(device);
}

/* With the lock held. */
static bool name(struct own *p)
{
	HASH_ADD(hh, own_by_name, name, sizeof(p->name), p);
	p->is_named = p->hh.tbl != NULL;
	return p->is_named;
}

static void unname(struct own *p)
{
	if (p->is_named)
		HASH_DEL(own_by_name, p);
	p->is_named = false;
}

/* The driver gives a handle to new memory: what had it is leaving, or gone by a way that we did not see. */
static void supersede(CUmemGenericAllocationHandle handle)
{
	struct own *last = own_find(handle);

	if (!last)
		return;
	unname(last);
	last->handles = 0;
	own_drop_unless_used(last);
}

static void enter(struct device *device, enum segment_side side, uint64_t bytes,
                  const CUmemAllocationProp *prop, CUmemGenericAllocationHandle *handle)
{
	struct own *p = calloc(1, sizeof(*p));

	if (p) {
		p->name = p->handle = *handle;
		p->device = device;
		p->side = side;
		p->bytes = bytes;
		p->charged = bytes;
		p->handles = 1;
		p->asked = *prop;
		p->pinned = side == SEGMENT_ON_DEVICE && device_setting(device, pin_new);
		if (can_move(device, side, prop))
			p->name = OURS | (++names & ~OURS_MASK);
		pthread_mutex_lock(&own_lock);
		supersede(p->name);
		if (name(p)) {
			*handle = p->name;
			own_recount(p);
			if (is_ours(p) && side == SEGMENT_ON_HOST)
				arena_of(device)->on_host += bytes;
		}
		pthread_mutex_unlock(&own_lock);
	}
	if (!p || !p->is_named) {
		/* Not followed any more: charged until the process ends, which errs on the safe
		 * side. */
		log_once(LOG_WARNING, "out of host memory for book-keeping of cuMemCreate");
		free(p);
	}
}

static bool is_for_export(const CUmemAllocationProp *prop)
{
	return prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
}

/* The program wants to be told first, so that it gives back what it caches. */
static bool must_refuse_first(struct device *device)
{
	return statistics_get(&device->statistics->refusals) < device_setting(device, spill_after);
}

static CUresult create_on_host(struct device *device, CUmemGenericAllocationHandle *handle,
                               size_t size, const CUmemAllocationProp *prop,
                               enum spill_reason reason, struct deadline *until)
{
	struct config_gpu settings = device_settings(device);
	CUresult result;

	if (settings.spill != SPILL_AUTO && settings.spill != SPILL_VMM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Told first is who is at its limit, not who is evicted. */
	if (is_for_export(prop) || (reason != SPILL_EVICTED && must_refuse_first(device)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (room_charge_host(device, size, until) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = provider_vmm_create(device, size, prop, handle);
	if (result != CUDA_SUCCESS) {
		device_uncharge(device, SEGMENT_ON_HOST, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	enter(device, SEGMENT_ON_HOST, size, prop, handle);
	room_note_spill(device, size, reason, NULL);
	wanted_wake(device);
	return CUDA_SUCCESS;
}

/* What cannot be made on the host has others leave the device; what can goes there and comes back when it is needed. */
static int charge(struct device *device, size_t size, const CUmemAllocationProp *prop,
                  struct deadline *until)
{
	int error = room_charge(device, size, until);

	return error && is_for_export(prop) && !must_refuse_first(device)
	           ? room_charge_for_good(device, size, until)
	           : error;
}

static bool make_room_on_device(struct device *device, size_t size, const CUmemAllocationProp *prop,
                                struct deadline *until)
{
	return room_make(device, &(struct wanted){size, size, until}) ||
	       (is_for_export(prop) && wanted_room(device, size, until));
}

/* While the device is evicted; where the host has no room, what the limit allows is still the program's. */
static bool create_evicted(struct device *device, CUmemGenericAllocationHandle *handle, size_t size,
                           const CUmemAllocationProp *prop, struct deadline *until)
{
	return device_is_evicted(device) && can_move(device, SEGMENT_ON_HOST, prop) &&
	       create_on_host(device, handle, size, prop, SPILL_EVICTED, until) == CUDA_SUCCESS;
}

/* Says that memory which is to be exported is refused, because the limit is full of its like. */
static void say_refused(struct device *device, size_t size)
{
	char bytes[32], enough[64];

	log_once(LOG_WARNING,
	         "gpu %d: %s that are to be exported (cuMemCreate) cannot be on the host, and the "
	         "program gets out of memory: what cannot leave the device fills memory_limit; %s",
	         device->id.ordinal, units_format_size(size, bytes, sizeof(bytes)),
	         room_enough(device, size, enough, sizeof(enough)));
}

CUresult own_create(struct device_set *devices, CUmemGenericAllocationHandle *handle, size_t size,
                    const CUmemAllocationProp *prop, unsigned long long flags,
                    __typeof__(&cuMemCreate) create)
{
	enum spill_reason reason = SPILL_LIMIT;
	struct device *device = NULL;
	struct deadline until;
	CUresult result;

	if (handle && size && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = device_set_by_handle(devices, prop->location.id);
	/* What is no multiple of any granularity, or of a kind that there is not, is the driver's to refuse. */
	if (!device || size % ((size_t)2 << 20) || flags ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return create(handle, size, prop, flags);
	until = room_deadline(device, is_for_export(prop));
	if (!device_can_hold(device, size)) {
		result = create(handle, size, prop, flags);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		reason = SPILL_DEVICE_FULL;
	} else if (create_evicted(device, handle, size, prop, &until)) {
		return CUDA_SUCCESS;
	} else if (charge(device, size, prop, &until) == 0) {
		result = create(handle, size, prop, flags);
		if (result == CUDA_ERROR_OUT_OF_MEMORY &&
		    make_room_on_device(device, size, prop, &until))
			result = create(handle, size, prop, flags);
		if (result == CUDA_SUCCESS) {
			enter(device, SEGMENT_ON_DEVICE, size, prop, handle);
			return result;
		}
		device_uncharge(device, SEGMENT_ON_DEVICE, size);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		reason = SPILL_DEVICE_FULL;
	}
	if (reason == SPILL_LIMIT && is_for_export(prop) && !must_refuse_first(device))
		say_refused(device, size);
	result = create_on_host(device, handle, size, prop, reason, &until);
	if (result != CUDA_SUCCESS)
		statistics_add(&device->statistics->refusals, 1);
	return result;
}

/* --- handles --- */

bool own_translate(CUmemGenericAllocationHandle *handle)
{
	const struct own *p;
	bool lives;

	if (!own_is_ours(*handle))
		return true;
	pthread_mutex_lock(&own_lock);
	p = own_find(*handle);
	lives = p && p->handles;
	if (lives)
		*handle = p->handle;
	pthread_mutex_unlock(&own_lock);
	return lives;
}

/* Out of the books, with its charge. The memory is released. */
static void forget(struct own *p)
{
	if (p->is_counted)
		statistics_sub(&p->device->statistics->pinned_chunks, p->bytes);
	unname(p);
	if (is_ours(p) && p->side == SEGMENT_ON_HOST)
		arena_of(p->device)->on_host -= p->bytes;
	if (p->side == SEGMENT_ON_DEVICE && p->charged)
		device_uncharge_exported(p->device, p->exported_as, p->charged);
	else if (p->charged)
		device_uncharge(p->device, p->side, p->charged);
	imports -= p->imported;
	if (p->imported_as)
		imported_leave(p->device, p->imported_as);
	free(p);
}

/* The last mapping is gone: of ours, nobody but us has a handle of it. With the lock held. */
void own_drop_unless_used(struct own *p)
{
	if (p->handles || p->mappings || p->leaving)
		return;
	/* Asked twice: what stays is memory nobody ever gets back. */
	if (is_ours(p) && driver.cuMemRelease(p->handle) != CUDA_SUCCESS)
		driver.cuMemRelease(p->handle);
	forget(p);
}

void own_wake_for(struct device *device)
{
	const struct arena_range *range = device ? &arena_ranges[device->id.ordinal] : NULL;

	if (range && atomic_load(&range->base) && range->arena->on_host)
		wanted_wake(device);
}

bool own_release(CUmemGenericAllocationHandle handle, CUresult *result)
{
	struct device *device = NULL;
	struct own *p;

	if (!own_is_ours(handle))
		return false;
	*result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	if (p && p->handles) {
		*result = CUDA_SUCCESS;
		device = p->device;
		if (p->handles == 1 && !p->mappings)
			*result = driver.cuMemRelease(p->handle);
		if (*result == CUDA_SUCCESS && --p->handles == 0 && !p->mappings)
			forget(p);
	}
	pthread_mutex_unlock(&own_lock);
	own_wake_for(device);
	return true;
}

struct own *own_leave(CUmemGenericAllocationHandle handle)
{
	struct own *p;

	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	if (p)
		p->leaving++;
	pthread_mutex_unlock(&own_lock);
	return p;
}

void own_left(struct own *p, bool gone)
{
	struct device *device;

	if (!p)
		return;
	pthread_mutex_lock(&own_lock);
	device = p->device;
	p->leaving--;
	if (gone && p->handles && --p->handles == 0)
		unname(p);
	own_drop_unless_used(p);
	pthread_mutex_unlock(&own_lock);
	if (gone)
		own_wake_for(device);
}

/*
 * The program has one more: `handle`, which the driver has given it and which of ours it never sees. With the lock
 * held.
 */
static void add_handle(struct own *p, CUmemGenericAllocationHandle *handle)
{
	if (is_ours(p)) {
		driver.cuMemRelease(*handle);
		*handle = p->name;
	} else if (p->handles == 0) { /* the first one again after all were released */
		p->name = p->handle = *handle;
		if (!name(p))
			return; /* out of memory: charged as long as it is mapped */
	}
	p->handles++;
}

void own_retained(CUmemGenericAllocationHandle *handle, CUdeviceptr address)
{
	struct mapped_range *range;
	struct own *p;

	pthread_mutex_lock(&own_lock);
	range = own_mapping(address);
	p = range ? range->own : own_find(*handle);
	if (p)
		add_handle(p, handle);
	pthread_mutex_unlock(&own_lock);
}

/* What this process has exported and imports again: it is pinned, so the driver's handle is still the same. */
static struct own *exported_by_us(CUmemGenericAllocationHandle handle)
{
	struct own *p = own_by_name;

	while (p && !(is_ours(p) && p->pinned && p->handle == handle))
		p = p->hh.next;
	return p;
}

/* Memory of the driver's that is in no books here: whose device it is on, or NULL. */
static struct device *device_of(struct device_set *devices, CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = {0};

	if (driver.cuMemGetAllocationPropertiesFromHandle(&prop, handle) != CUDA_SUCCESS ||
	    prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return NULL;
	return device_set_by_handle(devices, prop.location.id);
}

/* The program has this memory already. */
static bool import_again(CUmemGenericAllocationHandle *handle)
{
	struct own *p;

	pthread_mutex_lock(&own_lock);
	p = own_find(*handle);
	if (!p)
		p = exported_by_us(*handle);
	if (p)
		add_handle(p, handle);
	pthread_mutex_unlock(&own_lock);
	return p != NULL;
}

/* False: there is no memory for the books. */
static bool enter_import(struct device *device, CUmemGenericAllocationHandle handle,
                         const struct import *import)
{
	struct own *p = calloc(1, sizeof(*p));
	bool entered;

	if (!p)
		return false;
	p->name = p->handle = handle;
	p->device = device;
	p->side = SEGMENT_ON_DEVICE;
	p->handles = 1;
	p->imported = true;
	p->is_weightless = import->is_weightless || !device;
	p->imported_as = device ? import->key : 0;
	p->charged = p->is_weightless ? 0 : import->bytes;
	pthread_mutex_lock(&own_lock);
	supersede(p->name);
	entered = name(p);
	imports += entered;
	pthread_mutex_unlock(&own_lock);
	if (!entered)
		free(p);
	return entered;
}

static bool charge_import(struct device *device, uint64_t bytes)
{
	struct deadline until;
	char size[32];

	if (!bytes)
		return true;
	until = room_deadline(device, true);
	if (room_charge_for_good(device, bytes, &until) == 0)
		return true;
	log_once(LOG_WARNING,
	         "gpu %d: %s of another job or of a process without Spillway cannot be imported: "
	         "within memory_limit there is no room for it",
	         device->id.ordinal, units_format_size(bytes, size, sizeof(size)));
	return false;
}

static struct import read_import(const struct device *device, const void *shareable,
                                 CUmemAllocationHandleType type)
{
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return imported_read(device, (int)(intptr_t)shareable);
	if (type == CU_MEM_HANDLE_TYPE_FABRIC)
		return imported_read_name(device, shareable, sizeof(CUmemFabricHandle));
	return (struct import){0};
}

CUresult own_imported(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                      const void *shareable, CUmemAllocationHandleType type)
{
	struct device *device;
	struct import import;

	if (import_again(handle))
		return CUDA_SUCCESS;
	device = device_of(devices, *handle);
	import = device ? read_import(device, shareable, type) : (struct import){0};
	if (device && !charge_import(device, import.bytes)) {
		driver.cuMemRelease(*handle);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!enter_import(device, *handle, &import))
		log_once(LOG_WARNING, "out of host memory for book-keeping of imported memory");
	return CUDA_SUCCESS;
}

CUresult own_may_map(CUmemGenericAllocationHandle handle, uint64_t end, uint64_t *charged)
{
	struct device *device = NULL;
	struct own *p;

	*charged = 0;
	if (!atomic_load_explicit(&imports, memory_order_relaxed))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	if (p && p->imported && !p->is_weightless && !p->imported_as && end > p->charged) {
		device = p->device;
		*charged = end - p->charged;
	}
	pthread_mutex_unlock(&own_lock);
	if (!device)
		return CUDA_SUCCESS;
	if (!charge_import(device, *charged))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	if (p)
		p->charged += *charged;
	pthread_mutex_unlock(&own_lock);
	if (!p) /* released meanwhile */
		device_uncharge(device, SEGMENT_ON_DEVICE, *charged);
	return CUDA_SUCCESS;
}

void own_not_mapped(CUmemGenericAllocationHandle handle, uint64_t charged)
{
	struct own *p;

	if (!charged)
		return;
	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	if (p && p->charged >= charged) {
		p->charged -= charged;
		device_uncharge(p->device, SEGMENT_ON_DEVICE, charged);
	}
	pthread_mutex_unlock(&own_lock);
}

void own_exported(struct device_set *devices, CUmemGenericAllocationHandle handle,
                  CUmemAllocationHandleType type, const void *shareable)
{
	bool is_descriptor = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	struct device *device = devices->count ? &devices->device[0] : NULL;
	uint64_t key = 0, bytes = 0;
	struct own *p;

	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	if (p && p->imported && !p->is_weightless && !p->imported_as && !p->charged) {
		/* Nobody knows yet how much it is: who imports it finds no mark, either. */
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
	pthread_mutex_unlock(&own_lock);
}

/* --- what the program is told --- */

bool own_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *prop)
{
	const struct own *p;
	bool spilled;

	pthread_mutex_lock(&own_lock);
	p = own_find(handle);
	spilled = p && p->side == SEGMENT_ON_HOST;
	if (spilled)
		*prop = p->asked;
	pthread_mutex_unlock(&own_lock);
	return spilled;
}

size_t own_granularity(struct device_set *devices, const CUmemAllocationProp *prop,
                       CUmemAllocationGranularity_flags option, size_t granularity)
{
	const struct device *device = NULL;
	size_t on_host;

	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = device_set_by_handle(devices, prop->location.id);
	if (!device)
		return granularity;
	on_host = provider_vmm_granularity(device, option);
	return on_host > granularity ? on_host : granularity;
}
