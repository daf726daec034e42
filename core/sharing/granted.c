/* SPDX-License-Identifier: MIT */
/* Finds the claim that is met. Pure functions. */
#include "core/sharing/granted.h"

#include <string.h>

#include "core/sharing/bytes.h"

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

static bool goes_first(const struct job_sum *a, const struct job_sum *b)
{
	if (!b || a->priority != b->priority)
		return !b || a->priority > b->priority;
	if (a->claim_since_ns != b->claim_since_ns)
		return a->claim_since_ns < b->claim_since_ns;
	return a->job != b->job ? a->job < b->job : a->owner < b->owner;
}

/*
 * Returns how long a grant of so much may last for those who only look on, by the link that they
 * know themselves.
 */
static uint64_t grant_lasts(const struct job_sums *sums, uint64_t bytes)
{
	return 2 * (patience_ns(least(bytes, sums->memory), sums->of[0].link) + SECOND_NS +
	            GRANT_SILENCE_NS * (uint64_t)sums->cards);
}

void granted_date(struct granted *g, struct job_sums *sums, uint64_t looked_ns)
{
	struct claim_met met[CARDS_MAX + 1] = {0};
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

const struct job_sum *granted_find(struct granted *g, const struct job_sums *sums, uint64_t now,
                                   bool may_judge_silence)
{
	const struct job_sum *first = NULL;

	for (int i = 0; i < sums->count; i++) {
		const struct job_sum *job = &sums->of[i];
		bool is_heard = job->is_own || !may_judge_silence ||
		                (job->asks && granted_is_heard(now, job->asks->beat_ns));

		if (job->asks && is_heard && !is_lapsed(g, job, now) && goes_first(job, first))
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
	lapse(g, first, now + quiet_ns(least(g->bytes, sums->memory), sums->of[0].link));
	g->bytes = 0;
	return granted_find(g, sums, now, may_judge_silence);
}
