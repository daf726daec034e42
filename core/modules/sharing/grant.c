/* SPDX-License-Identifier: MIT */
/* Grants. A pure function of peer records, time and earlier decisions. */
#include "core/modules/sharing/grant.h"

#include <string.h>

#include "core/config/config.h"
#include "core/modules/sharing/bytes.h"

/* Of the contexts in a peer record no more counts than a part of the device; of all a quarter. */
enum { MARGIN_PART = 32, CONTEXT_PART = 16, CONTEXTS_PART = 4 };

/*
 * A job that has more than its part by less than a 32nd of it keeps that. A job that lacks less
 * than half as much does not claim it. So chunks are not moved to and fro for less. For example,
 * with a part of 64 GiB a job keeps up to 2 GiB more, and claims from 1 GiB.
 */
enum { EVEN_PART = 32 };

/* --- adding up --- */

static struct job_sum *grant_sum_of(struct job_sums *sums, uid_t owner, uint64_t job)
{
	for (int i = 0; i < sums->count; i++)
		if (sums->of[i].owner == owner && sums->of[i].job == job)
			return &sums->of[i];
	sums->of[sums->count] =
	    (struct job_sum){.owner = owner, .job = job, .is_idle = true, .is_silent = true};
	return &sums->of[sums->count++];
}

static bool asks_before(const struct peer_record *a, const struct peer_record *b)
{
	return !b || a->claim_since_ns < b->claim_since_ns ||
	       (a->claim_since_ns == b->claim_since_ns && a->token < b->token);
}

static void grant_add(struct job_sums *sums, const struct peer_record *record, uid_t owner,
                      bool is_silent)
{
	struct job_sum *sum = grant_sum_of(sums, owner, record->job);

	sums->contexts += least(record->context, sums->memory / CONTEXT_PART);
	if (record->priority > sum->priority)
		sum->priority = record->priority <= PRIORITY_GUARANTEED ? record->priority : 0;
	sum->limit = record->limit > sum->limit ? record->limit : sum->limit;
	sum->held = plus(sum->held, record->held);
	sum->movable = plus(sum->movable, record->movable);
	sum->on_host = plus(sum->on_host, record->on_host);
	if (record->keeps > sum->keeps) {
		sum->keeps = record->keeps;
		sum->keeps_for_ns = record->keeps_for_ns;
	}
	sum->beat_ns = record->beat_ns > sum->beat_ns ? record->beat_ns : sum->beat_ns;
	if (record->link && (!sum->link || record->link < sum->link))
		sum->link = record->link;
	if (record->cooldown_until_ns > sum->cooldown_until_ns)
		sum->cooldown_until_ns = record->cooldown_until_ns;
	sum->is_idle &= record->idle_since_ns != 0;
	if (record->idle_since_ns > sum->idle_since_ns)
		sum->idle_since_ns = record->idle_since_ns;
	sum->is_silent &= is_silent;
	if (!record->claim || is_silent)
		return;
	sum->claim = plus(sum->claim, record->claim);
	sum->must |= record->claim_must_be_on_device != 0;
	if (asks_before(record, sum->asks)) {
		sum->asks = record;
		sum->claim_since_ns = record->claim_since_ns;
	}
}

/*
 * Adds the peer records of a device of so much memory up; own: this process's, of user `owner`; its
 * job comes first.
 */
static void job_sums_make(struct job_sums *sums, uint64_t memory, const struct peer_record *own,
                          uid_t owner, const struct peers *others)
{
	sums->count = 0;
	sums->memory = memory;
	sums->contexts = 0;
	sums->peers = 1 + others->count;
	grant_add(sums, own, owner, false);
	sums->of[0].is_own = true;
	for (int i = 0; i < others->count; i++)
		grant_add(sums, &others->other[i].record, others->other[i].owner,
		          others->other[i].is_silent);
}

/* --- entitlements --- */

static uint64_t demand(const struct job_sum *job)
{
	uint64_t all = plus(job->held, job->on_host);

	return job->is_idle ? 0 : plus(all, minus(job->claim, job->on_host));
}

static bool grant_is_limited(const struct job_sum *job)
{
	return job->limit != CONFIG_UNLIMITED;
}

/*
 * Returns the part that each job of a class without a limit may have, so that together they have
 * the rest. A job that needs less leaves its remainder to the other jobs. For example, of 12 GiB
 * for demands of 2, 8 and 8 GiB the part is 5 GiB.
 */
