/* SPDX-License-Identifier: MIT */
/*
 * Holding back: turns among processes, the account of used time, and the waits of a launch between
 * rounds. Rules: as launch.c; a wait is without the lock, and has an end.
 *
 * A slot begins when nothing of the job runs, so the gap is real; at shares above 83 % the quantum
 * grows, so that the gap is at least 0.4 ms. The wait for it is bounded, because a running kernel
 * may need the launch that is held: twice the longest round seen, 20 ms to 1 s, then a launch
 * passes and the next wait is twice as long. So a deadlock resolves itself a launch at a time.
 * Threads that wait for the same slot count as one idle time, the device's.
 */
#include "core/pace/pacer_private.h"
#include "core/pace/watch.h"
#include "core/rings/event.h"

/* --- turns --- */

/*
 * The table is written by other processes. None of its words is an index, a size or a reason to
 * wait.
 */

/* After so long without a word a lane is free. */
#define LANE_LIFE_NS 10000000000ull

#define LOAD(word)     atomic_load_explicit(&(word), memory_order_acquire)
#define STORE(word, x) atomic_store_explicit(&(word), x, memory_order_release)

static uint32_t lane_count(const struct turns *turns)
{
	uint32_t count = LOAD(turns->lanes);

	return count < TURN_LANES ? count : TURN_LANES;
}

static bool turn_is_recent(uint64_t then, uint64_t now, uint64_t within)
{
	return then + within > now && then < now + within;
}

static bool take_lane(struct turn *turn, struct turn_lane *lane, uint64_t now)
{
	uint64_t owner = LOAD(lane->owner);

	if (owner && turn_is_recent(LOAD(lane->seen_ns), now, LANE_LIFE_NS))
		return false;
	if (!atomic_compare_exchange_strong(&lane->owner, &owner, turn->owner))
		return false;
	STORE(lane->wants_ns, 0);
	turn->lane = lane;
	return true;
}

/* Returns our lane; NULL with more processes than lanes: then no turns are taken. */
static struct turn_lane *own_lane(struct turn *turn, uint64_t now)
{
	if (turn->lane && LOAD(turn->lane->owner) == turn->owner)
		return turn->lane;
	turn->lane = NULL;
	for (uint32_t i = 0; i < TURN_LANES; i++) {
		uint32_t count = LOAD(turn->turns->lanes);

		if (!take_lane(turn, &turn->turns->lane[i], now))
			continue;
		while (count <= i &&
		       !atomic_compare_exchange_weak(&turn->turns->lanes, &count, i + 1))
			;
		break;
	}
	return turn->lane;
}

/* Tells the other processes our share and account, and that we are active. */
static void turn_tell(struct turn *turn, uint64_t now_ns, uint32_t share, int policy,
                      uint64_t paid_until)
{
	struct turn_lane *lane = turn->turns ? own_lane(turn, now_ns) : NULL;

	if (!lane)
		return;
	/*
	 * Written each time: a process that took the lane before us, late, may have written since.
	 */
	STORE(lane->job, turn->job);
	STORE(lane->share, share);
	STORE(lane->policy, (uint32_t)policy);
	STORE(lane->paid_until, paid_until);
	STORE(lane->seen_ns, now_ns);
}

/*
 * Returns whether a lane's process is active. A process in a slot writes nothing, but will come
 * back.
 */
static bool is_active(const struct turn_lane *lane, uint64_t now)
{
	return LOAD(lane->owner) && (turn_is_recent(LOAD(lane->seen_ns), now, TURN_ACTIVE_NS) ||
	                             turn_is_recent(LOAD(lane->paid_until), now, TURN_SLOT_NS));
}

static bool takes_part(const struct turn *turn)
{
	return turn->turns && turn->lane && LOAD(turn->lane->owner) == turn->owner;
}

