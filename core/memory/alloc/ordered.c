/* Memory freed in stream order. Rules: runs inside the user's process, within its calls; never waits. */
#include "core/memory/alloc/ordered.h"

#include "core/base/lock.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/elastic.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/freed.h"
#include "core/cuda/capture.h"

enum { BUCKETS = 64, EVENTS_MAX = 256, AHEAD_MAX = 16 };

static LOCK_OF(ORDERED) lock = LOCK_FREE;
/* By the bytes they take, the oldest first; with a reference to each. */
static struct {
	struct allocation *first, **end;
} kept[BUCKETS];
static _Atomic size_t kept_count;
static uint64_t frees;

/* Events that are recorded nowhere now. */
static struct {
	CUcontext context;
	CUevent event;
} events[EVENTS_MAX];
static size_t event_count;

static _Atomic uint64_t threads;
static __thread uint64_t thread_number __attribute__((tls_model("initial-exec")));

static size_t bucket_of(uint64_t span)
{
	return span / 512 * 0x9e3779b97f4a7c15u >> 58;
}

/* False: the driver does not know the stream. */
static bool stream_point(CUstream stream, struct stream_point *point)
{
	*point = (struct stream_point){.stream = stream};
	if (stream == CU_STREAM_PER_THREAD) {
		if (!thread_number)
			thread_number = atomic_fetch_add(&threads, 1) + 1;
		point->thread = thread_number;
	}
	return driver.cuStreamGetCtx(stream, &point->context) == CUDA_SUCCESS;
}

static bool is_same_stream(const struct stream_point *a, const struct stream_point *b)
{
	return a->stream && a->stream == b->stream && a->context == b->context &&
	       a->thread == b->thread;
}

/* --- events --- */

/* With the lock held. */
static CUevent take_event(CUcontext context)
{
	for (size_t i = event_count; i-- > 0;) {
		if (events[i].context == context) {
			CUevent event = events[i].event;

			events[i] = events[--event_count];
			return event;
		}
	}
	return NULL;
}

static void give_event(struct stream_point *point)
{
	if (!point->event)
		return;
	if (event_count < EVENTS_MAX) {
		events[event_count].context = point->context;
		events[event_count++].event = point->event;
	} else {
		driver.cuEventDestroy_v2(point->event);
	}
	point->event = NULL;
}

/* Records where the stream is now. */
static bool record(struct stream_point *point)
{
	CUcontext current = NULL;
	CUresult result = CUDA_SUCCESS;

	driver.cuCtxGetCurrent(&current);
	if (current != point->context && context_push(point->context) != CUDA_SUCCESS)
		return false;
	lock_acquire(&lock);
	point->event = take_event(point->context);
	lock_release(&lock);
	if (!point->event)
		result = driver.cuEventCreate(&point->event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = driver.cuEventRecord(point->event, point->stream);
		if (result != CUDA_SUCCESS) {
			lock_acquire(&lock);
			give_event(point);
			lock_release(&lock);
		}
	}
	if (current != point->context)
		context_pop(point->context);
	return result == CUDA_SUCCESS;
}

/* With the lock held: whether the work before the free is done. */
static bool has_passed(struct stream_point *point)
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
	if (result == CUDA_ERROR_NOT_READY || quiet_is_refused(result))
		return false;
	give_event(point);
	return true;
}

/* --- keeping and giving out --- */

bool ordered_free(struct allocation *a, CUstream stream)
{
	struct stream_point point;
	size_t bucket = bucket_of(a->pool_span);

	if (capture_is_active() || a->is_shared || !stream_point(stream, &point) || !record(&point))
		return false;
	resource_hold(&a->resource);
	pool_elastic(a->pool, -(int64_t)a->pool_live, 0);
	a->pool_live = 0;
	a->freed_at = point;
	a->freed_next = NULL;
	lock_acquire(&lock);
	a->freed_at.order = ++frees;
	if (!kept[bucket].first)
		kept[bucket].end = &kept[bucket].first;
	*kept[bucket].end = a;
	kept[bucket].end = &a->freed_next;
	kept_count++;
	lock_release(&lock);
	return true;
}

static bool serves(const struct allocation *a, const struct pool *pool, uint64_t span)
{
	return a->pool == pool && a->pool_span == span;
}

static struct allocation *unlink_at(size_t bucket, struct allocation **at)
{
	struct allocation *a = *at;

	*at = a->freed_next;
	if (!*at)
		kept[bucket].end = at;
	kept_count--;
	return a;
}

