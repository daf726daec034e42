/* SPDX-License-Identifier: MIT */
/*
 * Feedback: what a guaranteed job loses by fillers where turns are blind: bandwidth, PCIe, CPU.
 *
 * Now and then all fillers stand still together (filler.h). The launches of that time are compared
 * with those of as much time right before and right behind it: phases of the program, and other
 * jobs, drift all of them alike. What comes of that is a loss with its error, over a minute or so.
 *
 * Pure: the time and a count are given. Not thread-safe.
 */
#ifndef SPILLWAY_FEEDBACK_H
#define SPILLWAY_FEEDBACK_H

#include <stdbool.h>
#include <stdint.h>

/* Begins zeroed. */
struct feedback {
	uint64_t off_at_ns;                    /* of the period that is looked at */
	uint64_t last_ns, last;                /* the look before */
	int passed;                            /* borders of it */
	double border[4];                      /* the count at each */
	bool is_spoilt;                        /* looks were too rare */
	double pairs, off, lost, lost_squared; /* sums that fade */
};

struct feedback_loss {
	int32_t loss_ppm;
	uint32_t error_ppm;  /* it is surely within that */
	uint64_t alone, now; /* counted in 1,000 s */
};

/*
 * Takes a look at a count that only grows. Returns whether *loss is new, which it is once a period
 * at most. A loss that is surely more than bearable, or less, is told once: fillers change what
 * they take, and it is measured anew.
 */
bool feedback_look(struct feedback *feedback, uint64_t now_ns, uint64_t count,
                   uint32_t bearable_ppm, struct feedback_loss *loss);

/* Gaps: how long a job was without work lately, and when it should go on. Begins zeroed. */
enum { GAPS_KEPT = 16 };
struct gaps {
	uint64_t length_ns[GAPS_KEPT];
	uint32_t count;
};
void gaps_note(struct gaps *gaps, uint64_t length_ns);
/*
 * Returns how long a gap should be that is so old: most of those that were as long were longer than
 * that. 0: nobody knows.
 */
uint64_t gaps_expect(const struct gaps *gaps, uint64_t age_ns);

#endif