bool turn_is_contended(const struct turn *turn, uint64_t now_ns)
{
	if (!takes_part(turn))
		return false;
	for (uint32_t i = 0; i < lane_count(turn->turns); i++) {
		const struct turn_lane *lane = &turn->turns->lane[i];

		if (lane != turn->lane && is_active(lane, now_ns))
			return true;
	}
	return false;
}

/* Returns whether a lane's process waits and may launch now. A job with a cap may be in a slot. */
static bool turn_may_go(const struct turn_lane *lane, uint64_t now)
{
	return is_active(lane, now) && LOAD(lane->wants_ns) &&
	       (LOAD(lane->policy) == POLICY_WEIGHT || LOAD(lane->paid_until) <= now);
}

/* Returns how long we have had the turn. */
static uint64_t turn_age(const struct turn *turn, uint64_t now_ns)
{
	uint64_t began = takes_part(turn) ? LOAD(turn->turns->began_ns) : now_ns;

	return began < now_ns ? now_ns - began : 0;
}

/*
 * Returns whether our turn is over. paid_until: of our job, once the work in flight is paid for.
 * is_idle: nothing is in flight, and no launch of ours is about to follow. Processes of one job
 * have one account: between them a turn is over after length_ns.
 */
static bool turn_is_over(const struct turn *turn, uint64_t now_ns, uint64_t paid_until,
                         uint64_t length_ns, bool is_idle)
{
	uint64_t age = turn_age(turn, now_ns);
	uint64_t lead = is_idle || age >= length_ns ? 0 : TURN_LEAD_NS;
	uint64_t lag = is_idle ? TURN_LAG_NS : 0;

	if (!takes_part(turn) || (age < TURN_LEAST_NS && age < length_ns))
		return false;
	for (uint32_t i = 0; i < lane_count(turn->turns); i++) {
		const struct turn_lane *lane = &turn->turns->lane[i];

		if (lane == turn->lane || !turn_may_go(lane, now_ns))
			continue;
		if (LOAD(lane->job) == turn->job ? age >= length_ns
		                                 : paid_until + lag > LOAD(lane->paid_until) + lead)
			return true;
	}
	return false;
}

bool turn_is_ours(const struct turn *turn)
{
	return !takes_part(turn) || LOAD(turn->turns->holder) == turn->owner;
}

/* Returns whether a lane's process has the turn, waits for it, or is in a slot before it. */
static bool has_work(const struct turns *turns, const struct turn_lane *lane, uint64_t now)
{
	return is_active(lane, now) &&
	       (LOAD(lane->wants_ns) || LOAD(lane->owner) == LOAD(turns->holder));
}

/* Returns whether a lane before this one is of the same job. */
static bool is_counted(const struct turns *turns, uint32_t index, uint64_t now)
{
	for (uint32_t i = 0; i < index; i++) {
		if (LOAD(turns->lane[i].job) == LOAD(turns->lane[index].job) &&
		    has_work(turns, &turns->lane[i], now))
			return true;
	}
	return false;
}

/*
 * Returns the share of a job with share_policy = weight: all, or by its part of the sum of those
 * that have work for the device.
 */
static uint32_t turn_weighted(const struct turn *turn, uint64_t now_ns, uint32_t share)
{
	uint64_t sum = share;

	if (!takes_part(turn) || !share)
		return share ? ACCOUNT_FULL_SHARE : 0;
	for (uint32_t i = 0; i < lane_count(turn->turns); i++) {
		const struct turn_lane *lane = &turn->turns->lane[i];
		uint32_t other = LOAD(lane->share);

		if (has_work(turn->turns, lane, now_ns) && LOAD(lane->job) != turn->job &&
		    !is_counted(turn->turns, i, now_ns))
			sum += other < ACCOUNT_FULL_SHARE ? other : ACCOUNT_FULL_SHARE;
	}
	return (uint32_t)((uint64_t)share * ACCOUNT_FULL_SHARE / sum);
}

