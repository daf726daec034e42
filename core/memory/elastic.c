/* The elastic allocator. Rules: runs inside the user's process, within its calls. */
#include "core/memory/elastic.h"

#include <errno.h>

#include "core/base/gate.h"
#include "core/memory/allocation.h"
#include "core/memory/arena.h"
#include "core/memory/mapping.h"
#include "core/memory/mixed.h"
#include "core/memory/peer.h"
#include "core/memory/residency.h"
#include "core/memory/spare.h"
#include "core/memory/vmem.h"

/* --- placing chunks --- */

/* A run that is being made: its chunks are mapped one after the other. */
struct placing {
	struct arena *arena;
	enum elastic_place place;
	uint32_t first, units; /* of the run */
	uint32_t done;         /* units that are mapped */
	uint64_t on_host;      /* bytes of them */
	enum spill_reason reason;
	bool made_room;
};

static CUdeviceptr address_of(const struct arena *arena, uint32_t unit)
{
	return arena->base + unit * ARENA_UNIT;
}

/* Of a run of so many units: 2, 8 or 32 MiB, smaller ones at its end. */
static uint32_t chunk_units(const struct placing *run)
{
	uint32_t left = run->units - run->done;
	uint32_t wanted = run->units >= 128 ? 16 : run->units >= 16 ? 4 : 1;

	while (wanted > left)
		wanted /= 4;
	return wanted;
}

