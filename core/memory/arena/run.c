/* SPDX-License-Identifier: MIT */
/*
 * Placing runs. Rules: runs inside the user's process, within its calls; the driver is called
 * without a lock.
 */
#include "core/memory/arena/run.h"

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/chunk.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/arena/spare.h"

CUmemAccessDesc reach_right(CUdevice device)
{
	CUmemAccessDesc right = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	right.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	right.location.id = device;
	return right;
}

size_t reach_rights(const struct device *owner, CUmemAccessDesc rights[DEVICE_MAX])
{
	uint32_t peers = atomic_load(&owner->reached_by);
	size_t count = 0;

	rights[count++] = reach_right(owner->handle);
	/* The set lies in one array, by ordinal. */
	for (int i = 0; i < DEVICE_MAX; i++) {
		if (peers & 1u << i)
			rights[count++] = reach_right((owner - owner->id.ordinal + i)->handle);
	}
	return count;
}

enum { AT_ONCE = 16 }; /* chunks that are had, or given back, together */

uint32_t run_first(const struct arena *arena, CUdeviceptr address)
{
	const struct unit *unit = arena_unit(arena, address);

	return unit->kind == UNIT_FREE ? ADDRESS_NONE : unit->run;
}

uint32_t run_next(const struct arena *arena, uint32_t first, uint32_t unit)
{
	uint32_t next = unit + arena->units[unit].units;

	/* The run ends where another begins, or nothing is mapped. */
	return next < arena->top && arena->units[next].kind != UNIT_FREE &&
	               arena->units[next].run == first
	           ? next
	           : ADDRESS_NONE;
}

uint32_t run_units(const struct arena *arena, uint32_t first)
{
	uint32_t units = 0;

	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i))
		units += arena->units[i].units;
	return units;
}

/* Returns the units of a run's next chunk: 1, 4 or 16 (2, 8, 32 MiB), smaller ones at the end. */
static uint32_t chunk_units(const struct run *run)
{
	uint32_t left = run->units - run->done;
	uint32_t wanted = run->units >= 128 ? 16 : run->units >= 16 ? 4 : 1;

	while (wanted > left)
		wanted /= 4;
	return wanted ? wanted : 1;
}

static int charge(struct run *run, const struct chunk *chunk)
{
	struct device *device = run->arena->device;

	return chunk->side == SEGMENT_ON_DEVICE
	           ? device_charge(device, chunk->size)
	           : device_charge_host(device, chunk->size, terms_host_limit(run->terms, device));
}

static CUresult make_chunk(struct run *run, struct chunk *chunk)
{
	struct device *device = run->arena->device;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	run->lack.why = chunk->side == SEGMENT_ON_DEVICE ? SPILL_LIMIT : SPILL_HOST_LIMIT;
	if (charge(run, chunk) == 0) {
		if (chunk->side == SEGMENT_ON_DEVICE)
			run->lack.why = SPILL_DEVICE_FULL;
		result = spare_create(device, chunk);
		if (result != CUDA_SUCCESS)
			device_uncharge(device, chunk->side, chunk->size);
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		run->lack.bytes = (run->units - run->done) * ARENA_UNIT;
		run->lack.least = chunk->size;
	}
	return result;
}

static CUresult map_chunk(struct run *run, const struct chunk *chunk)
{
	struct unit *first = &run->arena->units[run->first + run->done];
	CUresult result = driver.cuMemMap(run_address(run->arena, run->first + run->done),
	                                  chunk->size, 0, chunk->handle, 0);

	if (result != CUDA_SUCCESS)
		return result;
	first->handle = chunk->handle;
	first->units = (uint8_t)(chunk->size / ARENA_UNIT);
	first->side = (uint8_t)chunk->side;
	first->pins = 0;
	first->is_exportable = false;
	run->done += first->units;
	if (chunk->side == SEGMENT_ON_HOST)
		run->on_host += chunk->size;
	return CUDA_SUCCESS;
}

