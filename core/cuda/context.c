/* SPDX-License-Identifier: MIT */
/* Contexts. Rules: runs inside the user's process; changes no current context. */
#include "core/cuda/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/registry/object.h"
#include "core/rings/event.h"
#include "core/rings/ring.h"

#define CLOSING_NS 5000000000ull

enum { CLOSING_LOOK_NS = 100000 };

static SHARED_LOCK_OF(CONTEXTS) contexts_lock = SHARED_LOCK_FREE;
static struct context *contexts;
static _Atomic size_t context_count; /* read without the lock too: past the end there is none */
static CUcontext _Atomic alone;      /* the only one; NULL: there are more, or none */
static size_t context_room;
static unsigned int contexts_seen;
static struct context_device devices[CONTEXT_DEVICES];
static _Atomic int device_count;
static _Atomic unsigned int generation;
void (*context_met)(const struct context *context);

void context_start(const struct context_device *given, int count)
{
	lock_write(&contexts_lock);
	memcpy(devices, given, (size_t)count * sizeof(*devices));
	atomic_store(&device_count, count);
	context_count = 0;
	alone = NULL;
	atomic_fetch_add(&generation, 1);
	lock_leave_shared(&contexts_lock);
}

static const struct context_device *context_find_device(CUdevice handle)
{
	for (int i = 0; i < atomic_load(&device_count); i++) {
		if (devices[i].handle == handle)
			return &devices[i];
	}
	return NULL;
}

struct device *context_device(CUdevice handle)
{
	const struct context_device *device = context_find_device(handle);

	return device ? device->device : NULL;
}

/* Notes whether one context is alone; with the lock held, after each change of their number. */
static void note_alone(void)
{
	atomic_store(&alone, context_count == 1 ? contexts[0].handle : NULL);
}

/* Finds a context; with the lock held. */
static struct context *find_locked(CUcontext handle)
{
	for (size_t i = 0; i < context_count; i++) {
		if (contexts[i].handle == handle)
			return &contexts[i];
	}
	return NULL;
}

/* Finds it likewise, unless it is gone. */
static struct context *find_alive(CUcontext handle)
{
	struct context *known = find_locked(handle);

	return known && !known->is_gone ? known : NULL;
}

bool context_find(CUcontext handle, struct context *context)
{
	const struct context *known;

	lock_read(&contexts_lock);
	known = find_alive(handle);
	if (known)
		*context = *known;
	lock_leave_shared(&contexts_lock);
	return known != NULL;
}

/* Makes room for one more; with the lock held. Returns false when there is no memory. */
static bool context_make_room(void)
{
	size_t room = context_room ? 2 * context_room : 16;
	struct context *more;

	if (context_count < context_room)
		return true;
	more = realloc(contexts, room * sizeof(*more));
	if (!more) {
		log_once(LOG_WARNING, "out of host memory: a context is not tracked");
		return false;
	}
	contexts = more;
	context_room = room;
	return true;
}

/* Returns whether another thread releases the records of an earlier context of this handle. */
static bool is_being_given_up(CUcontext handle)
{
	const struct context *known;
	bool is_another_s;

	lock_read(&contexts_lock);
	known = find_locked(handle);
	is_another_s = known && known->is_gone && !pthread_equal(known->giver, pthread_self());
	lock_leave_shared(&contexts_lock);
	return is_another_s;
}

/* Enters a context first met now; another thread may have been quicker. */
static bool context_do_enter(CUcontext handle, const struct context_device *device,
                             struct context *context)
{
	struct deadline until = DEADLINE_IN(CLOSING_NS);
	struct context *known;

	while (is_being_given_up(handle) && deadline_nap(&until, CLOSING_LOOK_NS))
		;
	ring_begin();
	lock_write(&contexts_lock);
	known = find_alive(handle);
	if (!known && !find_locked(handle) && context_make_room()) {
		struct context *c = &contexts[context_count++];

		memset(c, 0, sizeof(*c));
		c->handle = handle;
		c->device = device->device;
		c->of = device;
		c->uses = 1;
		c->number = ++contexts_seen;
		snprintf(c->container, sizeof(c->container), "ctx%u", c->number);
		object_track(device->registry, NULL, &object_type_context, handle);
		event_note(.kind = EVENT_context, .device = device->ordinal, .a = true,
		           .object = (uintptr_t)handle);
		known = c;
		note_alone();
	}
	if (known)
		*context = *known;
	lock_leave_shared(&contexts_lock);
	return known != NULL;
}

void context_enter(CUcontext handle, CUdevice device_handle, CUgreenCtx green)
{
	const struct context_device *device = context_find_device(device_handle);
	struct context entered, *known;

	if (!handle || !device || !context_do_enter(handle, device, &entered))
		return;
	if (context_met)
		context_met(&entered);
	if (entered.green == green)
		return;
	lock_write(&contexts_lock);
	known = find_alive(handle);
	if (known)
		known->green = green;
	lock_leave_shared(&contexts_lock);
}

