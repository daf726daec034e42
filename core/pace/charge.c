/* SPDX-License-Identifier: MIT */
/*
 * Charging: the durations of rounds, once they are done, and the cost of a launch. Rules: as
 * launch.c.
 */
#include "core/pace/pacer_private.h"
#include "core/rings/event.h"

/* The time that a lag lasts which comes of waiting for turns. */
#define TURN_WINDOW_NS 250000000ull
/* So many rounds of a best-effort job in a row may be stretched by the return of other jobs. */
enum { STRETCHED_MOST = 4 };

uint32_t pacer_share_now(const struct pacer *p, uint64_t now)
{
	uint32_t share = p->share;

	if (p->priority == PRIORITY_OPPORTUNISTIC && !gap_binds(p) && share > GAP_BLIND_SHARE)
		return GAP_BLIND_SHARE;
	return p->policy == POLICY_WEIGHT ? turn_weighted(&p->turn, now, share) : share;
}

static void charge_pay(struct pacer *p, uint64_t busy_ns, uint64_t now)
{
	uint32_t share = pacer_share_now(p, now);
	uint64_t window = p->window_ns, paid = atomic_load(p->paid_until);

	if (!share)
		return;
	if (turn_is_contended(&p->turn, now) && window < TURN_WINDOW_NS)
		window = TURN_WINDOW_NS;
	/*
	 * By weight, time left unused while no other job wanted it is no claim against a job that
	 * comes.
	 */
	if (p->policy == POLICY_WEIGHT && share == ACCOUNT_FULL_SHARE)
		window = 0;
	while (!atomic_compare_exchange_weak(p->paid_until, &paid,
	                                     account_pay(paid, now, busy_ns, share, window)))
		;
}

/* The longest rounds fall so often without rounds: an exception counts half after 1.4 s. */
#define EXCEPTION_FADES_NS 125000000ull

/* Returns a longest round that rises at once and falls slowly. */
static uint64_t recent_longest(uint64_t before, uint64_t now)
{
	return now > before ? now : before - (before - now) / 16;
}

/*
 * Lets the longest rounds fall to the length of a usual round by time. For example, a best-effort
 * job's kernels of 0.5 ms take 45 ms on a host that is short of processors. Two seconds later the
 * job fills gaps of 30 ms again, although it had no round. A job with kernels that always last
 * 45 ms does not. Any other job's longest round says how long its work may wait for another
 * device, and falls by rounds alone.
 */
static void fade(struct pacer *p, uint64_t now)
{
	if (!gap_binds(p) || now - p->faded_ns < EXCEPTION_FADES_NS)
		return;
	p->faded_ns = now;
	p->longest_ns = recent_longest(p->longest_ns, p->usual_ns);
	p->longest_own_ns = recent_longest(p->longest_own_ns, p->usual_ns);
}

/*
 * Returns whether a round took longer than its launches do because other jobs worked meanwhile:
 * jobs of higher rank have returned. Several in a row show that launches have become longer.
 */
static bool is_stretched(struct pacer *p, const struct busy_sum *sum, uint64_t now)
{
	bool is_long = sum->tally.ns && sum->busy_ns >= sum->tally.ns + sum->tally.ns / 2;

	p->stretched = is_long && gap_binds(p) && now >= p->gap_until ? p->stretched + 1 : 0;
	return p->stretched % (STRETCHED_MOST + 1) != 0;
}

/* Learns from a finished round how much launches cost, and how long rounds are. */
static void charge_learn(struct pacer *p, const struct busy_sum *sum, uint64_t now)
{
	bool is_known = sum->busy_ns < sum->tally.ns + sum->tally.ns / 2 || !sum->tally.ns;
	uint64_t took = sum->busy_ns;

	if (is_stretched(p, sum, now))
		took = sum->tally.ns;
	/* A launch that spun through a slot, for another device, does not cost that. */
	else if (is_known || !align_has_others(&p->align, now))
		cost_learn(&p->costs, &sum->tally, sum->busy_ns);
	p->usual_ns = sum->tally.ns && sum->tally.ns < sum->busy_ns ? sum->tally.ns : sum->busy_ns;
	p->longest_ns = recent_longest(p->longest_ns, sum->busy_ns);
	p->longest_own_ns = recent_longest(p->longest_own_ns, took);
}

void pacer_settle(struct pacer *p, uint64_t now)
{
	struct busy_sum sum;

	fade(p, now);
	while (busy_collect(p->busy, &sum)) {
		uint64_t own = sum.busy_ns * p->own_thousandths / 1000;

		statistics_add(&p->statistics->busy_ns, own);
		charge_learn(p, &sum, now);
		event_note(.kind = EVENT_burst, .device = p->ordinal, .begin_ns = sum.began_ns,
		           .duration_ns = own, .a = sum.tally.launches);
		charge_pay(p, own, now);
		p->waits_ns = 0;
	}
	if (busy_running(p->busy) || busy_open_round(p->busy)) {
		p->landed_ns = 0;
		return;
	}
	align_land(&p->align);
	if (p->landed_ns)
		return;
	p->landed_ns = now;
	p->surprise_ns =
	    recent_longest(p->surprise_ns, p->expected_ns > now ? p->expected_ns - now : 0);
}

void pacer_close_round(struct pacer *p, CUcontext context, uint64_t now)
{
	if (busy_open_round(p->busy))
		busy_close_round(p->busy, context, now);
}