/* Returns how long our turn lasts. share: of the job. */
static uint64_t turn_length(const struct turn *turn, uint64_t now_ns, uint32_t share)
{
	uint64_t of_job = TURN_CYCLE_NS * share / ACCOUNT_FULL_SHARE;
	uint64_t lanes = 0;

	if (!takes_part(turn))
		return of_job;
	for (uint32_t i = 0; i < lane_count(turn->turns); i++) {
		const struct turn_lane *lane = &turn->turns->lane[i];

		lanes += is_active(lane, now_ns) && LOAD(lane->job) == turn->job;
	}
	return of_job / (lanes ? lanes : 1);
}

static const struct turn_lane *lane_of(const struct turns *turns, uint64_t owner)
{
	for (uint32_t i = 0; i < lane_count(turns); i++) {
		if (LOAD(turns->lane[i].owner) == owner)
			return &turns->lane[i];
	}
	return NULL;
}

/*
 * Orders waiting processes: the job furthest behind first; within a job, whose processes have one
 * account, the longest waiter.
 */
static bool turn_goes_first(const struct turn_lane *a, const struct turn_lane *b)
{
	uint64_t a_paid = LOAD(a->paid_until), b_paid = LOAD(b->paid_until);
	uint64_t a_wants = LOAD(a->wants_ns), b_wants = LOAD(b->wants_ns);

	if (LOAD(a->job) != LOAD(b->job) && a_paid != b_paid)
		return a_paid < b_paid;
	return a_wants != b_wants ? a_wants < b_wants : a < b;
}

static bool somebody_goes_first(const struct turn *turn, uint64_t now)
{
	for (uint32_t i = 0; i < lane_count(turn->turns); i++) {
		const struct turn_lane *lane = &turn->turns->lane[i];

		if (lane != turn->lane && turn_may_go(lane, now) &&
		    turn_goes_first(lane, turn->lane))
			return true;
	}
	return false;
}

/*
 * Returns when its holder loses it, unless the holder says before that it works. Without a holder:
 * when any process may take it. 0: the holder has no lane.
 */
static uint64_t turn_is_lost_at(const struct turn *turn)
{
	uint64_t holder = LOAD(turn->turns->holder);
	const struct turn_lane *lane = holder ? lane_of(turn->turns, holder) : NULL;

	if (!holder)
		return LOAD(turn->turns->began_ns) + TURN_CLAIM_NS;
	return lane ? LOAD(lane->seen_ns) + TURN_SILENCE_NS : 0;
}

/*
 * Takes it if it is free, or its holder is gone, and no waiting process goes first. Else we wait
 * for it from now on.
 */
static bool turn_take(struct turn *turn, uint64_t now_ns)
{
	uint64_t holder;

	if (turn_is_ours(turn))
		return true;
	if (!LOAD(turn->lane->wants_ns))
		STORE(turn->lane->wants_ns, now_ns);
	STORE(turn->lane->seen_ns, now_ns);
	holder = LOAD(turn->turns->holder);
	if (holder) {
		const struct turn_lane *lane = lane_of(turn->turns, holder);

		if (lane && turn_is_recent(LOAD(lane->seen_ns), now_ns, TURN_SILENCE_NS))
			return false;
	} else if (turn_age(turn, now_ns) < TURN_CLAIM_NS && somebody_goes_first(turn, now_ns)) {
		return false;
	}
	if (!atomic_compare_exchange_strong(&turn->turns->holder, &holder, turn->owner))
		return false;
	STORE(turn->turns->began_ns, now_ns);
	STORE(turn->lane->wants_ns, 0);
	return true;
}

/* Says that we are in a slot, and will want the turn when it is over. 0: we want it no more. */
static void turn_want(struct turn *turn, uint64_t now_ns)
{
	if (takes_part(turn) && (!now_ns || !LOAD(turn->lane->wants_ns)))
		STORE(turn->lane->wants_ns, now_ns);
}

/*
 * Passes the turn, if it is ours, to the next process that takes it. Nothing of ours runs. Returns
 * whether it was ours.
 */