static uint64_t equal_part(const struct job_sums *sums, uint8_t priority, uint64_t left)
{
	uint64_t part = 0, before;

	do {
		uint64_t rest = left, count = 0;

		before = part;
		for (int i = 0; i < sums->count; i++) {
			const struct job_sum *job = &sums->of[i];

			if (job->priority != priority || grant_is_limited(job) || job->is_idle)
				continue;
			if (before && demand(job) < before)
				rest = minus(rest, demand(job));
			else
				count++;
		}
		part = count ? rest / count : left;
		if (!count)
			break;
	} while (part > before);
	return part > before ? part : before;
}

/* Entitles one class to the memory that the classes before it have left. Returns the rest. */
static uint64_t sums_entitle(struct job_sums *sums, uint8_t priority, uint64_t left)
{
	uint64_t limited = 0, used = 0, part, with_margin;

	for (int i = 0; i < sums->count; i++) {
		struct job_sum *job = &sums->of[i];

		if (job->priority != priority || !grant_is_limited(job))
			continue;
		job->entitled = job->part = least(job->limit, left);
		limited = plus(limited, least(job->entitled, demand(job)));
	}
	part = equal_part(sums, priority, minus(left, limited));
	with_margin = equal_part(sums, priority, minus(plus(left, sums->margin), limited));
	for (int i = 0; i < sums->count; i++) {
		struct job_sum *job = &sums->of[i];

		if (job->priority != priority || grant_is_limited(job))
			continue;
		job->entitled = part;
		job->part = with_margin;
		used = plus(used, least(part, demand(job)));
	}
	return minus(left, plus(limited, used));
}

/* Finds the entitlement of each job. */
static void job_sums_entitle(struct job_sums *sums)
{
	uint64_t left;

	sums->margin =
	    more(sums->memory / MARGIN_PART, least(sums->contexts, sums->memory / CONTEXTS_PART));
	left = minus(sums->memory, sums->margin);
	for (int priority = PRIORITY_GUARANTEED; priority >= PRIORITY_OPPORTUNISTIC; priority--)
		left = sums_entitle(sums, (uint8_t)priority, left);
}

/*
 * Returns the bytes in use beyond the margin that no peer record accounts for, where so much is
 * free. Other processes hold them that have no peer record yet, or have not written their memory.
 */
static uint64_t job_sums_unaccounted(const struct job_sums *sums, uint64_t free)
{
	uint64_t told = plus(free, sums->margin);

	for (int i = 0; i < sums->count; i++)
		told = plus(told, sums->of[i].held);
	return minus(sums->memory, told);
}

/* Returns the bytes that a job holds beyond its entitlement. */
static uint64_t job_sum_borrows(const struct job_sum *job)
{
	return minus(job->held, job->entitled);
}

/* Returns the bytes on the host that a job may claim. */
static uint64_t job_sum_lacks(const struct job_sum *job)
{
	uint64_t owed = minus(job->entitled, job->held), lacks = minus(job->part, job->held);

	return owed < LEAST_BYTES && lacks > job->part / EVEN_PART / 2 ? lacks : owed;
}

/*
 * Returns the bytes that an equal gives to a job that has its entitlement, and lacks of its part.
 */
static uint64_t evens_out(const struct job_sum *job, const struct job_sum *to)
{
	uint64_t above = minus(job->held, job->part);

	if (job->is_idle || job->priority != to->priority || above <= job->part / EVEN_PART)
		return 0;
	return least(above, job->movable);
}

/* Returns the bytes that a job must give when `to` claims them. */
static uint64_t job_sum_yields(const struct job_sum *job, const struct job_sum *to, uint64_t now_ns)
{
	bool is_cooling_down = job->cooldown_until_ns > now_ns && job->priority >= to->priority;

	/*
	 * Memory that has just changed hands goes to a higher priority alone, and borrowed memory
	 * to a call that would be refused.
	 */
	if (job == to || (is_cooling_down && !to->must))
		return 0;
	if (minus(to->entitled, to->held) < LEAST_BYTES && !to->must)
		return evens_out(job, to);
	if (!is_cooling_down && (job->is_idle || job->priority < to->priority))
		return least(job->held, job->movable);
	return least(job_sum_borrows(job), job->movable);
}

