/* SPDX-License-Identifier: MIT */
/* The elastic allocator. Rules: runs inside the user's process, within its calls. */
#include "core/memory/arena/elastic.h"

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/chunk.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/arena/spare.h"

/*
 * Reach: which devices reach a device's memory: itself, and the peers that its program has let
 * reach it. Thread-safe.
 *
 * Devices with access to a device's memory reach its spilled memory, too: enabling peer access, or
 * a right to a pool, opens the mappings.
 */

/* Returns the right of a device to read and write. */
static CUmemAccessDesc reach_right(CUdevice device)
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

/* Returns the units of a run's next chunk: 1, 4 or 16 (2, 8, 32 MiB), smaller ones at the end. */
static uint32_t chunk_units(const struct run *run)
{
	uint32_t left = run->units - run->done;
	uint32_t wanted = run->units >= 128 ? 16 : run->units >= 16 ? 4 : 1;

	while (wanted > left)
		wanted /= 4;
	return wanted ? wanted : 1;
}

static int elastic_charge(struct run *run, const struct chunk *chunk)
{
	struct device *device = run->arena->device;

	return chunk->tier == SEGMENT_ON_DEVICE
	           ? device_charge(device, chunk->size)
	           : device_charge_host(device, chunk->size, terms_host_limit(run->terms, device));
}

static CUresult make_chunk(struct run *run, struct chunk *chunk)
{
	struct device *device = run->arena->device;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	run->lack.why = chunk->tier == SEGMENT_ON_DEVICE ? SPILL_LIMIT : SPILL_HOST_LIMIT;
	if (elastic_charge(run, chunk) == 0) {
		if (chunk->tier == SEGMENT_ON_DEVICE)
			run->lack.why = SPILL_DEVICE_FULL;
		result = spare_create(device, chunk);
		if (result != CUDA_SUCCESS)
			device_uncharge(device, chunk->tier, chunk->size);
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
	first->tier = (uint8_t)chunk->tier;
	first->pins = 0;
	first->is_exportable = false;
	run->done += first->units;
	if (chunk->tier == SEGMENT_ON_HOST)
		run->on_host += chunk->size;
	return CUDA_SUCCESS;
}

/* Maps the next chunks of one size: as many spares as there are, else one that is made. */
static CUresult place_some(struct run *run)
{
	struct device *device = run->arena->device;
	uint32_t units = chunk_units(run), wanted = (run->units - run->done) / units;
	struct chunk chunk = {.size = units * ARENA_UNIT,
	                      .tier =
	                          run->place == RUN_ON_HOST ? SEGMENT_ON_HOST : SEGMENT_ON_DEVICE};
	CUmemGenericAllocationHandle handles[AT_ONCE];
	CUresult result = CUDA_SUCCESS;
	unsigned int count, i = 0;

	run->lack = (struct lack){.tier = chunk.tier};
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

/*
 * Unmaps units that no other thread knows; their memory becomes spare, or without terms is
 * released.
 */
static bool elastic_clear(struct arena *arena, uint32_t first, uint32_t units,
                          const struct terms *terms)
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
		                                 .tier = (enum segment_tier)unit->tier,
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

/*
 * Takes addresses for run->units units, and chunks for them, each charged to its tier, and maps
 * them. Returns CUDA_ERROR_OUT_OF_MEMORY where there is no room; run->lack names the missing bytes.
 * The run keeps its chunks, and another call goes on. It ends with success, or with run_drop().
 */
static CUresult run_place(struct run *run)
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
	if (!elastic_clear(run->arena, run->first, run->done, run->terms)) {
		run->first = ADDRESS_NONE; /* it stays taken */
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	run->done = 0;
	run->on_host = 0;
	return place_chunks(run);
}

/* Gives back the chunks of a run that is not made. */
static void run_drop(struct run *run)
{
	if (run->first != ADDRESS_NONE && elastic_clear(run->arena, run->first, run->done, NULL))
		give_addresses(run->arena, run->first, run->units);
	run->first = ADDRESS_NONE;
	run->done = 0;
	run->on_host = 0;
}

static void elastic_do_pin(const struct arena *arena, struct unit *unit)
{
	if (!unit->pins && unit->tier == SEGMENT_ON_DEVICE)
		device_note_pinned(arena->device, (int64_t)(unit->units * ARENA_UNIT));
	unit->pins = 1;
}

void run_pin(struct arena *arena, CUdeviceptr address)
{
	uint32_t first = run_first(arena, address);

	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i))
		elastic_do_pin(arena, &arena->units[i]);
}

/*
 * Keeps a chunk that is on the device there (pin_new); run_unpin() ends that. The arena's lock is
 * held.
 */
