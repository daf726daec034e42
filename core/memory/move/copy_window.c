/* SPDX-License-Identifier: MIT */
/*
 * Copy windows. Rules: by the mover thread, inside the user's process; every wait has an end.
 *
 * A slice is the bytes that the link copies in 20 ms, as measured; the first is one chunk. Its
 * memory is made ahead, while the program works or an earlier slice is copied; the copy window only
 * copies, by two streams, unmaps, maps and sets rights.
 *
 * A moment is found by glancing, then insisted on. Every 10 ms, and whenever the program returns
 * from a call that waited, the gate is held for a millisecond and the device looked at. If nothing
 * runs, the first slice is carried out. A thread that returns from such a call waits until the gate
 * is held, a millisecond at most: it would have queued work again before. After the deadline the
 * gate is held until the work in flight is done, because a program that runs far ahead would never
 * be idle by itself. It is held for 50 ms, and after each failure for twice as long, up to a
 * second. Meanwhile a call that has waited 20 ms at the gate passes, one at a time. So a stream
 * that waits for a later launch gets it, and a host function that waits for a thread, too. Holding
 * longer is no deadlock.
 *
 * A plan that has begun goes on without another deadline. By shrink = fast the gate stays held
 * between two copy windows, and waiting threads get in for one call: so no call is held longer than
 * 20 ms and one copy. By gentle it opens, until the program has worked for WORKS_PERCENT of the
 * time since memory began to move. A long plan makes way between two copy windows for a call's
 * request to the mover.
 */
#include "core/memory/move/copy_window.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/estimate.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/cuda/chunk.h"
#include "core/cuda/context.h"
#include "core/cuda/gate.h"
#include "core/cuda/idle.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/arena/spare.h"
#include "core/memory/move/idle_point.h"
#include "core/rings/event.h"

/*
 * --- moves: the physical memory behind addresses is exchanged, and the bytes come along ---
 *
 * moves_prepare() and moves_finish() may run while the program works; moves_run() only while the
 * gate is seized and nothing runs on any device. A call that the driver refuses is made once more.
 * A step that fails is undone, so every byte stays where it can be reached.
 */

/* Other work while the device copies. */
struct meanwhile {
	/* Does one more piece, which takes at most so long. Returns false when there is none. */
	bool (*work)(struct meanwhile *meanwhile, uint64_t ns);
	uint64_t copied_ns; /* the copies took so long */
	uint64_t copy_ns;   /* the copies take so long at the least, as far as is known */
};

#define SCRATCH_BYTES ((uint64_t)2 << 30)

/* Addresses of each device where new memory is mapped to be copied to. */
static struct scratch {
	CUdeviceptr base;
	CUdeviceptr large; /* for one move alone that is larger; 0: none now */
	size_t large_size;
} scratch[DEVICE_MAX];

/*
 * Several streams copy at once, so that none of the device's copying engines waits for the driver:
 * the mover's own, in whichever context of the device they were used last.
 */
enum { STREAMS = 2 };
static struct copying {
	char context[REGISTRY_NAME_MAX]; /* its container, which no other ever has; a handle may
	                                    come again */
	CUstream streams[STREAMS];
} copying[DEVICE_MAX];

/* Addresses for moves of which the first has so many bytes, or 0. */
static CUdeviceptr find_scratch(const struct device *device, size_t first)
{
	struct scratch *s = &scratch[device->id.ordinal];

	if (first > SCRATCH_BYTES) {
		if (driver.cuMemAddressReserve(&s->large, first, 0, 0, 0) != CUDA_SUCCESS)
			s->large = 0;
		s->large_size = first;
		return s->large;
	}
	if (!s->base &&
	    driver.cuMemAddressReserve(&s->base, SCRATCH_BYTES, 0, 0, 0) != CUDA_SUCCESS)
		s->base = 0;
	return s->base;
}

/* Removes the mappings of moves_prepare(). */
static void moves_finish(struct device *device, struct move *moves, size_t count)
{
	struct scratch *s = &scratch[device->id.ordinal];

	/* Neighbours by one call: the gate may be closed meanwhile. */
	for (size_t i = 0; i < count;) {
		CUdeviceptr base = moves[i].scratch;
		uint64_t size = 0;

		do {
			size += moves[i].size;
			moves[i++].scratch = 0;
		} while (base && i < count && moves[i].scratch == base + size);
		if (base)
			mapping_remove(base, size);
	}
	if (s->large)
		driver.cuMemAddressFree(s->large, s->large_size);
	s->large = 0;
}

