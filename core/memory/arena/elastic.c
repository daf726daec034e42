/* SPDX-License-Identifier: MIT */
/* The elastic allocator. Rules: runs inside the user's process, within its calls. */
#include "core/memory/arena/elastic.h"

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/run.h"
#include "core/memory/arena/spare.h"

void elastic_begin(struct making *m, struct arena *arena, const struct terms *terms)
{
	m->run = (struct run){.arena = arena, .terms = terms, .first = ADDRESS_NONE};
	m->on_host = 0;
	m->turn = (struct slab_turn){false, false};
	m->run.units =
	    m->size <= SLAB_BLOCK_MAX ? 1 : (uint32_t)((m->size + ARENA_UNIT - 1) / ARENA_UNIT);
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
	device_note_spare(arena->device, arena->units[slab->unit].side,
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
	run->first = ADDRESS_NONE; /* others may take its blocks before we do */
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
 * Returns whether a block was taken, or it is this request's turn to make a slab: one thread at a
 * time does, so that not each makes one. seen: what arena->slabs.made is until whoever makes one
 * has ended.
 */
static bool take_or_turn(struct making *m, unsigned int class, CUdeviceptr *address, uint32_t *seen)
{
	struct arena *arena = m->run.arena;

	lock_acquire(&arena->lock);
	if (!take_of_slab(m, class, address))
		slab_turn_begin(&arena->slabs, class, &m->turn);
	*seen = atomic_load(&arena->slabs.made);
	lock_release(&arena->lock);
	return *address || m->turn.makes;
}

static void end_turn(struct making *m)
{
	struct arena *arena = m->run.arena;

	m->turn.makes = false;
	if (!m->turn.is_held)
		return;
	lock_acquire(&arena->lock);
	slab_turn_end(&arena->slabs, slab_class(m->size), &m->turn);
	lock_release(&arena->lock);
	slab_turn_wake(&arena->slabs);
}

/*
 * Takes a block. A slab that is being made, which may take long, is a mark and no lock: others wait
 * for it, and who has waited long enough makes one as well. The mark stays while room is made for
 * it.
 */
static CUresult take_block(struct making *m, CUdeviceptr *address)
{
	unsigned int class = slab_class(m->size);
	CUresult result;
	uint32_t seen;

	*address = 0;
	for (;;) {
		if (!take_or_turn(m, class, address, &seen)) {
			if (!deadline_wait(m->until, &m->run.arena->slabs.made, seen))
				m->turn.makes = true;
			continue;
		}
		if (*address)
			break;
		result = make_slab(m, class);
		if (result != CUDA_SUCCESS)
			return result;
		end_turn(m);
	}
	if (m->turn.makes) /* somebody has given one back meanwhile */
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
	end_turn(m);
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
static bool may_go(const struct arena *arena, const struct slab *slab)
{
	return arena->units[slab->unit].is_exportable || slab->next ||
	       arena->slabs.with_room[slab->class] != slab;
}

/*
 * Releases a block. is_spent: a block that was given away is nobody's until its slab goes. Another
 * process may have it open, and to it the block is memory of its own, as of the driver's, which
 * nobody writes to any more. Who has opened it is not always known.
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
	goes = empty && may_go(arena, slab);
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
		is_on_device &= arena->units[i].side == SEGMENT_ON_DEVICE;
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
	/* What the mover maps elsewhere from now on has the right as well. */
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
