/* SPDX-License-Identifier: MIT */
/* Room for own memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/own_memory.h"

#include "core/base/log.h"
#include "core/budget/exported.h"
#include "core/budget/wanted.h"
#include "core/budget/refusal.h"
#include "core/cuda/gate.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/arena/spare.h"
#include "core/memory/own/own.h"

/* Returns whether it is in one locality domain of a device, of which Spillway can make no copy. */
static bool is_localized(const CUmemAllocationProp *prop)
{
	return prop->location.type == LOCATION_LOCALITY_DOMAIN;
}

/* Returns whether the memory gets a handle of the shim's; else it stays where it is made. */
static bool can_move(struct device *device, enum segment_tier tier, const CUmemAllocationProp *prop)
{
	/* A job without a name and a limit moves only memory for which the device was too full. */
	return !prop->allocFlags.usage && !is_localized(prop) &&
	       (vmem_is_elastic() || tier == SEGMENT_ON_HOST) && arena_of(device);
}

/* --- making --- */

/* A piece that is being made. */
struct own_making {
	struct device *device;
	const struct terms *terms;
	struct reclaim *reclaim;
	size_t size;
	const CUmemAllocationProp *prop;
	struct lack lack;
	enum refusal_reason refused; /* the reason, where it follows from no lack */
};

static bool is_for_export(const CUmemAllocationProp *prop)
{
	return prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
}

/*
 * Returns whether it can be nowhere but on the device. A descriptor is only had by a call, before
 * which the memory comes. PyTorch asks for GPUDirect for each chunk, so that alone says nothing;
 * pin_new is for memory that the network reaches.
 */
