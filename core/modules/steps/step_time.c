/* SPDX-License-Identifier: MIT */
/*
 * The time of steps. Rules: runs inside the user's process, after a launch that ended a step, some
 * thousand times a second at most; three events a device, no wait, no allocation.
 */
#include "core/modules/steps/step_time.h"

#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"

enum { WINDOW = 1024 }; /* steps in the mean, twice as many at most */

/*
 * A break: a stretch took longer than BREAK_NS, and BREAK_STEPS times as long as its steps usually
 * do.
 */
enum { BREAK_NS = 1000000000, BREAK_STEPS = 16 };

/* An event behind the last launch of a step. */
struct mark {
	CUcontext context;
	CUevent event; /* NULL: none is made */
	uint64_t number, recorded_ns;
	bool is_point; /* the device has passed it, and `point` says when */
	struct point {
		uint64_t number;
		int64_t ns; /* on the timer's scale: breaks are left out */
	} point;
};

static struct timer {
	LOCK_OF(STEP_TIMES) lock;
	enum { NOTHING, BEGUN, ENDED } state;
	_Atomic uint64_t wanted; /* so many ends from here; UINT64_MAX: none until one is told */
	struct mark begin, end;  /* in ENDED both are recorded, in BEGUN the first */
	uint64_t steps;          /* from one to the other */
	uint64_t since;          /* from the newer one on */
	bool is_mixed;           /* other work came there */
	uint64_t passed_ns;      /* when the device passed the first, as far as is known */
	struct mark last; /* the newest point before `begin`, while `begin` is not on the scale */
	struct point from, next;  /* the mean begins at `from`, later at `next` */
	uint64_t first, first_ns; /* so many steps had ended then, by the host's clock; or 0 */
	uint64_t mean_ns;
} timers[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = {.lock = LOCK_FREE, .wanted = UINT64_MAX}};

bool step_time_wants(int ordinal, uint64_t count)
{
	return count >= atomic_load_explicit(&timers[ordinal].wanted, memory_order_relaxed);
}