/* Maps the next chunks of one size: as many spares as there are, else one that is made. */
static CUresult place_some(struct run *run)
{
	struct device *device = run->arena->device;
	uint32_t units = chunk_units(run), wanted = (run->units - run->done) / units;
	struct chunk chunk = {.size = units * ARENA_UNIT,
	                      .side =
	                          run->place == RUN_ON_HOST ? SEGMENT_ON_HOST : SEGMENT_ON_DEVICE};
	CUmemGenericAllocationHandle handles[AT_ONCE];
	CUresult result = CUDA_SUCCESS;
	unsigned int count, i = 0;

	run->lack = (struct lack){.side = chunk.side};
	count = spare_take(device, &chunk, handles, wanted < AT_ONCE ? wanted : AT_ONCE);
	if (!count) {
		result = make_chunk(run, &chunk);
		if (result != CUDA_SUCCESS)
			return result;
		run->lack.why = SPILL_NONE; /* there was room */
		handles[count++] = chunk.handle;
	}
	for (; i < count && result == CUDA_SUCCESS; i++) {
		chunk.handle = handles[i];
		result = map_chunk(run, &chunk);
	}
	if (result == CUDA_SUCCESS)
		return result;
	for (i--; i < count; i++) {
		chunk.handle = handles[i];
		spare_release(device, &chunk);
	}
	return result;
}

/* Unmaps units that nobody knows of; their memory becomes spare, or without terms is released. */
static bool clear(struct arena *arena, uint32_t first, uint32_t units, const struct terms *terms)
{
	struct chunk chunks[AT_ONCE];
	CUresult result = CUDA_SUCCESS;
	unsigned int count = 0;

	if (units)
		result = mapping_remove(run_address(arena, first), units * ARENA_UNIT);
	if (result != CUDA_SUCCESS) {
		if (result != CUDA_ERROR_DEINITIALIZED) /* the process ends */
			log_once(LOG_ERROR,
			         "the driver does not unmap memory (error %d): it stays taken",
			         (int)result);
		return false;
	}
	for (uint32_t i = first; i < first + units;) {
		struct unit *unit = &arena->units[i];

		chunks[count++] = (struct chunk){.handle = unit->handle,
		                                 .size = unit->units * ARENA_UNIT,
		                                 .side = (enum segment_side)unit->side,
		                                 .is_exportable = unit->is_exportable};
		i += unit->units;
		unit->handle = 0;
		unit->units = 0;
		if (count < AT_ONCE && i < first + units)
			continue;
		if (terms)
			spare_give(arena->device, chunks, count, terms);
		for (; !terms && count; count--)
			spare_release(arena->device, &chunks[count - 1]);
		count = 0;
	}
	return true;
}

static void give_addresses(struct arena *arena, uint32_t first, uint32_t units)
{
	lock_acquire(&arena->lock);
	address_space_give(&arena->space, first, units);
	lock_release(&arena->lock);
}

/* Maps all of the run and gives the rights. */
static CUresult place_chunks(struct run *run)
{
	CUmemAccessDesc access[DEVICE_MAX];
	CUresult result = CUDA_SUCCESS;

	run->reached_by = atomic_load(&run->arena->device->reached_by);
	while (run->done < run->units && result == CUDA_SUCCESS)
		result = place_some(run);
	if (result != CUDA_SUCCESS)
		return result;
	return driver.cuMemSetAccess(run_address(run->arena, run->first), run->units * ARENA_UNIT,
	                             access, reach_rights(run->arena->device, access));
}

static bool is_mixed(const struct run *run)
{
	return run->on_host && run->on_host < run->units * ARENA_UNIT;
}

static bool take_addresses(struct run *run)
{
	struct arena *arena = run->arena;

	lock_acquire(&arena->lock);
	run->first = address_space_take(&arena->space, run->units, 1);
	if (run->first != ADDRESS_NONE && arena->top < run->first + run->units)
		arena->top = run->first + run->units;
	lock_release(&arena->lock);
	return run->first != ADDRESS_NONE;
}

