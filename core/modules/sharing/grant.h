/* SPDX-License-Identifier: MIT */
/*
 * Claims and grants: how memory of a device changes hands between jobs.
 *
 * claim   memory that a job is entitled to and has on the host, or must have on the device
 * grant   one claim at a time is met: that of the highest priority, of those the oldest. All find
 *         the same one by the peer records. Meanwhile no other job grows or brings memory back
 * ask     the holder of the grant asks one job at a time to hold no more than so much: first
 *         borrowers, then idle jobs, then those of lower priority
 * bound   the most that this process's job is to hold (budget/terms.h)
 * cooldown
 *         after a transfer both jobs keep their memory for ten times as long as it took, a second
 *         at least. A job of higher priority may still claim, and a call that would be refused may
 *         take borrowed memory
 *
 * An ask lapses after 2 * bytes / link, or when the asked job is silent for 50 ms; then the next is
 * asked. A grant lapses when no job is left, when its holder is silent for 50 ms, and at last after
 * a time that each job computes from the claim. So a holder that never lets go is passed over. No
 * job gives more than grant.h says, with any request in a peer record.
 *
 * A call that must have memory on the device is refused when no job is left to ask, and all report
 * their memory. While more is in use than peer records account for, processes that start or were
 * not run lately have a second to report. Memory that is unaccounted then, as of processes without
 * a peer record, is waited for no more. The claim stands until the call has tried the given memory,
 * or for half a second: a context takes a while to be made.
 *
 * All of it is one pure function over the peer records, the time and earlier decisions.
 */
#ifndef SPILLWAY_GRANT_H
#define SPILLWAY_GRANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/peers/peers.h"

/*
 * The entitlements of jobs to a device's memory, by their peer records.
 *
 * job sum   the peer records of one job, of one user, added up
 * demand    the memory that a job holds on the device, has on the host and claims
 * margin    a part of the device that no job is entitled to: a 32nd, or the size of contexts
 * part      the entitlement of a job, and its part of the margin, as far as that has room
 *
 * Guaranteed jobs come first, then normal, then opportunistic ones. Of a class each job with a
 * limit is entitled to that, as far as those before it leave it. Those without a limit are entitled
 * to equal parts of the rest. Memory that one of them does not need counts for the other jobs. An
 * idle job needs nothing. Entitlements of limits may add up to more than there is: then none of
 * them borrows, and the job that comes first keeps its memory.
 *
 * Jobs that have their entitlement use the margin, too, and the job that comes first has it all. So
 * one of the same class that works claims its part of that from a job that has clearly more than
 * its own.
 */

/* Less does not change hands. */
#define LEAST_BYTES ((uint64_t)2 << 20)

struct job_sum {
	uid_t owner;
	uint64_t job;
	bool is_own, is_idle, is_silent;
	bool must; /* the claimed memory must be on the device */
	uint8_t priority;
	uint64_t limit, held, movable, on_host, entitled, part;
	uint64_t link, cooldown_until_ns, idle_since_ns, beat_ns;
	uint64_t keeps, keeps_for_ns; /* the memory it does not give, and to which claim */
	uint64_t claim, claim_since_ns;
	const struct peer_record *asks; /* the peer record by which it claims; NULL: it does not */
};

struct job_sums {
	int count, peers;
	uint64_t memory;   /* of the device */
	uint64_t contexts; /* the driver's memory for them, as reported */
	uint64_t margin;   /* memory that no job is entitled to */
	struct job_sum of[PEERS_MAX + 1];
};

/*
 * Granted: the claim that is met is the one of the highest priority, of those the oldest, of all
 * jobs that are heard and have not been passed over.
 */
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

/* Keeps earlier observations; zeroed at first. */
struct granted {
	/* Claims as they were first seen: none is older than the look before. */
	int met_count;
	struct claim_met {
		struct job_key job;
		uint64_t since_ns, from_ns;
	} met[PEERS_MAX + 1];
	struct job_key job;
	uint64_t at_ns, bytes; /* bytes: 0: no job's */
	struct {
		struct job_key job;
		uint64_t until_ns;
	} lapsed[GRANT_LAPSED];
};

/* Returns whether a process with its last sign of life then is heard still. */
static inline bool granted_is_heard(uint64_t now_ns, uint64_t beat_ns)
{
	return now_ns <= beat_ns || now_ns - beat_ns <= GRANT_SILENCE_NS;
}

/* Why a job waits for memory that it has on the host, as peer records say it. */
enum claim_wait {
	CLAIM_NONE,     /* it does not */
	CLAIM_IS_MET,   /* other jobs make room for it */
	CLAIM_OTHERS,   /* another job's claim is met first */
	CLAIM_COOLDOWN, /* memory has just changed hands */
	CLAIM_NOBODY,   /* no job has any to give */
	CLAIM_BEYOND,   /* it is not entitled to more */
	CLAIM_WAITS
};

/* Returns a word for it, and its meaning, for people. */
const char *claim_wait_name(enum claim_wait why);
const char *claim_wait_text(enum claim_wait why);

#define GRANT_TICK_NS 10000000ull

/* Earlier decisions; zeroed at first. */
struct grant {
	uint64_t looked_ns;
	struct granted granted; /* the claim that is met, as seen here */
	/* its own claim */
	uint64_t since_ns, began_ns, held_then, movable_then, given, seen_ns, seen_sum;
	uint64_t refused_until_ns, refused_for_ns;
	uint64_t unaccounted; /* bytes in use that were not accounted for in time */
	struct job_key asked;
	uint64_t asked_ns, asked_bytes, asked_held; /* ns: 0: no job is asked */
	bool was_short; /* a job was too slow to give the asked memory */
	int done_count;
	struct job_key done[PEERS_MAX];
	/* the given memory */
	bool gives, gave_idle;
	uint64_t gives_for_ns, gives_from, bound, takes_after_ns;
	uint64_t settles_until_ns,
	    on_host_then;          /* after giving: memory that was under way leaves, too */
	struct job_key stands_for; /* the job of the grant that it stands still for, */
	uint64_t stands_since_ns, stands_at; /* ns: the claim's; 0: no job's */
};

/* The facts of this process; its memory on the device and on the host is in its peer record. */
struct grant_needs {
	uint64_t now_ns;
	uint64_t memory; /* of the device */
	uint64_t free;   /* of it, as far as that is known; else UINT64_MAX */
	uint64_t must;   /* bytes that a call waits for, because they must be on the device */
	bool tries;      /* it tries to have them, with the given memory */
	bool is_blocked; /* memory on the host finds no room */
};

struct grant_answer {
	uint64_t bound;       /* of the job; UINT64_MAX: none */
	bool tells;           /* other processes are to look at once */
	bool has_room;        /* room has come, or may have */
	bool must_is_decided; /* the waiting call tries again */
	bool was_short;       /* a claim ends, and might be met if it were raised again */
	bool is_busy;         /* memory changes hands: again after GRANT_TICK_NS */
	enum claim_wait why;
	uint64_t margin;     /* of the device: no job is entitled to it */
	uint64_t gave, took; /* bytes, once a change of hands has ended */
};

/*
 * Decides, and writes the memory part of the own peer record. owner: the caller's user.
 */
void grant_decide(struct grant *g, const struct grant_needs *needs, struct peer_record *own,
                  uid_t owner, const struct peers *others, struct grant_answer *answer);

#endif