static CUresult take_charged(struct device *device, struct physical_chunk *chunk, uint64_t limit)
{
	CUresult result;

	if (spare_take(device, chunk))
		return CUDA_SUCCESS;
	if (device_charge(device, chunk->side, chunk->size, limit) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = spare_create(device, chunk);
	if (result != CUDA_SUCCESS)
		device_uncharge(device, chunk->side, chunk->size);
	return result;
}

static CUresult take_on_device(struct placing *run, struct physical_chunk *chunk)
{
	struct device *device = run->arena->device;
	uint64_t limit = device_limit(device), left = (run->units - run->done) * ARENA_UNIT;
	CUresult result = take_charged(device, chunk, limit);
	bool made_room;

	if (result == CUDA_ERROR_OUT_OF_MEMORY && !run->made_room) {
		run->made_room = true;
		made_room = vmem_make_room(device, left);
		if (spare_trim(device, SEGMENT_ON_DEVICE, true) || made_room)
			result = take_charged(device, chunk, limit);
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		run->reason = device_charged(device, SEGMENT_ON_DEVICE) + chunk->size > limit
		                  ? SPILL_LIMIT
		                  : SPILL_DEVICE_FULL;
	return result;
}

static CUresult take_on_host(struct placing *run, struct physical_chunk *chunk)
{
	struct device *device = run->arena->device;
	CUresult result;

	chunk->side = SEGMENT_ON_HOST;
	if (spare_take(device, chunk))
		return CUDA_SUCCESS;
	if (vmem_charge_host(device, chunk->size) != 0 &&
	    !(vmem_make_room(device, chunk->size) && vmem_charge_host(device, chunk->size) == 0)) {
		run->reason = SPILL_HOST_LIMIT;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = spare_create(device, chunk);
	if (result != CUDA_SUCCESS)
		device_uncharge(device, SEGMENT_ON_HOST, chunk->size);
	return result;
}

static CUresult place_chunk(struct placing *run)
{
	uint32_t units = chunk_units(run);
	struct physical_chunk chunk = {.size = units * ARENA_UNIT, .side = SEGMENT_ON_DEVICE};
	struct unit *first = &run->arena->units[run->first + run->done];
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (run->place == ELASTIC_DEVICE_FIRST)
		result = take_on_device(run, &chunk);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		run->place = ELASTIC_HOST; /* the rest as well: limits seldom rise within a call */
		result = take_on_host(run, &chunk);
	}
	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemMap(address_of(run->arena, run->first + run->done), chunk.size, 0,
	                         chunk.handle, 0);
	if (result != CUDA_SUCCESS) {
		spare_release(run->arena->device, &chunk);
		return result;
	}
	for (uint32_t i = 0; i < units; i++)
		atomic_store_explicit(&first[i].run, run->first, memory_order_relaxed);
	first->handle = chunk.handle;
	first->units = (uint8_t)units;
	first->side = (uint8_t)chunk.side;
	first->pins = 0;
	first->is_exportable = false;
	run->done += units;
	if (chunk.side == SEGMENT_ON_HOST)
		run->on_host += chunk.size;
	return CUDA_SUCCESS;
}

/* Unmaps units of a run that is not, or no longer, known to anybody. */
static void clear_units(struct arena *arena, uint32_t first, uint32_t units, bool keep)
{
	if (units)
		mapping_remove(address_of(arena, first), units * ARENA_UNIT);
	for (uint32_t i = first; i < first + units;) {
		struct unit *unit = &arena->units[i];
		struct physical_chunk chunk = {.handle = unit->handle,
		                               .size = unit->units * ARENA_UNIT,
		                               .side = (enum segment_side)unit->side,
		                               .is_exportable = unit->is_exportable};

		i += unit->units;
		unit->handle = 0;
		unit->units = 0;
		if (keep)
			spare_give(arena->device, &chunk);
		else
			spare_release(arena->device, &chunk);
	}
}

static void give_addresses(struct arena *arena, uint32_t first, uint32_t units)
{
	pthread_mutex_lock(&arena->lock);
	address_space_give(&arena->space, first, units);
	pthread_mutex_unlock(&arena->lock);
}

/* Maps all of the run and gives the rights. */
static CUresult place_chunks(struct placing *run)
{
	CUmemAccessDesc access[DEVICE_MAX];
	CUresult result = CUDA_SUCCESS;

	while (run->done < run->units && result == CUDA_SUCCESS)
		result = place_chunk(run);
	if (result != CUDA_SUCCESS)
		return result;
	return driver.cuMemSetAccess(address_of(run->arena, run->first), run->units * ARENA_UNIT,
	                             access, peer_access(run->arena->device, access));
}

static bool is_mixed(const struct placing *run)
{
	return run->on_host && run->on_host < run->units * ARENA_UNIT;
}

/* Where its chunks on the host begin: behind those on the device. */
static CUdeviceptr border_of(const struct placing *run)
{
	return address_of(run->arena, run->first + run->units) - run->on_host;
}

/* Maps a run; nobody knows of it yet. */
static CUresult place_run(struct placing *run)
{
	struct arena *arena = run->arena;
	CUresult result;

	pthread_mutex_lock(&arena->lock);
	run->first = address_space_take(&arena->space, run->units, 1);
	if (run->first != ADDRESS_NONE && arena->top < run->first + run->units)
		arena->top = run->first + run->units;
	pthread_mutex_unlock(&arena->lock);
	if (run->first == ADDRESS_NONE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = place_chunks(run);
	if (result == CUDA_SUCCESS && is_mixed(run))
		mixed_try(arena->device, border_of(run));
	if (result == CUDA_SUCCESS && is_mixed(run) && !mixed_is_possible(arena->device)) {
		clear_units(arena, run->first, run->done, true);
		run->done = 0;
		run->on_host = 0;
		result = place_chunks(run); /* all on the host, where the last one was */
	}
	if (result == CUDA_SUCCESS)
		return result;
	clear_units(arena, run->first, run->done, false);
	give_addresses(arena, run->first, run->units);
	return result;
}

/* With the arena's lock held: what is on the device of a chunk under pin_new stays there. */
static void pin_new(struct arena *arena, struct unit *unit)
{
	if (!unit->units || unit->pins || unit->side != SEGMENT_ON_DEVICE ||
	    !device_settings(arena->device).pin_new)
		return;
	unit->pins = 1;
	statistics_add(&arena->device->statistics->pinned_chunks, unit->units * ARENA_UNIT);
}

/* With the arena's lock held: nobody uses the chunk any more. */
static void unpin(struct arena *arena, struct unit *unit)
{
	if (unit->pins)
		statistics_sub(&arena->device->statistics->pinned_chunks, unit->units * ARENA_UNIT);
	unit->pins = 0;
}

/* With the arena's lock held. */
static void publish(const struct placing *run, enum chunk_kind kind)
{
	struct unit *unit = &run->arena->units[run->first];

	atomic_store_explicit(&unit->touched, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < run->units; i++) {
		unit[i].kind = (uint8_t)kind;
		if (kind == UNIT_OF_ALLOCATION)
			pin_new(run->arena, &unit[i]);
	}
	run->arena->on_host += run->on_host;
}

/* With the arena's lock held: from here on the run's units are nobody's but the caller's. */
static void withdraw(struct arena *arena, uint32_t first, uint32_t units)
{
	for (uint32_t i = first; i < first + units; i++) {
		struct unit *unit = &arena->units[i];

		unit->kind = UNIT_FREE;
		unit->owner.allocation = NULL;
		if (!unit->units)
			continue;
		if (unit->side == SEGMENT_ON_HOST)
			arena->on_host -= unit->units * ARENA_UNIT;
		unpin(arena, unit);
	}
}

static void remove_run(struct arena *arena, uint32_t first, uint32_t units)
{
	clear_units(arena, first, units, true);
	give_addresses(arena, first, units);
	/* What it leaves free, others may come back to. */
	if (arena->on_host)
		residency_wake(arena->device);
}

/* --- allocations --- */

static CUresult elastic_release(const struct backing *backing);

static size_t elastic_rounded(struct device *device, size_t size)
{
	(void)device;
	return size;
}

static const struct provider provider_elastic = {
    .name = "elastic",
    .kind = SPILL_AUTO,
    .outlives_context = true,
    .release = elastic_release,
    .rounded = elastic_rounded,
};

bool elastic_is(const struct allocation *allocation)
{
	return allocation->backing.provider == &provider_elastic;
}

static void note_spill(const struct placing *run)
{
	if (run->on_host) {
		vmem_note_spill(run->arena->device, run->on_host,
		                run->reason ? run->reason : SPILL_DEVICE_FULL);
		residency_wake(run->arena->device);
	}
}

static struct allocation *create(const struct context *context, CUdeviceptr address, size_t size)
{
	struct allocation *a = allocation_create(context, address, size, SEGMENT_ON_DEVICE, 0);

	if (a)
		a->backing = (struct backing){
		    .provider = &provider_elastic, .address = address, .size = size};
	return a;
}

static CUresult allocate_run(const struct context *context, struct placing *run, size_t size,
                             struct allocation **out)
{
	CUresult result = place_run(run);
	struct allocation *a;

	if (result != CUDA_SUCCESS)
		return result;
	a = create(context, address_of(run->arena, run->first), size);
	if (!a) {
		clear_units(run->arena, run->first, run->units, false);
		give_addresses(run->arena, run->first, run->units);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&run->arena->lock);
	for (uint32_t i = 0; i < run->units; i++)
		run->arena->units[run->first + i].owner.allocation = a;
	publish(run, UNIT_OF_ALLOCATION);
	pthread_mutex_unlock(&run->arena->lock);
	*out = a;
	return CUDA_SUCCESS;
}

/* An empty slab that is kept counts as a spare: +1 when it becomes one, -1 when it is one no more. */
static void count_empty(const struct arena *arena, const struct slab *slab, int change)
{
	struct statistics *s = arena->device->statistics;
	_Atomic uint64_t *counter =
	    arena->units[slab->unit].side == SEGMENT_ON_DEVICE ? &s->device_pool : &s->host_pool;

	statistics_add(counter, (uint64_t)((int64_t)change * (int64_t)ARENA_UNIT));
}

/* A slab of the run's one chunk, empty; NULL: no memory. */
static struct slab *make_slab(struct placing *run, unsigned int class)
{
	struct arena *arena = run->arena;
	struct slab *slab;

	pthread_mutex_lock(&arena->lock);
	slab = slab_create(&arena->slabs, class);
	if (slab) {
		slab->unit = run->first;
		arena->units[run->first].owner.slab = slab;
		publish(run, UNIT_OF_SLAB);
		count_empty(arena, slab, 1);
	}
	pthread_mutex_unlock(&arena->lock);
	if (slab)
		return slab;
	clear_units(arena, run->first, 1, false);
	give_addresses(arena, run->first, 1);
	return NULL;
}

/* Takes a block of a slab that has one. False: none has. */
static bool take_block(struct arena *arena, unsigned int class, struct allocation *a)
{
	struct slab *slab;

	pthread_mutex_lock(&arena->lock);
	slab = slab_with_room(&arena->slabs, class);
	if (slab) {
		if (!slab->used)
			count_empty(arena, slab, -1);
		a->address = address_of(arena, slab->unit) + slab_take(&arena->slabs, slab, a);
		pin_new(arena, &arena->units[slab->unit]);
	}
	pthread_mutex_unlock(&arena->lock);
	return slab != NULL;
}

/* Likewise, making a slab where there is none: one thread at a time, so that not each makes one. */
static CUresult take_block_of_new(struct placing *run, unsigned int class, struct allocation *a)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&run->arena->growing);
	while (result == CUDA_SUCCESS && !take_block(run->arena, class, a)) {
		run->units = 1;
		run->done = 0;
		result = place_run(run);
		if (result == CUDA_SUCCESS && !make_slab(run, class))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&run->arena->growing);
	return result;
}

static CUresult allocate_block(const struct context *context, struct placing *run, size_t size,
                               struct allocation **out)
{
	struct allocation *a = create(context, 0, size);
	unsigned int class = slab_class(size);
	CUresult result = CUDA_SUCCESS;

	if (!a)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!take_block(run->arena, class, a))
		result = take_block_of_new(run, class, a);
	if (result != CUDA_SUCCESS) {
		resource_release(&a->resource);
		return result;
	}
	a->backing.address = a->address;
	*out = a;
	return CUDA_SUCCESS;
}

