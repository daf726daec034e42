/* SPDX-License-Identifier: MIT */
/* Busy time. Rules: runs inside the user's process; no wait, no allocation per launch. */
#include "core/pace/busy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/cuda/context.h"
#include "core/cuda/idle.h"

/* The least cost, so that a known cost is not 0. */
#define LEAST_NS 500u

static size_t first_way(uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 32) % (COST_ENTRIES / COST_WAYS) *
	       COST_WAYS;
}

static struct cost *busy_find(const struct costs *costs, uint64_t key)
{
	const struct cost *way = &costs->entry[first_way(key)];

	for (int i = 0; i < COST_WAYS; i++) {
		if (way[i].key == key)
			return (struct cost *)&way[i];
	}
	return NULL;
}

uint64_t cost_of(const struct costs *costs, uint64_t key)
{
	const struct cost *cost = busy_find(costs, key);

	return cost ? cost->ns : 0;
}

static void tally_add(struct tally *tally, uint64_t key, uint64_t ns)
{
	tally->ns += ns;
	tally->launches++;
	for (uint32_t i = 0; i < tally->kinds; i++) {
		if (tally->kind[i].key == key) {
			tally->kind[i].launches++;
			return;
		}
	}
	if (tally->kinds < COST_KINDS) {
		tally->kind[tally->kinds].key = key;
		tally->kind[tally->kinds++].launches = 1;
	}
}

static void busy_set(struct costs *costs, uint64_t key, uint64_t ns)
{
	struct cost *cost = busy_find(costs, key);

	if (!cost) { /* the oldest of its ways goes */
		struct cost *way = &costs->entry[first_way(key)];

		for (int i = COST_WAYS - 1; i > 0; i--)
			way[i] = way[i - 1];
		cost = way;
	}
	*cost = (struct cost){key, ns < LEAST_NS ? LEAST_NS : ns};
}

void cost_learn(struct costs *costs, const struct tally *tally, uint64_t busy_ns)
{
	uint64_t expected = tally->ns;

	if (!busy_ns || !tally->launches)
		return;
	if (tally->kinds == 1 && tally->kind[0].launches == tally->launches) {
		uint64_t before = cost_of(costs, tally->kind[0].key);
		uint64_t now = busy_ns / tally->launches;

		busy_set(costs, tally->kind[0].key, before ? (3 * before + now) / 4 : now);
		return;
	}
	/* Of several, the wrong one is not known: all are, in proportion and a little at a time. */
	if (!expected)
		return;
	if (busy_ns > 4 * expected)
		busy_ns = 4 * expected;
	for (uint32_t i = 0; i < tally->kinds; i++) {
		uint64_t before = cost_of(costs, tally->kind[i].key);

		if (before)
			busy_set(costs, tally->kind[i].key,
			         (uint64_t)(((unsigned __int128)before * (3 * expected + busy_ns)) /
			                    (4 * expected)));
	}
}

struct burst {
	CUcontext context;
	CUstream stream;
	uintptr_t thread; /* of a per-thread default stream: one handle, many streams; else 0 */
	CUevent begin, end;
	uint64_t last_ns;           /* of its last launch */
	uint64_t unrecorded_ns;     /* the expected cost of launches after the end event */
	uint64_t cost_ns;           /* the expected cost of all of its launches */
	_Atomic uint32_t launching; /* threads between busy_before() and busy_after() */
	_Atomic bool follows;       /* one is between busy_follow() and busy_followed() */
	uint64_t
	    begun_ns; /* when begin was recorded, until the first launch; 0: the stream was busy */
	uint64_t idle_ns; /* from begin until its first kernel could start */
	bool is_sparse;   /* launches come one by one */
	bool is_torn;     /* the process stood still within a launch: an unseen gap */
	bool open;        /* takes more launches */
	bool recorded;    /* end was recorded at least once */
	bool closed;      /* its round is */
	bool is_leaving;  /* its context is, and its events with it */
};

struct round {
	struct busy_sum sum;
	int count;
	struct burst burst[BUSY_BURSTS];
};

/* The last one collected stays: the next one's times are compared with its first event. */
enum { PLACES = BUSY_ROUNDS + 2 };