/*
 * Maps the new memory where it can be copied to. How many of the moves are ready (the first so
 * many). Memory that the program made may be of any size, and cannot be mapped in parts: it is
 * moved alone, however long the copy takes.
 */
static size_t moves_prepare(struct device *device, struct move *moves, size_t count)
{
	CUmemAccessDesc own = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t used = 0, room = moves[0].size > SCRATCH_BYTES ? moves[0].size : SCRATCH_BYTES;
	CUdeviceptr base = find_scratch(device, moves[0].size);
	size_t ready;

	own.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	own.location.id = device->handle;
	if (!base)
		return 0;
	for (ready = 0; ready < count && used + moves[ready].size <= room; ready++) {
		moves[ready].scratch = base + used;
		if (mapping_make(moves[ready].scratch, moves[ready].size, moves[ready].to) !=
		    CUDA_SUCCESS)
			break;
		used += moves[ready].size;
	}
	if (ready && mapping_allow(base, used, &own, 1) != CUDA_SUCCESS) {
		moves_finish(device, moves, ready);
		ready = 0;
	}
	for (size_t i = ready; i < count; i++)
		moves[i].scratch = 0;
	return ready;
}

/* Makes the streams that copy where there are none, with the context current. */
static CUresult find_streams(struct copying *c, const struct context *context)
{
	CUstream made[STREAMS];
	CUresult result;

	if (strcmp(c->context, context->container) == 0)
		return CUDA_SUCCESS;
	for (int i = 0; i < STREAMS; i++) {
		result = driver.cuStreamCreate(&made[i], CU_STREAM_NON_BLOCKING);
		if (result != CUDA_SUCCESS) {
			while (i-- > 0)
				driver.cuStreamDestroy_v2(made[i]);
			return result;
		}
	}
	memcpy(c->streams, made, sizeof(made));
	memcpy(c->context, context->container, sizeof(c->context));
	return CUDA_SUCCESS;
}

/* Gives each stream a part of each move. */
static CUresult enqueue(const struct copying *c, const struct move *moves, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count; i++) {
		const struct move *m = &moves[i];
		size_t part = m->size / STREAMS;

		for (int k = 0; k < STREAMS && result == CUDA_SUCCESS; k++)
			result = driver.cuMemcpyAsync(m->scratch + k * part, m->address + k * part,
			                              k == STREAMS - 1 ? m->size - k * part : part,
			                              c->streams[k]);
	}
	return result;
}

/* Does other work, as long as the copies last. */
static void work_while_copying(struct meanwhile *meanwhile)
{
	uint64_t ends = clock_now() + meanwhile->copy_ns, now;

	while ((now = clock_now()) < ends && meanwhile->work(meanwhile, ends - now))
		;
}

static CUresult wait_for_copies(const struct copying *c)
{
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < STREAMS; i++) {
		CUresult waited = driver.cuStreamSynchronize(c->streams[i]);

		if (waited != CUDA_SUCCESS) /* by itself, or because something else broke */
			waited = driver.cuStreamSynchronize(c->streams[i]);
		if (result == CUDA_SUCCESS)
			result = waited;
	}
	return result;
}

static CUresult exchange_copy(const struct device *device, const struct move *moves, size_t count,
                              struct meanwhile *meanwhile)
{
	struct copying *c = &copying[device->id.ordinal];
	struct context context;
	CUresult result, waited;