static void run_pin_new(struct arena *arena, struct unit *unit)
{
	if (unit->tier == SEGMENT_ON_DEVICE)
		elastic_do_pin(arena, unit);
}

static void run_unpin(struct arena *arena, struct unit *unit)
{
	if (unit->pins && unit->tier == SEGMENT_ON_DEVICE)
		device_note_pinned(arena->device, -(int64_t)(unit->units * ARENA_UNIT));
	unit->pins = 0;
}

/*
 * Lets other threads find the run and its owner (an allocation or a slab) from here on. The arena's
 * lock is held.
 */
static void run_publish(const struct run *run, enum chunk_kind kind, void *owner)
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
	}
	if (kind == UNIT_OF_ALLOCATION && run->terms->settings.pin_new)
		for (uint32_t i = 0; i < run->units; i += unit[i].units)
			run_pin_new(run->arena, &unit[i]);
	run->arena->on_host += run->on_host;
}

/*
 * Gives the right to a published run to devices that have come to reach the device's memory
 * meanwhile. A device that comes later finds the run by itself; see elastic_open_to().
 */
static void run_open(const struct run *run)
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

/* Makes the units the caller's alone from here on. The arena's lock is held. */
static void run_withdraw(struct arena *arena, uint32_t first, uint32_t units)
{
	for (uint32_t i = first; i < first + units; i++) {
		arena->units[i].kind = UNIT_FREE;
		arena->units[i].owner.allocation = NULL;
	}
	for (uint32_t i = first; i < first + units; i += arena->units[i].units) {
		struct unit *unit = &arena->units[i];

		if (unit->tier == SEGMENT_ON_HOST)
			arena->on_host -= unit->units * ARENA_UNIT;
		run_unpin(arena, unit);
	}
}

/*
 * Unmaps a run that no other thread knows any more, and gives its addresses back. Its memory
 * becomes spare, or without terms is released. Memory that the driver refuses to unmap stays as it
 * is, addresses and charge too.
 */
static void run_remove(struct arena *arena, uint32_t first, uint32_t units,
                       const struct terms *terms)
{
	if (elastic_clear(arena, first, units, terms))
		give_addresses(arena, first, units);
}

/* --- allocations of whole units --- */

static CUresult take_units(struct making *m, CUdeviceptr *address)
{
	struct run *run = &m->run;
	CUresult result = m->size > run->arena->size ? CUDA_ERROR_OUT_OF_MEMORY : run_place(run);

	if (result != CUDA_SUCCESS)
		return result;
	lock_acquire(&run->arena->lock);
	run_publish(run, UNIT_OF_ALLOCATION, m->owner);
	lock_release(&run->arena->lock);
	run_open(run);
	*address = run_address(run->arena, run->first);
	return CUDA_SUCCESS;
}

/* --- blocks --- */

/* Counts an empty slab that is kept as a spare: +1 when it becomes one, -1 afterwards. */
static void count_empty(const struct arena *arena, const struct slab *slab, int change)
{
	device_note_spare(arena->device, arena->units[slab->unit].tier,
	                  (int64_t)change * (int64_t)ARENA_UNIT);
}

/* Publishes the run's one unit as a slab, empty. Returns false without memory for it. */
static bool publish_slab(const struct run *run, unsigned int class)
{
	struct arena *arena = run->arena;
	struct slab *slab;

	lock_acquire(&arena->lock);
	slab = slab_create(&arena->slabs, class);
	if (slab) {
		slab->unit = run->first;
		run_publish(run, UNIT_OF_SLAB, slab);
		count_empty(arena, slab, 1);
	}
	lock_release(&arena->lock);
	if (slab)
		run_open(run);
	return slab != NULL;
}

static CUresult make_slab(struct making *m, unsigned int class)
{
	struct run *run = &m->run;
	CUresult result = run_place(run);

	if (result == CUDA_SUCCESS && !publish_slab(run, class)) {
		run_drop(run);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result != CUDA_SUCCESS)
		return result;
	m->on_host += run->on_host;
	run->first = ADDRESS_NONE; /* other threads may take its blocks before we do */
	run->done = 0;
	run->on_host = 0;
	return CUDA_SUCCESS;
}

/* Takes a block of a slab that has one. Returns false if none has. The arena's lock is held. */
static bool take_of_slab(const struct making *m, unsigned int class, CUdeviceptr *address)
{
	struct arena *arena = m->run.arena;
	struct slab *slab = slab_with_room(&arena->slabs, class);

	if (!slab)
		return false;
	if (!slab->used)
		count_empty(arena, slab, -1);
	*address = run_address(arena, slab->unit) + slab_take(&arena->slabs, slab, m->owner);
	if (m->run.terms->settings.pin_new)
		run_pin_new(arena, &arena->units[slab->unit]);
	return true;
}

