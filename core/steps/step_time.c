/*
 * The time of steps. Rules: runs inside the user's process, after a launch that ended a step, some
 * thousand times a second at most; two events a device, no wait, no allocation.
 */
#include "core/steps/step_time.h"

#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"

enum { MEMORY = 1024 }; /* steps in the mean, twice as many at most */

/* An event behind the last launch of a step. */
struct mark {
	CUcontext context;
	CUevent event; /* NULL: none is made */
	uint64_t number, recorded_ns;
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
	uint64_t ns, timed;      /* the mean is of these */
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
	m->number = ends->number;
	m->recorded_ns = ends->now_ns;
	return driver.cuEventRecord(m->event, ends->stream) == CUDA_SUCCESS;
}

static uint64_t between(uint64_t least, uint64_t value, uint64_t most)
{
	return value > most ? most : value < least ? least : value;
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
		return; /* the device is behind: the stretch is long enough */
	t->begin = t->end;
	t->end = begin;
	t->state = result == CUDA_SUCCESS && ms > 0 ? BEGUN : NOTHING;
	if (t->state == NOTHING)
		return;
	ns = (uint64_t)((double)ms * 1e6);
	t->passed_ns = between(t->begin.recorded_ns, t->passed_ns + ns, ends->now_ns);
	if (t->timed >= MEMORY) {
		t->ns /= 2;
		t->timed /= 2;
	}
	t->ns += ns;
	t->timed += t->steps;
	timed->ns = ns / t->steps;
	timed->end_ns = t->passed_ns;
	timed->number = t->begin.number;
}

/* Begins a stretch, ends the one that is begun, or puts its end off. */
static void mark(struct timer *t, const struct step_ends *ends)
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
		t->ns = t->timed = 0;
	}
	t->since += ends->count;
	t->is_mixed |= ends->are_mixed;
	if (capture_sync_enter()) {
		if (t->state == ENDED && ends->are_told)
			read(t, ends, &timed);
		mark(t, ends);
		capture_sync_leave();
	}
	atomic_store_explicit(&t->wanted, next_wanted(t, ends), memory_order_relaxed);
	timed.mean_ns = t->timed ? t->ns / t->timed : 0;
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
		lock_release(&t->lock);
	}
}
