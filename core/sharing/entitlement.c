/* SPDX-License-Identifier: MIT */
/* Entitlements. Pure functions. */
#include "core/sharing/entitlement.h"

#include "core/config/config.h"
#include "core/sharing/bytes.h"

/* Of what a card tells of contexts no more counts than a part of the device; of all a quarter. */
enum { MARGIN_PART = 32, CONTEXT_PART = 16, CONTEXTS_PART = 4 };

/*
 * Who has more than his part by less than a 32nd of it keeps that, and who lacks less than half as
 * much does not claim it: chunks are not moved to and fro for less.
 */
enum { EVEN_PART = 32 };

/* --- adding up --- */

static struct job_sum *sum_of(struct job_sums *sums, uid_t owner, uint64_t job)
{
	for (int i = 0; i < sums->count; i++)
		if (sums->of[i].owner == owner && sums->of[i].job == job)
			return &sums->of[i];
	sums->of[sums->count] =
	    (struct job_sum){.owner = owner, .job = job, .is_idle = true, .is_silent = true};
	return &sums->of[sums->count++];
}

static bool asks_before(const struct card *a, const struct card *b)
{
	return !b || a->claim_since_ns < b->claim_since_ns ||
	       (a->claim_since_ns == b->claim_since_ns && a->token < b->token);
}

static void add(struct job_sums *sums, const struct card *card, uid_t owner, bool is_silent)
{
	struct job_sum *sum = sum_of(sums, owner, card->job);

	sums->contexts += least(card->context, sums->memory / CONTEXT_PART);
	if (card->priority > sum->priority)
		sum->priority = card->priority <= PRIORITY_GUARANTEED ? card->priority : 0;
	sum->limit = card->limit > sum->limit ? card->limit : sum->limit;
	sum->held = plus(sum->held, card->held);
	sum->movable = plus(sum->movable, card->movable);
	sum->on_host = plus(sum->on_host, card->on_host);
	if (card->keeps > sum->keeps) {
		sum->keeps = card->keeps;
		sum->keeps_for_ns = card->keeps_for_ns;
	}
	sum->beat_ns = card->beat_ns > sum->beat_ns ? card->beat_ns : sum->beat_ns;
	if (card->link && (!sum->link || card->link < sum->link))
		sum->link = card->link;
	if (card->quiet_until_ns > sum->quiet_until_ns)
		sum->quiet_until_ns = card->quiet_until_ns;
	sum->is_idle &= card->idle_since_ns != 0;
	if (card->idle_since_ns > sum->idle_since_ns)
		sum->idle_since_ns = card->idle_since_ns;
	sum->is_silent &= is_silent;
	if (!card->claim || is_silent)
		return;
	sum->claim = plus(sum->claim, card->claim);
	sum->must |= card->claim_must_be_on_device != 0;
	if (asks_before(card, sum->asks)) {
		sum->asks = card;
		sum->claim_since_ns = card->claim_since_ns;
	}
}

void job_sums_make(struct job_sums *sums, uint64_t memory, const struct card *own, uid_t owner,
                   const struct cards *others)
{
	sums->count = 0;
	sums->memory = memory;
	sums->contexts = 0;
	sums->cards = 1 + others->count;
	add(sums, own, owner, false);
	sums->of[0].is_own = true;
	for (int i = 0; i < others->count; i++)
		add(sums, &others->other[i].card, others->other[i].owner,
		    others->other[i].is_silent);
}

/* --- who is entitled to what --- */

static uint64_t demand(const struct job_sum *job)
{
	uint64_t all = plus(job->held, job->on_host);

	return job->is_idle ? 0 : plus(all, minus(job->claim, job->on_host));
}

static bool is_limited(const struct job_sum *job)
{
	return job->limit != CONFIG_UNLIMITED;
}

/*
 * Returns the part that each of a class without a limit may have, so that together they have what
 * is left: who needs less leaves the rest to the others.
 */