static bool turn_pass(struct turn *turn, uint64_t now_ns)
{
	uint64_t holder = turn->owner;

	if (!takes_part(turn) || LOAD(turn->turns->holder) != holder)
		return false;
	STORE(turn->turns->began_ns, now_ns);
	if (!atomic_compare_exchange_strong(&turn->turns->holder, &holder, 0))
		return false;
	clock_in_use->wake(&turn->turns->changed);
	return true;
}

/* --- charging: the durations of rounds, once they are done, and the cost of a launch --- */

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

/* --- the waits between rounds --- */

/*
 * The quantum of a job on several devices: the loss by stopping all of them together is spread over
 * more work.
 */
#define JOINT_QUANTUM_NS 16000000ull
/*
 * Work in flight is waited for twice as long as the longest round took, within these bounds. After
 * a wait in vain a launch passes, and the next wait is twice as long.
 */
#define PATIENCE_MIN_NS     20000000ull
#define PATIENCE_UNKNOWN_NS 250000000ull
#define PATIENCE_MAX_NS     1000000000ull
/* Naps while work is in flight, or another job has the turn. */
#define NAP_MIN_NS    20000u
#define NAP_MAX_NS    500000u
#define NAP_FLIGHT_NS 250000u
#define NAP_JOINT_NS  150000u
#define NAP_HELP_NS   1000000u
#define NAP_TURN_NS   5000000u
/* A launch that is held back counts the time it has waited so often. */
#define TICK_NS 100000000ull

/* FLIGHT: for all work in flight. ROOM: for the oldest of it, because the next round may follow. */
enum wait_for { NOTHING, RESUME, FLIGHT, ROOM, SLOT, TURN, HELP, GAP };

struct wait {
	enum wait_for what;
	uint64_t until_ns;
};

static uint64_t quantum(const struct pacer *p)
{
	uint64_t alone = pacer_quantum(p->share), joint = JOINT_QUANTUM_NS;

	/* Two are in flight, or one that is longer. */
	if (gap_binds(p))
		return p->gap_round_ns / 2;
	/* Two of those that follow each other at once are in flight. */
	if (p->streams)
		return PACER_QUANTUM_NS / 2;
	if (!p->is_joint)
		return alone;
	/*
	 * Above a share of 80 % a quantum of 16 ms would give slots of about 2 ms. A device that
	 * spins for another device loses most in such a slot, which is over before HELP ends it.
	 */
	if (p->share > 80000)
		joint = JOINT_QUANTUM_NS * 3 / 8;
	return joint > alone ? joint : alone;
}

/* Returns how long work in flight is waited for, by the durations of the latest rounds. */
static uint64_t hold_patience(const struct pacer *p)
{
	uint64_t twice = p->longest_ns ? 2 * p->longest_ns : PATIENCE_UNKNOWN_NS;

	return twice < PATIENCE_MIN_NS   ? PATIENCE_MIN_NS
	       : twice > PATIENCE_MAX_NS ? PATIENCE_MAX_NS
	                                 : twice;
}