struct busy {
	struct round *open;         /* the next after the closed ones */
	uint64_t collected, closed; /* rounds so far; each has its place in a ring */
	bool is_sparse;  /* as the last launch was that had another before it on its stream */
	double until_ms; /* where the last one's union ended, from its first event on */
	struct round rounds[PLACES];
};

static inline struct round *busy_round_of(struct busy *busy, uint64_t number)
{
	return &busy->rounds[number % PLACES];
}

/*
 * Measuring a round's bursts by their events. Rules: runs inside the user's process; no wait, no
 * allocation.
 */

/* The time that a launch takes the driver at most, undisturbed. */
#define USUAL_LAUNCH_NS 20000u

struct interval {
	double begin_ms, end_ms;
};

/* Returns the part after *until, which it moves on. It is nearly in order; qsort() allocates. */
static double union_of(struct interval *interval, int count, double *until)
{
	double sum = 0;

	for (int i = 1; i < count; i++) {
		struct interval one = interval[i];
		int j = i;

		for (; j > 0 && interval[j - 1].begin_ms > one.begin_ms; j--)
			interval[j] = interval[j - 1];
		interval[j] = one;
	}
	for (int i = 0; i < count; i++) {
		double begin = interval[i].begin_ms > *until ? interval[i].begin_ms : *until;

		if (interval[i].end_ms > begin) {
			sum += interval[i].end_ms - begin;
			*until = interval[i].end_ms;
		}
	}
	return sum;
}

static double busy_smaller(double a, double b)
{
	return a < b ? a : b;
}

/*
 * Returns the idle time at its begin, of the time between its events (whole). A thread that stood
 * still there may have done so before the kernel was launched or after it; the expected cost of the
 * launches tells, except for a fifth.
 */
static double idle_ms(const struct burst *b, double whole_ms)
{
	double idle = (double)b->idle_ns / 1e6, cost = (double)b->cost_ns / 1e6;
	double work = whole_ms - idle;

	if (!b->cost_ns)
		return busy_smaller(idle, USUAL_LAUNCH_NS / 1e6);
	return work > 0.8 * cost ? idle : whole_ms - busy_smaller(whole_ms, 0.8 * cost);
}

static struct interval interval_of(const struct burst *b, double begin_ms, double measured_ms)
{
	double whole = measured_ms + (double)b->unrecorded_ns / 1e6;
	double idle = idle_ms(b, whole), cost = (double)b->cost_ns / 1e6;

	if (b->is_torn && b->cost_ns)
		whole = busy_smaller(whole, idle + cost);
	return (struct interval){.begin_ms = begin_ms + idle, .end_ms = begin_ms + whole};
}

/*
 * Measures the bursts of one context against its first one's begin: events of two contexts cannot
 * be compared. until: where work that is paid for ended, by the same clock.
 */
static double busy_ms_of_context(const struct round *round, int first, double *until)
{
	struct interval interval[BUSY_BURSTS];
	CUcontext context = round->burst[first].context;
	int count = 0;

	for (int i = first; i < round->count; i++) {
		const struct burst *b = &round->burst[i];
		float begin = 0, length = 0;

		if (b->context != context)
			continue;
		if (i != first && driver.cuEventElapsedTime(&begin, round->burst[first].begin,
		                                            b->begin) != CUDA_SUCCESS)
			continue;
		if (b->recorded &&
		    driver.cuEventElapsedTime(&length, b->begin, b->end) != CUDA_SUCCESS)
			continue;
		interval[count++] = interval_of(b, begin, length);
	}
	return union_of(interval, count, until);
}

/* Returns where the last round's union ended, from this round's first event on. */
static double until_by(struct busy *busy, const struct round *round)
{
	const struct round *last =
	    busy->collected ? busy_round_of(busy, busy->collected - 1) : NULL;
	float distance;

	if (!last || !last->count || !round->count ||
	    last->burst[0].context != round->burst[0].context ||
	    driver.cuEventElapsedTime(&distance, last->burst[0].begin, round->burst[0].begin) !=
	        CUDA_SUCCESS)
		return -1e300;
	return busy->until_ms - distance;
}

