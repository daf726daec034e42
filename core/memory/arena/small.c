/* SPDX-License-Identifier: MIT */
/*
 * Slabs of the driver's memory. Rules: runs inside the user's process, within its calls; the driver
 * is called without a lock.
 */
#include "core/memory/arena/small.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/address_map.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/budget/exported.h"

/* A slab's memory. */
struct small_piece {
	struct small_piece *next; /* of its context's */
	struct small_context *of;
	struct slab *slab; /* NULL: it goes back to the driver */
	CUdeviceptr base;
	uint64_t exported_as; /* a key of exported.h; 0: none */
	bool is_going;        /* a thread gives it back now */
};

/* The slabs of a context. It is never freed, but serves another context afterwards. */
struct small_context {
	struct small_context *next;
	unsigned int number; /* the context's; 0: of none */
	CUcontext handle;
	struct device *device;
	struct slabs slabs;
	struct small_piece *pieces;
};

/* One for all devices: it is held for moments. */
static QUICK_LOCK_OF(ARENA) lock;
static struct small_context *contexts;
static _Atomic size_t pieces_live; /* so that a look-up costs one load where there are none */

/* --- finding; with the lock held --- */

static struct small_context *small_find_context(unsigned int number)
{
	struct small_context *c = contexts;

	while (c && c->number != number)
		c = c->next;
	return c;
}

static struct small_context *small_reuse_context(void)
{
	struct small_context *c = contexts;

	while (c && (c->number || c->pieces))
		c = c->next;
	return c;
}

static struct small_context *small_enter_context(const struct context *context)
{
	struct small_context *c = small_reuse_context();

	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		c->next = contexts;
		contexts = c;
	}
	c->number = context->number;
	c->handle = context->handle;
	c->device = context->device;
	memset(c->slabs.is_made, 0, sizeof(c->slabs.is_made));
	return c;
}

static struct small_context *small_context_of(const struct context *context)
{
	struct small_context *c = small_find_context(context->number);

	return c ? c : small_enter_context(context);
}

static struct small_piece *small_find(CUdeviceptr address)
{
	struct address_range range;

	return address_map_find(address, &range) && range.kind == ADDRESS_OF_SLAB ? range.owner
	                                                                          : NULL;
}

static void small_unchain(struct small_piece *piece)
{
	struct small_piece **at = &piece->of->pieces;

	while (*at != piece)
		at = &(*at)->next;
	*at = piece->next;
	atomic_fetch_sub(&pieces_live, 1);
}

/* Counts an empty slab that is kept: +1 when it becomes one, -1 afterwards. */
static void small_count_empty(const struct small_piece *piece, int change)
{
	device_note_spare(piece->of->device, SEGMENT_ON_DEVICE, (int64_t)change * SLAB_BYTES);
}

/* Takes a slab out of the books, so that no block of it is found or taken. */
static void small_withdraw(struct small_piece *piece)
{
	slab_destroy(&piece->of->slabs, piece->slab);
	piece->slab = NULL;
	address_map_remove(piece->base, piece);
}

/* --- taking --- */

static CUresult small_publish(struct small_making *m, CUdeviceptr base)
{
	const struct address_range range = {base, SLAB_BYTES, calloc(1, sizeof(struct small_piece)),
	                                    ADDRESS_OF_SLAB};
	struct small_piece *piece = range.owner;
	struct small_context *c;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!piece)
		return result;
	lock_acquire(&lock);
	c = small_context_of(m->context);
	if (c && (piece->slab = slab_create(&c->slabs, slab_class(m->size))) != NULL) {
		piece->of = c;
		piece->base = base;
		piece->slab->place = piece;
		if (address_map_add(&range) == 0)
			result = CUDA_SUCCESS;
		else
			slab_destroy(&c->slabs, piece->slab);
	}
	if (result == CUDA_SUCCESS) {
		piece->next = c->pieces;
		c->pieces = piece;
		atomic_fetch_add(&pieces_live, 1);
		small_count_empty(piece, 1);
	}
	lock_release(&lock);
	if (result != CUDA_SUCCESS)
		free(piece);
	return result;
}