/* Returns the rank of the giver: borrowers, idle jobs, lower priority. */
static int rank_of(const struct job_sum *job, const struct job_sum *to)
{
	if (job->is_idle)
		return 1;
	return job->priority < to->priority && !grant_is_limited(job) ? 2 : 0;
}

/* Returns whether the first is asked before the second when `to` claims. */
static bool job_sum_gives_first(const struct job_sum *a, const struct job_sum *b,
                                const struct job_sum *to)
{
	if (rank_of(a, to) != rank_of(b, to))
		return rank_of(a, to) < rank_of(b, to);
	if (a->priority != b->priority)
		return a->priority < b->priority;
	if (job_sum_borrows(a) != job_sum_borrows(b))
		return job_sum_borrows(a) > job_sum_borrows(b);
	return a->job < b->job;
}

#define SECOND_NS 1000000000ull

static bool is_lapsed(const struct granted *g, const struct job_sum *job, uint64_t now)
{
	for (int i = 0; i < GRANT_LAPSED; i++)
		if (job_is(job, &g->lapsed[i].job) && now < g->lapsed[i].until_ns)
			return true;
	return false;
}

/* Passes a job's claims over for a while; the oldest of those that are passed over makes room. */
static void lapse(struct granted *g, const struct job_sum *job, uint64_t until)
{
	int at = 0;

	for (int i = 1; i < GRANT_LAPSED; i++)
		if (g->lapsed[i].until_ns < g->lapsed[at].until_ns)
			at = i;
	g->lapsed[at].job = job_key_of(job);
	g->lapsed[at].until_ns = until;
}

static bool grant_goes_first(const struct job_sum *a, const struct job_sum *b)
{
	if (!b || a->priority != b->priority)
		return !b || a->priority > b->priority;
	if (a->claim_since_ns != b->claim_since_ns)
		return a->claim_since_ns < b->claim_since_ns;
	return a->job != b->job ? a->job < b->job : a->owner < b->owner;
}

/*
 * Returns how long a grant of so much may last for jobs that only look on, by the link as they know
 * it.
 */
static uint64_t grant_lasts(const struct job_sums *sums, uint64_t bytes)
{
	return 2 * (patience_ns(least(bytes, sums->memory), sums->of[0].link) + SECOND_NS +
	            GRANT_SILENCE_NS * (uint64_t)sums->peers);
}

/*
 * Takes care that no claim counts as older than the look before it was first seen, with any date in
 * its peer record; looked_ns: when that was.
 */
static void granted_date(struct granted *g, struct job_sums *sums, uint64_t looked_ns)
{
	struct claim_met met[PEERS_MAX + 1] = {0};
	int count = 0;

	for (int i = 0; i < sums->count; i++) {
		struct job_sum *job = &sums->of[i];
		struct claim_met *now = &met[count];

		if (!job->asks)
			continue;
		*now = (struct claim_met){job_key_of(job), job->claim_since_ns,
		                          more(job->claim_since_ns, looked_ns)};
		for (int k = 0; k < g->met_count; k++)
			if (job_is(job, &g->met[k].job) && g->met[k].since_ns == now->since_ns)
				*now = g->met[k];
		job->claim_since_ns = now->from_ns;
		count++;
	}
	memcpy(g->met, met, (size_t)count * sizeof *met);
	g->met_count = count;
}

/*
 * Returns the job that has the grant; NULL: no job claims. One that has had the grant for longer
 * than a move of so much may take is passed over.
 */
static const struct job_sum *granted_find(struct granted *g, const struct job_sums *sums,
                                          uint64_t now, bool may_judge_silence)
{
	const struct job_sum *first = NULL;

	for (int i = 0; i < sums->count; i++) {
		const struct job_sum *job = &sums->of[i];
		bool is_heard = job->is_own || !may_judge_silence ||
		                (job->asks && granted_is_heard(now, job->asks->beat_ns));

		if (job->asks && is_heard && !is_lapsed(g, job, now) &&
		    grant_goes_first(job, first))
			first = job;
	}
	if (!first) {
		g->bytes = 0;
		return NULL;
	}
	if (!g->bytes || !job_is(first, &g->job)) {
		g->job = job_key_of(first);
		g->at_ns = now;
		g->bytes = 0;
	}
	g->bytes = more(g->bytes, first->claim);
	if (first->is_own || now - g->at_ns <= grant_lasts(sums, g->bytes))
		return first;
	lapse(g, first, now + cooldown_ns(least(g->bytes, sums->memory), sums->of[0].link));
	g->bytes = 0;
	return granted_find(g, sums, now, may_judge_silence);
}

