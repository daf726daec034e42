/* SPDX-License-Identifier: MIT */
/*
 * Turns. Rules: the table is written by other processes; none of its words is an index, a size or a
 * reason to wait.
 */
#include "core/pace/turn.h"

#include "core/config/config.h"
#include "core/pace/account.h"
#include "core/base/clock.h"

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

void turn_tell(struct turn *turn, uint64_t now_ns, uint32_t share, int policy, uint64_t paid_until)
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

bool turn_is_over(const struct turn *turn, uint64_t now_ns, uint64_t paid_until, uint64_t length_ns,
                  bool is_idle)
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

uint64_t turn_age(const struct turn *turn, uint64_t now_ns)
{
	uint64_t began = takes_part(turn) ? LOAD(turn->turns->began_ns) : now_ns;

	return began < now_ns ? now_ns - began : 0;
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

uint32_t turn_weighted(const struct turn *turn, uint64_t now_ns, uint32_t share)
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

uint64_t turn_length(const struct turn *turn, uint64_t now_ns, uint32_t share)
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

uint64_t turn_is_lost_at(const struct turn *turn)
{
	uint64_t holder = LOAD(turn->turns->holder);
	const struct turn_lane *lane = holder ? lane_of(turn->turns, holder) : NULL;

	if (!holder)
		return LOAD(turn->turns->began_ns) + TURN_CLAIM_NS;
	return lane ? LOAD(lane->seen_ns) + TURN_SILENCE_NS : 0;
}

bool turn_take(struct turn *turn, uint64_t now_ns)
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

void turn_want(struct turn *turn, uint64_t now_ns)
{
	if (takes_part(turn) && (!now_ns || !LOAD(turn->lane->wants_ns)))
		STORE(turn->lane->wants_ns, now_ns);
}

bool turn_pass(struct turn *turn, uint64_t now_ns)
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
