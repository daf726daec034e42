/* SPDX-License-Identifier: MIT */
/*
 * Programs of the world, by their launches and waits; and their results.
 *
 * A program is one thread of a process. It launches until its time or its number of launches is
 * over, waits for its work and returns; with the last one its process exits.
 */
#ifndef PACE_PROGRAMS_H
#define PACE_PROGRAMS_H

#include "tests/unit/pace_world.h"

enum lengths {
	LENGTHS_SAME,
	LENGTHS_MIX,    /* 50 us, 1 ms or 50 ms, by chance */
	LENGTHS_CHANGE, /* another every 300 ms, of the same code: kernel_ns by 1/20, 1, 10 */
};

struct program {
	/* what it does */
	const char *name;
	uint64_t kernel_ns;
	enum lengths lengths;
	double jitter; /* kernels are so much longer or shorter, at most; of 1 */
	int streams;   /* launches go around them; 0: the default stream */
	bool is_per_thread;
	int batch;         /* launches until it waits or pauses; 0: it does neither */
	bool waits;        /* for its work after a batch */
	uint64_t pause_ns; /* after that */
	bool pause_varies; /* up to twice as long, by chance */
	uint64_t host_ns;  /* computes between launches; up to twice as long, by chance */
	struct spin *spin; /* every spin_every-th launch spins for others */
	uint64_t spin_every;
	bool spins_aside; /* on a stream of their own: after what is before, before what is after */
	uint64_t most_launches; /* 0: any number */
	uint64_t until;         /* virtual time after which it launches no more; 0: none */
	int also_gpu;           /* its launches alternate with another device's; 0: they do not */
	/* where */
	struct process *process;
	int gpu;
	/* what came of it */
	uint64_t launches, work_ns;
	CUevent event;
	uint64_t began_at, ended_at; /* 0: not yet */
	uint64_t *batch_took_ns;     /* of each batch until it was done; NULL: not wanted */
	size_t batches, batches_most;
};

/* The program must stay until the world ends. */
void program_start(struct program *program);

#endif