	if (!context_of_device(device, &context))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = context_push(context.handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = find_streams(c, &context);
	if (result == CUDA_SUCCESS) {
		uint64_t began = clock_now();

		result = enqueue(c, moves, count);
		if (result == CUDA_SUCCESS)
			work_while_copying(meanwhile);
		waited = wait_for_copies(c);
		meanwhile->copied_ns = clock_now() - began;
		if (result == CUDA_SUCCESS)
			result = waited;
	}
	context_pop(context.handle);
	return result;
}

/* Maps the old memory again. It has been there before, so only a broken driver refuses. */
static void exchange_restore(const struct move *m)
{
	if (mapping_make(m->address, m->size, m->from) != CUDA_SUCCESS ||
	    mapping_allow(m->address, m->size, m->access, m->accesses) != CUDA_SUCCESS)
		log_once(LOG_ERROR, "the driver does not map memory back that it had mapped: the "
		                    "program will fail where it uses it");
}

static CUresult exchange_exchange(struct move *m)
{
	CUresult result = mapping_remove(m->address, m->size);

	if (result != CUDA_SUCCESS)
		return result;
	result = mapping_make(m->address, m->size, m->to);
	if (result != CUDA_SUCCESS) {
		exchange_restore(m);
		return result;
	}
	m->is_done = true;
	return result;
}

/* Exchanges it at its other addresses, too; else it is as before. */
static void exchange_others(struct move *m)
{
	if (!m->map_others || m->map_others(m, m->to))
		return;
	m->map_others(m, m->from);
	mapping_remove(m->address, m->size);
	exchange_restore(m);
	m->is_done = false;
}

/* Rights for those from `first` on that lie one behind the other and have the same. How many. */
static size_t open_run(struct move *moves, size_t first, size_t count)
{
	const struct move *m = &moves[first];
	size_t size = m->size, end = first + 1;

	while (end < count && moves[end].is_done && moves[end].access == m->access &&
	       moves[end].address == m->address + size)
		size += moves[end++].size;
	if (mapping_allow(m->address, size, m->access, m->accesses) == CUDA_SUCCESS)
		return end - first;
	for (size_t i = first; i < end; i++) {
		if (mapping_allow(moves[i].address, moves[i].size, moves[i].access,
		                  moves[i].accesses) == CUDA_SUCCESS)
			continue;
		mapping_remove(moves[i].address, moves[i].size);
		exchange_restore(&moves[i]);
		moves[i].is_done = false;
	}
	return end - first;
}

/* Copies, working meanwhile, and exchanges. A failed move is as it was before. */
static CUresult moves_run(struct device *device, struct move *moves, size_t count,
                          struct meanwhile *meanwhile)
{
	CUresult result = exchange_copy(device, moves, count, meanwhile), exchanged;

	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < count; i++) {
		exchanged = exchange_exchange(&moves[i]);
		if (exchanged != CUDA_SUCCESS)
			result = exchanged;
	}
	for (size_t i = 0; i < count;)
		i += moves[i].is_done ? open_run(moves, i, count) : 1;
	for (size_t i = 0; i < count; i++)
		if (moves[i].is_done)
			exchange_others(&moves[i]);
	return result;
}

/* --- the link --- */

enum { TIERS = 2 };

static struct speed {
	struct estimate exchanges; /* nanoseconds per byte */
	_Atomic double lately;     /* bytes per nanosecond of them; 0: not known */
	double fastest;            /* likewise of their copies */
} speeds[DEVICE_MAX][TIERS];

static double speed(uint64_t bytes, uint64_t ns)
{
	return (double)bytes / (double)(ns ? ns : 1);
}

/* Notes a measurement: how long an exchange took that brought so many bytes to this tier. */
static void link_note(const struct device *device, enum segment_tier to, uint64_t bytes,
                      uint64_t copy_ns, uint64_t all_ns)
{
	struct speed *s = &speeds[device->id.ordinal][to];
	double copied = speed(bytes, copy_ns);

	estimate_add_cost(&s->exchanges, speed(all_ns, bytes), 0.5);
	s->lately = 1 / s->exchanges.value;
	if (copied > s->fastest)
		s->fastest = copied;
}

uint64_t link_bytes(const struct device *device, enum segment_tier to, uint64_t ns)
{
	return (uint64_t)(speeds[device->id.ordinal][to].lately * (double)ns);
}

/* Returns how long so many bytes are copied at the least; 0: nothing was measured yet. */
static uint64_t link_copies_ns(const struct device *device, enum segment_tier to, uint64_t bytes)
{
	double fastest = speeds[device->id.ordinal][to].fastest;

	return fastest > 0 ? (uint64_t)((double)bytes / fastest) : 0;
}