/* Returns whether to wait, not for ever, because more than `most` rounds are in flight. */
static bool waits_for_flight(struct pacer *p, int most, uint64_t now, struct wait *wait)
{
	uint64_t nap, late;

	if (busy_running(p->busy) <= most)
		return false;
	if (!p->waits_ns) {
		p->waits_ns = now;
		p->patience_ns = hold_patience(p);
	}
	if (now - p->waits_ns >= p->patience_ns) {
		/*
		 * Running work may need this very launch. One at a time, until something is done.
		 */
		p->waits_ns = now;
		p->patience_ns =
		    p->patience_ns < PATIENCE_MAX_NS / 2 ? 2 * p->patience_ns : PATIENCE_MAX_NS;
		p->one = true;
		return false;
	}
	/* It is looked at the more often the nearer it is to when it should be done. */
	late = most ? now - p->waits_ns : now > p->expected_ns ? now - p->expected_ns : 0;
	nap = late / 16;
	/*
	 * With another round behind it the oldest is looked at when it should be done. A job on
	 * several devices looks at once, because what runs may wait for this very launch.
	 */
	if (most && !align_has_others(&p->align, now)) {
		uint64_t behind = busy_expected(p->busy, most), grown = late / 2;
		uint64_t left = p->expected_ns > now + behind ? p->expected_ns - now - behind : 0;

		nap = nap > left ? nap : left;
		nap = nap < behind / 2 ? nap : behind / 2;
		/* Work that may well end by so much early is looked at more often. */
		if (left <= p->surprise_ns)
			nap = nap < grown ? nap : grown;
	}
	nap = nap < NAP_MIN_NS ? NAP_MIN_NS : nap > NAP_MAX_NS ? NAP_MAX_NS : nap;
	if (!most && p->expected_ns > now && p->expected_ns < now + nap)
		nap = p->expected_ns - now;
	*wait = (struct wait){most ? ROOM : FLIGHT, now + nap};
	/*
	 * The first look is when the work should be done. The expected cost may be too high, so a
	 * nap is at most an eighth of the time that is left.
	 */
	if (!most && p->expected_ns > now + 2 * NAP_MIN_NS) {
		uint64_t left = p->expected_ns - 2 * NAP_MIN_NS - now, most_ns = left / 8;
		uint64_t grown_ns = NAP_MIN_NS + (now - p->waits_ns) / 2;

		if (most_ns < NAP_FLIGHT_NS)
			most_ns = NAP_FLIGHT_NS;
		/* Launches that look alike may differ by far: a short one is seen soon. */
		if (most_ns > grown_ns)
			most_ns = grown_ns;
		if (align_has_others(&p->align, now))
			most_ns = NAP_JOINT_NS; /* it may well have been a spin */
		wait->until_ns = now + (left < most_ns ? left : most_ns);
	}
	if (!most && now > p->expected_ns + OVERDUE_NS)
		align_stuck(&p->align, now);
	if (wait->until_ns > p->waits_ns + p->patience_ns)
		wait->until_ns = p->waits_ns + p->patience_ns;
	return true;
}

static uint64_t slot_end(struct pacer *p, uint64_t now)
{
	uint64_t paid = atomic_load(p->paid_until);
	uint64_t common = align_slot(&p->align, now, align_has_others(&p->align, now) ? paid : now);

	return common > paid ? common : paid;
}

/* Returns the share that a job has in turns: a best-effort job's turns are short. */
static uint32_t share_in_turns(const struct pacer *p, uint32_t share)
{
	bool is_short = p->priority == PRIORITY_OPPORTUNISTIC && share > GAP_TURN_SHARE;

	return is_short ? GAP_TURN_SHARE : share;
}

/*
 * Returns whether the job waits in a slot while it owes GPU time. Jobs with weights do not: the
 * order of their turns divides the device. Two kinds of them wait in slots all the same: a
 * best-effort job, and a job on several devices.
 */
static bool hold_has_slots(const struct pacer *p, uint64_t now, uint32_t share)
{
	if (p->policy != POLICY_WEIGHT)
		return true;
	return share != ACCOUNT_FULL_SHARE &&
	       (p->priority == PRIORITY_OPPORTUNISTIC || align_has_others(&p->align, now));
}

bool pacer_goes_on(const struct pacer *p, uint32_t share, uint64_t now)
{
	/* Other jobs may return at any time: as little work as possible is kept in flight. */
	uint64_t longest_ns = p->gap_is_sure ? p->longest_own_ns : p->longest_ns;
	uint64_t flying = busy_expected(p->busy, 0), length, paid;

	if (gap_binds(p) && longest_ns > p->gap_round_ns * 3 / 4)
		return false;
	if (!turn_is_contended(&p->turn, now))
		return share == ACCOUNT_FULL_SHARE;
	if (!turn_is_ours(&p->turn) || !share)
		return false;
	length = turn_length(&p->turn, now, share_in_turns(p, share));
	if (hold_has_slots(p, now, share) && turn_age(&p->turn, now) + flying >= length)
		return false;
	paid = atomic_load(p->paid_until) + flying * ACCOUNT_FULL_SHARE / share;
	return !turn_is_over(&p->turn, now, paid, length, p->landed_ns && !p->naps);
}

