/* SPDX-License-Identifier: MIT */
/*
 * The watcher. Rules: a thread in someone else's process: every signal blocked, in relaxed capture
 * mode.
 */
#include "core/pace/watch.h"

#include <pthread.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/cuda/context.h"
#include "core/pace/pacer_private.h"

/* The time it sleeps uncalled, and between two looks while other processes depend on it. */
#define LONG_NS       60000000000ull
#define LOOK_NS       250000u
#define LOOK_LEAST_NS 20000u
/* With nothing in flight for so long the turn is passed on: about the cost of handing it over. */
#define IDLE_NS 100000u
/*
 * A launch that naps until the next round has room comes by itself. On a busy host it comes so late
 * at most. For example, a step of 8 ms whose launch wakes 0.5 ms late lasts 8.5 ms. With the turn
 * passed on, it would last for a step of the other job longer.
 */
#define NAP_LATE_NS 1000000u

static struct pacer *const *watched;
static int watched_count;

/*
 * Returns after how many nanoseconds to look whether the work in flight is done: the more often the
 * nearer its expected end is, on either side. Each look takes time from the program's threads. So
 * it is looked every LOOK_NS only in the time by which work lately ended before its expected end.
 * For example, steps of 8 ms that end as expected are looked at 9 times, not 35 times.
 */
static uint64_t watch_until_landed(const struct pacer *p, uint64_t now)
{
	uint64_t left = p->expected_ns > now ? p->expected_ns - now : 0;
	uint64_t again = left ? left / 2 : (now - p->expected_ns) / 16, most = LOOK_NS;

	if (left > p->surprise_ns + LOOK_NS && !align_has_others(&p->align, now))
		most = left - p->surprise_ns;
	/* A holder of the turn says in time that it works. */
	if (most > TURN_SILENCE_NS / 2)
		most = TURN_SILENCE_NS / 2;
	return again < LOOK_LEAST_NS ? LOOK_LEAST_NS : again < most ? again : most;
}

static uint64_t watch_do_look(struct pacer *p)
{
	uint64_t now = clock_now();
	uint64_t again = LOOK_NS;
	bool alone, joint;

	p->due |= busy_open_round_is_done(p->busy);
	pacer_settle(p, now);
	if (p->landed_ns && now - p->landed_ns > TURN_ACTIVE_NS)
		return 0;
	alone = !turn_is_contended(&p->turn, now);
	joint = align_has_others(&p->align, now);
	if (p->landed_ns) {
		uint64_t idle = now - p->landed_ns, most = p->naps ? NAP_LATE_NS : IDLE_NS;

		/* There is nothing to pass on before the next launch, which calls. */
		if (!alone && !joint && !turn_is_ours(&p->turn))
			return 0;
		if (!alone && (idle >= most || !pacer_goes_on(p, pacer_share_now(p, now), now)))
			pacer_pass_turn(p, now);
		else if (!alone)
			again = most - idle;
	} else {
		pacer_tell_turn(p, now);
		if (joint)
			align_fly(&p->align, now);
		if (now > p->expected_ns + OVERDUE_NS)
			align_stuck(&p->align, now);
		again = watch_until_landed(p, now);
	}
	return alone && !joint ? TURN_SILENCE_NS / 2 : again;
}

/*
 * Collects finished work while no thread launches, so that other processes need not wait for this
 * one. Returns after how many nanoseconds it wants to be called again; 0: not before the next
 * launch.
 */
static uint64_t watch_paced(struct pacer *p)
{
	uint64_t again = LOOK_NS;
	CUcontext context;

	if (!pacer_is_pacing(p))
		return 0;
	/* While a capture is active, or about to begin, nothing is asked. */
	if (!pacer_enter(p, false))
		return again;
	context = p->context;
	pacer_leave(p);
	if (!context)
		return 0;
	if (context_push(context) != CUDA_SUCCESS)
		return again;
	if (pacer_enter(p, false)) {
		again = watch_do_look(p);
		pacer_leave(p);
	}
	context_pop(context);
	return again;
}

static uint64_t pacer_watch(struct pacer *p)
{
	uint64_t paced = watch_paced(p), gap = gap_watch(p);

	return !gap || (paced && paced < gap) ? paced : gap;
}

static uint64_t watch_look_at_all(void)
{
	uint64_t again = 0;

	for (int i = 0; i < watched_count; i++) {
		struct pacer *p = __atomic_load_n(&watched[i], __ATOMIC_ACQUIRE);
		uint64_t wanted = p ? pacer_watch(p) : 0; /* it may not be made yet */

		if (wanted && (!again || wanted < again))
			again = wanted;
	}
	return again;
}

static void *watch_watch(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-pace");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		uint32_t called = atomic_load(&watch_called);
		uint64_t again = watch_look_at_all();

		/* A launch from then on calls; one of a moment before is seen now. */
		if (!again) {
			atomic_store(&watch_sleeps, WATCH_SLEEPS);
			again = watch_look_at_all();
			if (again)
				atomic_store(&watch_sleeps, WATCH_LOOKS);
		}
		clock_in_use->wait(&watch_called, called, clock_now() + (again ? again : LONG_NS));
	}
	return NULL;
}

static void watch_do_start(void)
{
	int error = thread_start(watch_watch);

	if (!error)
		return;
	atomic_store(&watch_is_missing, true);
	log_once(LOG_WARNING, "no thread to watch paced work (%s): turns end late",
	         strerror(-error));
}

void watch_prepare(struct pacer *const *pacers, int count)
{
	watched = pacers;
	watched_count = count;
	watch_start = watch_do_start;
	atomic_store(&watch_sleeps, WATCH_IS_NOT_THERE);
}
