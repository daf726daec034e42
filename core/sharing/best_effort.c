/* SPDX-License-Identifier: MIT */
/*
 * Best-effort jobs' decisions. Rules: peer records are written by other processes; none of their
 * words is waited for.
 */
#include "core/sharing/best_effort.h"

#include "core/config/config.h"

#define SECOND_NS 1000000000ull
#define NS_OF_MS  1000000ull
#define NS_OF_US  1000ull

#define ROUND_MOST_NS  (1 * NS_OF_MS)
#define ROUND_LEAST_NS (200 * NS_OF_US)
/* The most that the budget may save, and may lack. */
#define BUDGET_MOST_NS  (5 * NS_OF_MS)
#define BUDGET_LEAST_NS (-(int64_t)SECOND_NS)
/* Looks at other jobs: while a gap is filled, and the rarer the longer they work. */
#define LOOK_LEAST_NS (100 * NS_OF_US)
#define LOOK_MOST_NS  (500 * NS_OF_US)
/* A gap is left so long before it should end, and a 32nd of it. */
#define MARGIN_NS (300 * NS_OF_US)
/* The weight of a return's measured cost falls to 7/8 with each later return. */
#define COST_KEEPS (7.0 / 8)
/* The least that a job may take, with any report of losses. */
#define TAKES_LEAST 15625u
/*
 * While the last report of a guaranteed job is unsure, a best-effort job takes a tenth more each
 * time that so long has passed.
 */
#define TRIES_NS (30 * SECOND_NS)
/*
 * Time is cut into pieces. A best-effort job that may take a part of the time works in that part of
 * the pieces. For example, with a quarter it works in every fourth piece.
 */
#define PIECE_NS (10 * NS_OF_MS)
/* The longest that a launch is held where there are no gaps. */
#define TRICKLE_MOST_NS (60 * SECOND_NS)

static uint64_t best_effort_mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/*
 * Returns when all best-effort jobs stand still in the period of a time. Guaranteed jobs measure
 * their loss by comparing their work in that window with the work around it. The time follows from
 * the clock alone, so that all jobs find the same one.
 */
static uint64_t best_effort_off_at(uint64_t now_ns)
{
	uint64_t period = now_ns / BEST_EFFORT_PERIOD_NS;
	/* with as much before and behind it as it is long */
	uint64_t room = BEST_EFFORT_PERIOD_NS - 4 * BEST_EFFORT_OFF_NS;

	return period * BEST_EFFORT_PERIOD_NS + BEST_EFFORT_OFF_NS +
	       best_effort_mixed(period + 1) % room;
}

static bool is_off(uint64_t now_ns)
{
	uint64_t at = best_effort_off_at(now_ns);

	return now_ns >= at && now_ns < at + BEST_EFFORT_OFF_NS;
}

/* Returns whether it goes first: it has the higher priority, and its process is not frozen. */
static bool best_effort_goes_first(const struct peers_other *other, int priority)
{
	return !other->is_silent && other->record.priority > priority &&
	       other->record.priority <= PRIORITY_GUARANTEED;
}

/* --- feedback --- */

/* Returns whether this loss was not heard of before, and takes note. */
static bool best_effort_is_news(struct best_effort *f, const struct peer_record *record, int i)
{
	bool is_new =
	    f->heard[i].token != record->token || f->heard[i].number != record->loss_number;

	f->heard[i].token = record->token;
	f->heard[i].number = record->loss_number;
	return is_new;
}

/*
 * Takes the report of the worst-hit guaranteed job. A report of too much loss halves the time that
 * this job takes. Else it takes a tenth more: at once where each guaranteed job said last that it
 * bears its loss, and after TRIES_NS where one was unsure. Reports within half a period of the last
 * change are passed over, because they are about the time before it.
 */
static void hear(struct best_effort *f, const struct peers *peers, uint64_t now)
{
	bool is_too_much = false, is_unsure = false, is_any = false;
	uint64_t since;

	for (int i = 0; i < peers->count; i++) {
		const struct peer_record *record = &peers->other[i].record;
		int64_t loss = record->loss_ppm, error = record->loss_error_ppm;

		if (peers->other[i].is_silent || record->priority != PRIORITY_GUARANTEED ||
		    !record->loss_number)
			continue;
		is_unsure |= loss + error >= (int64_t)record->slowdown_ppm;
		if (!best_effort_is_news(f, record, i))
			continue;
		is_any = true;
		is_too_much |= loss - error > (int64_t)record->slowdown_ppm;
	}
	since = now - f->judged_ns;
	if (!is_any || since < BEST_EFFORT_PERIOD_NS / 2 ||
	    (is_unsure && !is_too_much && since < TRIES_NS))
		return;
	f->judged_ns = now;
	if (is_too_much)
		f->takes_ppm /= 2;
	else
		f->takes_ppm += f->takes_ppm / 10;
	if (f->takes_ppm < TAKES_LEAST)
		f->takes_ppm = TAKES_LEAST;
	if (f->takes_ppm > BEST_EFFORT_ALL)
		f->takes_ppm = BEST_EFFORT_ALL;
}