void pacer_tell_turn(struct pacer *p, uint64_t now)
{
	turn_tell(&p->turn, now, share_in_turns(p, p->share), p->policy,
	          atomic_load(p->paid_until));
}

void pacer_pass_turn(struct pacer *p, uint64_t now)
{
	uint64_t age = turn_age(&p->turn, now);

	if (turn_pass(&p->turn, now))
		event_note(.kind = EVENT_turn, .device = p->ordinal, .begin_ns = now - age,
		           .duration_ns = age);
}

/*
 * Returns whether a round may begin now. If not, the watcher is called, and wakes the waiting
 * launch.
 */
static bool gap_is_open(struct pacer *p, uint64_t now)
{
	if (!gap_binds(p))
		return true;
	atomic_store(&p->gap_wanted, now);
	if (now < p->gap_until)
		return true;
	watch_call();
	return false;
}

/* Returns the wait for the turn, no longer than until its holder may have lost it. */
static struct wait wait_for_turn(const struct pacer *p, uint64_t now)
{
	uint64_t until = turn_is_lost_at(&p->turn);

	if (until <= now || until > now + NAP_TURN_NS)
		until = now + NAP_TURN_NS;
	return (struct wait){TURN, until};
}

/* Returns the wait of the next round now. The lock is held, the last round closed. */
static struct wait next_wait(struct pacer *p, uint64_t now)
{
	struct wait wait = {NOTHING, 0};
	uint32_t share = pacer_share_now(p, now);
	bool alone;
	uint64_t end;

	if (!p->share) {
		turn_want(&p->turn, 0);
		return (struct wait){RESUME, now + TICK_NS};
	}
	p->turn.turns = p->priority == PRIORITY_GUARANTEED ? NULL : p->turns;
	pacer_tell_turn(p, now);
	if (!gap_is_open(p, now)) {
		if (waits_for_flight(p, 0, now, &wait) || busy_running(p->busy))
			return wait;
		pacer_pass_turn(p, now);
		turn_want(&p->turn, 0);
		return (struct wait){GAP, now + NAP_TURN_NS};
	}
	alone = !turn_is_contended(&p->turn, now);
	p->streams = pacer_goes_on(p, share, now);
	if (p->streams) {
		waits_for_flight(p, 1, now, &wait);
		if (wait.what == NOTHING && !turn_take(&p->turn, now))
			wait = wait_for_turn(p, now);
		return wait;
	}
	p->levels = align_is_behind(&p->align, now);
	if (p->levels) {
		p->one = !waits_for_flight(p, 1, now, &wait);
		return wait;
	}
	if (waits_for_flight(p, 0, now, &wait) || busy_running(p->busy))
		return wait;
	if (!alone)
		pacer_pass_turn(p, now);
	end = slot_end(p, now);
	if (!hold_has_slots(p, now, share))
		end = now;
	if (end > now) {
		if (align_helps(&p->align, now)) {
			if (!turn_take(&p->turn, now))
				return wait_for_turn(p, now);
			p->one = true;
			return wait;
		}
		turn_want(&p->turn, now);
		wait = (struct wait){SLOT, end < now + TICK_NS ? end : now + TICK_NS};
		/* A job that leaves lets it go on. */
		if (p->policy == POLICY_WEIGHT && end > now + NAP_TURN_NS)
			wait.until_ns = now + NAP_TURN_NS;
		if (align_has_others(&p->align, now) && end > now + NAP_HELP_NS)
			wait =
			    (struct wait){HELP, end < now + NAP_HELP_NS ? end : now + NAP_HELP_NS};
		return wait;
	}
	if (!turn_take(&p->turn, now))
		wait = wait_for_turn(p, now);
	return wait;
}

