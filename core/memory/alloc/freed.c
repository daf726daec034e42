/* SPDX-License-Identifier: MIT */
/* Freed memory. Rules: runs inside the user's process, within its calls and by the mover. */
#include "core/memory/alloc/freed.h"

#include "core/base/address_map.h"
#include "core/base/lock.h"
#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/events.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/ipc_calls.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/slab.h"
#include "core/memory/arena/small.h"
#include "core/memory/arena/spare.h"
#include "core/memory/uses/counted.h"

enum { BUCKETS = 64, AHEAD_MAX = 16 };

/*
 * Places of the list. Memory that waits for a stream lies by its bytes: other requests may have it.
 */
enum {
	BEHIND = BUCKETS, /* the fence that is set */
	LATER,            /* freed since: the next fence */
	POSTPONED,        /* a wait for everything */
	PLACES,
};

static LOCK_OF(FREED) lock = LOCK_FREE;
/* Each place has the oldest first, with a reference to each. */
static struct place {
	struct allocation *first, **end; /* end: NULL before the first */
} freed[PLACES];
_Atomic size_t freed_counts[FREED_KINDS];
static uint64_t frees;
static _Atomic uint64_t came_back;

/*
 * Memory that the driver frees in the order of a stream: it is charged until the stream is there,
 * and the driver alone knows when it is free.
 */
static CUresult release_nothing(const struct allocation *a)
{
	(void)a;
	return CUDA_SUCCESS;
}

static const struct provider provider_driver = {
    .factory = {"driver", 0},
    .kind = SPILL_AUTO,
    .outlives_context = true,
    .release = release_nothing,
};

/* --- the list --- */

static enum freed_kind freed_kind_of(size_t place)
{
	return place < BUCKETS      ? FREED_OF_STREAM
	       : place == POSTPONED ? FREED_OF_WAIT
	                            : FREED_OF_FENCE;
}

static size_t bucket_of(uint64_t span)
{
	return span / 512 * 0x9e3779b97f4a7c15u >> 58;
}

/* Appends to a place of the list and takes over the reference. The lock is held. */
static void freed_put(size_t place, struct allocation *a)
{
	struct place *p = &freed[place];

	if (!p->first)
		p->end = &p->first;
	a->freed_next = NULL;
	*p->end = a;
	p->end = &a->freed_next;
	freed_counts[freed_kind_of(place)]++;
}

/* Unlinks an allocation from a place of the list. The lock is held. */
static struct allocation *unlink_at(size_t place, struct allocation **at)
{
	struct allocation *a = *at;

	*at = a->freed_next;
	if (!*at)
		freed[place].end = at;
	freed_counts[freed_kind_of(place)]--;
	return a;
}

/* Moves all of one place to another. The lock is held. */
static void freed_move_all(size_t from, size_t to)
{
	while (freed[from].first)
		freed_put(to, unlink_at(from, &freed[from].first));
}

static void push(struct allocation **list, struct allocation *a)
{
	a->freed_next = *list;
	*list = a;
}

/*
 * Postpones an allocation that has left the books until everything was waited for. Takes a
 * reference of its own.
 */
static void freed_postpone(struct allocation *a)
{
	resource_hold(&a->resource);
	lock_acquire(&lock);
	freed_put(POSTPONED, a);
	lock_release(&lock);
}

bool freed_has(CUdeviceptr address)
{
	bool found = false;

	if (!freed_is_any(FREED_OF_FENCE) && !freed_is_any(FREED_OF_WAIT))
		return false;
	lock_acquire(&lock);
	for (size_t place = BEHIND; place < PLACES; place++) {
		for (struct allocation *a = freed[place].first; a && !found; a = a->freed_next)
			found = address - a->address < a->size &&
			        a->backing.provider != &provider_driver;
	}
	lock_release(&lock);
	return found;
}

/* --- giving back --- */

/*
 * Gives one back. The driver frees its own kinds in a context alone, and with their context, which
 * is held so that none goes twice. Returns false while the driver is asked to destroy it.
 */
static bool freed_do_give_back(const struct allocation *a)
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

/* Takes over a list that is chained by freed_next, and its references. */
static void give_all_back(struct allocation *list)
{
	while (list) {
		struct allocation *a = list;

		list = a->freed_next;
		if (!freed_do_give_back(a))
			freed_postpone(a);
		resource_release(&a->resource);
	}
}

