/* SPDX-License-Identifier: MIT */
/*
 * Turns: of the processes that pace a device one works at a time, so that the time its kernels take
 * is its own.
 *
 * active  a process that has worked or waited lately; where another one is, the device is contended
 * turn    up to 40 ms times the share: together the active jobs take about 40 ms for a cycle
 *
 * Who has the turn keeps it while nobody else is active. Else he passes it on when its length is
 * used up or he has nothing to do, once nothing of his runs; of those who wait the one whose
 * account lags most takes it. Who does not say for 12 ms that he works (killed, stopped) loses it.
 * Nobody holds a lock: one word says whose turn it is.
 *
 * Pure but for waking others: time is given, the table is memory. Not thread-safe: the pacer's lock
 * guards it.
 *
 * Turns together last about 40 ms, so that handing the device over costs less than a percent;
 * within a turn two rounds are in flight and the device does not fall idle. A job by weight pays no
 * slots while nobody else has work; it keeps two rounds of 1 ms in flight, so that it can yield.
 * Two processes of one job on one device take turns, too.
 */
#ifndef SPILLWAY_TURN_H
#define SPILLWAY_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pages/turns.h"

#define TURN_CYCLE_NS   40000000ull
#define TURN_ACTIVE_NS  100000000ull /* without a word for longer: not active */
#define TURN_SLOT_NS    500000000ull /* unless it is in a slot of at most this length */
#define TURN_SILENCE_NS 12000000ull  /* whoever has the turn and is silent for longer loses it */
#define TURN_CLAIM_NS   2000000ull   /* who is first in line has so long to take a free turn */

struct turn {
	struct turns *turns; /* NULL: there are none; all below then says that the device is ours */
	struct turn_lane *lane;
	uint64_t owner, job;
};

/* Tells the others our share and account, and that we are active. */
void turn_tell(struct turn *turn, uint64_t now_ns, uint32_t share, int policy, uint64_t paid_until);
/* Returns whether another process is active. */
bool turn_is_contended(const struct turn *turn, uint64_t now_ns);
/* Returns whether another active process waits for the turn, and may have it now. */
bool turn_is_wanted(const struct turn *turn, uint64_t now_ns);
bool turn_is_ours(const struct turn *turn);
/* Returns how long we have had the turn. */
uint64_t turn_age(const struct turn *turn, uint64_t now_ns);
/* Returns how long our turn lasts. share: of the job. */
uint64_t turn_length(const struct turn *turn, uint64_t now_ns, uint32_t share);
/*
 * Returns what a job with share_policy = weight gets: all, or by its share of the sum of those that
 * have work for the device.
 */
uint32_t turn_weighted(const struct turn *turn, uint64_t now_ns, uint32_t share);
/*
 * Takes it if it is free, or its holder is gone, and nobody who waits goes first. Else we wait for
 * it from now on.
 */
bool turn_take(struct turn *turn, uint64_t now_ns);
/* Returns when its holder loses it, unless he says before that he works; 0: there is no holder. */
uint64_t turn_is_lost_at(const struct turn *turn);
/* Says that we are in a slot, and will want the turn when it is over. */
void turn_want(struct turn *turn, uint64_t now_ns);
/*
 * Passes the turn, if it is ours, to whoever takes it from now on. Nothing of ours runs. Returns
 * whether it was ours.
 */
bool turn_pass(struct turn *turn, uint64_t now_ns);

#endif
