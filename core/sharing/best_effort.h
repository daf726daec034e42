/* SPDX-License-Identifier: MIT */
/*
 * Best-effort jobs: opportunistic jobs, which launch only into time that other jobs leave.
 *
 * gap     a time in which no job of higher priority works; an unknown one counts as working
 * round   the work that a best-effort job has in flight at once: 0.2 to 1 ms, or one kernel that is
 *         longer
 * return  a job works again while a best-effort job has work in flight. It costs that job the time
 *         until that is done, which is measured each time
 * budget  the allowed cost of returns: half of `slowdown`, times the part that feedback lets
 *         best-effort jobs take
 *
 * A gap is filled until shortly before it should end, by the job's record of its last ones. Beyond
 * that, and where gaps have no length, only while the budget covers one more return. So gaps that
 * come thick and fast, or kernels that are long, are used as often as the budget allows, and no
 * more. A job that finds no gap makes one round now and then, at an eighth of `slowdown`, because
 * no launch is held for ever. For example, with a slowdown of 2 % returns cost 1 % at most.
 *
 * All best-effort jobs stand still together for 32 ms now and then (best_effort_off_at()), by the
 * clock alone, so that guaranteed jobs can measure their loss.
 *
 * Pure: the time and the peer records are given. Not thread-safe.
 */
#ifndef SPILLWAY_BEST_EFFORT_H
#define SPILLWAY_BEST_EFFORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/estimate.h"
#include "core/peers/peers.h"

#define BEST_EFFORT_PERIOD_NS 1200000000ull
#define BEST_EFFORT_OFF_NS    32000000ull /* of each period */
/* A job's figures hold so long. */
#define BEST_EFFORT_KNOWN_NS 5000000ull
/*
 * A return is seen so late, by its own watcher and the best-effort job's, where both run when they
 * want.
 */
#define BEST_EFFORT_SEEN_NS 200000ull

#define BEST_EFFORT_ALL 1000000u /* ppm */

struct best_effort {
	bool has_begun, is_gap;
	int64_t budget_ns;
	uint64_t budget_at_ns;   /* until when it is counted */
	uint64_t since_ns;       /* the gap, or the work of other jobs, began */
	uint64_t trickled_ns;    /* when it made a round without a gap */
	uint64_t returns_ppm;    /* in a second, lately; millionths */
	uint64_t returned_ns;    /* a job did while work of ours was in flight, which still is */
	uint64_t late_ns;        /* between the look that saw that and the one before */
	uint64_t looked_ns;      /* at the peer records */
	struct estimate cost_ns; /* of a return */
	uint32_t takes_ppm;      /* the part that feedback allows */
	uint64_t judged_ns;      /* when that was changed last */
	struct {
		uint64_t token;
		uint32_t number;
	} heard[PEERS_MAX]; /* the jobs of these losses */
};

struct best_effort_now {
	int priority;        /* of this job */
	uint64_t longest_ns; /* the longest of our rounds lately */
	bool in_flight;      /* something of ours is */
};

struct best_effort_go {
	uint64_t until_ns; /* a round may begin until then; 0: not now */
	bool is_sure;      /* no job should return before that */
	uint64_t round_ns; /* in flight at once */
	uint64_t again_ns; /* to be asked again after so long */
};

/* Decides by the peer records that were copied just now. */
struct best_effort_go best_effort_decide(struct best_effort *best_effort, const struct peers *peers,
                                         const struct best_effort_now *own, uint64_t now_ns);

/*
 * Feedback: the loss of a guaranteed job by best-effort jobs where turns are blind: bandwidth,
 * PCIe, CPU.
 *
 * Now and then all best-effort jobs stand still together. The launches of that time are compared
 * with those of as much time right before and right behind it: phases of the program, and other
 * jobs, drift all of them alike. The result is a loss with its error, over a minute or so.
 *
 * Pure: the time and a count are given. Not thread-safe.
 */

/* Begins zeroed. */
struct feedback {
	uint64_t off_at_ns;        /* of the period that is looked at */
	uint64_t last_ns, last;    /* the look before */
	int passed;                /* borders of it */
	double border[4];          /* the count at each */
	bool is_spoilt;            /* looks were too rare */
	struct estimate off, lost; /* of a pair of looks: what was done, and not done */
};

struct feedback_loss {
	int32_t loss_ppm;
	uint32_t error_ppm;  /* it is surely within that */
	uint64_t alone, now; /* counted in 1,000 s */
};

/*
 * Takes a look at a count that only grows. Returns whether *loss is new, which it is once a period
 * at most. A loss that is surely more than bearable, or less, is told once: best-effort jobs change
 * their part, and it is measured anew.
 */
bool feedback_look(struct feedback *feedback, uint64_t now_ns, uint64_t count,
                   uint32_t bearable_ppm, struct feedback_loss *loss);

/* Gaps: how long a job was without work lately, and when it should go on. Begins zeroed. */
enum { GAPS_KEPT = 16 };
struct gaps {
	uint64_t length_ns[GAPS_KEPT];
	uint32_t count;
};
static inline void gaps_note(struct gaps *gaps, uint64_t length_ns)
{
	gaps->length_ns[gaps->count++ % GAPS_KEPT] = length_ns;
}
/*
 * Returns how long a gap should be that is so old: most of those that were as long were longer than
 * that. 0: unknown.
 */
uint64_t gaps_expect(const struct gaps *gaps, uint64_t age_ns);

#endif
