/* SPDX-License-Identifier: MIT */
/*
 * Weighing: which memory to have on the host, where not all fits on the device, so that the
 * program's kernels are held up least.
 *
 * A kernel takes as long as it computes, or as long as the link takes for what it reads of memory
 * on the host, whichever is longer: a kernel has *slack* for as much as hides behind its computing.
 * Piece by piece that memory is chosen whose leaving costs least for each byte, with what has been
 * chosen before. So what few kernels read goes first, and it is spread over kernels with slack. A
 * tenth of the traffic counts as cost even where it hides, because slack that is used is gone.
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
	uint64_t ns;          /* it took, with memory where it is now; 0: nobody knows */
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
	/* What all kernels take together: as it is, as it would be, and if nothing was on the host.
	 * Where no kernel's time is known: bytes they read of the host. */
	double now, then, least;
};

/* What is learned of a kernel from how long it took. */
struct weigh_known {
	double least;  /* ns it takes with nothing on the host */
	double factor; /* what it reads, to what its memory is */
};

/*
 * Learns from the kernels' times. known: room for all kernels. *ns_of_byte: how long the link takes
 * for a byte; 0: no kernel has waited for it. Returns false without memory.
 */
bool weigh_learn(const struct weigh_case *given, struct weigh_known *known, double *ns_of_byte);
/*
 * Decides by what is known, for this link. Returns false without memory for it; the answer is then
 * as it was.
 */
bool weigh_by(const struct weigh_case *given, const struct weigh_known *known, double ns_of_byte,
              struct weigh_answer *answer);
/* Both, one after the other. A link that no kernel has waited for costs what its bytes are. */
bool weigh_up(const struct weigh_case *given, struct weigh_answer *answer);

/*
 * Returns whether memory is to move for this answer, where `placement` is auto: it gains a part of
 * what the host costs, and of a step.
 */
bool weigh_is_worth(const struct weigh_answer *answer);

#endif
