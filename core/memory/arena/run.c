/* Placing runs. Rules: runs inside the user's process, within its calls; the driver is called without a lock. */
#include "core/memory/arena/run.h"

#include "core/cuda/gate.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/mapping.h"
#include "core/memory/arena/mixed.h"
#include "core/memory/arena/reach.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/room.h"
#include "core/memory/arena/spare.h"

CUdeviceptr run_address(const struct arena *arena, uint32_t unit)
{
	return arena->base + unit * ARENA_UNIT;
}

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

/* Of a run of so many units: 2, 8 or 32 MiB, smaller ones at its end. */
static uint32_t chunk_units(const struct run *run)
{
	uint32_t left = run->units - run->done;
	uint32_t wanted = run->units >= 128 ? 16 : run->units >= 16 ? 4 : 1;

	while (wanted > left)
		wanted /= 4;
	return wanted;
}

static CUresult take_charged(struct device *device, struct physical_chunk *chunk)
{
	CUresult result;

	if (spare_take(device, chunk))
		return CUDA_SUCCESS;
	if (device_charge(device, chunk->size) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = spare_create(device, chunk);
	if (result != CUDA_SUCCESS)
		device_uncharge(device, chunk->side, chunk->size);
	return result;
}

static CUresult take_on_device(struct run *run, struct physical_chunk *chunk)
{
	struct device *device = run->arena->device;
	const struct wanted all = {(run->units - run->done) * ARENA_UNIT, chunk->size, run->until};
	CUresult result = take_charged(device, chunk);

	if (result == CUDA_ERROR_OUT_OF_MEMORY && !run->made_room) {
		run->made_room = true;
		if (room_make(device, &all))
			result = take_charged(device, chunk);
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		run->reason =
		    device_charged(device, SEGMENT_ON_DEVICE) + chunk->size > device_limit(device)
		        ? SPILL_LIMIT
		        : SPILL_DEVICE_FULL;
	return result;
}

static CUresult take_on_host(struct run *run, struct physical_chunk *chunk)
{
	const struct wanted this = {chunk->size, chunk->size, run->until};
	struct device *device = run->arena->device;
	CUresult result;

	chunk->side = SEGMENT_ON_HOST;
	if (spare_take(device, chunk))
		return CUDA_SUCCESS;
	if (room_charge_host(device, chunk->size, run->until) != 0 &&
	    !(room_make(device, &this) && room_charge_host(device, chunk->size, run->until) == 0)) {
		run->reason = SPILL_HOST_LIMIT;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = spare_create(device, chunk);
	if (result != CUDA_SUCCESS)
		device_uncharge(device, SEGMENT_ON_HOST, chunk->size);
	return result;
}

static CUresult place_chunk(struct run *run)
{
	uint32_t units = chunk_units(run);
	struct physical_chunk chunk = {.size = units * ARENA_UNIT, .side = SEGMENT_ON_DEVICE};
	struct unit *first = &run->arena->units[run->first + run->done];
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (run->place == RUN_ON_DEVICE_FIRST)
		result = take_on_device(run, &chunk);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		run->place = RUN_ON_HOST; /* the rest as well: limits seldom rise within a call */
		result = take_on_host(run, &chunk);
	}
	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemMap(run_address(run->arena, run->first + run->done), chunk.size, 0,
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

/* Unmaps units that nobody knows of; keep: their memory becomes spare, else it is released. */
static bool clear(struct arena *arena, uint32_t first, uint32_t units, bool keep)
{
	CUresult result = CUDA_SUCCESS;

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
		result = place_chunk(run);
	if (result != CUDA_SUCCESS)
		return result;
	return driver.cuMemSetAccess(run_address(run->arena, run->first), run->units * ARENA_UNIT,
	                             access, reach_rights(run->arena->device, access));
}

static bool is_mixed(const struct run *run)
{
	return run->on_host && run->on_host < run->units * ARENA_UNIT;
}

/* Where its chunks on the host begin: behind those on the device. */
static CUdeviceptr border_of(const struct run *run)
{
	return run_address(run->arena, run->first + run->units) - run->on_host;
}

CUresult run_place(struct run *run)
{
	struct arena *arena = run->arena;
	CUresult result;

	lock_acquire(&arena->lock);
	run->first = address_space_take(&arena->space, run->units, 1);
	if (run->first != ADDRESS_NONE && arena->top < run->first + run->units)
		arena->top = run->first + run->units;
	lock_release(&arena->lock);
	if (run->first == ADDRESS_NONE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = place_chunks(run);
	if (result == CUDA_SUCCESS && is_mixed(run))
		mixed_try(arena->device, border_of(run));
	if (result == CUDA_SUCCESS && is_mixed(run) && !mixed_is_possible(arena->device)) {
		if (!clear(arena, run->first, run->done, true))
			return CUDA_ERROR_OUT_OF_MEMORY;
		run->done = 0;
		run->on_host = 0;
		result = place_chunks(run); /* all on the host, where the last one was */
	}
	if (result != CUDA_SUCCESS && clear(arena, run->first, run->done, false))
		give_addresses(arena, run->first, run->units);
	return result;
}

static void pin(const struct arena *arena, struct unit *unit)
{
	if (!unit->pins)
		statistics_add(&arena->device->statistics->pinned_chunks, unit->units * ARENA_UNIT);
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
	if (unit->units && unit->side == SEGMENT_ON_DEVICE &&
	    device_setting(arena->device, pin_new))
		pin(arena, unit);
}

void run_unpin(struct arena *arena, struct unit *unit)
{
	if (unit->pins)
		statistics_sub(&arena->device->statistics->pinned_chunks, unit->units * ARENA_UNIT);
	unit->pins = 0;
}

void run_publish(const struct run *run, enum chunk_kind kind)
{
	struct unit *unit = &run->arena->units[run->first];

	atomic_store_explicit(&unit->touched, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < run->units; i++) {
		unit[i].kind = (uint8_t)kind;
		if (kind == UNIT_OF_ALLOCATION)
			run_pin_new(run->arena, &unit[i]);
	}
	run->arena->on_host += run->on_host;
}

/* Who comes to reach the memory after that finds the run by itself; see peer_reaches(). */
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

void run_remove(struct arena *arena, uint32_t first, uint32_t units, bool keep)
{
	if (clear(arena, first, units, keep))
		give_addresses(arena, first, units);
	/* What it leaves free, others may come back to. */
	if (arena->on_host)
		wanted_wake(arena->device);
}
