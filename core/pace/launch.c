/* SPDX-License-Identifier: MIT */
/*
 * Launches that are paced. Rules: runs inside the user's process, on its launch path. No wait
 * without an end, none with the lock held; no allocation but that of the watcher, which the first
 * round starts; no driver call while a capture is active.
 */
#include <pthread.h>
#include <stdlib.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/pace/pacer_private.h"
#include "core/pace/watch.h"

/* A round is charged after so long, however little was launched. */
#define ROUND_LIFE_NS 20000000ull

struct pacer *pacer_create(int ordinal, struct counters *statistics)
{
	struct pacer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->busy = busy_create();
	if (!p->busy) {
		free(p);
		return NULL;
	}
	p->ordinal = ordinal;
	p->statistics = statistics;
	p->share = ACCOUNT_FULL_SHARE;
	p->own_thousandths = 1000;
	p->paid_until = &p->own_paid_until;
	p->due = true;
	lock_init(&p->lock);
	lock_init(&p->heartbeat_lock);
	return p;
}

void pacer_meet(struct pacer *p, const struct pacer_place *place)
{
	lock_acquire(&p->lock);
	p->turns = place->turns;
	p->lanes = place->lanes;
	p->turn = (struct turn){.turns = place->turns, .owner = place->owner, .job = place->job};
	p->align =
	    (struct align){.lanes = place->lanes, .lane = place->lane, .device = place->device};
	p->paid_until =
	    place->lanes ? &place->lanes->paid_until[place->device] : &p->own_paid_until;
	/* A process that joins a job takes over its debt, and has saved nothing. */
	if (atomic_load(p->paid_until) < clock_now())
		atomic_store(p->paid_until, clock_now());
	lock_release(&p->lock);
}

static void wake_all(struct pacer *p)
{
	clock_in_use->wake(&p->changed);
	if (p->lanes)
		clock_in_use->wake(&p->lanes->changed);
	if (p->turns)
		clock_in_use->wake(&p->turns->changed);
}

void pacer_set(struct pacer *p, const struct pacer_settings *settings)
{
	/* Single words, so that the holder of the lock need not be waited for. */
	bool differs = settings->share != p->share || settings->policy != p->policy ||
	               settings->priority != p->priority ||
	               pacer_gives_way(settings) != p->gives_way;

	/*
	 * Debt or savings under another share are not carried over; a process that joins a job
	 * takes over its debt.
	 */
	if (differs && (p->paces || atomic_load(p->paid_until) < clock_now()))
		atomic_store(p->paid_until, clock_now());
	p->priority = settings->priority;
	p->gives_way = pacer_gives_way(settings);
	p->window_ns = settings->window_ns;
	p->policy = settings->policy;
	p->share = settings->share;
	p->paces = pacer_would_pace(settings);
	if (differs)
		wake_all(p);
}

void pacer_let_go(struct pacer *p)
{
	p->lets_go = true;
	/*
	 * Other processes need not find out by its silence. The holder of the lock is not waited
	 * for.
	 */
	if (lock_try(&p->lock)) {
		pacer_pass_turn(p, clock_now());
		lock_release(&p->lock);
	}
	wake_all(p);
}

void pacer_correct(struct pacer *p, uint32_t thousandths)
{
	atomic_store(&p->own_thousandths, thousandths);
}

/* --- launches --- */

/* Notes the facts of every launch. */
static void note_launch(struct pacer *p, const struct pacer_launch *launch)
{
	p->timed = false;
	p->landed_ns = 0;
	p->context = launch->context;
	p->expected_ns =
	    (p->expected_ns > launch->now_ns ? p->expected_ns : launch->now_ns) + launch->cost_ns;
}

/* Returns whether the round is full with a launch that costs so much. */
static bool pace_launch_is_full(const struct pacer *p, const struct busy_sum *round, uint64_t ns,
                                uint64_t cost, uint64_t now)
{
	return round->tally.ns + ns + cost / 2 >= p->quantum_ns ||
	       now - round->began_ns > ROUND_LIFE_NS || busy_is_full(p->busy);
}

/*
 * Admits a launch that follows others in a burst and after which the round goes on, without the
 * driver. Returns whether it is one.
 */
static bool pace_launch_follow(struct pacer *p, struct pacer_launch *launch)
{
	const struct busy_sum *round = busy_open_round(p->busy);
	uint64_t cost = cost_of(&p->costs, launch->key), now = clock_now();

	launch->now_ns = now;
	launch->cost_ns = cost;
	if (!cost || p->due || p->one || p->levels || !round ||
	    pace_launch_is_full(p, round, cost, cost, now))
		return false;
	launch->burst =
	    busy_follow(p->busy, launch->context, launch->stream, launch->key, cost, now);
	if (!launch->burst)
		return false;
	launch->is_counted = true;
	note_launch(p, launch);
	if (p->is_joint)
		align_count(&p->align, cost, false);
	return true;
}