static bool must_be_there(const struct own_making *m)
{
	const unsigned int types = m->prop->requestedHandleTypes;

	return m->terms->settings.pin_new || is_localized(m->prop) ||
	       (types & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

/*
 * Returns whether other memory leaves the device for it: so that it is there when it is exported.
 */
static bool is_preferred_there(const struct own_making *m)
{
	return is_for_export(m->prop) || is_localized(m->prop) || m->terms->settings.pin_new;
}

static void own_memory_enter(const struct own_making *m, enum segment_tier tier,
                             CUmemGenericAllocationHandle *handle)
{
	bool is_on_device = tier == SEGMENT_ON_DEVICE;

	own_enter(&(struct own_made){m->device, tier, m->size, m->prop,
	                             can_move(m->device, tier, m->prop),
	                             is_on_device && m->terms->settings.pin_new},
	          handle);
}

static CUresult try_on_host(struct own_making *m, CUmemGenericAllocationHandle *handle)
{
	struct chunk chunk = {.size = m->size, .tier = SEGMENT_ON_HOST, .like = m->prop};
	struct device *device = m->device;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	m->lack = (struct lack){SEGMENT_ON_HOST, m->size, m->size, SPILL_HOST_LIMIT};
	if (device_charge_host(device, m->size, terms_host_limit(m->terms, device)) != 0)
		return result;
	result = spare_create(device, &chunk);
	if (result == CUDA_SUCCESS)
		*handle = chunk.handle;
	else
		device_uncharge(device, SEGMENT_ON_HOST, m->size);
	return result;
}

static bool create_on_host(struct own_making *m, CUmemGenericAllocationHandle *handle,
                           enum spill_reason reason)
{
	enum config_spill spill = (enum config_spill)m->terms->settings.spill;
	struct device *device = m->device;
	CUresult result;

	if ((spill != SPILL_AUTO && spill != SPILL_VMM) || must_be_there(m) ||
	    !host_probe_allows(device))
		return false;
	/* The first reason reported is a limit that was reached, not an eviction or a yield. */
	if (reason != SPILL_EVICTED && reason != SPILL_YIELDED &&
	    refusal_is_wanted(device, m->terms)) {
		m->refused = REFUSED_FIRST;
		return false;
	}
	do
		result = try_on_host(m, handle);
	while (result == CUDA_ERROR_OUT_OF_MEMORY && reclaim(m->reclaim, &m->lack));
	if (result != CUDA_SUCCESS)
		return false;
	own_memory_enter(m, SEGMENT_ON_HOST, handle);
	spill_note(device, m->size, reason, &(struct spilled){0});
	wanted_wake(device);
	return true;
}

static CUresult try_on_device(struct own_making *m, CUmemGenericAllocationHandle *handle,
                              __typeof__(&cuMemCreate) create)
{
	struct device *device = m->device;
	CUresult result;

	m->lack = (struct lack){SEGMENT_ON_DEVICE, m->size, m->size, SPILL_LIMIT};
	if (device_charge(device, m->size) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->lack.why = SPILL_DEVICE_FULL;
	result = create(handle, m->size, m->prop, 0);
	if (result == CUDA_SUCCESS)
		own_memory_enter(m, SEGMENT_ON_DEVICE, handle);
	else
		device_uncharge(device, SEGMENT_ON_DEVICE, m->size);
	if (m->terms->settings.survey == CONFIG_SURVEY_ALWAYS && arena_of(device))
		wanted_wake(device);
	return result;
}

/*
 * Makes memory on the host while the device is evicted or yields; where the host has no room, the
 * program still has the device up to its limit.
 */
static bool create_on_host_first(struct own_making *m, CUmemGenericAllocationHandle *handle)
{
	enum spill_reason why = terms_host_first(m->terms, m->device, m->size);

	return why && can_move(m->device, SEGMENT_ON_HOST, m->prop) &&
	       create_on_host(m, handle, why);
}

static void own_memory_note_refused(const struct own_making *m)
{
	struct refused refused = refusal_by_lack(m->device, m->terms, m->size, &m->lack);

	if (m->refused)
		refused.reason = m->refused;
	else if (refused.reason == REFUSED_MEMORY_LIMIT && must_be_there(m))
		refused.reason = REFUSED_UNMOVABLE;
	refusal_note(m->device,
	             is_for_export(m->prop)       ? REFUSED_EXPORT
	             : m->terms->settings.pin_new ? REFUSED_PINNED
	                                          : REFUSED_ALLOCATION,
	             &refused);
}

static CUresult create_somewhere(struct own_making *m, CUmemGenericAllocationHandle *handle,
                                 __typeof__(&cuMemCreate) create)
{
	struct device *device = m->device;
	CUresult result;

	if (device_can_hold(device, m->size)) {
		if (create_on_host_first(m, handle))
			return CUDA_SUCCESS;
		do
			result = try_on_device(m, handle, create);
		while (result == CUDA_ERROR_OUT_OF_MEMORY && reclaim(m->reclaim, &m->lack));
	} else {
		m->lack = (struct lack){SEGMENT_ON_DEVICE, m->size, m->size, SPILL_DEVICE_FULL};
		result = create(handle, m->size, m->prop, 0);
	}
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	if (create_on_host(m, handle, m->lack.why))
		return CUDA_SUCCESS;
	own_memory_note_refused(m);
	return result;
}

CUresult own_memory_create(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                           size_t size, const CUmemAllocationProp *prop, unsigned long long flags,
                           bool stays, __typeof__(&cuMemCreate) create)
{
	struct own_making making = {.size = size, .prop = prop};
	struct reclaim reclaim;
	struct deadline until;
	struct terms terms;

	if (handle && size && prop)
		making.device = device_set_by_location(devices, &prop->location);
	/* The driver refuses a size that is no multiple of any granularity, or of no kind. */
	if (!making.device || size % ((size_t)2 << 20) || flags ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return create(handle, size, prop, flags);
	terms = terms_of(making.device);
	if (terms.settings.pin_new == CONFIG_AUTO)
		terms.settings.pin_new = stays;
	making.terms = &terms;
	until = reclaim_deadline(&terms, is_preferred_there(&making));
	/*
	 * For memory that may be exported, other memory leaves the device; other requests go to the
	 * host and come back when they are needed.
	 */
	reclaim = (struct reclaim){.device = making.device,
	                           .terms = &terms,
	                           .until = &until,
	                           .may_demote = is_preferred_there(&making) &&
	                                         !refusal_is_wanted(making.device, &terms)};
	making.reclaim = &reclaim;
	return create_somewhere(&making, handle, create);
}

/* --- exporting --- */

/* Maps memory that the program cannot read for as long as the mover needs to bring it. */
static CUresult pin_unreadable(CUmemGenericAllocationHandle handle, unsigned int types,
                               const struct device *device, uint64_t bytes)
{
	const CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->handle},
	                                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle real = handle;
	bool is_mapped = false;
	CUdeviceptr at = 0;
	CUresult result;
	uint64_t so_far;

	if (driver.cuMemAddressReserve(&at, bytes, 0, 0, 0) != CUDA_SUCCESS)
		return own_pin(handle, types);
	gate_enter();
	is_mapped = own_translate(&real) && driver.cuMemMap(at, bytes, 0, real, 0) == CUDA_SUCCESS;
	if (is_mapped) {
		own_mapped(at, bytes, handle);
		if (driver.cuMemSetAccess(at, bytes, &access, 1) == CUDA_SUCCESS)
			own_accessed(at, bytes, &access, 1);
	}
	gate_leave();
	result = own_pin(handle, types);
	if (is_mapped) {
		gate_enter();
		so_far = own_mapped_so_far();
		driver.cuMemUnmap(at, bytes);
		own_unmapped(at, bytes, so_far);
		gate_leave();
	}
	driver.cuMemAddressFree(at, bytes);
	return result;
}

CUresult own_memory_may_export(CUmemGenericAllocationHandle handle, unsigned int types)
{
	uint64_t bytes;
	const struct device *device = own_unreadable_on_host(handle, types, &bytes);

	return device ? pin_unreadable(handle, types, device, bytes) : own_pin(handle, types);
}

/* --- importing --- */

/* Returns the device of a handle of the driver's that is in no books here, or NULL. */
static struct device *own_memory_device_of(struct device_set *devices,
                                           CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = {0};

	if (driver.cuMemGetAllocationPropertiesFromHandle(&prop, handle) != CUDA_SUCCESS)
		return NULL;
	return device_set_by_location(devices, &prop.location);
}

static bool charge_import(struct device *device, uint64_t bytes)
{
	struct refused refused;

	if (!bytes || reclaim_for_good(device, bytes) == 0)
		return true;
	refused = refusal_of_unmovable(device, bytes);
	refusal_note(device, REFUSED_IMPORT, &refused);
	return false;
}

static struct import read_import(struct device *device, const void *shareable,
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
	device = own_memory_device_of(devices, *handle);
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