/* Waits for all work, then gives a list back; or postpones it, if refused, and returns false. */
static bool wait_and_give_back(struct allocation *list)
{
	if (!list)
		return false;
	if (!idle_is_refused(idle_wait(NULL))) {
		give_all_back(list);
		return true;
	}
	while (list) {
		struct allocation *a = list;

		list = a->freed_next;
		freed_postpone(a);
		resource_release(&a->resource);
	}
	return false;
}

/* --- memory that waits for its stream --- */

static _Atomic uint64_t threads;
static __thread uint64_t thread_number __attribute__((tls_model("initial-exec")));

/*
 * Makes a point of a stream, by its explicit name. Returns false when the driver does not know the
 * stream.
 */
static bool stream_point_of(CUstream stream, struct stream_point *point)
{
	*point = (struct stream_point){.stream = stream};
	if (stream == CU_STREAM_PER_THREAD) {
		if (!thread_number)
			thread_number = atomic_fetch_add(&threads, 1) + 1;
		point->thread = thread_number;
	}
	return driver.cuStreamGetCtx(stream, &point->context) == CUDA_SUCCESS;
}

static bool stream_point_is_same(const struct stream_point *a, const struct stream_point *b)
{
	return a->stream && a->stream == b->stream && a->context == b->context &&
	       a->thread == b->thread;
}

/* Ends a point, which is waited for no more. */
static void stream_point_end(struct stream_point *point)
{
	events_give(point->context, point->event);
	point->event = NULL;
}

/*
 * Records where the stream is now; not while a capture is active. Returns false where the driver
 * does not.
 */
static bool stream_point_record(struct stream_point *point)
{
	CUcontext current = NULL;
	bool is_recorded;

	driver.cuCtxGetCurrent(&current);
	if (current != point->context && context_push(point->context) != CUDA_SUCCESS)
		return false;
	point->event = events_take(point->context);
	is_recorded =
	    point->event && driver.cuEventRecord(point->event, point->stream) == CUDA_SUCCESS;
	if (!is_recorded)
		stream_point_end(point);
	if (current != point->context)
		context_pop(point->context);
	return is_recorded;
}

/*
 * Returns whether the work before the point is done. Of a context that is broken or gone no work is
 * left.
 */
static bool stream_point_has_passed(struct stream_point *point)
{
	CUresult result;

	if (!point->event)
		return true;
	if (context_push(point->context) != CUDA_SUCCESS) {
		if (context_is_leaving(point->context))
			return false;
		point->event = NULL; /* it went with its context */
		return true;
	}
	result = CUDA_ERROR_NOT_READY;
	if (capture_sync_enter()) {
		result = driver.cuEventQuery(point->event);
		capture_sync_leave();
	}
	context_pop(point->context);
	/* With any other error the context is broken and runs nothing more. */
	if (result == CUDA_ERROR_NOT_READY || idle_is_refused(result))
		return false;
	stream_point_end(point);
	return true;
}

static bool keep_for_stream(struct allocation *a, CUstream stream)
{
	struct stream_point point;

	if (a->is_shared || !stream_point_of(stream, &point) || !stream_point_record(&point))
		return false;
	resource_hold(&a->resource);
	a->freed_at = point;
	lock_acquire(&lock);
	a->freed_at.order = ++frees;
	freed_put(bucket_of(a->pool_span), a);
	lock_release(&lock);
	return true;
}

/* Finds one freed on this stream, or one without a user. Returns the pointer to it, or NULL. */
static struct allocation **freed_find(struct allocation **list, const struct pool *pool,
                                      uint64_t span, const struct stream_point *point)
{
	struct allocation **at, **passed = NULL;
	int asked = 0;

	for (at = list; *at; at = &(*at)->freed_next) {
		if ((*at)->pool != pool || (*at)->pool_span != span)
			continue;
		if (stream_point_is_same(&(*at)->freed_at, point))
			return at;
		if (!passed && ((*at)->freed_at.event == NULL ||
		                (asked++ < AHEAD_MAX && stream_point_has_passed(&(*at)->freed_at))))
			passed = at;
	}
	return passed;
}

struct allocation *freed_take(struct pool *pool, size_t size, CUstream stream)
{
	uint64_t span = slab_span(size);
	size_t bucket = bucket_of(span);
	struct allocation *a = NULL, **at;
	struct stream_point point;