/* Returns the busy time of a round that is done, in milliseconds, beyond that of the last one. */
static double busy_measure_ms(struct busy *busy, const struct round *round)
{
	double sum = 0;

	for (int i = 0; i < round->count; i++) {
		bool first = round->burst[i].context != NULL;
		double until = i ? -1e300 : until_by(busy, round);

		for (int j = 0; j < i && first; j++)
			first = round->burst[j].context != round->burst[i].context;
		if (first)
			sum += busy_ms_of_context(round, i, &until);
		if (i == 0)
			busy->until_ms = until;
	}
	return sum;
}

/* Launches further apart are recorded one by one, and looked behind for a stream that ran dry. */
#define SPARSE_NS 20000u
/* A launch that takes longer was stopped (SIGSTOP, a debugger, a busy machine). */
#define TORN_NS 1000000u

struct busy *busy_create(void)
{
	return calloc(1, sizeof(struct busy));
}

const struct busy_sum *busy_open_round(const struct busy *busy)
{
	return busy->open ? &busy->open->sum : NULL;
}

bool busy_is_full(const struct busy *busy)
{
	return busy->open && busy->open->count == BUSY_BURSTS;
}

int busy_running(const struct busy *busy)
{
	return (int)(busy->closed - busy->collected);
}

uint64_t busy_expected(const struct busy *busy, int but_for)
{
	uint64_t sum = 0;

	for (uint64_t i = busy->collected + (uint64_t)but_for; i < busy->closed; i++)
		sum += busy->rounds[i % PLACES].sum.tally.ns;
	return sum;
}

/* --- bursts --- */

