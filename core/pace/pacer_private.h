/* SPDX-License-Identifier: MIT */
/*
 * The part that the files of the pacer share: enter.c, hold.c, gap.c, watch.c, launch.c; no
 * other file includes it.
 */
#ifndef SPILLWAY_PACER_PRIVATE_H
#define SPILLWAY_PACER_PRIVATE_H

#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/peers/peers.h"
#include "core/pace/account.h"
#include "core/pace/align.h"
#include "core/pace/heartbeat.h"
#include "core/pace/busy.h"
#include "core/base/clock.h"
#include "core/pace/pacer.h"
#include "core/pages/turns.h"
#include "core/ledger/statistics.h"
#include "core/sharing/best_effort.h"

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

/* Returns whether another process is active. */
bool turn_is_contended(const struct turn *turn, uint64_t now_ns);
/* Returns whether we have the turn, or there are none. */
bool turn_is_ours(const struct turn *turn);

/* Work in flight that should have been done so long ago may wait for work of another device. */
#define OVERDUE_NS 1000000u

struct pacer {
	int ordinal; /* of its device */
	struct counters *statistics;
	QUICK_LOCK_OF(PACER) lock;
	_Atomic uint32_t changed; /* settings, or an event for a thread that waits here */
	_Atomic uint32_t share;
	_Atomic uint64_t window_ns;
	_Atomic int policy;
	_Atomic bool paces, lets_go;
	_Atomic int naps;                 /* launches that wait for room behind work in flight */
	_Atomic uint32_t own_thousandths; /* of the measured time */

	/* sharing by need (gap.c) */
	_Atomic int priority;
	_Atomic bool gives_way, tells, has_peers, gap_is_sure;
	_Atomic uint64_t gap_until, gap_round_ns; /* a round may begin until then, and is so long */
	_Atomic uint64_t gap_wanted;              /* a launch waits, or was made then */
	struct pacer_peers peers;
	struct best_effort best_effort; /* the watcher's */
	struct best_effort_now own;     /* likewise */
	uint64_t peers_ns;              /* likewise: when it looked for new ones */
	LOCK_OF(HEARTBEAT) heartbeat_lock;
	struct heartbeat heartbeat;

	/* Set once, when other processes are met; NULL before, and where there are none. */
	struct turns *_Atomic turns;
	struct lanes *_Atomic lanes;
	struct turn turn;
	struct align align;
	_Atomic uint64_t own_paid_until;
	_Atomic uint64_t *_Atomic paid_until; /* the job's, or our own */

	struct busy *busy;
	struct costs costs;
	uint64_t quantum_ns;     /* of this round */
	bool is_joint;           /* the job works on other devices, too */
	bool due;                /* the round is full: the next launch asks anew */
	bool streams;            /* rounds follow each other at once */
	bool levels;             /* that launch is to get level with other devices */
	bool one;                /* the next launch is a round by itself */
	uint64_t longest_ns;     /* the longest round lately, */
	uint64_t longest_own_ns; /* and without the part by other jobs' work */
	uint64_t usual_ns;       /* of the last round, by the costs of its launches */
	uint64_t faded_ns;       /* when the longest fell by time last */
	uint32_t stretched;      /* rounds lately, one after the other, by other jobs' work */
	uint64_t expected_ns;    /* when the work in flight should be done */
	uint64_t surprise_ns;    /* by so much work ended earlier than expected, at most, lately */
	uint64_t waits_ns;       /* since when a launch waits for work in flight; 0: none does */
	uint64_t patience_ns;    /* at most; doubles each time that waiting is in vain */
	uint64_t landed_ns; /* when nothing was in flight any more, as far as was seen; 0: something
	                       is */
	uint64_t
	    idle_until; /* idle time is counted up to here: threads that wait together wait once */
	CUcontext context; /* of the last launch */
	bool timed;        /* nothing was launched since an event that keeps time */
};

/* The longest wait for the lock. */
#define PACER_LOCK_NS 1000000000u

/* --- enter.c --- */

/*
 * Takes the lock, and leave to call the driver. Returns false where a capture is active or about to
 * begin, launches are paced no more, or the lock was not had within a second: its holder may be in
 * the driver, which waits for this thread. is_locked: the lock is held already, and is given back
 * where it returns false.
 */
bool pacer_enter(struct pacer *p, bool is_locked);
void pacer_leave(struct pacer *p);

/* --- hold.c: used time, and debt; the lock is held --- */

/*
 * Returns the share that is in force now: under share_policy = weight the share binds only while
 * other jobs want the device.
 */
uint32_t pacer_share_now(const struct pacer *p, uint64_t now);
/* Ends the open round, if there is one. context: the current one. */
static inline void pacer_close_round(struct pacer *p, CUcontext context, uint64_t now)
{
	if (busy_open_round(p->busy))
		busy_close_round(p->busy, context, now);
}
/* Charges rounds that are done. */
void pacer_settle(struct pacer *p, uint64_t now);

/* --- gap.c: time that other jobs leave --- */

/* The share that a best-effort job publishes for turns, so that its turns are short. */
#define GAP_TURN_SHARE 5000u
/* The share of one that has no peer records, or no watcher, and so cannot know of gaps. */
#define GAP_BLIND_SHARE 1000u
/* Set where there can be no watcher: no thread would see a gap. */
extern _Atomic bool watch_is_missing;

/* Returns whether launches are made in gaps alone. */
static inline bool gap_binds(const struct pacer *p)
{
	return p->has_peers && p->gives_way && !watch_is_missing;
}
/*
 * Looks at the peer records, or writes ours, as far as is asked. Returns after how many nanoseconds
 * the watcher is to call again; 0: not before the next launch.
 */
uint64_t gap_watch(struct pacer *p);

/* --- hold.c: the waits of a launch --- */

/*
 * Holds a launch back between rounds. Returns when a new round may begin, or another thread began
 * one; false: without pacer_enter().
 */
bool pacer_hold_back(struct pacer *p, CUcontext context);
/* Tells the sharers of the turn our share and account, and that we are active. */
void pacer_tell_turn(struct pacer *p, uint64_t now);
/*
 * Returns whether the next round may follow at once: no other job is to be let in, so the device
 * need not fall idle between rounds. share: in force now.
 */
bool pacer_goes_on(const struct pacer *p, uint32_t share, uint64_t now);
/* Passes the turn on, if it was ours. */
void pacer_pass_turn(struct pacer *p, uint64_t now);

#endif