	if (!freed_is_any(FREED_OF_STREAM) || !stream_point_of(stream, &point))
		return NULL;
	lock_acquire(&lock);
	at = freed_find(&freed[bucket].first, pool, span, &point);
	if (at) {
		a = unlink_at(bucket, at);
		stream_point_end(&a->freed_at);
	}
	lock_release(&lock);
	return a;
}

/* A sweep: all of a device, or of a pool (NULL: each) all beyond so many bytes (its threshold). */
struct sweep {
	const struct device *device;
	struct pool *pool;
	uint64_t keep;
	const struct pool *within;                   /* the last that had nothing to give */
	const struct stream_point *ahead[AHEAD_MAX]; /* streams that were found not to be so far */
	size_t count;
	bool is_pending; /* some could not go for its stream's sake */
};

static bool is_to_go(struct sweep *sweep, const struct allocation *a)
{
	if (sweep->device)
		return a->context.device == sweep->device;
	if (a->pool == sweep->within || (sweep->pool && a->pool != sweep->pool))
		return false;
	if (pool_is_beyond(a->pool, sweep->pool ? &sweep->keep : NULL))
		return true;
	sweep->within = a->pool;
	return false;
}

static bool freed_may_go(struct sweep *sweep, struct allocation *a)
{
	for (size_t i = 0; i < sweep->count; i++) {
		if (stream_point_is_same(sweep->ahead[i], &a->freed_at) &&
		    a->freed_at.order >= sweep->ahead[i]->order)
			return false;
	}
	if (stream_point_has_passed(&a->freed_at))
		return true;
	sweep->is_pending = true;
	if (sweep->count < AHEAD_MAX)
		sweep->ahead[sweep->count++] = &a->freed_at;
	return false;
}

/* Takes an allocation out of the list and out of the pool's reserve. The lock is held. */
static void freed_take_out(size_t place, struct allocation **at, struct allocation **taken)
{
	struct allocation *a = unlink_at(place, at);

	if (a->pool && a->pool_span && place < BUCKETS) {
		pool_elastic(a->pool, 0, -(int64_t)a->pool_span);
		a->pool_span = 0;
	}
	push(taken, a);
}

static void freed_sweep(struct sweep *what)
{
	struct allocation *going = NULL;

	if (!freed_is_any(FREED_OF_STREAM))
		return;
	lock_acquire(&lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct allocation **at = &freed[i].first; *at;) {
			if (!is_to_go(what, *at) || !freed_may_go(what, *at)) {
				at = &(*at)->freed_next;
				continue;
			}
			came_back += (*at)->pool_span;
			freed_take_out(i, at, &going);
		}
	}
	lock_release(&lock);
	give_all_back(going);
}

void freed_trim(struct pool *pool, uint64_t keep)
{
	freed_sweep(&(struct sweep){.pool = pool, .keep = keep});
}

void freed_stream_gone(CUstream stream)
{
	if (!freed_is_any(FREED_OF_STREAM))
		return;
	lock_acquire(&lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct allocation *a = freed[i].first; a; a = a->freed_next) {
			if (a->freed_at.stream == stream)
				a->freed_at.stream = NULL;
		}
	}
	lock_release(&lock);
}

/* --- memory that waits for the fence --- */

/*
 * The fence: the point up to which the contexts of this process had been given work when it was
 * set. It has been passed when all that work is done.
 *
 * One event per context says it, recorded over everything the context has: streams known to us or
 * not, other threads' default streams, green contexts. Nothing is put into the program's own
 * streams, so none waits for another by it. There is one fence at a time, set and asked with the
 * lock held. While a capture is active no fence is set, nor is one passed: the captures would be
 * invalidated. An event in the legacy stream would make the program's streams wait for each other.
 */
enum { POINTS_MAX = 64 };

/* The point of one context. */
static struct point {
	CUcontext context;
	CUevent event;
	bool is_ahead; /* not known to have been passed */
} points[POINTS_MAX];
static size_t point_count;

static struct point *point_of(CUcontext context)
{
	for (size_t i = 0; i < point_count; i++) {
		if (points[i].context == context)
			return &points[i];
	}
	return NULL;
}

/* Makes the context's point of the fence, with the context current. */
static struct point *make_point(CUcontext context)
{
	struct point *p = &points[point_count];

	if (point_count == POINTS_MAX || !(p->event = events_take(context)))
		return NULL;
	p->context = context;
	p->is_ahead = false;
	point_count++;
	return p;
}