CUresult run_place(struct run *run)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	run->lack.bytes = 0;
	if (run->first == ADDRESS_NONE && !take_addresses(run))
		return result;
	result = place_chunks(run);
	if (result != CUDA_SUCCESS || !is_mixed(run) ||
	    host_probe_may_mix(run->arena->device, run->terms))
		return result;
	/* All of it on the host, where the last one was. */
	if (!clear(run->arena, run->first, run->done, run->terms)) {
		run->first = ADDRESS_NONE; /* it stays taken */
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	run->done = 0;
	run->on_host = 0;
	return place_chunks(run);
}

void run_drop(struct run *run)
{
	if (run->first != ADDRESS_NONE && clear(run->arena, run->first, run->done, NULL))
		give_addresses(run->arena, run->first, run->units);
	run->first = ADDRESS_NONE;
	run->done = 0;
	run->on_host = 0;
}

static void pin(const struct arena *arena, struct unit *unit)
{
	if (!unit->pins && unit->side == SEGMENT_ON_DEVICE)
		device_note_pinned(arena->device, (int64_t)(unit->units * ARENA_UNIT));
	unit->pins = 1;
}

void run_pin(struct arena *arena, CUdeviceptr address)
{
	uint32_t first = run_first(arena, address);

	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i))
		pin(arena, &arena->units[i]);
}

void run_pin_new(struct arena *arena, struct unit *unit)
{
	if (unit->units && unit->side == SEGMENT_ON_DEVICE)
		pin(arena, unit);
}

void run_unpin(struct arena *arena, struct unit *unit)
{
	if (unit->pins && unit->side == SEGMENT_ON_DEVICE)
		device_note_pinned(arena->device, -(int64_t)(unit->units * ARENA_UNIT));
	unit->pins = 0;
}

void run_publish(const struct run *run, enum chunk_kind kind, void *owner)
{
	struct unit *unit = &run->arena->units[run->first];

	atomic_store_explicit(&unit->parts, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < run->units; i += ARENA_PART_UNITS) {
		atomic_store_explicit(&unit[i].touched, 0, memory_order_relaxed);
		atomic_store_explicit(&unit[i].is_named, 0, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < run->units; i++) {
		atomic_store_explicit(&unit[i].run, run->first, memory_order_relaxed);
		if (kind == UNIT_OF_ALLOCATION)
			unit[i].owner.allocation = owner;
		else
			unit[i].owner.slab = owner;
		unit[i].kind = (uint8_t)kind;
		if (kind == UNIT_OF_ALLOCATION && run->terms->settings.pin_new)
			run_pin_new(run->arena, &unit[i]);
	}
	run->arena->on_host += run->on_host;
}

void run_open(const struct run *run)
{
	struct device *device = run->arena->device;
	CUmemAccessDesc access[DEVICE_MAX];

	if (atomic_load(&device->reached_by) == run->reached_by)
		return;
	gate_enter(); /* the mover might have it unmapped */
	mapping_allow(run_address(run->arena, run->first), run->units * ARENA_UNIT, access,
	              reach_rights(device, access));
	gate_leave();
}

void run_withdraw(struct arena *arena, uint32_t first, uint32_t units)
{
	for (uint32_t i = first; i < first + units; i++) {
		struct unit *unit = &arena->units[i];

		unit->kind = UNIT_FREE;
		unit->owner.allocation = NULL;
		if (!unit->units)
			continue;
		if (unit->side == SEGMENT_ON_HOST)
			arena->on_host -= unit->units * ARENA_UNIT;
		run_unpin(arena, unit);
	}
}

void run_remove(struct arena *arena, uint32_t first, uint32_t units, const struct terms *terms)
{
	if (clear(arena, first, units, terms))
		give_addresses(arena, first, units);
}