/* Makes a slab: other threads may take its blocks before this request does. */
static CUresult small_make(struct small_making *m)
{
	struct device *device = m->context->device;
	CUdeviceptr base;
	CUresult result;

	m->lack = (struct lack){SEGMENT_ON_DEVICE, SLAB_BYTES, SLAB_BYTES, SPILL_LIMIT};
	if (device_charge(device, SLAB_BYTES) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->lack.why = SPILL_DEVICE_FULL;
	result = driver.cuMemAlloc_v2(&base, SLAB_BYTES);
	if (result == CUDA_SUCCESS) {
		m->lack.bytes = 0; /* from here on the lack is not room on the device */
		result = small_publish(m, base);
		m->has_no_entry = result != CUDA_SUCCESS;
		if (m->has_no_entry)
			driver.cuMemFree_v2(base);
	}
	if (result != CUDA_SUCCESS)
		device_uncharge(device, SEGMENT_ON_DEVICE, SLAB_BYTES);
	return result;
}

static CUdeviceptr small_take_of(struct small_context *c, const struct small_making *m,
                                 unsigned int class)
{
	struct slab *slab = slab_with_room(&c->slabs, class);
	struct small_piece *piece;

	if (!slab)
		return 0;
	piece = slab->place;
	if (!slab->used)
		small_count_empty(piece, -1);
	return piece->base + slab_take(&c->slabs, slab, m->owner);
}

/*
 * Takes a block, or finds whether this request is to make a slab. Returns the slabs of
 * the context; NULL without memory for them. seen: the value of slabs->made until a slab is made.
 */
static struct slabs *small_take_or_make(struct small_making *m, CUdeviceptr *address,
                                        uint32_t *seen)
{
	unsigned int class = slab_class(m->size);
	struct small_context *c;

	lock_acquire(&lock);
	c = small_context_of(m->context);
	if (c) {
		*address = small_take_of(c, m, class);
		if (!*address)
			slab_maker_begin(&c->slabs, class, &m->maker);
		*seen = atomic_load(&c->slabs.made);
	}
	lock_release(&lock);
	return c ? &c->slabs : NULL;
}

static void small_end_making(struct small_making *m)
{
	struct small_context *c;
	bool wakes = false;

	m->maker.makes = false;
	if (!m->maker.is_held)
		return;
	lock_acquire(&lock);
	c = small_find_context(m->context->number);
	if (c)
		wakes = slab_maker_end(&c->slabs, slab_class(m->size), &m->maker);
	m->maker.is_held = false;
	lock_release(&lock);
	if (wakes)
		slab_maker_wake(&c->slabs);
}

CUresult small_take(struct small_making *m, CUdeviceptr *address)
{
	CUdeviceptr taken = 0;
	struct slabs *slabs;
	CUresult result;
	uint32_t seen;

	m->lack = (struct lack){.tier = SEGMENT_ON_DEVICE};
	for (;;) {
		slabs = small_take_or_make(m, &taken, &seen);
		m->has_no_entry = !slabs;
		if (!slabs)
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (taken)
			break;
		if (!m->maker.makes) {
			if (!deadline_wait(m->until, &slabs->made, seen))
				m->maker.makes = true;
			continue;
		}
		result = small_make(m);
		if (result != CUDA_SUCCESS)
			return result;
		small_end_making(m);
	}
	small_end_making(m); /* another thread has given a block back meanwhile */
	*address = taken;
	return CUDA_SUCCESS;
}

void small_drop(struct small_making *m)
{
	small_end_making(m);
}

/* --- giving back --- */

/* The result of giving a slab's memory back to the driver. */
enum returned { RETURNED, REFUSED, LEFT_TO_CONTEXT };

/* The context need not be the current one, and may be going: then its memory goes with it. */
static enum returned small_return(const struct small_piece *piece)
{
	CUcontext handle = piece->of->handle;
	CUresult result = context_push(handle);

	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return context_is_leaving(handle) ? LEFT_TO_CONTEXT : RETURNED;
	if (result == CUDA_SUCCESS) {
		result = driver.cuMemFree_v2(piece->base);
		context_pop(handle);
	}
	if (result == CUDA_SUCCESS)
		return RETURNED;
	if (result != CUDA_ERROR_DEINITIALIZED) /* the process ends */
		log_once(LOG_ERROR,
		         "the driver does not free 2 MiB that small allocations shared (error %d): "
		         "they stay charged",
		         (int)result);
	return REFUSED;
}

/* Gives a slab that was withdrawn, and marked as going, back to the driver. */
static void arena_small_release(struct small_piece *piece)
{
	struct device *device = piece->of->device;
	enum returned returned = small_return(piece);
	bool goes;

	lock_acquire(&lock);
	/* A context that was forgotten meanwhile has left this slab to us. */
	goes = returned == RETURNED || !piece->of->number;
	piece->is_going = false;
	if (goes)
		small_unchain(piece);
	lock_release(&lock);
	if (!goes)
		return;
	device_uncharge_exported(device, piece->exported_as, SLAB_BYTES);
	free(piece);
}

static bool small_is_last(const struct small_piece *piece)
{
	const struct slab *slab = piece->slab;

	return !slab->next && piece->of->slabs.with_room[slab->class] == slab;
}

/* Returns whether the slab is empty now. */
static bool small_give_block(struct small_piece *piece, uint32_t offset,
                             const struct small_giving *how)
{
	/* A context's end may have taken the slab, and another one may have its addresses. */
	if (slab_owner(piece->slab, offset) != how->owner)
		return false;
	return how->is_spent ? slab_spend(piece->slab, offset)
	                     : slab_give(&piece->of->slabs, piece->slab, offset);
}

void small_give(CUdeviceptr address, const struct small_giving *how)
{
	struct small_piece *piece;
	bool goes = false;

	lock_acquire(&lock);
	piece = small_find(address);
	if (piece && small_give_block(piece, (uint32_t)(address - piece->base), how)) {
		goes = !how->keeps || piece->slab->spent || !small_is_last(piece);
		piece->is_going = goes;
		if (goes)
			small_withdraw(piece);
		else
			small_count_empty(piece, 1);
	}
	lock_release(&lock);
	if (goes)
		arena_small_release(piece);
}

/* Withdraws an empty slab of a device; NULL: there is none. */
static struct small_piece *small_take_empty(const struct device *device)
{
	struct small_piece *empty = NULL;

	lock_acquire(&lock);
	for (struct small_context *c = contexts; c && !empty; c = c->next) {
		for (empty = c->device == device ? c->pieces : NULL; empty; empty = empty->next)
			if (empty->slab && !empty->slab->used)
				break;
	}
	if (empty) {
		small_count_empty(empty, -1);
		empty->is_going = true;
		small_withdraw(empty);
	}
	lock_release(&lock);
	return empty;
}

uint64_t small_trim(struct device *device)
{
	struct small_piece *piece;
	uint64_t released = 0;

	while (atomic_load(&pieces_live) && (piece = small_take_empty(device)) != NULL) {
		arena_small_release(piece);
		released += SLAB_BYTES;
	}
	return released;
}

/* Takes out the slabs of a context, but those that a thread gives back now. */
static struct small_piece *small_take_all(struct small_context *c)
{
	struct small_piece *taken = NULL, **at = &c->pieces;

	while (*at) {
		struct small_piece *piece = *at;

		if (piece->is_going) {
			at = &piece->next;
			continue;
		}
		if (piece->slab && !piece->slab->used)
			small_count_empty(piece, -1);
		if (piece->slab)
			small_withdraw(piece);
		small_unchain(piece);
		piece->next = taken;
		taken = piece;
	}
	c->number = 0;
	return taken;
}

void small_forget_context(const struct context *context)
{
	struct small_piece *taken = NULL, *next;
	struct small_context *c;

	lock_acquire(&lock);
	c = small_find_context(context->number);
	if (c)
		taken = small_take_all(c);
	lock_release(&lock);
	for (; taken; taken = next) {
		next = taken->next;
		device_uncharge_exported(context->device, taken->exported_as, SLAB_BYTES);
		free(taken);
	}
}

/* --- for other processes --- */

/* Keeps a slab, of which the driver made this handle, charged while the job can hold it. */
static void small_follow(CUdeviceptr base, const CUipcMemHandle *handle)
{
	struct device *device = NULL;
	struct small_piece *piece;
	uint64_t key = 0;

	lock_acquire(&lock);
	piece = small_find(base);
	if (piece) {
		device = piece->of->device;
		key = piece->exported_as;
	}
	lock_release(&lock);
	if (!device)
		return;
	if (!key)
		key = exported_as(device, SLAB_BYTES);
	if (!key)
		return;
	segment_export_name(device->segment, key, handle, sizeof(*handle));
	lock_acquire(&lock);
	piece = small_find(base);
	if (piece)
		piece->exported_as = key;
	lock_release(&lock);
}

CUresult small_export(CUdeviceptr address, CUipcMemHandle *handle, uint64_t *offset)
{
	static LOCK_OF(EXPORTS) exporting = LOCK_FREE;
	struct address_range slab;
	CUresult result;

	if (!address_map_find(address, &slab) || slab.kind != ADDRESS_OF_SLAB)
		return CUDA_ERROR_INVALID_VALUE;
	lock_acquire(&exporting);
	result = driver.cuIpcGetMemHandle(handle, slab.first);
	if (result == CUDA_SUCCESS)
		small_follow(slab.first, handle);
	lock_release(&exporting);
	*offset = address - slab.first;
	return result;
}

/* --- looking --- */

bool small_holds(CUdeviceptr address)
{
	return __builtin_expect(atomic_load_explicit(&pieces_live, memory_order_relaxed) != 0, 0) &&
	       small_find(address);
}

struct allocation *small_owner(CUdeviceptr address,
                               bool (*hold)(struct allocation *owner, CUdeviceptr address))
{
	struct allocation *found = NULL;
	const struct small_piece *piece;

	if (!small_holds(address))
		return NULL;
	lock_acquire(&lock);
	piece = small_find(address);
	if (piece)
		found = slab_owner(piece->slab, (uint32_t)(address - piece->base));
	if (found && !hold(found, address))
		found = NULL;
	lock_release(&lock);
	return found;
}

void small_disown(CUdeviceptr address, struct allocation *nobody)
{
	const struct small_piece *piece;

	lock_acquire(&lock);
	piece = small_find(address);
	if (piece)
		slab_set_owner(piece->slab, (uint32_t)(address - piece->base), nobody);
	lock_release(&lock);
}