uint64_t elastic_span(size_t size)
{
	return size <= SLAB_BLOCK_MAX ? slab_class_size(slab_class(size))
	                              : (size + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
}

CUresult elastic_allocate(const struct context *context, size_t size, enum elastic_place place,
                          struct allocation **allocation)
{
	struct placing run = {.arena = arena_of(context->device), .place = place};
	CUresult result;

	if (!run.arena)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (size > run.arena->size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	run.units = (uint32_t)((size + ARENA_UNIT - 1) / ARENA_UNIT);
	result = size <= SLAB_BLOCK_MAX ? allocate_block(context, &run, size, allocation)
	                                : allocate_run(context, &run, size, allocation);
	if (result != CUDA_SUCCESS) {
		if (run.reason == SPILL_HOST_LIMIT)
			statistics_set(&context->device->statistics->spill_reason,
			               SPILL_HOST_LIMIT);
		return result;
	}
	note_spill(&run);
	return CUDA_SUCCESS;
}

static void release_run(struct arena *arena, uint32_t first)
{
	uint32_t units = 0;

	pthread_mutex_lock(&arena->lock);
	/* The run ends where another begins, or nothing is mapped. */
	while (first + units < arena->top && arena->units[first + units].kind != UNIT_FREE &&
	       atomic_load_explicit(&arena->units[first + units].run, memory_order_relaxed) ==
	           first)
		units++;
	withdraw(arena, first, units);
	pthread_mutex_unlock(&arena->lock);
	remove_run(arena, first, units);
}

/* The last empty slab of a class stays for the next block. */
static bool may_go(const struct arena *arena, const struct slab *slab)
{
	return slab->next || arena->slabs.with_room[slab->class] != slab;
}

static void release_block(struct arena *arena, CUdeviceptr address)
{
	struct slab *slab;
	uint32_t unit;
	bool empty, goes;

	pthread_mutex_lock(&arena->lock);
	slab = arena_unit(arena, address)->owner.slab;
	unit = slab->unit;
	empty = slab_give(&arena->slabs, slab, (uint32_t)(address - address_of(arena, unit)));
	goes = empty && may_go(arena, slab);
	if (goes) {
		slab_destroy(&arena->slabs, slab);
		withdraw(arena, unit, 1);
	} else if (empty) {
		unpin(arena, &arena->units[unit]);
		count_empty(arena, slab, 1);
	}
	pthread_mutex_unlock(&arena->lock);
	if (goes)
		remove_run(arena, unit, 1);
}

/* The mover may be at work on it: it is inside the gate that memory goes. */
static CUresult elastic_release(const struct backing *backing)
{
	struct arena *arena = arena_at(backing->address);
	struct unit *unit = arena_unit(arena, backing->address);

	gate_enter();
	if (unit->kind == UNIT_OF_SLAB)
		release_block(arena, backing->address);
	else
		release_run(arena, (uint32_t)(unit - arena->units));
	gate_leave();
	return CUDA_SUCCESS;
}

uint64_t elastic_trim(struct device *device)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];
	struct arena *arena = atomic_load(&range->base) ? range->arena : NULL;
	uint64_t released = 0;

	for (unsigned int class = 0; arena && class < SLAB_CLASSES; class ++) {
		struct slab *slab;
		uint32_t unit = 0;

		pthread_mutex_lock(&arena->lock);
		slab = arena->slabs.with_room[class];
		while (slab && slab->used)
			slab = slab->next;
		if (slab) {
			unit = slab->unit;
			count_empty(arena, slab, -1);
			slab_destroy(&arena->slabs, slab);
			withdraw(arena, unit, 1);
		}
		pthread_mutex_unlock(&arena->lock);
		if (!slab)
			continue;
		gate_enter();
		clear_units(arena, unit, 1, false);
		give_addresses(arena, unit, 1);
		gate_leave();
		released += ARENA_UNIT;
	}
	return released;
}

