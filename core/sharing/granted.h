/* SPDX-License-Identifier: MIT */
/*
 * Granted: the claim that is met is the one of the highest priority, of those the oldest, of all
 * who are heard and have not been passed over.
 */
#ifndef SPILLWAY_GRANTED_H
#define SPILLWAY_GRANTED_H

#include "core/sharing/entitlement.h"

#define GRANT_SILENCE_NS 50000000ull

enum { GRANT_LAPSED = 8 };

/* Names a job on the device. */
struct job_key {
	uint64_t job;
	uid_t owner;
};

static inline struct job_key job_key_of(const struct job_sum *job)
{
	return (struct job_key){job->job, job->owner};
}

static inline bool job_is(const struct job_sum *job, const struct job_key *key)
{
	return job->job == key->job && job->owner == key->owner;
}

/* Keeps what was seen before; zeroed at first. */
struct granted {
	/* Claims as they were first seen: nobody's is older than the look before. */
	int met_count;
	struct claim_met {
		struct job_key job;
		uint64_t since_ns, from_ns;
	} met[CARDS_MAX + 1];
	struct job_key job;
	uint64_t at_ns, bytes; /* bytes: 0: nobody's */
	struct {
		struct job_key job;
		uint64_t until_ns;
	} lapsed[GRANT_LAPSED];
};

/* Returns whether who gave his last sign of life then is heard still. */
static inline bool granted_is_heard(uint64_t now_ns, uint64_t beat_ns)
{
	return now_ns <= beat_ns || now_ns - beat_ns <= GRANT_SILENCE_NS;
}

/*
 * Takes care that no claim counts as older than the look before it was first seen, whatever its
 * card says; looked_ns: when that was.
 */
void granted_date(struct granted *g, struct job_sums *sums, uint64_t looked_ns);
/*
 * Returns the job whose claim is met; NULL: nobody claims. One that has had the grant for longer
 * than a move of so much may take is passed over.
 */
const struct job_sum *granted_find(struct granted *g, const struct job_sums *sums, uint64_t now_ns,
                                   bool may_judge_silence);

#endif