#define MS 1000000ull

/* A copy window may take so long to come about; each failure in a row doubles it. */
#define HOLD_LEAST (50 * MS)
#define HOLD_MOST  (1000 * MS)
/* A launch that is held so long passes all the same. */
#define EXPIRY (20 * MS)
/* A try at a moment that may be idle, in all. */
#define GLANCE          (3 * MS / 10)
#define PATIENCE        (5 * MS) /* with cuCtxSynchronize, where all known streams are done */
#define LOOK_NS         (MS / 10)
#define BETWEEN_GLANCES (10 * MS)
/* Where memory moves gently the program works for so much of the time: more than half. */
enum { WORKS_PERCENT = 53 };
/*
 * Between two copy windows the threads that wait at the gate get in; a thread that is not run is
 * not waited for.
 */
#define LET_IN_NS (2 * MS)

static _Atomic bool is_under_way;
static uint64_t holds[DEVICE_MAX]; /* ns; for the next that insists; 0: HOLD_LEAST */
/* Plans that follow one another: when they began and ended, and how long nothing ran. */
static struct {
	uint64_t began_ns, ended_ns, idle_ns;
} moving;

bool copy_window_is_under_way(void)
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

/* --- one copy window --- */

/*
 * The copy windows of a plan, one after the other: each carries out a slice, the first moves of it.
 */
struct copy_window {
	struct plan *plan;
	struct device *device;
	size_t done;  /* moves that the one before has carried out, which are to be cleaned up */
	size_t count; /* moves that are ready; 0: none is yet */
	uint64_t began_ns, moved, took_ns, idle_ns; /* idle: for which nothing ran */
	/*
	 * Unmapping and releasing may wait for running work: that, and so mapping too, is done
	 * where nothing runs.
	 */
	bool is_mapped_late;
	bool queued;                  /* work was in flight when the gate was held */
	bool is_held;                 /* the gate, still: the next one follows at once */
	struct chunk left[MOVES_MAX]; /* that chunks have left, and that are not freed yet */
	size_t lefts;
};

static void copy_window_leave(struct copy_window *c, struct move *m)
{
	/* Memory that was left was not made for export: that is pinned. */
	struct chunk left = plan_memory(m, m->is_from_device ? SEGMENT_ON_DEVICE : SEGMENT_ON_HOST);

	left.handle = m->from;
	m->from = 0;
	c->left[c->lefts++] = left;
}

/* Frees one chunk that was left: it is a spare, or goes. Returns false where there is none. */
static bool free_one(struct copy_window *c)
{
	if (!c->lefts)
		return false;
	c->lefts--;
	if (c->plan->spares_go)
		spare_release(c->device, &c->left[c->lefts]);
	else
		spare_give(c->device, &c->left[c->lefts], 1, c->plan->terms);
	return true;
}

static void free_left(struct copy_window *c)
{
	while (free_one(c))
		;
}

/* Takes out the first so many, which have been carried out or dropped. */
static void plan_shift(struct plan *plan, size_t count)
{
	plan->count -= count;
	plan->made -= count;
	memmove(plan->moves, plan->moves + count, plan->count * sizeof(*plan->moves));
	plan->moves[0].goes_on = false;
}

/*
 * Returns where the slice ends that begins with this move, for a copy window that copies so many
 * bytes; it has those that move together, at the least.
 */
static size_t plan_slice(const struct plan *plan, size_t first, uint64_t bytes)
{
	size_t end = first, i = first;
	uint64_t sum = 0;

	while (i < plan->count) {
		do
			sum += plan->moves[i++].size;
		while (i < plan->count && plan->moves[i].goes_on);
		if (end != first && sum > bytes)
			break;
		end = i;
	}
	return end;
}

/* Cleans up after a copy window: memory that each chunk left, or was to get, is to be freed. */
static void copy_window_clean_up(struct copy_window *c)
{
	struct plan *plan = c->plan;

	moves_finish(c->device, plan->moves, c->done);
	for (size_t i = 0; i < c->done; i++) {
		struct move *m = &plan->moves[i];

		if (!m->is_done)
			plan_drop(plan, c->device, m);
		else if (m->from)
			copy_window_leave(c, m);
	}
	plan_shift(plan, c->done);
	c->done = 0;
}

