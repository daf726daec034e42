/* SPDX-License-Identifier: MIT */
/*
 * Questions about the behaviour of a real driver on which the design rests, and the product's use
 * of either answer.
 *
 * counted on  the answer that the product counts on; several, with " | " between, where it copes
 *             with each
 * risk        numbers of lines in risks.tsv, with commas between; "-": none
 *
 * A topic is a file with a table of questions; ask.c puts them. Those that could not be put because
 * an earlier step failed, or because the device is too old, answer "not asked".
 */
#ifndef QUESTION_H
#define QUESTION_H

#include "tests/gpu/gpu.h"

struct question {
	const char *name; /* never changes, so that answers of two machines can be compared */
	const char *risk;
	const char *asks;
	const char *counted_on; /* NULL: whatever it is, it is written down */
	const char *then;       /* what the product does with that answer, */
	const char *otherwise;  /* and what is to be changed with another one */
	void (*ask)(const struct question *question);
	/* For the topic's own use. */
	const char *kinds; /* of the chunks: 'd' on the device, 'h' on the host */
	int form;
	bool pinned;
};

/* Each ends with a question without a name. */
extern const struct question host_memory_questions[], async_questions[], wait_questions[],
    mixed_questions[], atomic_questions[], moved_questions[], sharing_questions[],
    speed_questions[], cost_questions[], newer_questions[];

/* True where a short form is wanted, as on the software GPU. */
extern bool short_form;

/* True when a call of the attempt failed; the question is then "not asked", and why. */
bool not_asked(const struct question *question);
/* "yes", or "no", by what the calls of an attempt said. */
bool refused(const struct question *question);

/*
 * A stream that is busy for BUSY_MS, and then ends whatever the driver has this thread wait for.
 * Steps of an attempt.
 */
enum { BUSY_MS = 100, WAITED_MS = BUSY_MS / 2 };
void busy_begin(CUstream on);
void busy_end(CUstream on);

/* A kernel of one of the files, launched with these arguments in a step of the attempt. */
void launch(const char *file, const char *kernel, unsigned blocks, unsigned threads, CUstream on,
            void **arguments);
#define KERNELS "kernels.ptx"

/* Another backing for the range's only chunk, with other bytes; the device must be idle. */
void map_anew(struct range *range, char backing);

#endif
