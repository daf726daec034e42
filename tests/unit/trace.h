/* SPDX-License-Identifier: MIT */
/*
 * A program's launches as step detection is fed them, with the program's own marks: where its steps
 * end. Made by generators or read from a recording. For tests; a failed allocation ends the
 * program.
 */
#ifndef SPILLWAY_TEST_TRACE_H
#define SPILLWAY_TEST_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_launch {
	uint64_t function, shape, ns;
	uint64_t done_ns; /* when the device had done it */
	uint64_t step_ns; /* the program's step ended with this launch; how long it took, or 0 */
};

struct trace {
	struct trace_launch *launches;
	size_t count, room;
	uint64_t now_ns, begun_ns; /* begun_ns: the program's step began then */
	uint64_t busy_until_ns;    /* of the device, where it does not wait for the host */
	uint64_t random;
	unsigned launch_ns; /* what the host takes for a launch, +- a third */
	uint64_t steps;
	uint64_t mean_ns; /* of a step, as the program itself says in the end; 0: it does not */
};

void trace_start(struct trace *trace, uint64_t seed);
void trace_free(struct trace *trace);

/* 0 to below - 1. */
uint64_t trace_random(struct trace *trace, uint64_t below);
bool trace_chance(struct trace *trace, double percent);

void trace_add(struct trace *trace, uint64_t function, uint64_t shape);
/* As many launches of functions with the next numbers of a library, and the next shapes. */
void trace_run(struct trace *trace, unsigned library, unsigned first, unsigned count,
               uint64_t shape);
void trace_pass(struct trace *trace, uint64_t ns);
/*
 * The program's clock is read: at the start of a step, and when its last launch was made and waited
 * for.
 */
void trace_step_begins(struct trace *trace);
void trace_step_ends(struct trace *trace);
/*
 * Threads or streams: swaps launches that are at most `distance` apart, in so many percent of the
 * places.
 */
void trace_jitter(struct trace *trace, double percent, unsigned distance);

/* A recording that compact.awk made. False: it cannot be read. To be freed in any case. */
bool trace_read(struct trace *trace, const char *path);

/* The answer of a detector. */
struct trace_found {
	uint64_t steps;        /* as it said last */
	uint64_t mean_ns;      /* of those that were whole, by the device */
	uint64_t told;         /* ends of steps */
	uint64_t true_told;    /* steps of the program since the first of them */
	uint64_t at_their_end; /* of those told, with the launch that ended a step of the program */
	uint64_t true_mean_ns; /* of the program's steps that ended in those */
	uint64_t since_ns; /* from where it says that steps began to the first it told, a step */
	uint64_t true_since_ns; /* from the first launch to there, a step of the program */
};
struct trace_found trace_detect(const struct trace *trace);
/*
 * NULL, or in what way it is wrong: steps are counted but for so many, and 1 %; of those since the
 * first that was told each was told, but for as many; their mean time is right within 2 %; and the
 * time from where steps are said to begin is no longer than that from the first launch. It is
 * shorter where the first steps were compiled.
 */
const char *trace_judge(const char *name, const struct trace *trace, unsigned missed);

#endif