/*
 * Has the next slice ready: its memory made, and mapped where it can be copied to. In the gate no
 * memory is made: the slice is as long as the memory made ahead. Memory that was left is freed
 * there while the next slice is copied.
 */
static void get_ready(struct copy_window *c, bool in_gate)
{
	struct plan *plan = c->plan;
	uint64_t bytes = copy_window_bytes(c->device, plan->to);
	size_t slice;

	free_left(c); /* that there was no time for */
	copy_window_clean_up(c);
	if (!in_gate)
		free_left(c);
	c->moved = 0;
	c->queued = false;
	/* A plan that lacks memory becomes shorter. */
	while (slice = plan_slice(plan, 0, bytes), plan->made < slice && !in_gate)
		plan_make(plan, c->device);
	if (plan->made < slice)
		slice = plan_ready(plan);
	if (slice)
		c->count = c->is_mapped_late ? slice : moves_prepare(c->device, plan->moves, slice);
}

/*
 * Returns how many moves shall have memory by now: those of the slice that is ready, and of the one
 * that follows. How long that will be is not known before the first.
 */
static size_t made_ahead(const struct copy_window *c)
{
	uint64_t bytes = copy_window_bytes(c->device, c->plan->to);

	return bytes ? plan_slice(c->plan, c->count, bytes) : c->plan->count;
}

/* Work to do while the device copies. */
struct chores {
	struct meanwhile meanwhile;
	struct copy_window *window;
};

/* The next slice's memory comes first: without it the gate would have to be opened. */
static bool work_meanwhile(struct meanwhile *meanwhile, uint64_t ns)
{
	struct copy_window *c = ((struct chores *)meanwhile)->window;

	return (c->plan->made < made_ahead(c) && plan_make_soon(c->plan, c->device, ns)) ||
	       free_one(c);
}

static uint64_t copy_window_bytes_of(const struct move *moves, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += moves[i].size;
	return bytes;
}

/* Moves all that is still as planned, with the gate seized and nothing running. */
static CUresult copy_window_move_all(struct copy_window *c)
{
	struct plan *plan = c->plan;
	struct device *device = c->device;
	struct chores chores = {{.work = work_meanwhile}, c};
	uint64_t before = clock_now(), took, bytes;
	CUresult result = CUDA_SUCCESS;
	size_t still;

	if (c->is_mapped_late)
		c->count = moves_prepare(device, plan->moves, c->count);
	if (!c->count)
		return CUDA_ERROR_OUT_OF_MEMORY;
	plan_lock(device);
	still = plan_check(plan, device, c->count);
	bytes = copy_window_bytes_of(plan->moves, still);
	chores.meanwhile.copy_ns = link_copies_ns(device, plan->to, bytes);
	if (still)
		result = moves_run(device, plan->moves, still, &chores.meanwhile);
	for (size_t i = 0; i < still; i++) {
		const struct move *m = &plan->moves[i];

		if (!m->is_done)
			continue;
		c->moved += m->size;
		count_move(plan, device, m, c->queued);
		m->kind->moved(device, m, plan->to, plan->is_exportable);
	}
	/*
	 * Before the gate opens: memory mapped here as well stays when the program frees it, and
	 * has no charge.
	 */
	moves_finish(device, plan->moves, c->count);
	plan_unlock(device);
	for (size_t i = 0; i < still && c->is_mapped_late; i++)
		if (plan->moves[i].is_done)
			copy_window_leave(c, &plan->moves[i]);
	if (c->is_mapped_late)
		free_left(c);
	took = clock_now() - before;
	plan->moved += c->moved;
	c->idle_ns = took;
	if (c->moved)
		link_note(device, plan->to, bytes, chores.meanwhile.copied_ns, took);
	return result;
}

/* Returns how long it may take to find out whether anything runs: a glance has begun long ago. */
static uint64_t copy_window_patience(const struct copy_window *c, uint64_t hold_ns)
{
	uint64_t passed = clock_now() - c->began_ns;

	return hold_ns ? PATIENCE : passed < GLANCE ? GLANCE - passed : 0;
}