static uint64_t equal_part(const struct job_sums *sums, uint8_t priority, uint64_t left)
{
	uint64_t part = 0, before;

	do {
		uint64_t rest = left, count = 0;

		before = part;
		for (int i = 0; i < sums->count; i++) {
			const struct job_sum *job = &sums->of[i];

			if (job->priority != priority || is_limited(job) || job->is_idle)
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

/* Entitles one class to what those before it have left. Returns what it leaves. */
static uint64_t sums_entitle(struct job_sums *sums, uint8_t priority, uint64_t left)
{
	uint64_t limited = 0, used = 0, part, with_margin;

	for (int i = 0; i < sums->count; i++) {
		struct job_sum *job = &sums->of[i];

		if (job->priority != priority || !is_limited(job))
			continue;
		job->entitled = job->part = least(job->limit, left);
		limited = plus(limited, least(job->entitled, demand(job)));
	}
	part = equal_part(sums, priority, minus(left, limited));
	with_margin = equal_part(sums, priority, minus(plus(left, sums->margin), limited));
	for (int i = 0; i < sums->count; i++) {
		struct job_sum *job = &sums->of[i];

		if (job->priority != priority || is_limited(job))
			continue;
		job->entitled = part;
		job->part = with_margin;
		used = plus(used, least(part, demand(job)));
	}
	return minus(left, plus(limited, used));
}

void job_sums_entitle(struct job_sums *sums)
{
	uint64_t left;

	sums->margin =
	    more(sums->memory / MARGIN_PART, least(sums->contexts, sums->memory / CONTEXTS_PART));
	left = minus(sums->memory, sums->margin);
	for (int priority = PRIORITY_GUARANTEED; priority >= PRIORITY_OPPORTUNISTIC; priority--)
		left = sums_entitle(sums, (uint8_t)priority, left);
}

uint64_t job_sums_untold(const struct job_sums *sums, uint64_t free)
{
	uint64_t told = plus(free, sums->margin);

	for (int i = 0; i < sums->count; i++)
		told = plus(told, sums->of[i].held);
	return minus(sums->memory, told);
}

uint64_t job_sum_borrows(const struct job_sum *job)
{
	return minus(job->held, job->entitled);
}

uint64_t job_sum_lacks(const struct job_sum *job)
{
	uint64_t owed = minus(job->entitled, job->held), lacks = minus(job->part, job->held);

	return owed < LEAST_BYTES && lacks > job->part / EVEN_PART / 2 ? lacks : owed;
}

/* Returns what an equal gives to one who has what it is entitled to, and lacks of its part. */
static uint64_t evens_out(const struct job_sum *job, const struct job_sum *to)
{
	uint64_t above = minus(job->held, job->part);

	if (job->is_idle || job->priority != to->priority || above <= job->part / EVEN_PART)
		return 0;
	return least(above, job->movable);
}

uint64_t job_sum_yields(const struct job_sum *job, const struct job_sum *to, uint64_t now_ns)
{
	bool is_quiet = job->quiet_until_ns > now_ns && job->priority >= to->priority;

	/*
	 * Memory that has just changed hands goes to a higher priority alone, and what is borrowed
	 * to a call that would be refused.
	 */
	if (job == to || (is_quiet && !to->must))
		return 0;
	if (minus(to->entitled, to->held) < LEAST_BYTES && !to->must)
		return evens_out(job, to);
	if (!is_quiet && (job->is_idle || job->priority < to->priority))
		return least(job->held, job->movable);
	return least(job_sum_borrows(job), job->movable);
}

/* Returns the rank of who is to give: borrowers, idle jobs, lower priority. */
static int rank_of(const struct job_sum *job, const struct job_sum *to)
{
	if (job->is_idle)
		return 1;
	return job->priority < to->priority && !is_limited(job) ? 2 : 0;
}

bool job_sum_gives_first(const struct job_sum *a, const struct job_sum *b, const struct job_sum *to)
{
	if (rank_of(a, to) != rank_of(b, to))
		return rank_of(a, to) < rank_of(b, to);
	if (a->priority != b->priority)
		return a->priority < b->priority;
	if (job_sum_borrows(a) != job_sum_borrows(b))
		return job_sum_borrows(a) > job_sum_borrows(b);
	return a->job < b->job;
}