/* --- looking --- */

struct allocation *elastic_at(CUdeviceptr address)
{
	struct arena *arena = arena_at(address);
	struct allocation *found = NULL;
	const struct unit *unit;

	if (!arena)
		return NULL;
	unit = arena_unit(arena, address);
	pthread_mutex_lock(&arena->lock);
	if (unit->kind == UNIT_OF_ALLOCATION)
		found = unit->owner.allocation;
	else if (unit->kind == UNIT_OF_SLAB)
		found =
		    slab_owner(unit->owner.slab, (uint32_t)((address - arena->base) % ARENA_UNIT));
	if (found &&
	    (address - found->address >= found->size || !atomic_load(&found->is_in_books) ||
	     !resource_hold_if_alive(&found->resource)))
		found = NULL;
	pthread_mutex_unlock(&arena->lock);
	return found;
}

uint64_t elastic_mapping(const struct allocation *allocation, CUdeviceptr *base)
{
	*base = allocation->address / ARENA_UNIT * ARENA_UNIT;
	return (allocation->address + allocation->size - *base + ARENA_UNIT - 1) / ARENA_UNIT *
	       ARENA_UNIT;
}

void elastic_try_mixed(struct device *device)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];
	struct arena *arena = atomic_load(&range->base) ? range->arena : NULL;

	if (!arena)
		return;
	/* It stays as it is while the lock is held. */
	pthread_mutex_lock(&arena->lock);
	for (uint32_t i = 0; i < arena->top; i++) {
		const struct unit *unit = &arena->units[i];

		if (unit->kind == UNIT_FREE || !unit->units || unit->side != SEGMENT_ON_DEVICE)
			continue;
		mixed_try_beside(device, unit->handle, unit->units * ARENA_UNIT);
		break;
	}
	pthread_mutex_unlock(&arena->lock);
}