/* Waits with the gate held, for at most so long, until nothing runs, and moves. */
static enum move_pending move_when_idle(struct copy_window *c, uint64_t hold_ns)
{
	struct deadline until = DEADLINE_IN(hold_ns);
	enum move_pending why;

	do {
		enum idle idle;

		if (!gate_seize()) {
			why = MOVE_INSIDE;
			continue;
		}
		if (capture_is_active())
			return MOVE_CAPTURE;
		idle = idle_now(copy_window_patience(c, hold_ns));
		if (idle == IDLE)
			return copy_window_move_all(c) == CUDA_SUCCESS ? MOVE_NONE : MOVE_FAILED;
		if (idle == IDLE_BROKEN)
			return MOVE_FAILED;
		why = MOVE_WORK;
		c->queued = true;
		gate_unseize();
	} while (deadline_nap(&until, LOOK_NS));
	return why;
}

/* Returns whether the plan is still wanted; by a process that ends nothing is. */
static bool copy_window_is_wanted(const struct plan *plan, struct device *device)
{
	return !wanted_is_closed() && (!plan->is_wanted || plan->is_wanted(device));
}

/* Holds the gate; where it is held, waiting threads get in first, so that no call waits for two. */
static bool hold_gate(struct copy_window *c, uint64_t patience_ns)
{
	if (c->is_held) {
		gate_let_in(LET_IN_NS);
		return true;
	}
	c->is_held = gate_hold(patience_ns, EXPIRY);
	idle_point_take();
	return c->is_held;
}

static void open_gate(struct copy_window *c)
{
	if (c->is_held)
		gate_open();
	c->is_held = false;
}

/* Counts the moved bytes, and how long the gate was closed. */
static void note_copy_window(const struct copy_window *c)
{
	struct counters *s = c->device->statistics;

	c->plan->closed_ns += c->took_ns;
	statistics_begin(s);
	statistics_add(&s->move_ns, c->took_ns);
	if (c->took_ns > statistics_get(&s->move_longest_ns))
		statistics_set(&s->move_longest_ns, c->took_ns);
	statistics_end(s);
	if (c->moved)
		event_note(.kind = EVENT_move, .device = c->device->id.ordinal,
		           .begin_ns = c->began_ns, .duration_ns = c->took_ns, .a = c->moved,
		           .b = c->plan->to, .c = device_used(c->device, SEGMENT_ON_DEVICE));
}

/* Returns when the program will have worked most of the time, if it is kept so much longer. */
static uint64_t rested_at(uint64_t idle_ns)
{
	return moving.began_ns + (moving.idle_ns + idle_ns) * 100 / (100 - WORKS_PERCENT);
}

/* Returns whether the program is to work before the next copy window. */
static bool must_open(const struct plan *plan)
{
	return plan->is_gentle && rested_at(COPY_WINDOW_NS) > clock_now();
}

/*
 * Holds the gate for at most `hold_ns` until nothing runs, and carries a slice out. Returns why it
 * has not come to that, or MOVE_NONE. A plan goes on at once unless the program is to work first.
 */
static enum move_pending close_and_move(struct copy_window *c, uint64_t patience_ns,
                                        uint64_t hold_ns)
{
	enum move_pending why = MOVE_SOON;
	bool goes_on = c->is_held;

	c->began_ns = clock_now();
	c->idle_ns = 0;
	if (!hold_gate(c, patience_ns))
		return MOVE_INSIDE;
	/* While running work comes to its end. */
	if (!c->count)
		get_ready(c, true);
	if (c->count)
		why = move_when_idle(c, hold_ns);
	c->took_ns = clock_now() - c->began_ns;
	moving.idle_ns += goes_on ? c->took_ns : c->idle_ns;
	if (why != MOVE_NONE || must_open(c->plan) || c->plan->count == c->count ||
	    !copy_window_is_wanted(c->plan, c->device))
		open_gate(c);
	note_copy_window(c);
	return why;
}

/* Waits for an idle point, a while, and makes memory for the next slice for half of it. */
static void wait_for_idle_point(const struct copy_window *c)
{
	struct deadline next = DEADLINE_IN(BETWEEN_GLANCES);
	struct deadline until = deadline_within(&next, BETWEEN_GLANCES / 2);

	while (c->plan->made < made_ahead(c) && !deadline_has_passed(&until) &&
	       plan_make(c->plan, c->device))
		;
	idle_point_wait(deadline_left(&next));
}

