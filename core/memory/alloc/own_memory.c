/* Room for own memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/own_memory.h"

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/budget/exported.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/provider.h"
#include "core/memory/alloc/room.h"
#include "core/memory/alloc/vmem.h"
#include "core/memory/arena/arena.h"
#include "core/memory/own/own.h"

/* Whether it is to have a handle of ours; else it stays where it is made. */
static bool can_move(struct device *device, enum segment_side side, const CUmemAllocationProp *prop)
{
	/* A job that nobody named or limited moves nothing but what the device was too full for. */
	return !prop->allocFlags.usage && (vmem_is_elastic() || side == SEGMENT_ON_HOST) &&
	       arena_of(device);
}

/* --- making --- */

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
	own_enter(device, SEGMENT_ON_HOST, size, prop, can_move(device, SEGMENT_ON_HOST, prop),
	          handle);
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

CUresult own_memory_create(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                           size_t size, const CUmemAllocationProp *prop, unsigned long long flags,
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
			own_enter(device, SEGMENT_ON_DEVICE, size, prop,
			          can_move(device, SEGMENT_ON_DEVICE, prop), handle);
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

/* --- importing --- */

/* Memory of the driver's that is in no books here: whose device it is on, or NULL. */
static struct device *device_of(struct device_set *devices, CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = {0};

	if (driver.cuMemGetAllocationPropertiesFromHandle(&prop, handle) != CUDA_SUCCESS ||
	    prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return NULL;
	return device_set_by_handle(devices, prop.location.id);
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

CUresult own_memory_import(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                           const void *shareable, CUmemAllocationHandleType type)
{
	struct device *device;
	struct import import;

	if (own_import_again(handle))
		return CUDA_SUCCESS;
	device = device_of(devices, *handle);
	import = device ? read_import(device, shareable, type) : (struct import){0};
	if (device && !charge_import(device, import.bytes)) {
		driver.cuMemRelease(*handle);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!own_enter_import(device, *handle, &import))
		log_once(LOG_WARNING, "out of host memory for book-keeping of imported memory");
	return CUDA_SUCCESS;
}

CUresult own_memory_may_map(CUmemGenericAllocationHandle handle, uint64_t end, uint64_t *charged)
{
	struct device *device = own_uncharged(handle, end, charged);

	if (!device)
		return CUDA_SUCCESS;
	if (!charge_import(device, *charged))
		return CUDA_ERROR_OUT_OF_MEMORY;
	own_charged(device, handle, *charged);
	return CUDA_SUCCESS;
}
