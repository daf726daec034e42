/* SPDX-License-Identifier: MIT */
/* Arenas. Rules: runs inside the user's process, within its calls. */
#include "core/memory/arena/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/lock.h"
#include "core/base/address_map.h"
#include "core/base/log.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/memory/arena/spare.h"

enum { TIMES_MEMORY = 4, UNITS_MIN = 1024 };

struct arena_range arena_ranges[DEVICE_MAX];

static LOCK_OF(ARENAS) lock = LOCK_FREE;
static struct arena arenas[DEVICE_MAX];

static bool has_vmm(const struct device *device)
{
	int has = 0;

	return driver.cuDeviceGetAttribute(&has,
	                                   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
	                                   device->handle) == CUDA_SUCCESS &&
	       has;
}

/*
 * Returns whether a tier's granularity fits the arena: it must be a unit or divide it. Of memory on
 * the host no more is asked here: making it is tried when it is needed (host_probe.h).
 */
static bool fits_units(struct device *device, enum segment_tier tier)
{
	const struct chunk_source source = spare_source(device);
	size_t size = chunk_granularity(&source, tier, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	return size && ARENA_UNIT % size == 0;
}

static bool make_table(struct arena *arena)
{
	size_t units = arena->size / ARENA_UNIT;
	void *table = mmap(NULL, units * sizeof(*arena->units), PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (table == MAP_FAILED)
		return false;
	arena->units = table;
	if (address_space_open(&arena->space, (uint32_t)units) == 0)
		return true;
	munmap(table, units * sizeof(*arena->units));
	return false;
}

static void drop_table(struct arena *arena)
{
	address_space_close(&arena->space);
	munmap(arena->units, arena->size / ARENA_UNIT * sizeof(*arena->units));
}

static bool arena_enter(struct arena *arena)
{
	const struct address_range range = {arena->base, arena->size, arena, ADDRESS_OF_ARENA};

	return address_map_add(&range) == 0;
}

static bool make_with(struct arena *arena, uint64_t units)
{
	arena->size = units * ARENA_UNIT;
	if (driver.cuMemAddressReserve(&arena->base, arena->size, ARENA_UNIT, 0, 0) != CUDA_SUCCESS)
		return false;
	if (make_table(arena)) {
		if (arena_enter(arena))
			return true;
		drop_table(arena);
	}
	driver.cuMemAddressFree(arena->base, arena->size);
	return false;
}

/* Reserves several times the device's memory, or as much as there are addresses and a table for. */
static bool arena_reserve(struct arena *arena)
{
	uint64_t units = TIMES_MEMORY * (arena->device->id.memory / ARENA_UNIT);

	for (units = units > UNITS_MIN ? units : UNITS_MIN; units >= UNITS_MIN; units /= 2)
		if (make_with(arena, units))
			return true;
	return false;
}

static enum elastic arena_make(struct arena *arena, struct device *device)
{
	const struct terms terms = terms_of(device);
	const uint64_t spill = terms.settings.spill;

	if (spill != SPILL_AUTO && spill != SPILL_VMM)
		return ELASTIC_SPILL;
	if (!has_vmm(device) || !fits_units(device, SEGMENT_ON_DEVICE))
		return ELASTIC_NO_VMM;
	if (!fits_units(device, SEGMENT_ON_HOST))
		return ELASTIC_NO_HOST;
	arena->device = device;
	if (!arena_reserve(arena))
		return ELASTIC_NO_ADDRESSES;
	lock_init(&arena->lock);
	return ELASTIC_YES;
}

static void say_why_not(const struct device *device, enum elastic elastic)
{
	static const char *const why[] = {
	    [ELASTIC_NO_VMM] = "it has no virtual memory management in units of 2 MiB",
	    [ELASTIC_NO_HOST] = "memory on the host is refused by the driver or this container",
	    [ELASTIC_SPILL] = "spill says otherwise",
	    [ELASTIC_NO_ADDRESSES] = "no addresses are left",
	};

	log_info("gpu %d: live memory cannot move: %s", device->id.ordinal, why[elastic]);
}

/* --- as a resource of the registry --- */

struct arena_view {
	struct resource resource;
	struct arena *arena;
};

static void view_describe(const struct resource *resource, char *buf, size_t size)
{
	struct arena *arena = ((const struct arena_view *)resource)->arena;
	size_t chunks = 0;

	lock_acquire(&arena->lock);
	for (uint32_t i = 0; i < arena->top; i++)
		chunks += arena->units[i].kind != UNIT_FREE && arena->units[i].units;
	lock_release(&arena->lock);
	snprintf(buf, size, "%zu chunks in %" PRIu64 " bytes of addresses", chunks, arena->size);
}

static void view_destroy(struct resource *resource)
{
	free(resource);
}

const struct resource_type arena_view_type = {
    .name = "arena_view", .describe = view_describe, .destroy = view_destroy};

/*
 * Enters the arena's view in the registry. Without memory for it the view is not there, and nothing
 * else is wrong.
 */
static void view_register(struct arena *arena)
{
	struct arena_view *view = calloc(1, sizeof(*view));

	if (!view)
		return;
	resource_init(&view->resource, &arena_view_type);
	view->arena = arena;
	if (registry_add(arena->device->registry, NULL, "arena", &view->resource) != 0)
		resource_release(&view->resource);
}

/* --- finding one --- */

struct arena *arena_made(const struct device *device)
{
	const struct arena_range *range = &arena_ranges[device->id.ordinal];

	return atomic_load_explicit(&range->base, memory_order_acquire) ? range->arena : NULL;
}

struct arena *arena_of(struct device *device)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];

	if (device_elastic(device) > ELASTIC_YES)
		return NULL;
	if (arena_made(device))
		return range->arena;
	lock_acquire(&lock);
	if (!atomic_load(&range->base) && device_elastic(device) == ELASTIC_UNUSED) {
		struct arena *arena = &arenas[device->id.ordinal];
		enum elastic made = arena_make(arena, device);

		if (made == ELASTIC_YES) {
			range->arena = arena;
			atomic_store(&range->end, arena->base + arena->size);
			atomic_store_explicit(&range->base, arena->base, memory_order_release);
			wanted_open(device);
			view_register(arena);
		} else {
			say_why_not(device, made);
		}
		device_note_elastic(device, made);
	}
	lock_release(&lock);
	return arena_made(device);
}

struct arena *arena_at(CUdeviceptr address)
{
	struct address_range found;

	return address_map_find(address, &found) && found.kind == ADDRESS_OF_ARENA ? found.owner
	                                                                           : NULL;
}