/* --- the budget --- */

/* Returns the allowed cost of returns, in millionths of the time. */
static uint64_t rate_of(const struct best_effort *f, const struct peers *peers, int priority)
{
	uint64_t least = BEST_EFFORT_ALL;

	for (int i = 0; i < peers->count; i++)
		if (best_effort_goes_first(&peers->other[i], priority) &&
		    peers->other[i].record.slowdown_ppm < least)
			least = peers->other[i].record.slowdown_ppm;
	return least / 2 * f->takes_ppm / BEST_EFFORT_ALL;
}

/* Returns the expected cost of a return: half of the work in flight, or more as it did lately. */
static int64_t cost_of_return(const struct best_effort *f, uint64_t round_ns, uint64_t longest_ns)
{
	uint64_t half = (round_ns > longest_ns ? round_ns : longest_ns) / 2 + BEST_EFFORT_SEEN_NS;

	return (int64_t)(half > f->cost_ns.value ? half : (uint64_t)f->cost_ns.value);
}

/*
 * Pays for a return, once the work in flight then is done: no more than its duration, as the device
 * may have done it in between.
 */
static void best_effort_pay(struct best_effort *f, uint64_t round_ns, uint64_t longest_ns,
                            uint64_t now)
{
	uint64_t most = round_ns > longest_ns ? round_ns : longest_ns;
	uint64_t took = now - f->returned_ns, late = f->late_ns + BEST_EFFORT_SEEN_NS / 2;
	uint64_t cost =
	    (took < most ? took : most) + (late > BEST_EFFORT_SEEN_NS ? late : BEST_EFFORT_SEEN_NS);

	f->returned_ns = 0;
	estimate_add(&f->cost_ns, (double)cost, COST_KEEPS);
	f->budget_ns -= (int64_t)cost;
	if (f->budget_ns < BUDGET_LEAST_NS)
		f->budget_ns = BUDGET_LEAST_NS;
}

static void refill(struct best_effort *f, uint64_t rate, int64_t cost, uint64_t now)
{
	uint64_t passed = now > f->budget_at_ns ? now - f->budget_at_ns : 0;
	int64_t most = (int64_t)BUDGET_MOST_NS > 2 * cost ? (int64_t)BUDGET_MOST_NS : 2 * cost;

	if (passed > 60 * SECOND_NS)
		passed = 60 * SECOND_NS;
	f->budget_ns += (int64_t)(passed * rate / BEST_EFFORT_ALL);
	f->budget_at_ns = now;
	if (f->budget_ns > most)
		f->budget_ns = most;
	/* over about four seconds */
	f->returns_ppm -= f->returns_ppm * (passed / 1024) / (4 * SECOND_NS / 1024 + passed / 1024);
}