static const struct {
	const char *name, *text;
} words[CLAIM_WAITS] = {
    [CLAIM_NONE] = {"none", "it does not"},
    [CLAIM_IS_MET] = {"met", "other jobs are making room for it"},
    [CLAIM_OTHERS] = {"others", "another job's claim is met first"},
    [CLAIM_COOLDOWN] =
        {"cooldown",
         "memory has just moved between jobs, and stays for ten times as long as that took"},
    [CLAIM_NOBODY] = {"nobody", "no job that could give memory borrows any or is idle"},
    [CLAIM_BEYOND] = {"beyond", "the job is not entitled to more of the GPU"},
};

const char *claim_wait_name(enum claim_wait why)
{
	return why < CLAIM_WAITS ? words[why].name : "unknown";
}

const char *claim_wait_text(enum claim_wait why)
{
	return why < CLAIM_WAITS ? words[why].text : "for a reason that this version does not know";
}

/* How long a claim waits for given memory to arrive, and then before it is raised again. */
#define SETTLE_NS (SECOND_NS / 2)
/* A job that holds memory tells so within this time, whenever it started. */
#define UNACCOUNTED_NS SECOND_NS
#define REFUSED_LEAST  (SECOND_NS / 2)
#define REFUSED_MOST   (30 * SECOND_NS)

/* One look at the peer records. */
struct look {
	struct grant *g;
	const struct grant_needs *needs;
	struct peer_record *own;
	struct job_sums sums;
	struct job_sum *job; /* the own one */
	const struct job_sum *granted;
	struct grant_answer *answer;
	bool may_judge_silence;
	uint64_t unaccounted; /* bytes in use of which no peer record tells */
};

/* --- the own claim --- */

static bool is_heard(const struct look *l, uint64_t beat, uint64_t since)
{
	return !l->may_judge_silence || granted_is_heard(l->needs->now_ns, more(beat, since));
}

static bool grant_is_done(const struct grant *g, const struct job_sum *job)
{
	for (int i = 0; i < g->done_count; i++)
		if (job_is(job, &g->done[i]))
			return true;
	return false;
}

static const struct job_sum *next_to_ask(const struct look *l)
{
	const struct job_sum *first = NULL;

	for (int i = 1; i < l->sums.count; i++) {
		const struct job_sum *job = &l->sums.of[i];

		if (job->is_silent || grant_is_done(l->g, job) ||
		    job_sum_yields(job, l->job, l->needs->now_ns) < LEAST_BYTES)
			continue;
		if (!first || job_sum_gives_first(job, first, l->job))
			first = job;
	}
	return first;
}

static void grant_stop_asking(struct look *l)
{
	l->g->asked_ns = 0;
	l->own->asks_job = l->own->asks_owner = 0;
	l->own->asks_down_to = UINT64_MAX;
}

/* Returns the job that is asked; NULL: none is, or it has gone. */
static const struct job_sum *asked_now(const struct look *l)
{
	for (int i = 1; l->g->asked_ns && i < l->sums.count; i++)
		if (job_is(&l->sums.of[i], &l->g->asked))
			return &l->sums.of[i];
	return NULL;
}

/*
 * Looks at the memory that the asked job has given so far. A job that has given some in time may be
 * asked again, as the claim may have grown.
 */
static void look_at_asked(struct look *l)
{
	struct grant *g = l->g;
	const struct job_sum *asked = asked_now(l);
	uint64_t now = l->needs->now_ns, given, patience, keeps;
	bool is_short;

	given = asked ? minus(g->asked_held, asked->held) : g->asked_bytes;
	patience = patience_ns(g->asked_bytes, asked ? asked->link : 0) + GRANT_SILENCE_NS;
	keeps = asked && asked->keeps_for_ns == g->since_ns ? asked->keeps : 0;
	is_short = asked && asked->held > more(l->own->asks_down_to, keeps);
	if (is_short && now - g->asked_ns <= patience && is_heard(l, asked->beat_ns, g->asked_ns))
		return;
	g->was_short |= is_short;
	g->given += given;
	if ((is_short || given < LEAST_BYTES) && g->done_count < PEERS_MAX)
		g->done[g->done_count++] = g->asked;
	grant_stop_asking(l);
}

