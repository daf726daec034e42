/*
 * Launches that are paced. Rules: runs inside the user's process, on its launch path. No wait
 * without an end, none with the lock held, no allocation; no driver call while a capture is active.
 */
#include <stdlib.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
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
	return p;
}

void pacer_meet(struct pacer *p, const struct pacer_place *place)
{
	lock_acquire(&p->lock);
	p->place = *place;
	p->turn = (struct turn){.turns = place->turns, .owner = place->owner, .job = place->job};
	p->align =
	    (struct align){.lanes = place->lanes, .lane = place->lane, .device = place->device};
	p->paid_until =
	    place->lanes ? &place->lanes->paid_until[place->device] : &p->own_paid_until;
	lock_release(&p->lock);
}

static void wake_all(struct pacer *p)
{
	clock_in_use->wake(&p->changed);
	if (p->place.lanes)
		clock_in_use->wake(&p->place.lanes->changed);
	if (p->place.turns)
		clock_in_use->wake(&p->place.turns->changed);
}

void pacer_set(struct pacer *p, const struct pacer_settings *settings)
{
	/* Single words, so that whoever has the lock need not be waited for. */
	bool differs = settings->share != p->share || settings->policy != p->policy;

	/*
	 * What was owed or saved under another share is not carried over; who joins a job owes what
	 * it owes.
	 */
	if (differs && (p->paces || atomic_load(p->paid_until) < clock_now()))
		atomic_store(p->paid_until, clock_now());
	p->window_ns = settings->window_ns;
	p->policy = settings->policy;
	p->share = settings->share;
	p->paces = pacer_would_pace(settings);
	if (differs)
		wake_all(p);
}

bool pacer_would_pace(const struct pacer_settings *settings)
{
	return settings->share < ACCOUNT_FULL_SHARE || settings->policy == POLICY_WEIGHT;
}

void pacer_let_go(struct pacer *p)
{
	p->lets_go = true;
	/* Others need not find out by its silence. Whoever holds the lock is not waited for. */
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

/* Admits a launch within a round. This is the whole cost of a paced launch. */
static void admit(struct pacer *p, struct pacer_launch *launch)
{
	uint64_t now = clock_now();
	uint64_t cost = cost_of(&p->costs, launch->key);
	const struct busy_sum *round;

	/* What is not known is measured by itself. */
	if (!cost && busy_open_round(p->busy))
		pacer_close_round(p, launch->context, now);
	if (!busy_open_round(p->busy)) {
		align_fly(&p->align, now);
		watch_call(); /* it looks once we have left the lock, with work in flight */
	}
	launch->burst =
	    busy_before(p->busy, launch->context, launch->stream, launch->key, cost, now);
	round = busy_open_round(p->busy);
	p->timed = false;
	p->landed_ns = 0;
	p->context = launch->context;
	p->due = p->due || !cost || p->one || busy_is_full(p->busy) ||
	         round->tally.ns + cost / 2 >= p->quantum_ns ||
	         now - round->began_ns > ROUND_LIFE_NS;
	if (p->is_joint)
		align_count(&p->align, cost, p->levels);
	p->one = p->levels = false;
	p->expected_ns = (p->expected_ns > now ? p->expected_ns : now) + cost;
	launch->cost_ns = cost;
	launch->now_ns = now;
	launch->is_counted = !p->due && busy_count_ahead(launch->burst, cost, now);
}

void pacer_before(struct pacer *p, struct pacer_launch *launch)
{
	launch->burst = NULL;
	if (!pacer_enter(p))
		return;
	if (__builtin_expect(p->due, 0) && !pacer_hold_back(p, launch->context))
		return;
	admit(p, launch);
	pacer_leave(p);
}

void pacer_after(struct pacer *p, struct pacer_launch *launch)
{
	if (!launch->burst)
		return; /* it is not measured */
	if (launch->is_counted || !pacer_enter(p)) {
		busy_leave(launch->burst);
		return;
	}
	busy_after(launch->burst, launch->cost_ns, launch->now_ns);
	if (p->due)
		pacer_close_round(p, launch->context, clock_now());
	pacer_leave(p);
}

void pacer_break(struct pacer *p, CUcontext context)
{
	if (!pacer_enter(p))
		return;
	busy_end_bursts(p->busy, context, clock_now());
	pacer_leave(p);
}

void pacer_before_timing(struct pacer *p, CUcontext context)
{
	if (!pacer_enter(p))
		return;
	/* With work before it this one may end what is timed, and must not come late. */
	if (p->due && !p->timed) {
		p->due |= busy_open_round_is_done(p->busy);
		pacer_settle(p, clock_now());
	}
	if (p->due && (p->timed || p->landed_ns) && !pacer_hold_back(p, context))
		return;
	p->timed = true;
	pacer_leave(p);
}

void pacer_leave_context(struct pacer *p, CUcontext context, bool is_leaving)
{
	/*
	 * The lock is waited for however long it takes: the context's events go with it, and must
	 * not be asked for after that.
	 */
	lock_acquire(&p->lock);
	busy_leave_context(p->busy, context, is_leaving);
	lock_release(&p->lock);
}

void pacer_forget_context(struct pacer *p, CUcontext context)
{
	lock_acquire(&p->lock);
	busy_forget_context(p->busy, context);
	if (p->context == context)
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
