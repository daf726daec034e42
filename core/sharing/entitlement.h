/* SPDX-License-Identifier: MIT */
/*
 * Who is entitled to how much of a device's memory, as the cards say it.
 *
 * job sum   the cards of one job, of one user, added up
 * demand    what a job holds on the device, has on the host and claims
 * margin    a part of the device that nobody is entitled to: a 32nd, or what contexts take
 * part      what a job is entitled to, and its part of the margin, as far as that has room
 *
 * Guaranteed jobs come first, then normal, then opportunistic ones. Of a class each job with a
 * limit is entitled to that, as far as those before it leave it; those without one to equal parts
 * of what is left, and what one does not need counts for the others. A job that is idle needs
 * nothing. Entitlements of limits may add up to more than there is: then nobody of them borrows,
 * and who comes first keeps what he has.
 *
 * Jobs that have what they are entitled to use the margin, too, and who comes first has it all. So
 * one of the same class that works claims its part of that from who has clearly more than his.
 */
#ifndef SPILLWAY_ENTITLEMENT_H
#define SPILLWAY_ENTITLEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cards/cards.h"

/* Less does not change hands. */
#define LEAST_BYTES ((uint64_t)2 << 20)

struct job_sum {
	uid_t owner;
	uint64_t job;
	bool is_own, is_idle, is_silent;
	bool must; /* what it claims must be on the device */
	uint8_t priority;
	uint64_t limit, held, movable, on_host, entitled, part;
	uint64_t link, quiet_until_ns, idle_since_ns, beat_ns;
	uint64_t keeps, keeps_for_ns; /* what it does not give, and to which claim */
	uint64_t claim, claim_since_ns;
	const struct card *asks; /* the card by which it claims; NULL: it does not */
};

struct job_sums {
	int count, cards;
	uint64_t memory;   /* of the device */
	uint64_t contexts; /* what the driver takes for them, as they tell */
	uint64_t margin;   /* what nobody is entitled to */
	struct job_sum of[CARDS_MAX + 1];
};

/*
 * Adds the cards of a device of so much memory up; own: this process's, of user `owner`; its job
 * comes first.
 */
void job_sums_make(struct job_sums *sums, uint64_t memory, const struct card *own, uid_t owner,
                   const struct cards *others);
/* Finds who is entitled to what. */
void job_sums_entitle(struct job_sums *sums);
/*
 * Returns the bytes in use beyond the margin of which no card tells, where so much is free: others
 * hold them, who have no card yet, or have not written what they hold.
 */
uint64_t job_sums_untold(const struct job_sums *sums, uint64_t free);
/* Returns what a job holds beyond what it is entitled to. */
uint64_t job_sum_borrows(const struct job_sum *job);
/* Returns what a job may claim of what it has on the host. */
uint64_t job_sum_lacks(const struct job_sum *job);
/* Returns what a job must give when `to` claims it. */
uint64_t job_sum_yields(const struct job_sum *job, const struct job_sum *to, uint64_t now_ns);
/* Returns whether the first is asked before the second when `to` claims. */
bool job_sum_gives_first(const struct job_sum *a, const struct job_sum *b,
                         const struct job_sum *to);

#endif