/*
 * Returns whether a block was taken, or whether this request is to make a slab. One thread at a
 * time does, so that not each makes one. seen: the value of arena->slabs.made until the maker has
 * ended.
 */
static bool elastic_take_or_make(struct making *m, unsigned int class, CUdeviceptr *address,
                                 uint32_t *seen)
{
	struct arena *arena = m->run.arena;

	lock_acquire(&arena->lock);
	if (!take_of_slab(m, class, address))
		slab_maker_begin(&arena->slabs, class, &m->maker);
	*seen = atomic_load(&arena->slabs.made);
	lock_release(&arena->lock);
	return *address || m->maker.makes;
}

static void elastic_end_making(struct making *m)
{
	struct arena *arena = m->run.arena;

	m->maker.makes = false;
	if (!m->maker.is_held)
		return;
	lock_acquire(&arena->lock);
	slab_maker_end(&arena->slabs, slab_class(m->size), &m->maker);
	lock_release(&arena->lock);
	slab_maker_wake(&arena->slabs);
}

/*
 * Takes a block. A slab that is being made is a mark and no lock, because the making may take long.
 * Other threads wait for it, and a thread that has waited long enough makes one as well. The mark
 * stays while room is made for it.
 */
static CUresult take_block(struct making *m, CUdeviceptr *address)
{
	unsigned int class = slab_class(m->size);
	CUresult result;
	uint32_t seen;

	*address = 0;
	for (;;) {
		if (!elastic_take_or_make(m, class, address, &seen)) {
			if (!deadline_wait(m->until, &m->run.arena->slabs.made, seen))
				m->maker.makes = true;
			continue;
		}
		if (*address)
			break;
		result = make_slab(m, class);
		if (result != CUDA_SUCCESS)
			return result;
		elastic_end_making(m);
	}
	if (m->maker.makes) /* another thread has given one back meanwhile */
		elastic_drop(m);
	return CUDA_SUCCESS;
}

CUresult elastic_take(struct making *m, CUdeviceptr *address)
{
	CUresult result =
	    m->size <= SLAB_BLOCK_MAX ? take_block(m, address) : take_units(m, address);

	if (result == CUDA_SUCCESS)
		m->on_host += m->run.on_host;
	return result;
}

void elastic_drop(struct making *m)
{
	run_drop(&m->run);
	elastic_end_making(m);
}

/* --- giving back --- */

static void release_run(struct arena *arena, uint32_t first)
{
	const struct terms terms = terms_of(arena->device);
	uint32_t units;

	lock_acquire(&arena->lock);
	units = run_units(arena, first);
	run_withdraw(arena, first, units);
	lock_release(&arena->lock);
	run_remove(arena, first, units, &terms);
}

/*
 * Returns whether an empty slab may go. The last one of a class stays for the next block, but not
 * where another process may have it open.
 */
static bool elastic_may_go(const struct arena *arena, const struct slab *slab)
{
	return arena->units[slab->unit].is_exportable || slab->next ||
	       arena->slabs.with_room[slab->class] != slab;
}

/*
 * Releases a block. is_spent: a block that was exported has no owner until its slab goes. Another
 * process may have it open, and to it the block is memory of its own, as of the driver's, to which
 * no one writes any more. The processes that have opened it are not always known.
 */
static bool release_block(struct arena *arena, CUdeviceptr address, bool is_spent)
{
	struct slab *slab;
	uint32_t unit, offset;
	bool empty, goes;

	lock_acquire(&arena->lock);
	slab = arena_unit(arena, address)->owner.slab;
	unit = slab->unit;
	offset = (uint32_t)(address - run_address(arena, unit));
	empty = is_spent ? slab_spend(slab, offset) : slab_give(&arena->slabs, slab, offset);
	goes = empty && elastic_may_go(arena, slab);
	if (goes) {
		slab_destroy(&arena->slabs, slab);
		run_withdraw(arena, unit, 1);
	} else if (empty) {
		run_unpin(arena, &arena->units[unit]);
		count_empty(arena, slab, 1);
	}
	lock_release(&arena->lock);
	if (goes) {
		const struct terms terms = terms_of(arena->device);

		run_remove(arena, unit, 1, &terms);
	}
	return goes;
}

bool elastic_give(struct device *device, CUdeviceptr address, bool is_spent)
{
	struct arena *arena = arena_ranges[device->id.ordinal].arena;
	const struct unit *unit = arena_unit(arena, address);
	bool came = true;

	gate_enter(); /* the mover may be at work on it */
	if (unit->kind == UNIT_OF_SLAB)
		came = release_block(arena, address, is_spent);
	else
		release_run(arena, (uint32_t)(unit - arena->units));
	gate_leave();
	return came && arena->on_host;
}