/* Admits any other launch within a round. */
static void admit(struct pacer *p, struct pacer_launch *launch)
{
	uint64_t now = launch->now_ns, cost = cost_of(&p->costs, launch->key);

	launch->cost_ns = cost;
	/* An unknown launch is measured by itself. */
	if (!cost && busy_open_round(p->busy))
		pacer_close_round(p, launch->context, now);
	if (!busy_open_round(p->busy)) {
		align_fly(&p->align, now);
		watch_call(); /* it looks once we have left the lock, with work in flight */
	}
	launch->burst =
	    busy_before(p->busy, launch->context, launch->stream, launch->key, cost, now);
	note_launch(p, launch);
	p->due = p->due || !cost || p->one ||
	         pace_launch_is_full(p, busy_open_round(p->busy), 0, cost, now);
	if (p->is_joint)
		align_count(&p->align, cost, p->levels);
	p->one = p->levels = false;
}

/*
 * Most paced launches follow others in a burst and cost a lock for moments, a clock and two small
 * tables; no call of the driver, no wait.
 */
void pacer_before(struct pacer *p, struct pacer_launch *launch)
{
	bool is_locked;
	int cancel;

	launch->burst = NULL;
	launch->is_counted = false;
	launch->now_ns = 0;
	if (!pacer_is_pacing(p) || capture_is_active())
		return;
	is_locked = lock_try(&p->lock);
	if (__builtin_expect(is_locked && pace_launch_follow(p, launch), 1)) {
		lock_release(&p->lock);
		return;
	}
	/* It may sleep, and a launch is no place where a thread expects to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (pacer_enter(p, is_locked)) {
		bool has_waited = p->due || !is_locked;

		if (!p->due || pacer_hold_back(p, launch->context)) {
			if (has_waited)
				launch->now_ns = clock_now();
			admit(p, launch);
			pacer_leave(p);
		}
	}
	pthread_setcancelstate(cancel, NULL);
}

static void pace_launch_after(struct pacer *p, struct pacer_launch *launch)
{
	if (!pacer_enter(p, false)) {
		busy_leave(launch->burst);
		return;
	}
	busy_after(launch->burst, launch->cost_ns, launch->now_ns);
	if (p->due)
		pacer_close_round(p, launch->context, clock_now());
	pacer_leave(p);
}

void pacer_after(struct pacer *p, struct pacer_launch *launch)
{
	int cancel;

	if (!launch->burst)
		return; /* it is not measured */
	if (launch->is_counted) {
		busy_followed(launch->burst);
		return;
	}
	/* The driver is called with the lock held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pace_launch_after(p, launch);
	pthread_setcancelstate(cancel, NULL);
}

void pacer_break(struct pacer *p, CUcontext context)
{
	if (!pacer_enter(p, false))
		return;
	busy_end_bursts(p->busy, context, clock_now());
	pacer_leave(p);
}

void pacer_before_timing(struct pacer *p, CUcontext context)
{
	if (!pacer_enter(p, false))
		return;
	/* With work before it this one may end a timed span, and must not come late. */
	if (p->due && !p->timed) {
		p->due |= busy_open_round_is_done(p->busy);
		pacer_settle(p, clock_now());
	}
	if (p->due && (p->timed || p->landed_ns) && !pacer_hold_back(p, context))
		return;
	p->timed = true;
	pacer_leave(p);
}

void pacer_end_context(struct pacer *p, CUcontext context, enum context_end end)
{
	if (end == CONTEXT_IS_GONE) {
		lock_acquire(&p->heartbeat_lock);
		heartbeat_forget_context(&p->heartbeat, context);
		lock_release(&p->heartbeat_lock);
	}
	/*
	 * The lock is waited for however long it takes: the context's events go with it, and must
	 * not be asked for after that.
	 */
	lock_acquire(&p->lock);
	busy_end_context(p->busy, context, end);
	if (end == CONTEXT_IS_GONE && p->context == context)
		p->context = NULL;
	lock_release(&p->lock);
}

void pacer_forget_stream(struct pacer *p, CUstream stream)
{
	struct deadline until = DEADLINE_IN(PACER_LOCK_NS);

	/* If that is in vain, the worst is a burst that ends late. */
	if (!deadline_lock(&until, &p->lock))
		return;
	busy_forget_stream(p->busy, stream);
	lock_release(&p->lock);
}