static bool set_in(CUcontext context)
{
	struct point *p;

	if (context_push(context) != CUDA_SUCCESS)
		return false;
	p = point_of(context);
	if (!p)
		p = make_point(context);
	if (p && capture_sync_enter()) {
		p->is_ahead = driver.cuCtxRecordEvent(context, p->event) == CUDA_SUCCESS;
		capture_sync_leave();
	} else {
		p = NULL;
	}
	context_pop(context);
	return p && p->is_ahead;
}

/*
 * Sets the fence, in the place of an earlier one. Returns false where the driver cannot (before
 * CUDA 12.5) or does not.
 */
static bool fence_set(void)
{
	unsigned int generation;
	struct context context;

	/* An entry that is forgotten during the walk may hide another. */
	do {
		generation = context_generation();
		for (size_t i = 0; context_at(i, &context); i++) {
			if (!set_in(context.handle))
				return false;
		}
	} while (generation != context_generation());
	return true;
}

static bool is_still_ahead(const struct point *p)
{
	CUresult result;

	if (!capture_sync_enter())
		return true;
	result = context_push(p->context);
	if (result == CUDA_SUCCESS) {
		result = driver.cuEventQuery(p->event);
		context_pop(p->context);
	} else if (context_is_leaving(p->context)) {
		result = CUDA_ERROR_NOT_READY; /* the thread that destroys it waits for its work */
	}
	capture_sync_leave();
	return result == CUDA_ERROR_NOT_READY || idle_is_refused(result);
}

/*
 * Returns whether the fence has been passed; true where none is set. Of a context that is broken or
 * gone no work is left.
 */
static bool fence_has_passed(void)
{
	for (size_t i = 0; i < point_count; i++) {
		if (points[i].is_ahead && is_still_ahead(&points[i]))
			return false;
		points[i].is_ahead = false;
	}
	return true;
}

/* Waits no more for a context that is gone, and its event with it. */
static void fence_forget_context(CUcontext context)
{
	struct point *p = point_of(context);

	if (p)
		*p = points[--point_count];
}

/* Keeps an allocation for the next fence. Returns false if there can be no fence. */
static bool keep_for_fence(struct allocation *a)
{
	bool is_kept;

	lock_acquire(&lock);
	is_kept = freed[BEHIND].first || fence_set();
	if (is_kept) {
		resource_hold(&a->resource);
		freed_put(freed[BEHIND].first ? LATER : BEHIND, a);
	}
	lock_release(&lock);
	return is_kept;
}

/*
 * Sets a fence for memory that was freed since the last. The lock is held, nothing behind the
 * fence.
 */
static void set_next(void)
{
	freed_move_all(LATER, BEHIND);
	if (freed[BEHIND].first && (capture_is_active() || !fence_set()))
		freed_move_all(BEHIND, POSTPONED);
}

void freed_poll(void)
{
	struct allocation *going = NULL;

	if (!freed_is_any(FREED_OF_FENCE) || capture_is_active())
		return;
	lock_acquire(&lock);
	if (freed[BEHIND].first && fence_has_passed()) {
		while (freed[BEHIND].first) {
			came_back += freed[BEHIND].first->size;
			freed_take_out(BEHIND, &freed[BEHIND].first, &going);
		}
		set_next();
	}
	lock_release(&lock);
	give_all_back(going);
}

void freed_fence(void)
{
	if (freed_is_any(FREED_OF_WAIT) && !capture_is_active()) {
		lock_acquire(&lock);
		freed_move_all(POSTPONED, LATER);
		if (!freed[BEHIND].first)
			set_next();
		lock_release(&lock);
	}
	freed_poll();
}

/* --- all of it --- */

static CUresult wait_and_release(const struct allocation *a, CUstream wait, bool *is_refused)
{
	CUresult waited = wait ? driver.cuStreamSynchronize(wait) : idle_wait(a->context.handle);
	CUresult released;

	*is_refused = idle_is_refused(waited); /* because of a capture */
	if (*is_refused)
		return CUDA_SUCCESS;
	/* With any other error the context is broken and runs nothing more. */
	released = allocation_give_back(a);
	return waited != CUDA_SUCCESS ? waited : released;
}

/*
 * Frees one that has left the books. wait: it was freed in this stream's order (by its explicit
 * name); NULL: after all work of its context. Returns the answer for the program.
 */