/* --- waiting --- */

/* Counts idle time. Threads that wait together wait once. */
static void count_idle(struct pacer *p, uint64_t began, uint64_t now)
{
	if (began < p->idle_until)
		began = p->idle_until;
	if (now > began)
		statistics_add(&p->statistics->idle_ns, now - began);
	p->idle_until = now;
}

/* Waits for the same, one after the other, are one slot. */
struct slot {
	enum wait_for what;
	uint64_t began_ns;
};

static const enum idle_reason idle_reason[] = {
    [RESUME] = IDLE_PAUSE, [SLOT] = IDLE_SHARE,   [HELP] = IDLE_SHARE,
    [TURN] = IDLE_TURN,    [GAP] = IDLE_PRIORITY,
};

static void note_slot(struct pacer *p, struct slot *slot, enum wait_for what, uint64_t now)
{
	if (idle_reason[what] == idle_reason[slot->what])
		return;
	if (idle_reason[slot->what])
		event_note(.kind = EVENT_slot, .device = p->ordinal, .begin_ns = slot->began_ns,
		           .duration_ns = now - slot->began_ns, .a = idle_reason[slot->what]);
	if (idle_reason[what] && now > p->idle_until)
		statistics_add(&p->statistics->idle_slots, 1);
	*slot = (struct slot){what, now};
}

/* The words that may change while a wait is chosen. */
struct words {
	uint32_t own, turns, lanes;
};

static struct words words_now(const struct pacer *p)
{
	return (struct words){
	    .own = atomic_load(&p->changed),
	    .turns = p->turns ? atomic_load(&p->turns->changed) : 0,
	    .lanes = p->lanes ? atomic_load(&p->lanes->changed) : 0,
	};
}

static void hold_wait_for(struct pacer *p, const struct wait *wait, const struct words *seen)
{
	if (wait->what == RESUME)
		statistics_set(&p->statistics->paused, 1);
	if (wait->what == TURN)
		clock_in_use->wait(&p->turns->changed, seen->turns, wait->until_ns);
	else if (wait->what == HELP)
		clock_in_use->wait(&p->lanes->changed, seen->lanes, wait->until_ns);
	else
		clock_in_use->wait(&p->changed, seen->own, wait->until_ns);
}

/*
 * Counts this thread among those that nap until the next round has room, or no more. The watcher
 * keeps the turn for them.
 */
static void hold_nap(struct pacer *p, bool *naps, bool is_napping)
{
	if (*naps != is_napping)
		atomic_fetch_add(&p->naps, is_napping ? 1 : -1);
	*naps = is_napping;
}

static void begin_round(struct pacer *p, uint64_t now)
{
	p->due = false;
	p->is_joint = align_has_others(&p->align, now);
	p->quantum_ns = quantum(p);
	align_go(&p->align);
}

bool pacer_hold_back(struct pacer *p, CUcontext context)
{
	struct slot slot = {NOTHING, 0};
	bool entered = true, naps = false;

	while (entered && p->due) {
		struct words seen = words_now(p);
		uint64_t now = clock_now();
		struct wait wait;

		pacer_close_round(p, context, now);
		pacer_settle(p, now);
		wait = next_wait(p, now);
		note_slot(p, &slot, wait.what, now);
		hold_nap(p, &naps, wait.what == ROOM);
		if (wait.what == NOTHING) {
			begin_round(p, now);
			break;
		}
		pacer_leave(p);
		hold_wait_for(p, &wait, &seen);
		entered = pacer_enter(p, false);
		/*
		 * The launch passes where the pacer cannot be entered, whatever the share is. Other
		 * threads that still wait set `paused` again.
		 */
		if (wait.what == RESUME && (!entered || p->share))
			statistics_set(&p->statistics->paused, 0);
		if (entered && idle_reason[wait.what])
			count_idle(p, now, clock_now());
	}
	hold_nap(p, &naps, false);
	note_slot(p, &slot, NOTHING, clock_now());
	return entered;
}