static bool record(struct mark *m, const struct step_ends *ends)
{
	if (m->event && m->context != ends->context && context_push(m->context) == CUDA_SUCCESS) {
		driver.cuEventDestroy_v2(m->event);
		context_pop(m->context);
	}
	if (m->context != ends->context)
		m->event = NULL;
	if (!m->event && driver.cuEventCreate(&m->event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		m->event = NULL;
		return false;
	}
	m->context = ends->context;
	m->is_point = false;
	m->number = ends->number;
	m->recorded_ns = ends->now_ns;
	return driver.cuEventRecord(m->event, ends->stream) == CUDA_SUCCESS;
}

static uint64_t step_time_between(uint64_t least, uint64_t value, uint64_t most)
{
	return value > most ? most : value < least ? least : value;
}

/*
 * Puts the first point of a scale on it: the mark where a stretch began. The steps before it count
 * by the host's clock, unless the program launches them faster than the device takes a step: then
 * the device has not done them yet.
 */
static void set_first_point(struct timer *t, struct mark *begin, uint64_t step_ns)
{
	uint64_t before = begin->number - t->first, ns = begin->recorded_ns - t->first_ns;

	begin->point = (struct point){begin->number, 0};
	t->from = t->next = begin->point;
	if (t->first_ns && ns >= before * step_ns)
		t->from = (struct point){t->first, -(int64_t)ns};
	t->first_ns = 0;
	begin->is_point = true;
}

/* Puts the mark on the scale, so long after an earlier point, and takes the mean anew. */
static void set_point(struct timer *t, const struct point *earlier, struct mark *mark, uint64_t ns)
{
	uint64_t steps = mark->number - earlier->number;

	if (t->mean_ns && ns > BREAK_NS && ns / BREAK_STEPS > steps * t->mean_ns)
		ns = steps * t->mean_ns;
	mark->point = (struct point){mark->number, earlier->ns + (int64_t)ns};
	mark->is_point = true;
	if (mark->number > t->from.number)
		t->mean_ns =
		    (uint64_t)(mark->point.ns - t->from.ns) / (mark->number - t->from.number);
	if (mark->number - t->next.number >= WINDOW) {
		t->from = t->next;
		t->next = mark->point;
	}
}

/* Returns how long the device took from one mark to another that it has passed, or 0. */
static uint64_t elapsed_ns(const struct mark *from, const struct mark *to)
{
	float ms = 0;

	if (!from->event || from->context != to->context ||
	    driver.cuEventElapsedTime(&ms, from->event, to->event) != CUDA_SUCCESS || ms <= 0)
		return 0;
	return (uint64_t)((double)ms * 1e6);
}

/* Puts the end of a stretch of so many ns on the scale. */
static void take_stretch(struct timer *t, struct mark *begin, struct mark *end, uint64_t ns)
{
	uint64_t since_last = 0;

	if (!begin->is_point && t->last.is_point)
		since_last = elapsed_ns(&t->last, end);
	if (since_last) {
		set_point(t, &t->last.point, end, since_last);
		return;
	}
	if (!begin->is_point)
		set_first_point(t, begin, ns / t->steps);
	set_point(t, &begin->point, end, ns);
}

/* Reads the stretch, if the device has passed its end, which is the next one's begin. */
static void read(struct timer *t, const struct step_ends *ends, struct step_timed *timed)
{
	struct mark begin = t->begin;
	float ms = 0;
	CUresult result = CUDA_ERROR_INVALID_CONTEXT;
	uint64_t ns;

	if (t->end.context == ends->context && t->begin.context == ends->context)
		result = driver.cuEventElapsedTime(&ms, t->begin.event, t->end.event);
	if (result == CUDA_ERROR_NOT_READY)
		return; /* the device is behind: a later call reads it */
	t->state = result == CUDA_SUCCESS && ms > 0 ? BEGUN : NOTHING;
	ns = (uint64_t)((double)ms * 1e6);
	if (t->state == BEGUN)
		take_stretch(t, &begin, &t->end, ns);
	t->begin = t->end;
	t->end = begin;
	if (t->state == NOTHING)
		return;
	t->passed_ns = step_time_between(t->begin.recorded_ns, t->passed_ns + ns, ends->now_ns);
	timed->ns = ns / t->steps;
	timed->end_ns = t->passed_ns;
	timed->number = t->begin.number;
}

/* Keeps the newest point while a stretch begins elsewhere. */
static void keep_point(struct timer *t)
{
	struct mark last = t->last;

	if (!t->begin.is_point)
		return;
	t->last = t->begin;
	t->begin = last;
}

/* Begins a stretch, ends the one that is begun, or puts its end off. */
static void step_time_mark(struct timer *t, const struct step_ends *ends)
{
	bool is_one = !t->is_mixed && t->begin.context == ends->context;

	if (t->state == ENDED) {
		if (ends->are_told || !is_one)
			return;
		t->steps += t->since;
		t->state = record(&t->end, ends) ? ENDED : NOTHING;
	} else if (t->state == BEGUN && is_one) {
		t->steps = t->since;
		t->state = record(&t->end, ends) ? ENDED : NOTHING;
	} else {
		keep_point(t);
		t->state = ends->are_told && record(&t->begin, ends) ? BEGUN : NOTHING;
		t->passed_ns = ends->now_ns;
	}
	t->since = 0;
	t->is_mixed = false;
}

/* Returns after how many ends the next is wanted, though none is told. */
static uint64_t next_wanted(const struct timer *t, const struct step_ends *ends)
{
	if (t->state == ENDED)
		return ends->are_told || t->is_mixed ? UINT64_MAX : 3 * t->steps;
	return t->state == BEGUN ? 1 : UINT64_MAX;
}

struct step_timed step_time_take(int ordinal, const struct step_ends *ends)
{
	struct timer *t = &timers[ordinal];
	struct step_timed timed = {0};

	lock_acquire(&t->lock);
	if (ends->are_first) {
		t->state = NOTHING;
		t->begin.is_point = t->end.is_point = t->last.is_point = false;
		t->first = ends->first;
		t->first_ns = ends->first_ns;
		t->mean_ns = 0;
	}
	t->since += ends->count;
	t->is_mixed |= ends->are_mixed;
	if (capture_sync_enter()) {
		if (t->state == ENDED && ends->are_told)
			read(t, ends, &timed);
		step_time_mark(t, ends);
		capture_sync_leave();
	}
	atomic_store_explicit(&t->wanted, next_wanted(t, ends), memory_order_relaxed);
	timed.mean_ns = t->mean_ns;
	lock_release(&t->lock);
	return timed;
}

void step_time_leave_context(CUcontext context)
{
	for (int i = 0; i < DEVICE_MAX; i++) {
		struct timer *t = &timers[i];

		lock_acquire(&t->lock);
		if (t->begin.context == context || t->end.context == context)
			t->state = NOTHING;
		if (t->begin.context == context)
			t->begin = (struct mark){0};
		if (t->end.context == context)
			t->end = (struct mark){0};
		if (t->last.context == context)
			t->last = (struct mark){0};
		lock_release(&t->lock);
	}
}