static CUresult freed_take_over(struct allocation *a, CUstream wait)
{
	bool is_refused = true;
	CUresult result = CUDA_SUCCESS;

	if (elastic_is(a) && a->pool) { /* it is in use no more, and still reserved */
		pool_elastic(a->pool, -(int64_t)a->pool_live, 0);
		a->pool_live = 0;
	}
	if (!capture_is_active()) {
		if (wait && elastic_is(a) && keep_for_stream(a, wait))
			return CUDA_SUCCESS;
		if ((wait || terms_defer_free(a->context.device)) && keep_for_fence(a))
			return CUDA_SUCCESS;
		result = wait_and_release(a, wait, &is_refused);
	}
	if (is_refused)
		freed_postpone(a);
	return result;
}

/* Takes out all of these places, or those of a context. */
static struct allocation *take_from(size_t first, CUcontext context)
{
	struct allocation *taken = NULL;

	lock_acquire(&lock);
	for (size_t place = first; place < PLACES; place++) {
		for (struct allocation **at = &freed[place].first; *at;) {
			if (!context || (*at)->context.handle == context)
				freed_take_out(place, at, &taken);
			else
				at = &(*at)->freed_next;
		}
	}
	if (!freed[BEHIND].first)
		set_next();
	lock_release(&lock);
	return taken;
}

void freed_settle_now(void)
{
	freed_poll();
	if (freed_is_any(FREED_OF_WAIT) && !capture_is_active())
		wait_and_give_back(take_from(POSTPONED, NULL));
}

void freed_waited(void)
{
	freed_poll();
	freed_sweep(&(struct sweep){0});
}

bool freed_give_back(struct device *device)
{
	struct sweep what = {.device = device};

	freed_fence();
	freed_sweep(&what);
	return what.is_pending || freed_is_any(FREED_OF_FENCE);
}

uint64_t freed_came_back(void)
{
	return atomic_load(&came_back);
}

bool freed_wait(void)
{
	return (freed_is_any(FREED_OF_WAIT) || freed_is_any(FREED_OF_FENCE)) &&
	       !capture_is_active() && wait_and_give_back(take_from(BEHIND, NULL));
}

/* Postpones memory that waits for streams of a context without events. The lock is held. */
static void postpone_of(CUcontext context)
{
	struct allocation *waiting = NULL;

	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct allocation **at = &freed[i].first; *at;) {
			struct stream_point *point = &(*at)->freed_at;
			bool is_ahead = point->context == context && point->event;

			if (point->context == context)
				point->stream = NULL;
			if (is_ahead) {
				point->event = NULL;
				freed_take_out(i, at, &waiting);
			} else {
				at = &(*at)->freed_next;
			}
		}
	}
	while (waiting) {
		struct allocation *a = waiting;

		waiting = a->freed_next;
		freed_put(POSTPONED, a);
	}
}

/*
 * Gives back memory that was freed in a context that is gone, once the work of all other contexts
 * is done, or as soon as no capture is active. Memory that the driver has freed with the context is
 * not freed again.
 */
static void freed_forget_context(CUcontext context)
{
	lock_acquire(&lock);
	postpone_of(context);
	lock_release(&lock);
	wait_and_give_back(take_from(BEHIND, context));
	lock_acquire(&lock);
	fence_forget_context(context);
	events_forget_context(context);
	lock_release(&lock);
}

/* --- freeing: the front behind cuMemFree and its kin --- */

/* Returns whether cuMemFree alone frees the memory: it was not allocated in stream order. */
static bool is_for_free_alone(CUdeviceptr address)
{
	struct allocation *a = allocation_find(address);
	bool found = a && a->backing.provider && !a->pool;

	if (a)
		resource_release(&a->resource);
	return found;
}

/*
 * Lets memory of ours go that this thread took out of the books: now, or as soon as may be. Takes
 * over the reference.
 */
static CUresult free_let_go(struct allocation *a, const struct vmem_free *how)
{
	CUresult result;

	ipc_take_back(&a->shared_as);
	result = freed_take_over(a, how->wait);
	resource_release(&a->resource);
	return result;
}

/*
 * Asks whether any memory may be freed now: while a capture is active the driver may refuse, with
 * the answer it gives.
 */
static CUresult may_free(const struct vmem_free *how)
{
	CUresult result = CUDA_SUCCESS;

	/*
	 * The driver answers for any address whether it may be freed now; none of its own is odd.
	 */
	if (capture_is_active())
		result = how->native(how->cookie, 1);
	return idle_is_refused(result) ? result : CUDA_SUCCESS;
}