static enum move_pending insist(struct copy_window *c)
{
	uint64_t *hold = &holds[c->device->id.ordinal];
	enum move_pending why;

	*hold = *hold ? *hold : HOLD_LEAST;
	why = close_and_move(c, *hold, *hold);
	if (why == MOVE_NONE)
		*hold = HOLD_LEAST;
	else if (why != MOVE_CAPTURE && why != MOVE_SOON && *hold < HOLD_MOST)
		*hold *= 2;
	return why;
}

/* Glances at the device at natural moments, and from the deadline on insists. */
static enum move_pending move_in_time(struct copy_window *c, struct deadline *until)
{
	enum move_pending why;

	gate_start(); /* which may take long, and is for nothing where there is no memory */
	do {
		why = close_and_move(c, GLANCE, 0);
		if (why == MOVE_NONE || why == MOVE_FAILED)
			return why;
		device_note_blocker(c->device, c->plan->terms->generation, why);
		if (deadline_has_passed(until))
			break;
		wait_for_idle_point(c);
	} while (copy_window_is_wanted(c->plan, c->device));
	if (why == MOVE_CAPTURE || c->plan->is_patient ||
	    !copy_window_is_wanted(c->plan, c->device))
		return why;
	return insist(c);
}

/* Carries out the slice that is ready. Returns why there is none, or it has not come to that. */
static enum move_pending move_ready(struct copy_window *c, struct deadline *until)
{
	if (c->count)
		return move_in_time(c, until);
	return c->plan->lacks == MOVE_NONE ? MOVE_FAILED : c->plan->lacks;
}

/* Waits for a part of the time for which the program is still to work, and so long at the least. */
static void rest(uint64_t part, uint64_t least_ns)
{
	uint64_t until = rested_at(0), now = clock_now();
	uint64_t ns = until > now ? (until - now) / part : 0;

	deadline_sleep(ns < least_ns ? least_ns : ns);
}

/* Goes on after a copy window: at once where the gate is still held. */
static enum move_pending copy_window_go_on(struct copy_window *c, struct deadline *until)
{
	enum move_pending why = c->is_held ? insist(c) : MOVE_SOON;

	if (why != MOVE_SOON)
		return why;
	/* The program launches first: the driver may let no thread in while it makes and frees. */
	if (c->plan->is_gentle)
		rest(2, LET_IN_NS);
	get_ready(c, false);
	if (c->plan->is_gentle)
		rest(1, 0);
	return move_ready(c, c->plan->moved ? &DEADLINE_IN(0) : until);
}

enum move_pending copy_window_carry_out(struct plan *plan, struct device *device,
                                        struct deadline *until)
{
	struct copy_window c = {.plan = plan,
	                        .device = device,
	                        .is_mapped_late = host_probe_unmap(device) != CUDA_SUCCESS};
	enum move_pending why;

	atomic_store(&is_under_way, true);
	if (clock_now() - moving.ended_ns > LET_IN_NS) {
		moving.began_ns = clock_now();
		moving.idle_ns = 0;
	}
	while (plan->has_time && copy_window_is_wanted(plan, device) && plan_make(plan, device))
		;
	get_ready(&c, false);
	if (plan->is_gentle)
		rest(1, 0);
	why = move_ready(&c, until);
	while (why == MOVE_NONE && plan->count > c.count && copy_window_is_wanted(plan, device)) {
		c.done = c.count;
		c.count = 0;
		why = copy_window_go_on(&c, until);
	}
	open_gate(&c);
	if (plan->moved)
		*until = DEADLINE_IN(0);
	c.done += c.count;
	copy_window_clean_up(&c);
	free_left(&c);
	moving.ended_ns = clock_now();
	atomic_store(&is_under_way, false);
	plan_cut(plan, device, 0);
	/* MOVE_NONE too: otherwise the reason of an earlier attempt would stay visible. */
	device_note_blocker(device, plan->terms->generation, why);
	return plan->moved ? MOVE_NONE : why;
}
