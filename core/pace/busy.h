/* SPDX-License-Identifier: MIT */
/*
 * Busy time: how long the device worked for this process, measured by events.
 *
 * burst   a run of launches on one stream without a gap, between two events
 * round   bursts of all streams that are charged together; the union of their times is busy time
 *
 * A burst begins with an event before its first launch. Its end is recorded when the round is
 * closed, or before other work is put into the stream or waited for. Where that would come too late
 * it is recorded after each launch: where launches are few and far between; on the legacy stream
 * beside blocking streams (cuda/idle.h), where a later event would make them wait for each other;
 * on per-thread default streams, which only their thread can name. When the next launch finds that
 * the stream has run dry a new burst begins; a burst without an end yet counts with its expected
 * cost.
 *
 * Not thread-safe: the pacer's lock guards it. No call is made while a capture is active anywhere
 * in the process.
 */
#ifndef SPILLWAY_BUSY_H
#define SPILLWAY_BUSY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cuda/driver.h"

/*
 * Costs: the latest durations of launches, by the launched function: so that work in flight can be
 * bounded before it is measured.
 *
 * key   the launched function; alike for launches that take about the same time. Never 0
 * tally the launches of one round, by key: the costs learn from them once the round is measured
 *
 * An unknown key counts as a whole quantum, so it gets a round for itself and is known after it.
 * Not thread-safe: the pacer's lock guards it.
 *
 * Costs are not learnt from kernels that spun through a slot. By the clock alone a program queues
 * seconds of work in 2 ms.
 */
enum { COST_ENTRIES = 1024, COST_WAYS = 4, COST_KINDS = 16 };

struct cost {
	uint64_t key, ns; /* 0: unused */
};

struct costs {
	struct cost entry[COST_ENTRIES];
};

struct tally {
	uint64_t ns; /* the expected cost of its launches */
	uint32_t launches;
	uint32_t kinds; /* of them in kind[]; the rest of the launches has other keys */
	struct {
		uint64_t key;
		uint32_t launches;
	} kind[COST_KINDS];
};

/* Returns the cost of one launch; 0: not known. */
uint64_t cost_of(const struct costs *costs, uint64_t key);
/*
 * Learns from a tally of launches that took so long together; 0: it could not be measured, and
 * nothing is learnt.
 */
void cost_learn(struct costs *costs, const struct tally *tally, uint64_t busy_ns);

enum { BUSY_BURSTS = 256, BUSY_ROUNDS = 8 };

struct busy;
struct burst;
/* A round as it is charged. */
struct busy_sum {
	uint64_t began_ns; /* on the host's clock: its first launch */
	uint64_t busy_ns;  /* once it is collected */
	struct tally tally;
};

struct busy *busy_create(void); /* NULL: no memory */

/*
 * Surrounds a launch that should cost so much (0: not known), on the launching thread with its
 * context current. busy_before() returns NULL where the round has no room for another burst; then
 * the launch is not measured.
 */
struct burst *busy_before(struct busy *busy, CUcontext context, CUstream stream, uint64_t key,
                          uint64_t cost_ns, uint64_t now_ns);
void busy_after(struct burst *burst, uint64_t cost_ns, uint64_t now_ns);
/*
 * Counts a launch that follows others in a burst, as most do: the driver is not called, neither now
 * nor after it, where busy_followed() does instead of busy_after(). NULL: it is no such launch.
 */
struct burst *busy_follow(struct busy *busy, CUcontext context, CUstream stream, uint64_t key,
                          uint64_t cost_ns, uint64_t now_ns);
/* Says that such a launch was made. Needs no lock. */
void busy_followed(struct burst *burst);
/*
 * Stands in for busy_after() where the driver must not be called: the duration of the launch is not
 * known. Needs no lock.
 */
void busy_leave(struct burst *burst);

/* Returns the sums of the open round, NULL if none is open. */
const struct busy_sum *busy_open_round(const struct busy *busy);
/* Returns whether the open round can take no more bursts. */
bool busy_is_full(const struct busy *busy);
/* Ends the bursts of the current context where they are. */
void busy_end_bursts(struct busy *busy, CUcontext context, uint64_t now_ns);
/*
 * Ends the open round. context: the current one. Returns false where as many rounds as can be held
 * are still running; the round stays open then.
 */
bool busy_close_round(struct busy *busy, CUcontext context, uint64_t now_ns);
/* Returns whether the device has nothing more to do of the open round; closes it then. */
bool busy_open_round_is_done(struct busy *busy);

/* Takes the oldest closed round, if its work is done. */
bool busy_collect(struct busy *busy, struct busy_sum *sum);
/* Returns the number of closed rounds that are not collected. */
int busy_running(const struct busy *busy);
/* Returns what the closed rounds that are not collected should cost, but for the oldest ones. */
uint64_t busy_expected(const struct busy *busy, int but_for);

/* The driver is asked to destroy a context, has refused, or has destroyed it. */
enum context_end { CONTEXT_LEAVES, CONTEXT_STAYS, CONTEXT_IS_GONE };
/*
 * Takes note of a context's end. While the driver is asked, the context's events are not queried,
 * because they go with it, and its work counts as running. Once it is gone its work is forgotten,
 * and its events with it.
 */
void busy_end_context(struct busy *busy, CUcontext context, enum context_end end);
/* Forgets a stream that is about to go: its handle may come again for another. */
void busy_forget_stream(struct busy *busy, CUstream stream);

#endif