/*
 * Lets the driver judge an address that is no allocation's. To it, the first address of a slab is
 * an allocation of its own, which would go with all its blocks.
 */
static CUresult let_driver_judge(CUdeviceptr address, const struct vmem_free *how)
{
	return small_holds(address) ? CUDA_ERROR_INVALID_VALUE : how->native(how->cookie, address);
}

/*
 * Frees memory of ours, and takes over the reference. Of two threads that free the same the driver
 * judges the second.
 */
static CUresult free_ours(const struct leaving *leaving, const struct vmem_free *how)
{
	struct allocation *a = (struct allocation *)leaving->resource;
	CUresult result = may_free(how);

	if (result == CUDA_SUCCESS && allocation_left(leaving, true))
		return free_let_go(a, how);
	if (result == CUDA_SUCCESS)
		result = let_driver_judge(a->address, how);
	else
		allocation_left(leaving, false);
	resource_release(&a->resource);
	return result;
}

/*
 * Frees managed memory, or memory of ours while a capture is active. The driver is asked in both
 * cases. It is not asked about memory that is free already, which it may still know.
 */
static CUresult free_asking(CUdeviceptr address, const struct vmem_free *how)
{
	struct leaving leaving = context_leave_object(&allocation_type, address);
	struct allocation *a = (struct allocation *)leaving.resource;
	CUresult result;

	if (!a)
		return freed_has(address) ? CUDA_ERROR_INVALID_VALUE
		                          : let_driver_judge(address, how);
	if (a->backing.provider)
		return free_ours(&leaving, how);
	result = how->native(how->cookie, address);
	if (allocation_left(&leaving, result == CUDA_SUCCESS) && how->wait && a->pool) {
		a->backing.provider = &provider_driver;
		freed_take_over(a, how->wait);
	}
	resource_release(leaving.resource); /* still in the books, it is still charged */
	return result;
}

/* Frees memory in no known range: the driver's own, or memory of another process's pool. */
static CUresult free_driver_s(CUdeviceptr address, const struct vmem_free *how)
{
	struct before_leaving before;
	struct allocation *gone;
	struct leaving imported;
	CUresult result;

	if (freed_has(address))
		return CUDA_ERROR_INVALID_VALUE;
	context_before_leaving(&before);
	result = how->native(how->cookie, address);
	if (result != CUDA_SUCCESS || !address)
		return result;
	gone = allocation_take_before(address, &before);
	if (gone) {
		resource_release(&gone->resource);
	} else {
		imported = context_leave_object(&counted_type_imported_memory, address);
		counted_left(&imported, true);
	}
	return result;
}

CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how)
{
	struct address_range range;
	struct allocation *ours = NULL;
	CUresult result;

	if (how->wait)
		freed_fence();
	else
		freed_settle();
	if (!address_map_find(address, &range)) {
		result = free_driver_s(address, how);
	} else if (how->wait && is_for_free_alone(address)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		if (range.kind == ADDRESS_OF_ARENA && !capture_is_active())
			ours = allocation_take(((struct arena *)range.owner)->device, address);
		result = ours ? free_let_go(ours, how) : free_asking(address, how);
	}
	pools_settle();
	return result;
}

/* Takes memory that went with a context out of the books, because the driver has freed it. */
static void leave_with_context(void *cookie, const struct registry_entry *entry)
{
	const struct context *context = cookie;
	struct allocation *a = (struct allocation *)entry->resource;

	if (a->resource.type != &allocation_type || (!a->backing.provider && !a->is_managed) ||
	    a->context.handle != context->handle || !allocation_leave(a) || a->is_managed)
		return;
	ipc_take_back(&a->shared_as);
	if (a->backing.provider->outlives_context)
		freed_postpone(a);
}

void vmem_forget_context(const struct context *context)
{
	small_forget_context(context);
	registry_walk(context->device->registry, leave_with_context, (void *)context);
	freed_forget_context(context->handle);
}

void vmem_left_context(struct device_set *devices)
{
	for (int i = 0; i < devices->count; i++) {
		struct device *device = &devices->device[i];
		struct context context;

		if (context_of_device(device, &context))
			continue;
		freed_give_back(device);
		elastic_trim(device);
		spare_trim(device, SEGMENT_ON_DEVICE, true);
		spare_trim(device, SEGMENT_ON_HOST, true);
	}
}