void context_attach(CUcontext handle)
{
	struct context *known;

	lock_write(&contexts_lock);
	known = find_alive(handle);
	if (known)
		known->uses++;
	lock_leave_shared(&contexts_lock);
}

bool context_of_green(CUgreenCtx green, struct context *context)
{
	bool found = false;

	lock_read(&contexts_lock);
	for (size_t i = 0; i < context_count && !found; i++) {
		found = contexts[i].green == green && !contexts[i].is_gone;
		if (found)
			*context = contexts[i];
	}
	lock_leave_shared(&contexts_lock);
	return found && green;
}

/* Enters it if need be. */
static bool context_meet(CUcontext handle, struct context *context)
{
	CUdevice device_handle;
	const struct context_device *device;

	if (context_find(handle, context))
		return true;
	if (driver.cuCtxGetDevice(&device_handle) != CUDA_SUCCESS)
		return false;
	device = context_find_device(device_handle);
	if (!device || !context_do_enter(handle, device, context))
		return false;
	if (context_met)
		context_met(context);
	return true;
}

/*
 * Returns the thread's own copy, which its next call may change; NULL where context_current() says
 * false.
 */
const struct context *context_here(void)
{
	/* The last one: mostly it still is. */
	static __thread struct {
		unsigned int generation;
		struct context context;
	} last __attribute__((tls_model("initial-exec")));
	unsigned int now = context_generation();
	CUcontext handle = NULL;
	struct context met;

	if (!atomic_load_explicit(&device_count, memory_order_relaxed) ||
	    driver.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
		return NULL;
	if (handle == last.context.handle && now == last.generation)
		return &last.context;
	if (!context_meet(handle, &met))
		return NULL;
	last.generation = now;
	last.context = met;
	return &last.context;
}

bool context_current(struct context *context)
{
	const struct context *now = context_here();

	if (now)
		*context = *now;
	return now != NULL;
}

bool context_of_device(const struct device *device, struct context *context)
{
	struct context other;
	bool found = false;

	for (size_t i = 0; (!found || context->leaving) && context_at(i, &other); i++) {
		if (other.device != device || (found && other.leaving))
			continue;
		*context = other;
		found = true;
	}
	return found;
}

bool context_at(size_t i, struct context *context)
{
	size_t at = 0;
	bool found;

	if (i >= atomic_load_explicit(&context_count, memory_order_relaxed))
		return false;
	lock_read(&contexts_lock);
	while (at < context_count && (contexts[at].is_gone || i > 0))
		i -= !contexts[at++].is_gone;
	found = at < context_count;
	if (found)
		*context = contexts[at];
	lock_leave_shared(&contexts_lock);
	return found;
}

bool context_is_alone(CUcontext handle)
{
	return handle && atomic_load_explicit(&alone, memory_order_relaxed) == handle;
}

int contexts_known(void)
{
	return (int)atomic_load_explicit(&context_count, memory_order_relaxed);
}

static bool borrow(CUcontext handle)
{
	struct context *known;
	bool may;

	lock_write(&contexts_lock);
	known = find_alive(handle);
	may = known && !known->leaving;
	if (may)
		known->borrowed++;
	lock_leave_shared(&contexts_lock);
	return may;
}

static void context_give_back(CUcontext handle)
{
	struct context *known;

	lock_write(&contexts_lock);
	known = find_locked(handle);
	if (known && known->borrowed)
		known->borrowed--;
	lock_leave_shared(&contexts_lock);
}

CUresult context_push(CUcontext handle)
{
	CUresult result;

	if (!borrow(handle))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	result = driver.cuCtxPushCurrent_v2(handle);
	if (result != CUDA_SUCCESS)
		context_give_back(handle);
	return result;
}

void context_pop(CUcontext handle)
{
	CUcontext popped;

	driver.cuCtxPopCurrent_v2(&popped);
	context_give_back(handle);
}

static bool is_borrowed(CUcontext handle)
{
	const struct context *known;
	bool borrowed;

	lock_read(&contexts_lock);
	known = find_locked(handle);
	borrowed = known && known->borrowed;
	lock_leave_shared(&contexts_lock);
	return borrowed;
}

bool context_leave(CUcontext handle, struct context *leaving)
{
	struct deadline until = DEADLINE_IN(CLOSING_NS);
	struct context *known;

	lock_write(&contexts_lock);
	known = find_alive(handle);
	if (known) {
		known->leaving++;
		*leaving = *known;
	}
	lock_leave_shared(&contexts_lock);
	while (known && is_borrowed(handle) && deadline_nap(&until, CLOSING_LOOK_NS))
		;
	return known != NULL;
}

/* Finds this very context, unless it is gone; with the lock held. */
static struct context *find_this(const struct context *context)
{
	struct context *known = find_alive(context->handle);

	return known && known->number == context->number ? known : NULL;
}

bool context_stay(const struct context *leaving)
{
	struct context *known;
	bool is_last;

	lock_write(&contexts_lock);
	known = find_this(leaving);
	is_last = known && --known->leaving == 0;
	lock_leave_shared(&contexts_lock);
	return is_last;
}

bool context_detach(const struct context *leaving)
{
	struct context *known;
	bool is_last;

	lock_write(&contexts_lock);
	known = find_this(leaving);
	is_last = known && --known->uses == 0;
	lock_leave_shared(&contexts_lock);
	return is_last;
}

bool context_gone(const struct context *gone)
{
	struct context *known;

	lock_write(&contexts_lock);
	known = find_this(gone);
	if (known) {
		known->is_gone = true;
		known->giver = pthread_self();
	}
	lock_leave_shared(&contexts_lock);
	return known != NULL;
}

bool context_is_leaving(CUcontext handle)
{
	const struct context *known;
	bool is_leaving;

	lock_read(&contexts_lock);
	known = find_alive(handle);
	is_leaving = known && known->leaving;
	lock_leave_shared(&contexts_lock);
	return is_leaving;
}

unsigned int context_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

/* Takes the objects of a context that is gone out of the books. */
static void context_clean_up(const struct context *gone)
{
	struct resource *access;

	event_note(.kind = EVENT_context, .device = gone->of->ordinal, .a = false,
	           .object = (uintptr_t)gone->handle);
	registry_cleanup(gone->of->registry, gone->container);
	registry_delete_object(gone->of->registry, NULL, &object_type_context,
	                       (uintptr_t)gone->handle);
	/*
	 * No thread reaches it any more. The current context is not asked: it may be the one just
	 * forgotten.
	 */
	for (int i = 0; i < atomic_load(&device_count); i++) {
		while ((access = registry_take_object(devices[i].registry, &object_type_peer_access,
		                                      (uintptr_t)gone->handle)))
			resource_release(access);
	}
}

void context_forget(CUcontext handle)
{
	struct context gone = {0};
	const struct context *known;

	lock_read(&contexts_lock);
	known = find_locked(handle);
	if (known)
		gone = *known;
	lock_leave_shared(&contexts_lock);
	if (!known)
		return;
	/* Before another of its handle may be entered. */
	context_clean_up(&gone);
	lock_write(&contexts_lock);
	atomic_fetch_add(&generation, 1);
	for (size_t i = 0; i < context_count; i++) {
		if (contexts[i].number == gone.number) {
			contexts[i] = contexts[--context_count];
			note_alone();
			break;
		}
	}
	lock_leave_shared(&contexts_lock);
}

struct registry *context_free_registry(void)
{
	return devices[0].registry;
}

/* --- objects of the program, looked for in the current context's books first --- */

/*
 * Looks in all books, and prefers one that stays: an object that leaves may have lost its address
 * already.
 */
static struct resource *look_everywhere(const struct resource_type *type, uint64_t object,
                                        struct registry **registry)
{
	int count = atomic_load(&device_count);
	struct context context = {0};
	struct resource *found = NULL;

	if (context_current(&context)) {
		*registry = context.of->registry;
		found = registry_find_object(*registry, context.container, type, object);
	}
	for (int i = 0; (!found || resource_is_leaving(found)) && i < count; i++) {
		struct registry *other = devices[i].registry;
		struct resource *there = devices[i].device == context.device
		                             ? NULL
		                             : registry_find_object(other, NULL, type, object);

		if (!there || (found && resource_is_leaving(there))) {
			resource_release(there);
			continue;
		}
		resource_release(found);
		found = there;
		*registry = other;
	}
	return found;
}

struct resource *context_find_object(const struct resource_type *type, uint64_t object)
{
	struct registry *registry = NULL;

	return look_everywhere(type, object, &registry);
}

static void context_objects_leave(const struct resource_type *type, uint64_t object, bool holds,
                                  struct leaving *leaving)
{
	struct registry *registry = NULL;
	const struct context *context = context_here();
	struct resource *found;

	/* Mostly it is where it was made. */
	if (context && registry_leave_object(context->of->registry, context->container, type,
	                                     object, holds, leaving))
		return;
	found = look_everywhere(type, object, &registry);
	*leaving = registry_leave(registry, object, found);
	if (!holds)
		resource_release(found);
}

struct leaving context_leave_object(const struct resource_type *type, uint64_t object)
{
	struct leaving leaving;

	context_objects_leave(type, object, true, &leaving);
	return leaving;
}

void context_leave_unheld(const struct resource_type *type, uint64_t object,
                          struct leaving *leaving)
{
	context_objects_leave(type, object, false, leaving);
}

void context_before_leaving(struct before_leaving *before)
{
	int count = atomic_load(&device_count);

	for (int i = 0; i < count; i++)
		before->entries[i] = registry_entries(devices[i].registry);
}

struct resource *context_take_before(const struct resource_type *type, uint64_t object,
                                     const struct before_leaving *before)
{
	struct resource *taken = NULL;
	int count = atomic_load(&device_count);

	for (int i = 0; i < count && !taken; i++)
		taken = registry_take_before(devices[i].registry, type, object, before->entries[i]);
	return taken;
}
