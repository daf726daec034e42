/* SPDX-License-Identifier: MIT */
/* The parts of pace_load share this: its options, and queues, each a stream that is kept busy. */
#ifndef PACE_LOAD_H
#define PACE_LOAD_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_LENGTHS = 8, MAX_QUEUES = 64, MAX_RANKS = 8 };

struct load_options {
	unsigned lengths_us[MAX_LENGTHS]; /* of kernels; several: by chance */
	unsigned length_count;
	unsigned seconds;
	unsigned long launches; /* 0: as many as there is time for */
	unsigned streams, threads, ranks;
	unsigned nodes; /* of a graph; 0: no graphs */
	unsigned ahead_ms;
	unsigned burst_ms, pause_ms, burst_us, pause_us; /* those in us count where they are set */
	double loops_per_ms; /* of a spinning kernel; 0: to be measured */
	bool asleep, wait, processes, by_chance, legacy, beside;
};

extern struct load_options load_options;

struct load_counts {
	unsigned long launches, kernels, steps;
	double work_ms; /* that the kernels take when nothing holds them up */
};

enum { QUEUE_MARKS = 8 };

struct queue {
	CUstream stream;
	CUfunction work;
	CUdeviceptr done; /* two words: the first counts kernels */
	CUgraphExec graphs[MAX_LENGTHS];
	CUevent marks[QUEUE_MARKS];
	unsigned mark; /* the next one, ever upwards */
	double unmarked_ms;
	unsigned random;
	struct load_counts counts;
};

/* The module of kernels, in the current context. */
CUmodule load_module(void);
/* stream: NULL for a new one. Calls are for one thread at a time. */
void queue_open(struct queue *queue, CUmodule module, CUstream stream, unsigned seed);
/* Launches one kernel or graph, and waits first while too much is queued. */
void queue_launch(struct queue *queue);
/* After other work was queued behind the last launch. */
void queue_mark(struct queue *queue);
/* Waits for the stream; ends the program unless every kernel has run. Closes the queue. */
void queue_close(struct queue *queue);

/* Measures in the current context how many loops a spinning kernel makes in a millisecond. */
double load_calibrate(CUmodule module);

/* pace_ranks.c: runs the ranks, and says what they came to. Times are of CLOCK_MONOTONIC. */
struct load_counts ranks_run(uint64_t *start_ns, uint64_t *stop_ns, uint64_t *end_ns);

uint64_t load_now_ns(void);

#endif
