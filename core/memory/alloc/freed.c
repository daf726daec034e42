/* Giving memory back. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/freed.h"

#include "core/base/lock.h"
#include "core/memory/alloc/allocation.h"
#include "core/cuda/fence.h"
#include "core/cuda/idle.h"
#include "core/cuda/capture.h"

static LOCK_OF(FREED) lock = LOCK_FREE;
/* What was freed and is still there, by what it is behind. With a reference to each. */
static struct allocation *postponed; /* a wait for everything */
static struct allocation *behind;    /* the fence that is set */
static struct allocation *later;     /* freed since: the next fence */
static _Atomic unsigned int postponed_count, deferred_count;
static _Atomic uint64_t came_back; /* bytes of the deferred */

static void push(struct allocation **list, struct allocation *a)
{
	a->freed_next = *list;
	*list = a;
}

void spilled_postpone(struct allocation *a)
{
	resource_hold(&a->resource);
	lock_acquire(&lock);
	push(&postponed, a);
	postponed_count++;
	lock_release(&lock);
}

/* False: there can be no fence. */
static bool defer(struct allocation *a)
{
	bool is_deferred = true;

	resource_hold(&a->resource);
	lock_acquire(&lock);
	if (behind)
		push(&later, a);
	else if ((is_deferred = fence_set()))
		push(&behind, a);
	if (is_deferred)
		deferred_count++;
	lock_release(&lock);
	if (!is_deferred)
		resource_release(&a->resource);
	return is_deferred;
}

/*
 * The driver frees its own kinds of memory in some context alone, and all that was made in one with that; so that it is not
 * freed twice, the context is held. False: not now, because the driver is asked to destroy that.
 */
static bool give_back(const struct allocation *a)
{
	CUcontext context = a->context.handle;
	CUresult pushed;

	if (a->backing.provider->outlives_context) {
		allocation_give_back(a);
		return true;
	}
	pushed = context_push(context);
	if (pushed == CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return !context_is_leaving(context);
	allocation_give_back(a);
	if (pushed == CUDA_SUCCESS)
		context_pop(context);
	return true;
}

static void give_all_back(struct allocation *list)
{
	while (list) {
		struct allocation *a = list;

		list = a->freed_next;
		if (!give_back(a))
			spilled_postpone(a);
		resource_release(&a->resource);
	}
}

/* False: not waited, because of a capture. */
static bool wait_and_release(const struct allocation *a, CUstream wait, CUresult *result)
{
	CUresult waited = wait ? driver.cuStreamSynchronize(wait) : quiet_wait(a->context.handle);
	CUresult released;

	if (quiet_is_refused(waited))
		return false;
	/* With any other error the context is broken and runs nothing more. */
	released = allocation_give_back(a);
	*result = waited != CUDA_SUCCESS ? waited : released;
	return true;
}

CUresult spilled_free(struct allocation *a, CUstream wait)
{
	CUresult result;

	if (!capture_is_active()) {
		if ((wait || device_setting(a->context.device, deferred_free)) && defer(a))
			return CUDA_SUCCESS;
		if (wait_and_release(a, wait, &result))
			return result;
	}
	spilled_postpone(a);
	return CUDA_SUCCESS;
}

static bool is_in(const struct allocation *list, CUdeviceptr address)
{
	for (; list; list = list->freed_next) {
		if (address - list->address < list->size)
			return true;
	}
	return false;
}

bool spilled_is_freed(CUdeviceptr address)
{
	bool found;

	if (!(atomic_load_explicit(&postponed_count, memory_order_relaxed) |
	      atomic_load_explicit(&deferred_count, memory_order_relaxed)))
		return false;
	lock_acquire(&lock);
	found = is_in(postponed, address) || is_in(behind, address) || is_in(later, address);
	lock_release(&lock);
	return found;
}

/* --- what was deferred --- */

/* With the lock held and nothing behind the fence: what was freed since it was set gets its own. */
static void set_next(void)
{
	behind = later;
	later = NULL;
	if (!behind || (!capture_is_active() && fence_set()))
		return;
	while (behind) {
		struct allocation *a = behind;

		behind = a->freed_next;
		push(&postponed, a);
		deferred_count--;
		postponed_count++;
	}
}

/* With the lock held: those behind the fence if it has been passed, the caller's. */
static struct allocation *take_passed(void)
{
	struct allocation *ready = behind;

	if (!behind || !fence_has_passed())
		return NULL;
	for (const struct allocation *a = ready; a; a = a->freed_next) {
		deferred_count--;
		came_back += a->size;
	}
	set_next();
	return ready;
}

void spilled_poll(void)
{
	struct allocation *ready;

	if (!atomic_load_explicit(&deferred_count, memory_order_relaxed) || capture_is_active())
		return;
	lock_acquire(&lock);
	ready = take_passed();
	lock_release(&lock);
	give_all_back(ready);
}

/* --- what is waited for --- */

/* With the lock held: takes those of a context out of a list, NULL: all. */
static void take(struct allocation **list, _Atomic unsigned int *count, CUcontext context,
                 struct allocation **taken)
{
	while (*list) {
		struct allocation *a = *list;

		if (context && a->context.handle != context) {
			list = &a->freed_next;
			continue;
		}
		*list = a->freed_next;
		push(taken, a);
		(*count)--;
	}
}

static struct allocation *take_postponed(CUcontext context)
{
	struct allocation *taken = NULL;

	lock_acquire(&lock);
	take(&postponed, &postponed_count, context, &taken);
	lock_release(&lock);
	return taken;
}

static struct allocation *take_all(CUcontext context)
{
	struct allocation *taken = NULL;

	lock_acquire(&lock);
	take(&postponed, &postponed_count, context, &taken);
	take(&behind, &deferred_count, context, &taken);
	take(&later, &deferred_count, context, &taken);
	if (!behind)
		set_next();
	lock_release(&lock);
	return taken;
}

/* Waits for all work and gives these back. False: the driver refused to wait, so they are postponed. */
static bool wait_and_give_back(struct allocation *taken)
{
	if (!taken)
		return false;
	if (!quiet_is_refused(quiet_wait(NULL))) {
		give_all_back(taken);
		return true;
	}
	while (taken) {
		struct allocation *a = taken;

		taken = a->freed_next;
		spilled_postpone(a);
		resource_release(&a->resource);
	}
	return false;
}

void spilled_settle(void)
{
	spilled_poll();
	if (atomic_load_explicit(&postponed_count, memory_order_relaxed) && !capture_is_active())
		wait_and_give_back(take_postponed(NULL));
}

void spilled_fence(void)
{
	if (atomic_load_explicit(&postponed_count, memory_order_relaxed) && !capture_is_active()) {
		lock_acquire(&lock);
		while (postponed) {
			struct allocation *a = postponed;

			postponed = a->freed_next;
			push(&later, a);
			postponed_count--;
			deferred_count++;
		}
		if (!behind)
			set_next();
		lock_release(&lock);
	}
	spilled_poll();
}

bool spilled_is_pending(void)
{
	return atomic_load(&deferred_count) != 0;
}

uint64_t spilled_came_back(void)
{
	return atomic_load(&came_back);
}

bool spilled_wait(void)
{
	return (atomic_load(&postponed_count) | atomic_load(&deferred_count)) &&
	       !capture_is_active() && wait_and_give_back(take_all(NULL));
}

void spilled_forget_context(CUcontext context)
{
	wait_and_give_back(take_all(context));
	lock_acquire(&lock);
	fence_forget_context(context);
	lock_release(&lock);
}
