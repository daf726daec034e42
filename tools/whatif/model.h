/* SPDX-License-Identifier: MIT */
/*
 * The model: what a step takes under another limit, over another link, with another share.
 *
 *   kernel   takes as long as it computes, or as long as the link takes for what it reads of the
 *            host, whichever is longer (core/modules/placement/weigh.h). Both are learned from a
 *            survey
 *   graph    is its kernels, one after the other. They are taken to compute for equally long
 *   tensor   the memory from an address that a kernel was given to the next one that any kernel
 *            was given, or to the end of the run. A kernel reads each of its tensors once
 *   place    first by heat: the memory of most launches is on the device. Then as
 *            the placer would move it: the same function is asked about the times that a survey
 *            would find there
 *   rest     of a step, in which no kernel runs, stays as it was measured
 *   share    a step takes no less than its kernels' time divided by the share
 *
 * For example, a step of 300 ms has 150 kernels of 2 ms. With 25 % of the memory on the host the
 * link takes 5 ms for a third of them. A step is then 100 x 2 + 50 x 5 = 450 ms, 1.5 times as long.
 *
 * Pure functions of a record. A prediction costs some milliseconds for 10 GiB.
 */
#ifndef SPILLWAY_WHATIF_MODEL_H
#define SPILLWAY_WHATIF_MODEL_H

#include "tools/whatif/record.h"

/* Of two numbers; the tool is not linked to libm. */
static inline double higher(double a, double b)
{
	return a > b ? a : b;
}

static inline double lower(double a, double b)
{
	return a < b ? a : b;
}

/* How the link is known. */
enum link_source {
	LINK_MODELLED, /* nobody has measured it */
	LINK_MOVED,    /* as fast as memory moved */
	LINK_READ,     /* as fast as kernels read from the host */
};

/* Bytes per second of a PCIe link that is supposed where none was measured. */
#define MODEL_LINK ((double)16 * (1 << 30))
/* Likewise of the software GPU, as `run --softgpu` sets it. */
#define MODEL_SOFTGPU_LINK ((double)421 * (1 << 20))

/* The first tensors of a model are its runs, each as a whole. */
struct model_tensor {
	uint32_t run;
	uint64_t from, to; /* bytes from the beginning of the run */
	uint64_t most;     /* as `to`, with all that may be free memory of a pool */
};

/* A kernel: a plain launch, or one of a launched graph's. */
struct model_node {
	uint32_t kernel;       /* the launch, among the record's kernels */
	uint32_t first, count; /* its tensors, in the list of uses */
};

/* How often the kernels of all steps read a byte of a piece. */
struct model_traffic {
	double reads;
	uint32_t piece;
};

struct model {
	const struct survey_record *record;
	struct model_tensor *tensor;
	size_t tensors;
	struct model_node *node;
	size_t nodes;
	uint32_t *use;    /* tensors */
	uint64_t *use_to; /* of each: the kernel reads up to there, in bytes of the run */
	size_t uses;
	size_t *node_first; /* of each launch, and one more: its first kernel */
	uint64_t *base;     /* of each of the record's pieces: its offset in its run */
	size_t *run_first;  /* of each run, and one more: its first piece among the record's */
	uint32_t *piece_of; /* of each of the record's pieces that is used: the piece that moves */
	struct weigh_known *known; /* of each kernel */
	struct weigh_piece *piece;
	size_t pieces;
	struct model_traffic *traffic; /* of each piece, the least read first */
	double link;                   /* bytes per second */
	enum link_source source;
	bool has_graph;  /* a launch is a graph, of whose kernels little is measured */
	bool has_read;   /* kernels read from the host while they were measured */
	uint64_t unused; /* bytes of memory that no kernel uses, which leaves first */
	uint64_t fixed;  /* bytes that stay on the device whatever the limit is */
	/* Of one step, or of all that was measured where there are none; nanoseconds. */
	double step_ns;
	double kernels_ns; /* of them all, as measured */
	double overlap;    /* what they take together, to the sum of what each takes */
	double steps;      /* of the program, that were measured; 1 where there are none */
	double unknown;  /* part of the kernels' time of which it is not known what they compute */
	double least_ns; /* a step with nothing on the host; without steps, the kernels of it all */
};

struct model_question {
	uint64_t limit;
	double link;  /* bytes per second; 0: as known */
	double share; /* of GPU time, at most 1 */
};

struct model_answer {
	uint64_t limit;
	double link, share;
	bool is_possible;                /* the limit holds what must stay */
	uint64_t host;                   /* bytes on the host */
	double step_ns, low_ns, high_ns; /* without steps: of the kernels alone */
	double times;  /* step_ns, to a step with nothing on the host and the whole GPU */
	double busy;   /* part of the time in which kernels run */
	double bus;    /* bytes that kernels read of the host in a step */
	bool is_moved; /* the placer moves memory from where it was allocated */
};

/* Learns from a record, which has to outlive the model. model_free() frees it. */
void model_make(struct model *model, const struct survey_record *record);
void model_free(struct model *model);
void model_ask(const struct model *model, const struct model_question *question,
               struct model_answer *answer);

/* Returns how long a step took, or without steps all kernels. */
double model_measured(const struct model *model);
/* Returns the most memory that a limit can matter to: all that the job held. */
uint64_t model_held(const struct model *model);
/*
 * Returns the smallest limit at which a step takes at most (1 + slowdown) times as long as with
 * nothing on the host; as `like` in all else.
 */
uint64_t model_smallest(const struct model *model, const struct model_question *like,
                        double slowdown);
/*
 * Returns the limit below which a step becomes longer most quickly: the knee of the curve. Where
 * that is nearly straight: all that the job held.
 */
uint64_t model_knee(const struct model *model, const struct model_question *like);

/*
 * Two jobs on one GPU. Each has what it needs of the time where both need no more than there is;
 * else each has at least half, or its share. Changes step times and ranges.
 */
void model_beside(struct model_answer *one, struct model_answer *other);

#endif
