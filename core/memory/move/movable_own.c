/* SPDX-License-Identifier: MIT */
/* Own memory, for the mover. Rules: by the mover thread alone. */
#include "core/memory/move/movable.h"

#include <string.h>

#include "core/base/lock.h"
#include "core/cuda/chunk.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/heat.h"
#include "core/memory/own/books.h"

static void movable_own_acquire(struct device *device)
{
	(void)device;
	lock_acquire(&own_lock);
}

static void movable_own_release(struct device *device)
{
	(void)device;
	lock_release(&own_lock);
}

static struct candidate movable_own_candidate(const struct own *p)
{
	return (struct candidate){.kind = &movable_own,
	                          .address = p->mappings->address,
	                          .size = p->bytes,
	                          .run = p->mappings->address,
	                          .whole = p->mappings->address,
	                          .read = p->bytes};
}

/* Returns the highest rank of its mappings. */
static uint64_t movable_own_rank(const struct device *device, const struct mapped_range *range,
                                 uint32_t now)
{
	uint64_t highest = 0;

	for (; range; range = range->next) {
		uint32_t touched = placement_ask(0, touched, range->address, range->size, now);
		uint64_t rank =
		    placement_ask(MOVABLE_RANK, rank, device, range->address, touched, now);

		highest = rank > highest ? rank : highest;
	}
	return highest;
}

static void movable_own_choose(struct device *device, enum segment_tier tier, struct choice *choice)
{
	uint32_t now = placement_ask(0, now);

	if (!movable_acquire(choice, &own_lock))
		return;
	for (const struct own *p = own_by_name; p; p = p->hh.next) {
		struct candidate c;

		if (p->device != device || p->tier != tier || p->pinned || !own_is_movable(p))
			continue;
		c = movable_own_candidate(p);
		if (movable_is_ranked(choice))
			c.rank = movable_own_rank(device, p->mappings, now);
		movable_consider(choice, &c);
	}
	lock_release(&own_lock);
}

/* Returns what is mapped at the address, if it can be moved; or NULL. */
static struct own *movable_at(const struct device *device, CUdeviceptr address)
{
	const struct mapped_range *range = own_mapping(address);

	return range && range->own->device == device && own_is_movable(range->own) ? range->own
	                                                                           : NULL;
}

/*
 * Chooses what is mapped at the address, if it is on the host. In memory that can be exported it is
 * as soon as it is on the device, if the program has asked for that.
 */
static void movable_own_choose_at(struct device *device, CUdeviceptr address, bool is_exportable,
                                  struct choice *choice)
{
	const struct own *p = movable_at(device, address);

	(void)is_exportable;
	if (p && p->tier == SEGMENT_ON_HOST)
		choice->of[choice->count++] = movable_own_candidate(p);
}

/*
 * Rights as the driver wants them. Neighbours with the same rights share them, and get them by one
 * call; nearly all have the same. NULL: too many different ones.
 */
static const CUmemAccessDesc *rights_of(const struct mapped_range *range, size_t *count)
{
	enum { DIFFERENT = 16 };
	static struct rights {
		uint16_t readable, writable;
		CUmemAccessDesc access[DEVICE_MAX];
		size_t count;
	} known[DIFFERENT];
	struct rights *r = known;

	while (r < known + DIFFERENT && r->count &&
	       (r->readable != range->readable || r->writable != range->writable))
		r++;
	if (r == known + DIFFERENT)
		return NULL;
	if (!r->count) {
		r->readable = range->readable;
		r->writable = range->writable;
		for (int i = 0; i < DEVICE_MAX; i++) {
			if (!(range->readable >> i & 1))
				continue;
			r->access[r->count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
			r->access[r->count].location.id = i;
			r->access[r->count++].flags = range->writable >> i & 1
			                                  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			                                  : CU_MEM_ACCESS_FLAGS_PROT_READ;
		}
	}
	*count = r->count;
	return r->access;
}

static bool movable_own_is_plain(const CUmemAllocationProp *asked)
{
	static const __typeof__(asked->allocFlags) none;

	return asked->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE &&
	       memcmp(&asked->allocFlags, &none, sizeof(none)) == 0;
}

static bool movable_own_map_others(const struct move *move, CUmemGenericAllocationHandle memory)
{
	const struct mapped_range *range = own_mapping(move->address)->own->mappings;
	const CUmemAccessDesc *access;
	bool is_mapped = true;
	size_t count;

	while ((range = range->next)) {
		access = rights_of(range, &count);
		if (access)
			mapping_remove(range->address, range->size);
		if (!access || mapping_make(range->address, range->size, memory) != CUDA_SUCCESS ||
		    (count &&
		     mapping_allow(range->address, range->size, access, count) != CUDA_SUCCESS))
			is_mapped = false;
	}
	return is_mapped;
}

static bool movable_own_look(struct device *device, struct move *move, bool pinned_too)
{
	const struct own *p = movable_at(device, move->address);

	if (!p || p->mappings->address != move->address || (p->pinned && !pinned_too))
		return false;
	move->size = p->bytes;
	move->from = p->handle;
	move->access = rights_of(p->mappings, &move->accesses);
	move->map_others = movable_own_map_others;
	move->is_from_device = p->tier == SEGMENT_ON_DEVICE;
	move->has_like = !movable_own_is_plain(&p->asked);
	move->like = p->asked;
	return move->access != NULL;
}

static void movable_own_moved(struct device *device, const struct move *move, enum segment_tier to,
                              bool is_exportable)
{
	struct arena *arena = arena_ranges[device->id.ordinal].arena;
	struct own *p = own_mapping(move->address)->own;

	(void)is_exportable;
	if (!move->is_from_device)
		arena->on_host -= move->size;
	if (to == SEGMENT_ON_HOST)
		arena->on_host += move->size;
	p->handle = move->to;
	p->tier = to;
	own_recount(p);
}

static void movable_own_pin(struct device *device, CUdeviceptr address)
{
	const struct mapped_range *range = own_mapping(address);

	(void)device;
	if (!range)
		return;
	range->own->pinned = true;
	own_recount(range->own);
}

static bool movable_own_has(CUdeviceptr address)
{
	bool is_known;

	lock_acquire(&own_lock);
	is_known = own_mapping(address) != NULL;
	lock_release(&own_lock);
	return is_known;
}

const struct movable_kind movable_own = {
    .has = movable_own_has,
    .acquire = movable_own_acquire,
    .release = movable_own_release,
    .choose = movable_own_choose,
    .choose_at = movable_own_choose_at,
    .look = movable_own_look,
    .moved = movable_own_moved,
    .pin = movable_own_pin,
};
