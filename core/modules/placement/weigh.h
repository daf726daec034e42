/* SPDX-License-Identifier: MIT */
/*
 * Weighing: which memory to have on the host, where not all fits on the device, so that the
 * program's kernels are held up least.
 *
 * A kernel takes as long as it computes, or as long as the link takes for the memory it reads on
 * the host, whichever is longer. So a kernel has *slack* for the bytes that hide behind its
 * computing. For example, a kernel that computes for 2 ms reads 20 MiB over a link of 10 GiB/s
 * without cost. Piece by piece the memory is chosen that costs least for each byte, given the
 * earlier choices. So memory of few kernels goes first, and it is spread over kernels with slack. A
 * tenth of the traffic counts as cost even where it hides, because used slack is gone.
 *
 * A pure function: no clock, no lock, no driver.
 */
#ifndef SPILLWAY_WEIGH_H
#define SPILLWAY_WEIGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weigh_kernel {
	uint64_t key;         /* launches with the same key compute for equally long */
	uint64_t ns;          /* its time, with memory where it is now; 0: unknown */
	uint64_t at_ns;       /* it began, since the first one did; 0: not known */
	uint32_t first, uses; /* its runs, in the list of uses */
};

/* Memory that is on one tier as a whole. */
struct weigh_piece {
	uint32_t run; /* the kernels that use this run read it */
	bool is_on_host;
	uint64_t bytes;
	uint64_t read; /* bytes of it that a kernel reads */
};

struct weigh_case {
	const struct weigh_kernel *kernel;
	size_t kernels;
	const uint32_t *use; /* runs */
	size_t uses;
	const struct weigh_piece *piece; /* those of a run are neighbours, and runs ascend */
	size_t pieces;
	uint32_t runs;
	uint64_t spill; /* so many bytes have to be on the host */
	/*
	 * Kernels took turns with those of other programs: how long one took says less of it than
	 * how long all took that are alike.
	 */
	bool is_shared;
};

struct weigh_answer {
	uint32_t *order; /* room for all pieces: those that leave first come first */
	size_t spilled;  /* so many of the first of them have to be on the host */
	/*
	 * The time of all kernels together: as it is, as it would be, and if nothing was on the
	 * host. Where no kernel's time is known: bytes they read of the host.
	 */
	double now, then, least;
	double unknown; /* of `now`: of kernels that waited for the host in all launches */
};

/* The facts about a kernel from its durations. */
struct weigh_known {
	double least;  /* ns it takes with nothing on the host */
	double factor; /* what it reads, to what its memory is */
	bool is_seen;  /* else it waited for the link in all launches, and `least` is a guess */
};

/*
 * Learns from the kernels' times. known: room for all kernels. *ns_of_byte: how long the link takes
 * for a byte; 0: no kernel has waited for it. Returns false without memory.
 */
bool weigh_learn(const struct weigh_case *given, struct weigh_known *known, double *ns_of_byte);
/*
 * Learns, and decides by that. Over a link that no kernel has waited for memory costs its bytes.
 * Returns false without memory for it. The answer is then as it was.
 */
bool weigh_up(const struct weigh_case *given, struct weigh_answer *answer);

/*
 * Returns whether memory is to move for this answer, where `placement` is auto: it gains a part of
 * the host's cost, and of a step.
 */
bool weigh_is_worth(const struct weigh_answer *answer);

#endif
