/* SPDX-License-Identifier: MIT */
/*
 * The pacer: holds launches back so that a job takes only its share of a device.
 *
 * quantum  2 ms of GPU time (pacer_quantum()), by the latest costs of launches; work in flight
 *          paced is no more than that and one launch; two of 1 ms while no other job is let in
 * round    the launches of one quantum, measured and charged together
 * slot     after a round, once nothing of it runs any more, until the account has no debt
 *
 * A paced launch goes through pacer_before(), the driver, pacer_after(). Within a round that costs
 * a lock, a look into two small tables and a clock; events are recorded where a burst begins and
 * where it ends. Between rounds pacer_before() waits: while the share is 0 (pause); for work in
 * flight; for the slot; for the turn, where other jobs want the device (pacer_private.h); for the
 * common slot of a job's devices (align.h).
 *
 * Every wait has a bound: a running kernel may need the very launch that is held back. While a
 * capture is active nothing is measured and no slot inserted. One pacer per device and process;
 * thread-safe.
 */
#ifndef SPILLWAY_PACER_H
#define SPILLWAY_PACER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/cuda/driver.h"
#include "core/pace/account.h"
#include "core/pace/busy.h"
#include "core/pages/turns.h"
#include "core/state/layout.h"

#define PACER_QUANTUM_NS 2000000ull
/* The least gap that is worth stopping and starting for, also on a busy machine. */
#define PACER_GAP_NS 400000ull

/*
 * Returns the quantum at this share (thousandths of a percent) with no other device or job: 2 ms,
 * above 83 % as long as that gap needs.
 */
static inline uint64_t pacer_quantum(uint32_t share)
{
	uint64_t for_gap = share < 100000 ? PACER_GAP_NS * share / (100000 - share) : 0;

	return for_gap > PACER_QUANTUM_NS ? for_gap : PACER_QUANTUM_NS;
}

struct peer_own;
struct peers;
struct pacer;
struct counters;

/*
 * The peer records by which a pacer shares its device by need; peer records as peers_look() and
 * peers_copy().
 */
struct pacer_peers {
	struct peer_own *own;
	struct peers *others; /* the pacer's own copies: its watcher reads them */
	int (*look)(struct peers *others, uint64_t now_ns);
	int (*copy)(struct peers *others, uint64_t now_ns);
};

/* Where a pacer meets those of other processes, jobs and devices. */
struct pacer_place {
	struct turns *turns; /* of the device; NULL: jobs do not take turns */
	struct lanes *lanes; /* of the job; NULL: the process paces alone */
	int lane, device;    /* of the process and the device in lanes */
	uint64_t owner, job; /* numbers that no other process and no other job has; not 0 */
};

struct pacer_settings {
	uint32_t share; /* thousandths of a percent */
	uint64_t window_ns;
	int policy;     /* POLICY_CAP or POLICY_WEIGHT */
	int priority;   /* enum config_priority; one that is guaranteed waits for no turn */
	bool gives_way; /* it works in gaps alone, as one that is opportunistic does anyway */
};

/* Returns whether launches are made in gaps alone, where there are peer records. */
static inline bool pacer_gives_way(const struct pacer_settings *settings)
{
	return settings->gives_way || settings->priority == PRIORITY_OPPORTUNISTIC;
}

/* Makes the pacer of a device, with the statistics it counts in. Returns NULL without memory. */
struct pacer *pacer_create(int ordinal, struct counters *statistics);
/* Lets the pacer meet those of other processes, jobs and devices; it is alone until then. */
void pacer_meet(struct pacer *pacer, const struct pacer_place *place);
/* Gives the pacer its peer records, once; until then a best-effort job is held at 1 %. */
void pacer_share(struct pacer *pacer, const struct pacer_peers *peers);
/* Says whether another job on the device asks if we work. */
void pacer_heed(struct pacer *pacer, bool is_asked);
/* Takes new settings into account at once, also for waiting launches. */
void pacer_set(struct pacer *pacer, const struct pacer_settings *settings);
/*
 * Returns whether launches are to go through a pacer of these settings: a share below 100 %, or one
 * that is a weight, or of one that gives way.
 */
static inline bool pacer_would_pace(const struct pacer_settings *settings)
{
	return settings->share < ACCOUNT_FULL_SHARE || settings->policy == POLICY_WEIGHT ||
	       pacer_gives_way(settings);
}
bool pacer_is_pacing(const struct pacer *pacer);

/* One launch on its way: between pacer_before() and pacer_after(). */
struct pacer_launch {
	CUcontext context;
	CUstream stream; /* with NULL replaced by CU_STREAM_LEGACY or CU_STREAM_PER_THREAD */
	uint64_t key;    /* the launched function: alike for launches that cost about the same */
	/* private */
	struct burst *burst;
	uint64_t cost_ns, now_ns;
	bool is_counted; /* nothing is left to do but to say that it was made */
};

/*
 * Surrounds the driver's launch, with the context current. pacer_before() may sleep, with no lock
 * held.
 */
void pacer_before(struct pacer *pacer, struct pacer_launch *launch);
void pacer_after(struct pacer *pacer, struct pacer_launch *launch);
/*
 * Ends the measurement, before the current context is given any work but a launch, and before it is
 * waited for, so that waits of streams, copies and pauses of the program are not taken for work.
 */
void pacer_break(struct pacer *pacer, CUcontext context);
/*
 * Lets a slot that is due come before an event that keeps time is recorded, not between it and the
 * work it times.
 */
void pacer_before_timing(struct pacer *pacer, CUcontext context);

/* Takes note of a context's end (busy.h). */
void pacer_end_context(struct pacer *pacer, CUcontext context, enum context_end end);
/* Ends what is measured of a stream that the driver is asked to destroy. */
void pacer_forget_stream(struct pacer *pacer, CUstream stream);

/* Holds no launch back any more, because the process exits. */
void pacer_let_go(struct pacer *pacer);

/* Corrects the measurement: so many thousandths of it are the program's own (foreign.h). */
void pacer_correct(struct pacer *pacer, uint32_t thousandths);

#endif