/* Returns the bytes that the asked job and those before it have freed. */
static uint64_t given_so_far(const struct look *l)
{
	const struct job_sum *asked = asked_now(l);

	return l->g->given + (asked ? minus(l->g->asked_held, asked->held) : 0);
}

static void grant_ask(struct look *l, const struct job_sum *job, uint64_t bytes)
{
	struct grant *g = l->g;

	g->asked = job_key_of(job);
	g->asked_ns = l->needs->now_ns;
	g->asked_bytes = least(job_sum_yields(job, l->job, l->needs->now_ns), bytes);
	g->asked_held = job->held;
	l->own->asks_job = job->job;
	l->own->asks_owner = job->owner;
	l->own->asks_down_to = job->held - g->asked_bytes;
	l->answer->tells = true;
}

/* Asks the asked job for the growth of the claim meanwhile. */
static void ask_for_more(struct look *l, uint64_t need)
{
	const struct job_sum *asked = asked_now(l);
	uint64_t bytes = asked ? job_sum_yields(asked, l->job, l->needs->now_ns) : 0;
	uint64_t down_to = asked ? asked->held - least(bytes, need) : UINT64_MAX;

	if (minus(l->own->asks_down_to, down_to) < LEAST_BYTES)
		return;
	l->g->asked_bytes += l->own->asks_down_to - down_to;
	l->own->asks_down_to = down_to;
	l->answer->tells = true;
}

/* Ends the claim: it is met, or no job is left to meet it. */
static void end_claim(struct look *l, bool is_met)
{
	struct grant *g = l->g;
	uint64_t now = l->needs->now_ns, took = minus(l->job->held, g->held_then);

	g->given = g->began_ns ? given_so_far(l) : 0;
	if (g->asked_ns)
		grant_stop_asking(l);
	if (took && g->given)
		l->own->cooldown_until_ns =
		    more(l->own->cooldown_until_ns,
		         now + cooldown_ns(least(took, g->given), l->job->link));
	g->refused_for_ns = is_met || took >= LEAST_BYTES || g->was_short
	                        ? 0
	                        : least(more(REFUSED_LEAST, 2 * g->refused_for_ns), REFUSED_MOST);
	g->refused_until_ns = is_met ? now : now + more(g->refused_for_ns, REFUSED_LEAST);
	g->unaccounted = is_met ? g->unaccounted : l->unaccounted;
	l->answer->took = least(took, g->given);
	l->answer->must_is_decided = true;
	l->answer->was_short = g->was_short && !is_met;
	l->answer->has_room = true;
	l->answer->tells = true;
	g->since_ns = 0;
	l->own->claim = l->own->claim_since_ns = 0;
	l->own->claim_must_be_on_device = 0;
}

/*
 * Returns whether memory is in use that no record accounts for, and processes that start or were
 * not run lately may account for it yet. Memory that was not accounted for within that time is not
 * expected to be.
 */
static bool may_be_told_yet(const struct look *l)
{
	const struct grant *g = l->g;

	return l->needs->must && l->unaccounted > g->unaccounted &&
	       (!g->since_ns || l->needs->now_ns - g->since_ns <= UNACCOUNTED_NS);
}

/* Drives the claim while it is the one that is met. */
static void drive(struct look *l)
{
	struct grant *g = l->g;
	uint64_t now = l->needs->now_ns, given, came, need;
	const struct job_sum *next;

	/* Processes that claim at the same time are to see each other first. */
	if (now - g->since_ns < GRANT_TICK_NS)
		return;
	if (!g->began_ns) {
		g->began_ns = now;
		g->held_then = l->job->held;
		g->movable_then = l->job->movable;
		g->given = g->seen_sum = g->was_short = 0;
		g->done_count = 0;
	}
	if (g->asked_ns)
		look_at_asked(l);
	given = given_so_far(l);
	/*
	 * Memory for a move on its way has not come; memory that a call took is gone for the next.
	 */
	came = l->needs->must ? minus(l->job->held, g->held_then)
	                      : minus(l->job->movable, g->movable_then);
	if (given + came != g->seen_sum) {
		l->answer->has_room |= given > came;
		g->seen_sum = given + came;
		g->seen_ns = now;
	}
	need = minus(l->job->claim, minus(given, came));
	if (l->needs->must && minus(given, came) >= l->needs->must)
		l->answer->must_is_decided = true;
	if (l->needs->tries)
		need = 0;
	if (g->asked_ns) {
		ask_for_more(l, need);
		return;
	}
	next = need >= LEAST_BYTES ? next_to_ask(l) : NULL;
	if (next)
		grant_ask(l, next, need);
	else if (now - more(g->seen_ns, g->began_ns) > (given > came ? SETTLE_NS : 0) &&
	         !may_be_told_yet(l))
		end_claim(l, need < LEAST_BYTES);
}

