/* The elastic allocator. Rules: runs inside the user's process, within its calls. */
#include "core/memory/arena/elastic.h"

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/cuda/gate.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/mixed.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/room.h"
#include "core/memory/arena/run.h"

static CUresult elastic_release(const struct backing *backing);

static size_t elastic_rounded(struct device *device, size_t size)
{
	(void)device;
	return size;
}

static const struct provider provider_elastic = {
    .factory = {"elastic", 0},
    .kind = SPILL_AUTO,
    .outlives_context = true,
    .release = elastic_release,
    .rounded = elastic_rounded,
};

bool elastic_is(const struct allocation *allocation)
{
	return allocation->backing.provider == &provider_elastic;
}

static void note_spill(const struct run *run, const struct allocation *a)
{
	if (run->on_host) {
		room_note_spill(run->arena->device, run->on_host,
		                run->reason ? run->reason : SPILL_DEVICE_FULL, a);
		wanted_wake(run->arena->device);
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

/* While the device is evicted, on the host; where that has no room, what the limit allows is still the program's. */
static CUresult place(struct run *run)
{
	CUresult result;

	if (run->place != RUN_ON_DEVICE_FIRST || !device_is_evicted(run->arena->device))
		return run_place(run);
	run->place = RUN_ON_HOST;
	run->reason = SPILL_EVICTED;
	result = run_place(run);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	run->place = RUN_ON_DEVICE_FIRST;
	run->done = 0;
	run->on_host = 0;
	return run_place(run);
}

static CUresult allocate_run(const struct context *context, struct run *run, size_t size,
                             struct allocation **out)
{
	CUresult result = place(run);
	struct allocation *a;

	if (result != CUDA_SUCCESS)
		return result;
	a = create(context, run_address(run->arena, run->first), size);
	if (!a) {
		run_remove(run->arena, run->first, run->units, false);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	lock_acquire(&run->arena->lock);
	for (uint32_t i = 0; i < run->units; i++)
		run->arena->units[run->first + i].owner.allocation = a;
	run_publish(run, UNIT_OF_ALLOCATION);
	lock_release(&run->arena->lock);
	run_open(run);
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
static struct slab *make_slab(struct run *run, unsigned int class)
{
	struct arena *arena = run->arena;
	struct slab *slab;

	lock_acquire(&arena->lock);
	slab = slab_create(&arena->slabs, class);
	if (slab) {
		slab->unit = run->first;
		arena->units[run->first].owner.slab = slab;
		run_publish(run, UNIT_OF_SLAB);
		count_empty(arena, slab, 1);
	}
	lock_release(&arena->lock);
	if (slab) {
		run_open(run);
		return slab;
	}
	run_remove(arena, run->first, 1, false);
	return NULL;
}

/* With the arena's lock held: takes a block of a slab that has one. False: none has. */
static bool take_block_locked(struct arena *arena, unsigned int class, struct allocation *a)
{
	struct slab *slab = slab_with_room(&arena->slabs, class);

	if (!slab)
		return false;
	if (!slab->used)
		count_empty(arena, slab, -1);
	a->address = run_address(arena, slab->unit) + slab_take(&arena->slabs, slab, a);
	run_pin_new(arena, &arena->units[slab->unit]);
	return true;
}

static bool take_block(struct arena *arena, unsigned int class, struct allocation *a)
{
	bool is_taken;

	lock_acquire(&arena->lock);
	is_taken = take_block_locked(arena, class, a);
	lock_release(&arena->lock);
	return is_taken;
}

/* For a block where no slab has one: a slab is made by one thread at a time, so that not each makes one. */
enum turn { TAKEN, MAKES, WAITS };

/* seen: what arena->slabs_made is until whoever makes one has ended. */
static enum turn take_block_or_turn(struct arena *arena, unsigned int class, struct allocation *a,
                                    uint32_t *seen)
{
	enum turn turn = TAKEN;

	lock_acquire(&arena->lock);
	if (!take_block_locked(arena, class, a)) {
		turn = arena->is_slab_made[class] ? WAITS : MAKES;
		arena->is_slab_made[class] = true;
	}
	*seen = atomic_load(&arena->slabs_made);
	lock_release(&arena->lock);
	return turn;
}

static void end_turn(struct arena *arena, unsigned int class)
{
	lock_acquire(&arena->lock);
	arena->is_slab_made[class] = false;
	lock_release(&arena->lock);
	clock_in_use->wake(&arena->slabs_made);
}

static CUresult place_slab(struct run *run, unsigned int class)
{
	CUresult result;

	run->units = 1;
	run->done = 0;
	run->on_host = 0;
	result = place(run);
	return result == CUDA_SUCCESS && !make_slab(run, class) ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

/*
 * Takes a block where there was none. A slab that is being made, which may take long, is a mark and no lock: others wait for
 * it, and who has waited long enough makes one as well.
 */
static CUresult take_block_of_new(struct run *run, unsigned int class, struct allocation *a)
{
	CUresult result = CUDA_SUCCESS;
	enum turn turn;
	uint32_t seen;

	while (result == CUDA_SUCCESS &&
	       (turn = take_block_or_turn(run->arena, class, a, &seen)) != TAKEN) {
		if (turn == WAITS && deadline_wait(run->until, &run->arena->slabs_made, seen))
			continue;
		result = place_slab(run, class);
		if (turn == MAKES)
			end_turn(run->arena, class);
	}
	return result;
}

static CUresult allocate_block(const struct context *context, struct run *run, size_t size,
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

CUresult elastic_allocate(const struct context *context, size_t size, enum run_place place,
                          struct deadline *until, struct allocation **allocation)
{
	struct run run = {.arena = arena_of(context->device), .place = place, .until = until};
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
	note_spill(&run, *allocation);
	return CUDA_SUCCESS;
}

static void release_run(struct arena *arena, uint32_t first)
{
	uint32_t units;

	lock_acquire(&arena->lock);
	units = run_units(arena, first);
	run_withdraw(arena, first, units);
	lock_release(&arena->lock);
	run_remove(arena, first, units, true);
}

/* The last empty slab of a class stays for the next block, but not where another process may have it open. */
static bool may_go(const struct arena *arena, const struct slab *slab)
{
	return arena->units[slab->unit].is_exportable || slab->next ||
	       arena->slabs.with_room[slab->class] != slab;
}

/*
 * A block that was given away is nobody's until its slab goes: another process may have it open, and to it the block is
 * memory of its own, as of the driver's, which nobody writes to any more. Who has opened it is not always known.
 */
static bool give_block(struct arena *arena, struct slab *slab, uint32_t offset)
{
	const struct allocation *a = slab_owner(slab, offset);

	return a && atomic_load_explicit(&a->is_given_away, memory_order_relaxed)
	           ? slab_spend(slab, offset)
	           : slab_give(&arena->slabs, slab, offset);
}

static void release_block(struct arena *arena, CUdeviceptr address)
{
	struct slab *slab;
	uint32_t unit;
	bool empty, goes;

	lock_acquire(&arena->lock);
	slab = arena_unit(arena, address)->owner.slab;
	unit = slab->unit;
	empty = give_block(arena, slab, (uint32_t)(address - run_address(arena, unit)));
	goes = empty && may_go(arena, slab);
	if (goes) {
		slab_destroy(&arena->slabs, slab);
		run_withdraw(arena, unit, 1);
	} else if (empty) {
		run_unpin(arena, &arena->units[unit]);
		count_empty(arena, slab, 1);
	}
	lock_release(&arena->lock);
	if (goes)
		run_remove(arena, unit, 1, true);
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
		run_remove(arena, unit, 1, false);
		gate_leave();
		released += ARENA_UNIT;
	}
	return released;
}

void elastic_disown(const struct allocation *a)
{
	static struct allocation nobody; /* of no bytes: no address is in it */
	struct arena *arena = arena_at(a->address);
	struct unit *unit = arena_unit(arena, a->address);

	lock_acquire(&arena->lock);
	if (unit->kind == UNIT_OF_SLAB)
		slab_set_owner(unit->owner.slab,
		               (uint32_t)((a->address - arena->base) % ARENA_UNIT), &nobody);
	for (uint32_t i = unit->run; unit->kind == UNIT_OF_ALLOCATION && i < arena->top &&
	                             arena->units[i].owner.allocation == a;
	     i++)
		arena->units[i].owner.allocation = &nobody;
	lock_release(&arena->lock);
}

bool elastic_pin(struct device *device, CUdeviceptr address)
{
	struct arena *arena = arena_ranges[device->id.ordinal].arena;
	bool is_on_device = true;
	uint32_t first;

	lock_acquire(&arena->lock);
	first = run_first(arena, address);
	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i))
		is_on_device &= arena->units[i].side == SEGMENT_ON_DEVICE;
	if (is_on_device)
		run_pin(arena, address);
	lock_release(&arena->lock);
	return is_on_device;
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
	lock_acquire(&arena->lock);
	if (unit->kind == UNIT_OF_ALLOCATION)
		found = unit->owner.allocation;
	else if (unit->kind == UNIT_OF_SLAB)
		found =
		    slab_owner(unit->owner.slab, (uint32_t)((address - arena->base) % ARENA_UNIT));
	if (found &&
	    (address - found->address >= found->size || !atomic_load(&found->is_in_books) ||
	     !resource_hold_if_alive(&found->resource)))
		found = NULL;
	lock_release(&arena->lock);
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
	struct mixed_trial trial = {.base = 0};

	if (!arena)
		return;
	lock_acquire(&arena->lock);
	for (uint32_t i = 0; i < arena->top && !trial.base; i++) {
		const struct unit *unit = &arena->units[i];

		if (unit->kind != UNIT_FREE && unit->units && unit->side == SEGMENT_ON_DEVICE &&
		    !mixed_begin(&trial, unit->handle, unit->units * ARENA_UNIT))
			break;
	}
	lock_release(&arena->lock);
	/* Mapped once more, the memory lives as long as the trial. */
	if (trial.base)
		mixed_end(&trial, device);
}

void elastic_each_run(struct device *device,
                      void (*each)(void *cookie, CUdeviceptr address, uint64_t size), void *cookie)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];
	struct arena *arena = atomic_load(&range->base) ? range->arena : NULL;

	if (!arena)
		return;
	lock_acquire(&arena->lock);
	for (uint32_t i = 0, units; i < arena->top; i += units) {
		bool is_run = arena->units[i].kind != UNIT_FREE;

		units = is_run ? run_units(arena, i) : 1;
		if (is_run)
			each(cookie, run_address(arena, i), units * ARENA_UNIT);
	}
	lock_release(&arena->lock);
}

CUresult elastic_pin_range(CUdeviceptr address, size_t size)
{
	CUdeviceptr end = address + size;
	CUresult result = CUDA_SUCCESS;
	struct allocation *a;

	while (result == CUDA_SUCCESS && address < end && (a = elastic_at(address)) != NULL) {
		a->is_shared = true;
		result = wanted_pin(arena_at(address)->device, address, false,
		                    &DEADLINE_IN(WANTED_ANSWER_NS));
		address = a->address + (a->size + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
		resource_release(&a->resource);
	}
	return result;
}

/* --- for export --- */

CUresult elastic_make_exportable(struct allocation *a)
{
	a->is_shared = true;
	return wanted_pin(arena_at(a->address)->device, a->address, true,
	                  &DEADLINE_IN(WANTED_ANSWER_NS));
}

size_t elastic_pieces(const struct allocation *a, struct elastic_piece *pieces, size_t room,
                      uint64_t *offset)
{
	struct arena *arena = arena_at(a->address);
	size_t count = 0;
	uint32_t first;

	lock_acquire(&arena->lock);
	first = run_first(arena, a->address);
	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i)) {
		const struct unit *unit = &arena->units[i];

		if (count < room)
			pieces[count] =
			    (struct elastic_piece){unit->handle, unit->units * ARENA_UNIT};
		count++;
	}
	lock_release(&arena->lock);
	*offset = a->address - run_address(arena, first);
	return count;
}
