/*
 * Closures. Rules: by the mover thread, inside the user's process; every wait has an end.
 *
 * A moment is found by glancing, then insisted on. Every 10 ms, and whenever the program returns
 * from a call that waited, the gate is held for a millisecond and the device looked at; if nothing
 * runs, the plan is carried out. After demote_deadline (a shrink) or half a second (the rest) the
 * gate is held until the work in flight is done, 20 ms, twice as long after each failure up to a
 * second: a program that runs far ahead would never be idle by itself. Meanwhile a call that has
 * waited 20 ms at the gate passes, one at a time, so that a stream that waits for a later launch,
 * or a host function for a thread, gets it: so holding longer than 20 ms is no deadlock, and no
 * call is held longer than that but for the copies themselves (about 10 ms, by measured
 * bandwidth).
 */
#include "core/memory/move/closure.h"

#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/cuda/gate.h"
#include "core/base/clock.h"
#include "core/memory/move/lull.h"
#include "core/cuda/idle.h"
#include "core/memory/arena/spare.h"
#include "core/cuda/capture.h"
#include "core/rings/event.h"

#define MS 1000000ull

/* A closure may take so long to come about; each failure in a row doubles it. */
#define HOLD_LEAST (20 * MS)
#define HOLD_MOST  (1000 * MS)
/* A launch that is held so long passes all the same. */
#define EXPIRY (20 * MS)
/* A try at a moment that may be idle. */
#define GLANCE          (1 * MS)
#define PATIENCE        (5 * MS) /* with cuCtxSynchronize, where all known streams are done */
#define LOOK_NS         (MS / 10)
#define BETWEEN_GLANCES (10 * MS)
/* A closure should take so long at most, for the bytes it copies. */
#define COPY_NS     (10 * MS)
#define BYTES_LEAST ((uint64_t)32 << 20)
#define BYTES_MOST  ((uint64_t)256 << 20)

static _Atomic bool is_under_way;

/* The experience with closures of a device. */
static struct pace {
	uint64_t hold_ns;
	uint64_t bytes; /* at once */
} paces[DEVICE_MAX];

static struct pace *pace_of(const struct device *device)
{
	struct pace *pace = &paces[device->id.ordinal];

	if (!pace->bytes)
		*pace = (struct pace){.hold_ns = HOLD_LEAST, .bytes = 2 * BYTES_LEAST};
	return pace;
}

uint64_t closure_bytes(const struct device *device)
{
	return pace_of(device)->bytes;
}

bool closure_is_under_way(void)
{
	return atomic_load(&is_under_way);
}

static void count_move(const struct plan *plan, struct device *device, const struct move *m,
                       bool queued)
{
	struct counters *s = device->statistics;

	statistics_begin(s);
	if (plan->to == SEGMENT_ON_HOST) {
		statistics_add(&s->demotions, 1);
		statistics_add(&s->demoted_bytes, m->size);
	} else if (!m->is_from_device) {
		statistics_add(&s->promotions, 1);
		statistics_add(&s->promoted_bytes, m->size);
	}
	if (queued)
		statistics_add(&s->queued_moves, 1);
	statistics_end(s);
}

/* Moves all that is still as planned, with the gate seized and nothing running. moved: bytes. */
static CUresult move_all(struct plan *plan, struct device *device, bool queued, uint64_t *moved)
{
	uint64_t before = clock_now(), bytes = 0, took;
	CUresult result = CUDA_SUCCESS;
	size_t still;

	plan_lock(device);
	still = plan_check(plan, device);
	if (still)
		result = moves_run(device, plan->moves, still);
	for (size_t i = 0; i < still; i++) {
		const struct move *m = &plan->moves[i];

		if (!m->is_done)
			continue;
		bytes += m->size;
		count_move(plan, device, m, queued);
		m->kind->moved(device, m, plan->to, plan->is_exportable);
	}
	/*
	 * Before the gate opens: what is mapped here as well stays when the program frees it, and
	 * is charged to nobody.
	 */
	moves_finish(device, plan->moves, plan->count);
	plan_unlock(device);
	took = clock_now() - before;
	*moved = bytes;
	plan->moved += bytes;
	if (bytes && took) {
		struct pace *t = pace_of(device);
		uint64_t fitting = (uint64_t)((double)bytes / (double)took * (double)COPY_NS);

		fitting = (t->bytes + fitting) / 2;
		t->bytes = fitting < BYTES_LEAST  ? BYTES_LEAST
		           : fitting > BYTES_MOST ? BYTES_MOST
		                                  : fitting;
	}
	return result;
}