/* Returns the bytes that this process claims. */
static uint64_t wanted(const struct look *l)
{
	const struct grant_needs *n = l->needs;
	uint64_t bytes = 0;
	bool is_raised = l->g->since_ns != 0;

	if (n->must)
		return n->must;
	/* A raised claim stands until all of it is there, in any way. */
	if ((n->is_blocked || is_raised) && !l->job->is_idle)
		bytes = least(l->own->on_host, job_sum_lacks(l->job));
	return bytes >= LEAST_BYTES ? bytes : 0;
}

/* Returns why memory on the host stays there. */
static enum claim_wait why_it_waits(const struct look *l, uint64_t bytes)
{
	const struct grant *g = l->g;
	uint64_t now = l->needs->now_ns;

	if (g->since_ns)
		return l->granted == l->job ? CLAIM_IS_MET : CLAIM_OTHERS;
	if (!l->own->on_host || !l->needs->is_blocked || l->job->is_idle)
		return CLAIM_NONE;
	if (now < g->takes_after_ns)
		return CLAIM_COOLDOWN;
	return bytes && l->job->held < l->job->entitled ? CLAIM_NOBODY : CLAIM_BEYOND;
}

/* Raises the claim, changes or withdraws it; before the holder of the grant is known. */
static void poll_claim(struct look *l)
{
	struct grant *g = l->g;
	uint64_t now = l->needs->now_ns, bytes = wanted(l);

	if (!bytes) {
		if (g->since_ns)
			end_claim(l, true);
		return;
	}
	if (!g->since_ns) {
		bool may = l->needs->must ? !l->needs->tries
		                          : (l->sums.count > 1 && now >= g->takes_after_ns &&
		                             now >= g->refused_until_ns);

		g->done_count = 0;
		/* There is no job to ask: the waiting call is refused as it would be alone. */
		if (!may || (!next_to_ask(l) && !may_be_told_yet(l))) {
			g->refused_until_ns = may ? now + REFUSED_LEAST : g->refused_until_ns;
			l->answer->must_is_decided = true;
			return;
		}
		g->since_ns = now;
		g->began_ns = g->asked_ns = 0;
		l->answer->tells = true;
	}
	l->own->claim = bytes;
	l->own->claim_since_ns = g->since_ns;
	l->own->claim_must_be_on_device = l->needs->must != 0;
	l->job->claim = more(l->job->claim, bytes);
	if (!l->job->asks || l->job->asks == l->own) {
		l->job->asks = l->own;
		l->job->claim_since_ns = g->since_ns;
	}
}

/* --- giving --- */

/* Returns whether memory that was under way when giving ended has left; freed memory has not. */
static bool has_left_since(const struct look *l)
{
	const struct grant *g = l->g;

	return l->needs->now_ns < g->settles_until_ns &&
	       least(minus(g->gives_from, l->job->held), minus(l->job->on_host, g->on_host_then)) >=
	           LEAST_BYTES;
}

/* Ends giving: given memory does not come back for a while. */
static void end_giving(struct look *l)
{
	struct grant *g = l->g;
	uint64_t now = l->needs->now_ns, gave = minus(g->gives_from, l->job->held);

	g->settles_until_ns = g->gives ? now + SETTLE_NS : g->settles_until_ns;
	g->gives = false;
	g->bound = g->gives_from = l->job->held; /* memory that has not gone by now stays */
	g->on_host_then = l->job->on_host;
	l->own->keeps = 0;
	if (gave < LEAST_BYTES)
		return;
	g->gave_idle = l->job->is_idle;
	/* Memory that was given piece by piece counts as a whole. */
	g->takes_after_ns = least(more(now, g->takes_after_ns) + cooldown_ns(gave, l->job->link),
	                          now + COOLDOWN_MOST);
	l->own->yielded += gave;
	l->answer->gave += gave;
}

