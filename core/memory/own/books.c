/* SPDX-License-Identifier: MIT */
/*
 * The books of own memory. Rules: runs inside the user's process, within its calls or on the
 * mover's thread.
 */
#include "core/memory/own/books.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/exported.h"
#include "core/budget/refusal.h"
#include "core/budget/wanted.h"
#include "core/memory/arena/arena.h"

own_lock_type own_lock = LOCK_FREE;
/*
 * All entries by their name. An entry whose name Spillway made stays as long as it has a name or a
 * mapping. An entry under the driver's handle stays while the program has the handle.
 */
struct own *own_by_name;

static _Atomic uint64_t names;
_Atomic size_t own_imports;

struct own *own_find(CUmemGenericAllocationHandle name)
{
	struct own *p;

	HASH_FIND(hh, own_by_name, &name, sizeof(name), p);
	return p;
}

bool own_is_movable(const struct own *p)
{
	const struct mapped_range *last = p->mappings;

	for (int i = 0; last && i < OWN_MAPPINGS_MOST; i++)
		last = last->next;
	return own_is_ours(p->name) && p->mappings && !last && p->mappings->size == p->bytes &&
	       p->mappings->readable >> p->device->handle & 1;
}

void own_recount(struct own *p)
{
	bool counts =
	    p->tier == SEGMENT_ON_DEVICE && !p->imported && (p->pinned || !own_is_movable(p));

	if (counts == p->is_counted)
		return;
	p->is_counted = counts;
	device_note_pinned(p->device, counts ? (int64_t)p->bytes : -(int64_t)p->bytes);
}

/*
 * Supersedes the memory that had a handle which the driver gives to new memory: it is leaving, or
 * gone by a way that we did not see.
 */
static void books_supersede(CUmemGenericAllocationHandle handle)
{
	struct own *last = own_find(handle);

	if (!last)
		return;
	own_unname(last);
	last->handles = 0;
	own_drop_unless_used(last);
}

void own_enter(const struct own_made *made, CUmemGenericAllocationHandle *handle)
{
	struct own *p = calloc(1, sizeof(*p));

	if (p) {
		p->name = p->handle = *handle;
		p->device = made->device;
		p->tier = made->tier;
		p->bytes = p->charged = made->bytes;
		p->born_ns = clock_coarse();
		p->site = refusal_site;
		p->handles = 1;
		p->asked = *made->prop;
		p->pinned = made->pins;
		if (made->moves)
			p->name = OWN_NAMES | (++names & ~OWN_NAMES_MASK);
		lock_acquire(&own_lock);
		books_supersede(p->name);
		if (own_name(p)) {
			*handle = p->name;
			own_recount(p);
			if (own_is_ours(p->name) && made->tier == SEGMENT_ON_HOST)
				arena_made(made->device)->on_host += made->bytes;
		}
		lock_release(&own_lock);
	}
	if (!p || !p->is_named) {
		/*
		 * The memory is not followed any more and stays charged until the process ends. So
		 * the job holds at most its limit.
		 */
		log_once(LOG_WARNING, "out of host memory for book-keeping of cuMemCreate");
		free(p);
	}
}

bool own_enter_import(struct device *device, CUmemGenericAllocationHandle handle,
                      const struct import *import)
{
	struct own *p = calloc(1, sizeof(*p));
	bool entered;

	if (!p)
		return false;
	p->name = p->handle = handle;
	p->device = device;
	p->tier = SEGMENT_ON_DEVICE;
	p->handles = 1;
	p->imported = true;
	p->is_weightless = import->is_weightless || !device;
	p->imported_as = device ? import->key : 0;
	p->charged = p->is_weightless ? 0 : import->bytes;
	lock_acquire(&own_lock);
	books_supersede(p->name);
	entered = own_name(p);
	own_imports += entered;
	if (entered && p->charged)
		device_count_elsewhere(device, (int64_t)p->charged);
	lock_release(&own_lock);
	if (!entered)
		free(p);
	return entered;
}

void own_walk(const struct device *device, own_look *look, void *cookie)
{
	lock_acquire(&own_lock);
	for (const struct own *p = own_by_name; p; p = p->hh.next)
		if (p->device == device && p->charged)
			look(cookie, p->site, p->charged, p->born_ns);
	lock_release(&own_lock);
}

void own_forget(struct own *p)
{
	if (p->is_counted)
		device_note_pinned(p->device, -(int64_t)p->bytes);
	own_unname(p);
	if (own_is_ours(p->name) && p->tier == SEGMENT_ON_HOST)
		arena_made(p->device)->on_host -= p->bytes;
	if (p->imported && p->charged)
		device_count_elsewhere(p->device, -(int64_t)p->charged);
	if (p->tier == SEGMENT_ON_DEVICE && p->charged)
		device_uncharge_exported(p->device, p->exported_as, p->charged);
	else if (p->charged)
		device_uncharge(p->device, p->tier, p->charged);
	own_imports -= p->imported;
	if (p->imported_as)
		imported_leave(p->device, p->imported_as);
	free(p);
}

/*
 * Drops it, with the lock held, unless it has a handle or a mapping or is leaving. Memory under a
 * name of ours is released to the driver then, because no other process has a handle of it.
 */
void own_drop_unless_used(struct own *p)
{
	if (p->handles || p->mappings || p->leaving)
		return;
	/* Asked twice: a handle that stays is memory that is never returned. */
	if (own_is_ours(p->name) && driver.cuMemRelease(p->handle) != CUDA_SUCCESS)
		driver.cuMemRelease(p->handle);
	own_forget(p);
}

void own_wake_for(struct device *device)
{
	const struct arena *arena = device ? arena_made(device) : NULL;

	if (arena && arena->on_host)
		wanted_wake(device);
}