/*
 * Holds the gate for at most `hold_ns` until nothing runs, and carries the plan out. Why it has not
 * come to that, or MOVE_NONE.
 */
static enum move_pending close_and_move(struct plan *plan, struct device *device,
                                        uint64_t patience_ns, uint64_t hold_ns)
{
	struct deadline until = DEADLINE_IN(hold_ns);
	struct counters *s = device->statistics;
	enum move_pending why = MOVE_INSIDE;
	uint64_t began = clock_now(), took, moved = 0;
	bool queued = false;

	if (!gate_hold(patience_ns, EXPIRY))
		return MOVE_INSIDE;
	do {
		enum idle idle;

		if (!gate_seize()) {
			why = MOVE_INSIDE;
			continue;
		}
		if (capture_is_active()) {
			why = MOVE_CAPTURE;
			break;
		}
		idle = idle_now(PATIENCE);
		if (idle == IDLE) {
			why = move_all(plan, device, queued, &moved) == CUDA_SUCCESS ? MOVE_NONE
			                                                             : MOVE_FAILED;
			break;
		}
		why = idle == IDLE_BROKEN ? MOVE_FAILED : MOVE_WORK;
		if (idle == IDLE_BROKEN)
			break;
		queued = true;
		gate_unseize();
	} while (deadline_nap(&until, LOOK_NS));
	gate_open();
	took = clock_now() - began;
	plan->closed_ns += took;
	statistics_begin(s);
	statistics_add(&s->move_ns, took);
	if (took > statistics_get(&s->move_longest_ns))
		statistics_set(&s->move_longest_ns, took);
	statistics_end(s);
	if (moved)
		event_note(.kind = EVENT_move, .device = device->id.ordinal, .begin_ns = began,
		           .duration_ns = took, .a = moved, .b = plan->to,
		           .c = device_used(device, SEGMENT_ON_DEVICE));
	return why;
}

/* Glances at the device at natural moments, and from the deadline on insists. */
static enum move_pending move_in_time(struct plan *plan, struct device *device,
                                      uint64_t deadline_ns)
{
	struct pace *t = pace_of(device);
	uint64_t began = clock_now();
	enum move_pending why;

	for (;;) {
		why = close_and_move(plan, device, GLANCE, 0);
		if (why == MOVE_NONE || why == MOVE_FAILED)
			return why;
		device_note_blocker(device, plan->terms->generation, why);
		if (clock_now() - began >= deadline_ns)
			break;
		lull_wait(BETWEEN_GLANCES);
		if (plan->is_wanted && !plan->is_wanted(device))
			return why;
	}
	if (why == MOVE_CAPTURE)
		return why;
	why = close_and_move(plan, device, t->hold_ns, t->hold_ns);
	if (why == MOVE_NONE)
		t->hold_ns = HOLD_LEAST;
	else if (why != MOVE_CAPTURE && t->hold_ns < HOLD_MOST)
		t->hold_ns *= 2;
	return why;
}

/* Cleans up after the closure: what each chunk left, or what it was to get, is free. */
static void clean_up(struct plan *plan, struct device *device)
{
	moves_finish(device, plan->moves, plan->count);
	for (size_t i = 0; i < plan->count; i++) {
		const struct move *m = &plan->moves[i];
		/* What is left was not made for export: that is pinned. */
		struct chunk left =
		    plan_memory(m, m->is_from_device ? SEGMENT_ON_DEVICE : SEGMENT_ON_HOST);

		if (!m->is_done) {
			plan_drop(plan, device, m);
			continue;
		}
		left.handle = m->from;
		if (plan->spares_go)
			spare_release(device, &left);
		else
			spare_give(device, &left, 1, plan->terms);
	}
	plan->count = 0;
}

enum move_pending closure_carry_out(struct plan *plan, struct device *device, uint64_t deadline_ns)
{
	enum move_pending why = MOVE_FAILED;
	size_t ready;

	gate_start();
	ready = moves_prepare(device, plan->moves, plan->count);
	plan_cut(plan, device, ready);
	if (ready) {
		atomic_store(&is_under_way, true);
		why = move_in_time(plan, device, deadline_ns);
		atomic_store(&is_under_way, false);
	}
	clean_up(plan, device);
	/* MOVE_NONE too: what an earlier try said would be taken for what keeps the rest. */
	device_note_blocker(device, plan->terms->generation, why);
	return why;
}
