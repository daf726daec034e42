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
 * Returns whether a side's granularity fits the arena: it must be a unit or divide it. Of memory on
 * the host no more is asked here: making it is tried when it is needed (host_probe.h).
 */
static bool fits_units(struct device *device, enum segment_side side)
{
	const struct chunk_source source = spare_source(device);
	size_t size = chunk_granularity(&source, side, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

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

static bool enter(struct arena *arena)
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
		if (enter(arena))
			return true;
		drop_table(arena);
	}
	driver.cuMemAddressFree(arena->base, arena->size);
	return false;
}

/* Reserves several times the device's memory, or what there are addresses and a table for. */
static bool reserve(struct arena *arena)
{
	uint64_t units = TIMES_MEMORY * (arena->device->id.memory / ARENA_UNIT);

	for (units = units > UNITS_MIN ? units : UNITS_MIN; units >= UNITS_MIN; units /= 2)
		if (make_with(arena, units))
			return true;
	return false;
}

static enum elastic make(struct arena *arena, struct device *device)
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
	if (!reserve(arena))
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

/* --- as a lookup table; with the arena's lock held while it is looked at --- */

struct arena_view {
	struct lookup_table table;
	struct arena *arena;
};

static struct arena *arena_of_view(struct lookup_table *table)
{
	return ((struct arena_view *)table)->arena;
}

static bool view_find(struct lookup_table *table, uint64_t key, void *value)
{
	const struct arena *arena = arena_of_view(table);
	struct chunk_view *view = value;
	const struct unit *unit;

	if (key - arena->base >= arena->size)
		return false;
	unit = arena_unit(arena, key);
	if (unit->kind == UNIT_FREE)
		return false;
	while (!unit->units && unit > arena->units) /* the chunk's first one says it */
		unit--;
	*view = (struct chunk_view){.address =
	                                arena->base + (uint64_t)(unit - arena->units) * ARENA_UNIT,
	                            .bytes = unit->units * ARENA_UNIT,
	                            .kind = unit->kind,
	                            .side = unit->side,
	                            .pins = unit->pins};
	return true;
}

/* Counts the chunks. */
static size_t view_count(struct lookup_table *table)
{
	const struct arena *arena = arena_of_view(table);
	size_t count = 0;

	for (uint32_t i = 0; i < arena->top; i++)
		count += arena->units[i].kind != UNIT_FREE && arena->units[i].units;
	return count;
}

static void view_begin(struct lookup_table *table)
{
	lock_acquire(&arena_of_view(table)->lock);
}

static void view_end(struct lookup_table *table)
{
	lock_release(&arena_of_view(table)->lock);
}

static void view_describe(const struct resource *resource, char *buf, size_t size)
{
	struct lookup_table *table = (struct lookup_table *)(uintptr_t)resource;

	snprintf(buf, size, "%zu chunks in %" PRIu64 " bytes of addresses",
	         lookup_table_count(table), arena_of_view(table)->size);
}

static void view_destroy(struct resource *resource)
{
	free(resource);
}

const struct resource_type arena_view_type = {
    .name = "arena_view", .describe = view_describe, .destroy = view_destroy};

struct lookup_table *arena_view_create(struct arena *arena)
{
	static const struct lookup_table_kind kind = {
	    .find = view_find, .count = view_count, .begin = view_begin, .end = view_end};
	struct arena_view *view = calloc(1, sizeof(*view));

	if (!view)
		return NULL;
	resource_init(&view->table.resource, &arena_view_type);
	view->table.kind = &kind;
	view->table.value_size = sizeof(struct chunk_view);
	view->arena = arena;
	return &view->table;
}

/*
 * Enters the arena's view in the registry. Without memory for it the view is not there, and nothing
 * else is wrong.
 */
static void view_register(struct arena *arena)
{
	struct lookup_table *view = arena_view_create(arena);

	if (view && registry_add(arena->device->registry, NULL, "arena", &view->resource) != 0)
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
		enum elastic made = make(arena, device);

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