/* Gives the asked memory, as far as it is to. Returns whether it is asked. */
static bool grant_give(struct look *l)
{
	struct grant *g = l->g;
	const struct job_sum *to = l->granted;
	uint64_t yields, since;

	if (!to || to->is_own || to->asks->asks_job != l->job->job ||
	    to->asks->asks_owner != l->job->owner)
		return false;
	since = to->asks->claim_since_ns;
	if (g->gives && g->gives_for_ns != since)
		end_giving(l);
	if (!g->gives) {
		g->gives = true;
		g->gives_for_ns = since;
		g->gives_from = l->job->held;
		g->bound = l->job->held;
	}
	yields = job_sum_yields(l->job, to, l->needs->now_ns);
	g->bound = least(l->job->held, more(to->asks->asks_down_to, minus(l->job->held, yields)));
	/* Memory that cannot move is no part of the answer. */
	l->own->keeps = more(g->bound, minus(l->job->held, l->job->movable));
	l->own->keeps_for_ns = since;
	return true;
}

/* Returns the bytes that the job may hold while it neither gives nor has the grant. */
static uint64_t stand_still(struct look *l)
{
	struct grant *g = l->g;
	const struct job_sum *to = l->granted;
	uint64_t bound = UINT64_MAX;

	/* A job that works again takes the free room. */
	if (g->gave_idle && !l->job->is_idle)
		g->gave_idle = false, g->takes_after_ns = 0;
	if (l->needs->now_ns < g->takes_after_ns)
		bound = g->bound;
	if (!to || to->is_own || to->priority < l->job->priority) {
		g->stands_since_ns = 0;
		return bound;
	}
	if (g->stands_since_ns != to->claim_since_ns || !job_is(to, &g->stands_for)) {
		g->stands_for = job_key_of(to);
		g->stands_since_ns = to->claim_since_ns;
		g->stands_at = l->job->held;
	}
	return least(bound, g->stands_at);
}

void grant_decide(struct grant *g, const struct grant_needs *needs, struct peer_record *own,
                  uid_t owner, const struct peers *others, struct grant_answer *answer)
{
	struct look l = {.g = g, .needs = needs, .own = own, .answer = answer};
	uint64_t looked_ns = g->looked_ns;

	*answer = (struct grant_answer){.bound = UINT64_MAX};
	/* A process that was not run itself cannot judge the silence of other processes. */
	l.may_judge_silence = needs->now_ns - looked_ns <= 3 * GRANT_TICK_NS;
	g->looked_ns = needs->now_ns;
	job_sums_make(&l.sums, needs->memory, own, owner, others);
	l.job = &l.sums.of[0];
	l.job->must |= needs->must != 0;
	l.job->claim = more(l.job->claim, needs->must);
	job_sums_entitle(&l.sums);
	l.unaccounted =
	    job_sums_unaccounted(&l.sums, needs->free == UINT64_MAX ? needs->must : needs->free);
	poll_claim(&l);
	granted_date(&g->granted, &l.sums, looked_ns);
	l.granted = granted_find(&g->granted, &l.sums, needs->now_ns, l.may_judge_silence);
	if (l.granted && l.granted->asks == own && g->since_ns)
		drive(&l);
	else if (l.granted && l.granted->is_own)
		answer->has_room = true; /* another process of the job drives */
	else if (g->asked_ns)
		grant_stop_asking(&l), g->began_ns = 0;
	if (!grant_give(&l)) {
		if (g->gives || has_left_since(&l))
			end_giving(&l);
		answer->bound = stand_still(&l);
	} else {
		answer->bound = g->bound;
	}
	/* Room that is made for a call is left to it. */
	if (needs->must && l.granted && l.granted->is_own)
		answer->bound = least(answer->bound, l.job->held);
	own->entitled = l.job->entitled;
	own->borrowed = job_sum_borrows(l.job);
	answer->margin = l.sums.margin;
	answer->why = why_it_waits(&l, wanted(&l));
	answer->is_busy =
	    l.granted != NULL || g->since_ns != 0 || needs->now_ns < g->settles_until_ns;
}