/* Events stay with their place in the table, and are made again when the context changes. */
static bool busy_make_events(struct burst *burst, CUcontext context)
{
	CUevent begin;

	if (burst->begin && burst->context == context && !burst->is_leaving)
		return true;
	if (burst->begin && !burst->is_leaving) {
		driver.cuEventDestroy_v2(burst->begin);
		driver.cuEventDestroy_v2(burst->end);
	}
	burst->begin = NULL;
	if (driver.cuEventCreate(&begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
		return false;
	if (driver.cuEventCreate(&burst->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
		burst->begin = begin;
	else
		driver.cuEventDestroy_v2(begin);
	return burst->begin != NULL;
}

static bool is_launching(const struct burst *burst)
{
	return atomic_load(&burst->follows) || atomic_load(&burst->launching);
}

static uintptr_t thread_of(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? (uintptr_t)pthread_self() : 0;
}

/* Returns whether the burst's end cannot be recorded later; busy.h says which those are. */
static bool is_recorded_at_once(const struct burst *burst)
{
	bool binds_others = burst->stream == CU_STREAM_LEGACY && blocking_streams_exist();

	return burst->stream == CU_STREAM_PER_THREAD || binds_others || burst->is_sparse ||
	       burst->closed;
}

static void record_end(struct burst *burst)
{
	if (!burst->is_leaving && driver.cuEventRecord(burst->end, burst->stream) == CUDA_SUCCESS) {
		burst->recorded = true;
		burst->unrecorded_ns = 0;
	}
}

static struct burst *open_burst(struct busy *busy, CUcontext context, CUstream stream)
{
	uintptr_t thread = thread_of(stream);

	if (!busy->open)
		return NULL;
	for (int i = busy->open->count - 1; i >= 0; i--) {
		struct burst *b = &busy->open->burst[i];

		if (b->open && b->stream == stream && b->context == context && b->thread == thread)
			return b;
	}
	return NULL;
}

/*
 * Returns whether nothing of the burst runs any more. The stream is asked only where no event says,
 * and not of a burst that has ended: it had run dry then, and the stream may be gone.
 */
static bool ran_dry(const struct burst *burst)
{
	if (is_launching(burst) || burst->is_leaving)
		return false;
	if (burst->unrecorded_ns && burst->open)
		return (!burst->thread || burst->thread == thread_of(burst->stream)) &&
		       driver.cuStreamQuery(burst->stream) == CUDA_SUCCESS;
	return !burst->recorded || driver.cuEventQuery(burst->end) != CUDA_ERROR_NOT_READY;
}

/* Ends it, unless the stream has run dry since the last launch: an event would come too late. */
static void end_burst(struct burst *burst, uint64_t now_ns)
{
	uint64_t gap = now_ns - burst->last_ns;

	if (!burst->unrecorded_ns || (gap >= SPARSE_NS && ran_dry(burst)))
		return;
	burst->is_torn |= gap > TORN_NS;
	record_end(burst);
}

/* Begins a burst. is_idle: the stream is known to be. */
static struct burst *begin_burst(struct round *round, CUcontext context, CUstream stream,
                                 bool is_idle)
{
	struct burst *b;
	uint64_t begun_ns;

	if (round->count == BUSY_BURSTS)
		return NULL;
	b = &round->burst[round->count];
	if (!busy_make_events(b, context))
		return NULL;
	if (stream == CU_STREAM_PER_THREAD)
		blocking_stream_is_used();
	*b = (struct burst){.context = context,
	                    .stream = stream,
	                    .thread = thread_of(stream),
	                    .begin = b->begin,
	                    .end = b->end};
	/* On an idle stream the begin is passed at once, the kernel starts when it is launched. */
	is_idle = is_idle || driver.cuStreamQuery(stream) == CUDA_SUCCESS;
	begun_ns = clock_now(); /* the device may be past it before the call returns */
	if (driver.cuEventRecord(b->begin, stream) != CUDA_SUCCESS)
		return NULL;
	b->begun_ns = is_idle ? begun_ns : 0;
	b->open = true;
	round->count++;
	return b;
}

static void open_round(struct busy *busy, uint64_t now_ns)
{
	if (busy->open)
		return;
	busy->open = busy_round_of(busy, busy->closed);
	busy->open->count = 0;
	busy->open->sum = (struct busy_sum){.began_ns = now_ns};
}

struct burst *busy_before(struct busy *busy, CUcontext context, CUstream stream, uint64_t key,
                          uint64_t cost_ns, uint64_t now_ns)
{
	struct burst *b = open_burst(busy, context, stream);
	bool is_idle = false;

	open_round(busy, now_ns);
	tally_add(&busy->open->sum.tally, key, cost_ns);
	if (b && now_ns - b->last_ns >= SPARSE_NS && !is_launching(b)) {
		b->is_sparse = busy->is_sparse = true;
		if (!busy_is_full(busy) && ran_dry(b)) {
			is_idle = b->unrecorded_ns != 0; /* the stream itself was asked */
			b->open = false;
			b = NULL;
		} else if (now_ns - b->last_ns > TORN_NS) {
			b->is_torn = true;
		}
	} else if (b) {
		b->is_sparse = busy->is_sparse = false;
	}
	if (!b) {
		b = begin_burst(busy->open, context, stream, is_idle);
		if (!b)
			return NULL;
		b->is_sparse = busy->is_sparse;
	}
	b->launching++;
	return b;
}

static void busy_count(struct burst *burst, uint64_t cost_ns, uint64_t now_ns)
{
	burst->last_ns = now_ns;
	burst->unrecorded_ns += cost_ns ? cost_ns : 1;
	burst->cost_ns += cost_ns;
}

struct burst *busy_follow(struct busy *busy, CUcontext context, CUstream stream, uint64_t key,
                          uint64_t cost_ns, uint64_t now_ns)
{
	struct burst *b = open_burst(busy, context, stream);

	if (!b || b->begun_ns || now_ns - b->last_ns >= SPARSE_NS || is_launching(b))
		return NULL;
	b->is_sparse = busy->is_sparse = false;
	if (is_recorded_at_once(b))
		return NULL;
	tally_add(&busy->open->sum.tally, key, cost_ns);
	/* The thread alone takes it back, so no locked operation is needed for that. */
	atomic_store_explicit(&b->follows, true, memory_order_relaxed);
	busy_count(b, cost_ns, now_ns);
	return b;
}

void busy_followed(struct burst *burst)
{
	atomic_store_explicit(&burst->follows, false, memory_order_release);
}

void busy_leave(struct burst *burst)
{
	uint32_t launching = atomic_load(&burst->launching);

	while (launching &&
	       !atomic_compare_exchange_weak(&burst->launching, &launching, launching - 1))
		;
}

void busy_after(struct burst *burst, uint64_t cost_ns, uint64_t now_ns)
{
	uint64_t made_ns = clock_now();

	if (!burst || !atomic_load(&burst->launching))
		return; /* its context went meanwhile */
	busy_leave(burst);
	busy_count(burst, cost_ns, now_ns);
	if (burst->begun_ns)
		burst->idle_ns = made_ns - burst->begun_ns;
	burst->begun_ns = 0;
	burst->is_torn |= made_ns - now_ns > TORN_NS;
	if (is_recorded_at_once(burst))
		end_burst(burst, made_ns);
}

void busy_end_bursts(struct busy *busy, CUcontext context, uint64_t now_ns)
{
	for (int i = 0; busy->open && i < busy->open->count; i++) {
		struct burst *b = &busy->open->burst[i];

		if (!b->open || b->context != context || is_launching(b))
			continue;
		end_burst(b, now_ns);
		b->open = false;
	}
}

/* --- rounds --- */

bool busy_close_round(struct busy *busy, CUcontext context, uint64_t now_ns)
{
	if (!busy->open)
		return true;
	if (busy_running(busy) == BUSY_ROUNDS)
		return false;
	for (int i = 0; i < busy->open->count; i++) {
		struct burst *b = &busy->open->burst[i];
		bool borrowed = b->context != context;

		b->closed = true; /* the launching thread records the end */
		if (!b->open || !b->unrecorded_ns || is_launching(b))
			continue;
		if (borrowed && context_push(b->context) != CUDA_SUCCESS)
			continue;
		end_burst(b, now_ns);
		if (borrowed)
			context_pop(b->context);
	}
	busy->closed++;
	busy->open = NULL;
	return true;
}

bool busy_open_round_is_done(struct busy *busy)
{
	if (!busy->open || busy_running(busy) == BUSY_ROUNDS)
		return false;
	for (int i = 0; i < busy->open->count; i++)
		if (!ran_dry(&busy->open->burst[i]))
			return false;
	for (int i = 0; i < busy->open->count; i++)
		busy->open->burst[i].closed = true;
	busy->closed++;
	busy->open = NULL;
	return true;
}

static bool is_running(const struct round *round)
{
	/* The latest are likeliest to run. Errors count as done: the context is broken or gone. */
	for (int i = round->count - 1; i >= 0; i--) {
		const struct burst *b = &round->burst[i];

		if (b->context &&
		    (is_launching(b) || b->is_leaving ||
		     (b->recorded && driver.cuEventQuery(b->end) == CUDA_ERROR_NOT_READY)))
			return true;
	}
	return false;
}

bool busy_collect(struct busy *busy, struct busy_sum *sum)
{
	struct round *r = busy_round_of(busy, busy->collected);

	if (!busy_running(busy) || is_running(r))
		return false;
	r->sum.busy_ns = (uint64_t)(busy_measure_ms(busy, r) * 1e6);
	*sum = r->sum;
	busy->collected++;
	return true;
}

/* --- ends --- */

void busy_end_context(struct busy *busy, CUcontext context, enum context_end end)
{
	for (int i = 0; i < PLACES; i++)
		for (int j = 0; j < BUSY_BURSTS; j++) {
			struct burst *burst = &busy->rounds[i].burst[j];

			if (burst->context != context)
				continue;
			if (end == CONTEXT_IS_GONE)
				*burst = (struct burst){0};
			else
				burst->is_leaving = end == CONTEXT_LEAVES;
		}
}

void busy_forget_stream(struct busy *busy, CUstream stream)
{
	for (int i = 0; busy->open && i < busy->open->count; i++) {
		struct burst *b = &busy->open->burst[i];

		if (b->stream != stream || !b->open)
			continue;
		/* Destroying does not wait for running work. */
		if (b->unrecorded_ns && !is_launching(b))
			record_end(b);
		b->open = false;
	}
}
