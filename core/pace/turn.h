/* SPDX-License-Identifier: MIT */
/*
 * Turns: of the processes that pace a device one works at a time, so that the time its kernels
 * take is its own.
 *
 * active  a process that has worked or waited lately; where another one is, the device is contended
 * ahead   a job is ahead of another job when its account is paid until a later time
 * over    a turn is over when it has lasted for TURN_LEAST_NS, a process waits, and its job is
 *         ahead of the waiting job: by TURN_LEAD_NS, or by anything where the turn's length is used
 *         up. Where the device idles a job that is behind by less than TURN_LAG_NS is ahead, too
 *
 * A process keeps the turn while no other process waits. It passes the turn on when its turn is
 * over, or when it has had nothing in flight for as long as handing the device over takes. A launch
 * of its own that the pacer holds has 1 ms to follow. Of the processes that wait, the process of
 * the job furthest behind takes the turn. So the device idles for a hand-over at most while a job
 * that is not ahead has a launch waiting.
 *
 * For example, two jobs have equal shares. A runs 8 ms and waits for its result: the turn goes
 * to B at once, although a turn lasts up to 20 ms. Where both always have work, each runs for 20
 * ms: from 20 ms behind on its account to 20 ms ahead, at two for each millisecond of GPU time.
 *
 * A process that has the turn and does not say for 12 ms that it works (killed, stopped) loses
 * it. No lock is held: one word says which process has the turn.
 *
 * Pure but for waking other processes: time is given, the table is memory. Not thread-safe: the
 * pacer's lock guards it.
 *
 * Turns of jobs that always have work last about 40 ms together, so that handing the device over
 * costs less than a percent. Within a turn two rounds are in flight and the device does not fall
 * idle. A job by weight has no slots: the order of turns alone divides the device. Two processes
 * of one job on one device take turns, too.
 */
#ifndef SPILLWAY_TURN_H
#define SPILLWAY_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/pages/turns.h"

#define TURN_CYCLE_NS   40000000ull
#define TURN_LEAD_NS    (TURN_CYCLE_NS / 2)
#define TURN_LAG_NS     (TURN_CYCLE_NS / 8)
#define TURN_LEAST_NS   (TURN_CYCLE_NS / 8) /* so that handing over costs a fortieth at most */
#define TURN_ACTIVE_NS  100000000ull        /* without a word for longer: not active */
#define TURN_SLOT_NS    500000000ull        /* unless it is in a slot of at most this length */
#define TURN_SILENCE_NS 12000000ull /* a holder of the turn that is silent for longer loses it */
#define TURN_CLAIM_NS   2000000ull  /* the first in line has so long to take a free turn */

struct turn {
	struct turns *turns; /* NULL: there are none; all below then says that the device is ours */
	struct turn_lane *lane;
	uint64_t owner, job;
};

/* Tells the other processes our share and account, and that we are active. */
void turn_tell(struct turn *turn, uint64_t now_ns, uint32_t share, int policy, uint64_t paid_until);
/* Returns whether another process is active. */
bool turn_is_contended(const struct turn *turn, uint64_t now_ns);
/*
 * Returns whether our turn is over. paid_until: of our job, once the work in flight is paid for.
 * is_idle: nothing is in flight, and no launch of ours is about to follow. Processes of one job
 * have one account: between them a turn is over after length_ns.
 */
bool turn_is_over(const struct turn *turn, uint64_t now_ns, uint64_t paid_until, uint64_t length_ns,
                  bool is_idle);
bool turn_is_ours(const struct turn *turn);
/* Returns how long we have had the turn. */
uint64_t turn_age(const struct turn *turn, uint64_t now_ns);
/* Returns how long our turn lasts. share: of the job. */
uint64_t turn_length(const struct turn *turn, uint64_t now_ns, uint32_t share);
/*
 * Returns the share of a job with share_policy = weight: all, or by its part of the sum of those
 * that have work for the device.
 */
uint32_t turn_weighted(const struct turn *turn, uint64_t now_ns, uint32_t share);
/*
 * Takes it if it is free, or its holder is gone, and no waiting process goes first. Else we wait
 * for it from now on.
 */
bool turn_take(struct turn *turn, uint64_t now_ns);
/*
 * Returns when its holder loses it, unless the holder says before that it works. Without a holder:
 * when any process may take it. 0: the holder has no lane.
 */
uint64_t turn_is_lost_at(const struct turn *turn);
/* Says that we are in a slot, and will want the turn when it is over. 0: we want it no more. */
void turn_want(struct turn *turn, uint64_t now_ns);
/*
 * Passes the turn, if it is ours, to the next process that takes it. Nothing of ours runs. Returns
 * whether it was ours.
 */
bool turn_pass(struct turn *turn, uint64_t now_ns);

#endif