static uint64_t best_effort_between(uint64_t least, uint64_t value, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Returns a round with which returns cost the allowed part. */
static uint64_t best_effort_round_of(const struct best_effort *f, uint64_t rate)
{
	uint64_t bearable = f->returns_ppm ? rate * SECOND_NS / f->returns_ppm : SECOND_NS;
	uint64_t round = bearable > BEST_EFFORT_SEEN_NS ? 2 * (bearable - BEST_EFFORT_SEEN_NS) : 0;

	return best_effort_between(ROUND_LEAST_NS, round, ROUND_MOST_NS);
}

/* --- gaps --- */

/* Returns when the first of the idle jobs should work again; 0: unknown. */
static uint64_t should_end(const struct peers *peers, int priority, uint64_t now)
{
	uint64_t first = 0;

	for (int i = 0; i < peers->count; i++) {
		const struct peer_record *record = &peers->other[i].record;
		uint64_t at = record->gap_since_ns + record->gap_ns;

		if (!best_effort_goes_first(&peers->other[i], priority) || !record->gap_ns ||
		    at < now)
			continue;
		if (!first || at < first)
			first = at;
	}
	return first;
}

/* Returns whether no job of higher rank works; *is_any: whether there is one. */
static bool is_gap(const struct peers *peers, int priority, uint64_t now, bool *is_any)
{
	bool gap = true;

	*is_any = false;
	for (int i = 0; i < peers->count; i++) {
		const struct peer_record *record = &peers->other[i].record;

		if (!best_effort_goes_first(&peers->other[i], priority))
			continue;
		*is_any = true;
		gap &=
		    record->working == PEER_IDLE && record->looked_ns + BEST_EFFORT_KNOWN_NS >= now;
	}
	return gap;
}

/* Returns after how long the first of the working jobs should end; most: unknown, or later. */
static uint64_t best_effort_ends_in(const struct peers *peers, int priority, uint64_t now,
                                    uint64_t most)
{
	for (int i = 0; i < peers->count; i++) {
		uint64_t at = peers->other[i].record.burst_ends_ns;

		if (best_effort_goes_first(&peers->other[i], priority) && at > now &&
		    at - now < most)
			most = at - now;
	}
	return most;
}

/* Decides while other jobs work. */
static struct best_effort_go wait_for_gap(struct best_effort *f, const struct peers *peers,
                                          int priority, uint64_t rate, uint64_t round,
                                          uint64_t longest, uint64_t now)
{
	uint64_t one = round > longest ? round : longest;
	uint64_t every = rate ? one * BEST_EFFORT_ALL / rate * 4 : TRICKLE_MOST_NS;
	uint64_t last = f->trickled_ns > f->since_ns ? f->trickled_ns : f->since_ns;
	struct best_effort_go go = {.round_ns = round};

	/* A job that works writes its record no more often than every 0.2 ms (heartbeat.c). */
	go.again_ns =
	    best_effort_between(2 * LOOK_LEAST_NS, (now - f->since_ns) / 128, LOOK_MOST_NS);
	go.again_ns = best_effort_between(
	    LOOK_LEAST_NS, best_effort_ends_in(peers, priority, now, LOOK_MOST_NS), go.again_ns);
	if (now - last >= best_effort_between(SECOND_NS / 20, every, TRICKLE_MOST_NS)) {
		f->trickled_ns = now;
		go.until_ns = now + LOOK_MOST_NS;
	}
	return go;
}

/* Decides in a gap. */
static struct best_effort_go best_effort_fill(const struct best_effort *f, uint64_t end,
                                              int64_t cost, uint64_t round, uint64_t longest,
                                              uint64_t now)
{
	uint64_t one = round > longest ? round : longest;
	struct best_effort_go go = {.round_ns = round, .again_ns = LOOK_LEAST_NS};
	uint64_t margin = MARGIN_NS + one + (end > now ? (end - now) / 32 : 0);

	if (best_effort_mixed(now / PIECE_NS) % BEST_EFFORT_ALL >= f->takes_ppm)
		return go;
	go.is_sure = f->budget_ns >= -2 * cost && end > now + margin;
	if (go.is_sure)
		go.until_ns = best_effort_between(now, end - margin, now + BEST_EFFORT_KNOWN_NS);
	else if (f->budget_ns >= cost)
		go.until_ns = now + BEST_EFFORT_KNOWN_NS;
	return go;
}

/* Takes note that a gap has begun or ended. */
static void turn_over(struct best_effort *f, bool gap, bool in_flight, uint64_t now)
{
	if (!gap && in_flight) {
		f->returned_ns = now;
		f->late_ns = now - f->looked_ns;
		f->returns_ppm += BEST_EFFORT_ALL / 4;
	}
	f->is_gap = gap;
	f->since_ns = now;
}

struct best_effort_go best_effort_decide(struct best_effort *f, const struct peers *peers,
                                         const struct best_effort_now *own, uint64_t now_ns)
{
	bool is_any, gap = is_gap(peers, own->priority, now_ns, &is_any);
	uint64_t rate, round;
	int64_t cost;

	if (!f->has_begun)
		*f = (struct best_effort){.has_begun = true,
		                          .budget_at_ns = now_ns,
		                          .since_ns = now_ns,
		                          .is_gap = gap,
		                          .takes_ppm = BEST_EFFORT_ALL};
	if (!is_any)
		return (struct best_effort_go){.until_ns = now_ns + BEST_EFFORT_KNOWN_NS,
		                               .round_ns = 2 * ROUND_MOST_NS,
		                               .again_ns = BEST_EFFORT_KNOWN_NS / 2};
	hear(f, peers, now_ns);
	rate = rate_of(f, peers, own->priority);
	round = best_effort_round_of(f, rate);
	cost = cost_of_return(f, round, own->longest_ns);
	refill(f, rate, cost, now_ns);
	if (f->returned_ns && (!own->in_flight || gap))
		best_effort_pay(f, round, own->longest_ns, now_ns);
	if (gap != f->is_gap)
		turn_over(f, gap, own->in_flight, now_ns);
	f->looked_ns = now_ns;
	if (is_off(now_ns))
		return (struct best_effort_go){.round_ns = round, .again_ns = LOOK_MOST_NS};
	if (!gap)
		return wait_for_gap(f, peers, own->priority, rate, round, own->longest_ns, now_ns);
	return best_effort_fill(f, should_end(peers, own->priority, now_ns), cost, round,
	                        own->longest_ns, now_ns);
}

/* Looks that are farther apart say nothing of a border between them. */
#define APART_NS (BEST_EFFORT_OFF_NS / 4)
/* A pair counts for 63/64 of that after each next one. */
#define FADES (63.0 / 64)
/* So many pairs give a loss. So many say that it is too much. */
#define PAIRS_LEAST     4
#define PAIRS_TO_ACCUSE 12
/*
 * Standard deviations within which a loss is said to be. They are many, because the loss is looked
 * at again and again. They are more where few pairs are known: pairs look alike by chance if the
 * job's bursts are longer than a window.
 */
static double deviations(double pairs)
{
	return 4 + 30 / pairs;
}

/* The error of a job's figure before much is known. */
#define ERROR_MOST 10000000.0

enum { BORDERS = 4, GAPS_LEAST = 4 };

/* --- the loss --- */

static void add_pair(struct feedback *f)
{
	double off = f->border[2] - f->border[1];
	double on = (f->border[1] - f->border[0] + f->border[3] - f->border[2]) / 2;

	estimate_add(&f->off, off, FADES);
	estimate_add(&f->lost, off - on, FADES);
}

static bool feedback_tell(const struct feedback *f, struct feedback_loss *loss)
{
	double off = f->off.value, pairs = f->off.weight,
	       per_second = 1e12 / (double)BEST_EFFORT_OFF_NS;
	double mean, error;

	if (pairs < PAIRS_LEAST || off <= 0)
		return false;
	error = 1e6 * deviations(pairs) * estimate_error(&f->lost) / off;
	if (error < 1e6 / (off * pairs))
		error = 1e6 / (off * pairs); /* a launch more or less */
	if (error > ERROR_MOST)
		error = ERROR_MOST;
	mean = 1e6 * f->lost.value / off;
	*loss = (struct feedback_loss){
	    .loss_ppm = (int32_t)(mean < -ERROR_MOST ? -ERROR_MOST : mean),
	    .error_ppm = (uint32_t)error,
	    .alone = (uint64_t)(off * per_second),
	    .now = (uint64_t)((off - f->lost.value) * per_second),
	};
	return true;
}

static uint64_t border_at(const struct feedback *f, int i)
{
	return f->off_at_ns + (uint64_t)i * BEST_EFFORT_OFF_NS - BEST_EFFORT_OFF_NS;
}

bool feedback_look(struct feedback *f, uint64_t now_ns, uint64_t count, uint32_t bearable_ppm,
                   struct feedback_loss *loss)
{
	uint64_t off_at = best_effort_off_at(now_ns);
	bool is_told = false, is_much, is_borne;

	if (f->off_at_ns != off_at) {
		f->off_at_ns = off_at;
		f->passed = 0;
		f->is_spoilt = now_ns >= border_at(f, 0) || !f->last_ns;
	}
	for (; f->passed < BORDERS && border_at(f, f->passed) <= now_ns; f->passed++) {
		uint64_t at = border_at(f, f->passed), apart = now_ns - f->last_ns;

		f->is_spoilt |= f->last_ns > at || apart > APART_NS || count < f->last;
		if (!f->is_spoilt)
			f->border[f->passed] = (double)f->last + (double)(count - f->last) *
			                                             (double)(at - f->last_ns) /
			                                             (double)(apart ? apart : 1);
		if (f->passed == BORDERS - 1 && !f->is_spoilt) {
			add_pair(f);
			is_told = feedback_tell(f, loss);
		}
	}
	f->last_ns = now_ns;
	f->last = count;
	if (!is_told)
		return false;
	is_much = loss->loss_ppm - (int64_t)loss->error_ppm > bearable_ppm;
	is_borne = loss->loss_ppm + (int64_t)loss->error_ppm < bearable_ppm;
	if (is_much && f->off.weight < PAIRS_TO_ACCUSE)
		return false;
	/*
	 * Best-effort jobs take less, or more, from now on: earlier observations tell nothing of
	 * that.
	 */
	if (is_much || is_borne)
		f->off = f->lost = (struct estimate){0};
	return true;
}

/* --- gaps --- */

uint64_t gaps_expect(const struct gaps *gaps, uint64_t age_ns)
{
	uint64_t first = UINT64_MAX, second = UINT64_MAX;
	int known = gaps->count < GAPS_KEPT ? (int)gaps->count : GAPS_KEPT, longer = 0;

	for (int i = 0; i < known; i++) {
		uint64_t length = gaps->length_ns[i];

		if (length <= age_ns)
			continue;
		longer++;
		if (length < first) {
			second = first;
			first = length;
		} else if (length < second) {
			second = length;
		}
	}
	if (known < GAPS_LEAST || !longer)
		return 0;
	return longer >= GAPS_LEAST ? second : first;
}