bool elastic_pin(struct device *device, CUdeviceptr address)
{
	struct arena *arena = arena_ranges[device->id.ordinal].arena;
	bool is_on_device = true;
	uint32_t first;

	gate_enter(); /* nothing is on its way */
	lock_acquire(&arena->lock);
	first = run_first(arena, address);
	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i))
		is_on_device &= arena->units[i].tier == SEGMENT_ON_DEVICE;
	if (is_on_device)
		run_pin(arena, address);
	lock_release(&arena->lock);
	gate_leave();
	return is_on_device;
}

uint64_t elastic_trim(struct device *device)
{
	struct arena *arena = arena_made(device);
	uint64_t released = 0;

	for (unsigned int class = 0; arena && class < SLAB_CLASSES; class ++) {
		struct slab *slab;
		uint32_t unit = 0;

		lock_acquire(&arena->lock);
		slab = arena->slabs.with_room[class];
		while (slab && slab->used)
			slab = slab->next;
		if (slab) {
			unit = slab->unit;
			count_empty(arena, slab, -1);
			slab_destroy(&arena->slabs, slab);
			run_withdraw(arena, unit, 1);
		}
		lock_release(&arena->lock);
		if (!slab)
			continue;
		gate_enter();
		run_remove(arena, unit, 1, NULL);
		gate_leave();
		released += ARENA_UNIT;
	}
	return released;
}

void elastic_disown(CUdeviceptr address, struct allocation *nobody)
{
	struct arena *arena = arena_at(address);
	const struct unit *unit = arena_unit(arena, address);
	uint32_t first, units;

	lock_acquire(&arena->lock);
	if (unit->kind == UNIT_OF_SLAB) {
		slab_set_owner(unit->owner.slab, (uint32_t)((address - arena->base) % ARENA_UNIT),
		               nobody);
	} else if (unit->kind == UNIT_OF_ALLOCATION) {
		first = run_first(arena, address);
		units = run_units(arena, first);
		for (uint32_t i = first; i < first + units; i++)
			arena->units[i].owner.allocation = nobody;
	}
	lock_release(&arena->lock);
}

/* --- looking --- */

struct allocation *elastic_owner(CUdeviceptr address,
                                 bool (*hold)(struct allocation *owner, CUdeviceptr address))
{
	struct arena *arena = arena_at(address);
	struct allocation *found = NULL;
	const struct unit *unit;

	if (!arena)
		return NULL;
	unit = arena_unit(arena, address);
	lock_acquire(&arena->lock);
	if (unit->kind == UNIT_OF_ALLOCATION)
		found = unit->owner.allocation;
	else if (unit->kind == UNIT_OF_SLAB)
		found =
		    slab_owner(unit->owner.slab, (uint32_t)((address - arena->base) % ARENA_UNIT));
	if (found && !hold(found, address))
		found = NULL;
	lock_release(&arena->lock);
	return found;
}

/* Gives the right to every run that is mapped now. */
static void open_runs(struct arena *arena, const CUmemAccessDesc *access)
{
	lock_acquire(&arena->lock);
	for (uint32_t i = 0, units; i < arena->top; i += units) {
		bool is_run = arena->units[i].kind != UNIT_FREE;

		units = is_run ? run_units(arena, i) : 1;
		if (is_run)
			driver.cuMemSetAccess(run_address(arena, i), units * ARENA_UNIT, access, 1);
	}
	lock_release(&arena->lock);
}

void elastic_open_to(struct device *owner, struct device *reader)
{
	const CUmemAccessDesc access = reach_right(reader->handle);
	uint32_t bit = 1u << reader->id.ordinal;
	struct arena *arena;

	if (owner == reader || (atomic_fetch_or(&owner->reached_by, bit) & bit))
		return;
	/* Memory that the mover maps elsewhere from now on has the right as well. */
	gate_enter();
	arena = arena_made(owner);
	if (arena)
		open_runs(arena, &access);
	gate_leave();
}

/* --- for export --- */

size_t elastic_pieces(CUdeviceptr address, struct elastic_piece *pieces, size_t room,
                      uint64_t *offset)
{
	struct arena *arena = arena_at(address);
	size_t count = 0;
	uint32_t first;

	lock_acquire(&arena->lock);
	first = run_first(arena, address);
	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i)) {
		const struct unit *unit = &arena->units[i];

		if (count < room)
			pieces[count] =
			    (struct elastic_piece){unit->handle, unit->units * ARENA_UNIT};
		count++;
	}
	lock_release(&arena->lock);
	*offset = address - run_address(arena, first);
	return count;
}