/* Where in the list one is that was freed on this stream, or that nobody uses any more. */
static struct allocation **find(struct allocation **list, const struct pool *pool, uint64_t span,
                                const struct stream_point *point)
{
	struct allocation **at, **passed = NULL;
	int asked = 0;

	for (at = list; *at; at = &(*at)->freed_next) {
		if (!serves(*at, pool, span))
			continue;
		if (is_same_stream(&(*at)->freed_at, point))
			return at;
		if (!passed && ((*at)->freed_at.event == NULL ||
		                (asked++ < AHEAD_MAX && has_passed(&(*at)->freed_at))))
			passed = at;
	}
	return passed;
}

struct allocation *ordered_take(struct pool *pool, size_t size, CUstream stream)
{
	uint64_t span = slab_span(size);
	struct allocation *a = NULL, **at;
	struct stream_point point;

	if (!atomic_load_explicit(&kept_count, memory_order_relaxed) ||
	    !stream_point(stream, &point))
		return NULL;
	lock_acquire(&lock);
	at = find(&kept[bucket_of(span)].first, pool, span, &point);
	if (at) {
		a = unlink_at(bucket_of(span), at);
		give_event(&a->freed_at);
	}
	lock_release(&lock);
	return a;
}

/* --- giving back --- */

/* What goes: all of a device, or of a pool (NULL: each) what is beyond so many bytes (its threshold). */
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
	if (pool_reserved(a->pool) > (sweep->pool ? sweep->keep : pool_keeps(a->pool)))
		return true;
	sweep->within = a->pool;
	return false;
}

static bool may_go(struct sweep *sweep, struct allocation *a)
{
	for (size_t i = 0; i < sweep->count; i++) {
		if (is_same_stream(sweep->ahead[i], &a->freed_at) &&
		    a->freed_at.order >= sweep->ahead[i]->order)
			return false;
	}
	if (has_passed(&a->freed_at))
		return true;
	sweep->is_pending = true;
	if (sweep->count < AHEAD_MAX)
		sweep->ahead[sweep->count++] = &a->freed_at;
	return false;
}

static void give_back(struct allocation *list)
{
	while (list) {
		struct allocation *a = list;

		list = a->freed_next;
		allocation_give_back(a);
		resource_release(&a->resource);
	}
}

/* With the lock held: out of the list and the pool's reserve. */
static void take_out(size_t bucket, struct allocation **at)
{
	struct allocation *a = unlink_at(bucket, at);

	pool_elastic(a->pool, 0, -(int64_t)a->pool_span);
	a->pool_span = 0;
}

static uint64_t sweep(struct sweep *what)
{
	struct allocation *going = NULL;
	uint64_t bytes = 0;

	if (!atomic_load_explicit(&kept_count, memory_order_relaxed))
		return 0;
	lock_acquire(&lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct allocation **at = &kept[i].first; *at;) {
			struct allocation *a = *at;

			if (!is_to_go(what, a) || !may_go(what, a)) {
				at = &a->freed_next;
				continue;
			}
			bytes += a->pool_span;
			take_out(i, at);
			a->freed_next = going;
			going = a;
		}
	}
	lock_release(&lock);
	give_back(going);
	return bytes;
}

void ordered_settle(void)
{
	sweep(&(struct sweep){0});
}

void ordered_trim(struct pool *pool, uint64_t keep)
{
	sweep(&(struct sweep){.pool = pool, .keep = keep});
}

uint64_t ordered_make_room(struct device *device, bool *is_pending)
{
	struct sweep what = {.device = device};
	uint64_t bytes = sweep(&what);

	if (is_pending)
		*is_pending = what.is_pending;
	return bytes;
}

/* --- what goes --- */

bool ordered_keeps_any(void)
{
	return atomic_load(&kept_count) != 0;
}

void ordered_stream_gone(CUstream stream)
{
	if (!atomic_load(&kept_count))
		return;
	lock_acquire(&lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct allocation *a = kept[i].first; a; a = a->freed_next) {
			if (a->freed_at.stream == stream)
				a->freed_at.stream = NULL;
		}
	}
	lock_release(&lock);
}

/* Events go with their context. */
void ordered_forget_context(CUcontext context)
{
	struct allocation *waiting = NULL;

	lock_acquire(&lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct allocation **at = &kept[i].first; *at;) {
			struct allocation *a = *at;

			if (a->freed_at.context != context) {
				at = &a->freed_next;
				continue;
			}
			a->freed_at.stream = NULL;
			if (!a->freed_at.event) {
				at = &a->freed_next;
				continue;
			}
			a->freed_at.event = NULL;
			take_out(i, at);
			a->freed_next = waiting;
			waiting = a;
		}
	}
	while (take_event(context))
		;
	lock_release(&lock);
	while (waiting) {
		struct allocation *a = waiting;

		waiting = a->freed_next;
		spilled_postpone(a);
		resource_release(&a->resource);
	}
}