void elastic_each_run(struct device *device,
                      void (*each)(void *cookie, CUdeviceptr address, uint64_t size), void *cookie)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];
	struct arena *arena = atomic_load(&range->base) ? range->arena : NULL;

	if (!arena)
		return;
	pthread_mutex_lock(&arena->lock);
	for (uint32_t i = 0; i < arena->top;) {
		uint32_t end = i + 1;

		while (arena->units[i].kind != UNIT_FREE && end < arena->top &&
		       arena->units[end].kind != UNIT_FREE && arena->units[end].run == i)
			end++;
		if (arena->units[i].kind != UNIT_FREE)
			each(cookie, address_of(arena, i), (end - i) * ARENA_UNIT);
		i = end;
	}
	pthread_mutex_unlock(&arena->lock);
}

CUresult elastic_pin_range(CUdeviceptr address, size_t size)
{
	CUdeviceptr end = address + size;
	CUresult result = CUDA_SUCCESS;
	struct allocation *a;

	while (result == CUDA_SUCCESS && address < end && (a = elastic_at(address)) != NULL) {
		a->is_shared = true;
		result = residency_pin(arena_at(address)->device, address, false);
		address = a->address + (a->size + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
		resource_release(&a->resource);
	}
	return result;
}

/* --- for export --- */

CUresult elastic_make_exportable(struct allocation *a)
{
	a->is_shared = true;
	return residency_pin(arena_at(a->address)->device, a->address, true);
}

size_t elastic_pieces(const struct allocation *a, struct elastic_piece *pieces, size_t room,
                      uint64_t *offset)
{
	struct arena *arena = arena_at(a->address);
	const struct unit *units = arena->units;
	size_t count = 0;
	uint32_t first;

	pthread_mutex_lock(&arena->lock);
	first = arena_unit(arena, a->address)->run;
	for (uint32_t i = first;
	     i < arena->top && units[i].kind != UNIT_FREE && units[i].run == first;
	     i += units[i].units) {
		if (count < room)
			pieces[count] =
			    (struct elastic_piece){units[i].handle, units[i].units * ARENA_UNIT};
		count++;
	}
	pthread_mutex_unlock(&arena->lock);
	*offset = a->address - address_of(arena, first);
	return count;
}
