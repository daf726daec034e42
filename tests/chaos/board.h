/* SPDX-License-Identifier: MIT */
/*
 * The board: one file that the conductor, the workers and the sampler have mapped. By it the work
 * and the memory of a killed worker are known after its death. Each word has one writer.
 */
#ifndef CHAOS_BOARD_H
#define CHAOS_BOARD_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WORKERS = 8,
	SLOTS = 2 * WORKERS, /* of a worker, and of the CUDA program it starts as its child */
	JOURNAL = 32,        /* operations that are remembered of each */
	LINE = 120,
};

/*
 * fixed: a limit that never changes; moving: one that changes while the job runs, and grows; none:
 * no name, no limit.
 */
enum job { JOB_FIXED, JOB_MOVING, JOB_NONE, JOBS };
extern const char *const job_names[JOBS];
enum job job_of(int slot);

#define MIB            ((size_t)1 << 20)
#define FIXED_LIMIT    (32 * MIB)
#define MOVING_LIMIT   (32 * MIB)
#define MOVING_MAX     (64 * MIB)
#define CONTEXT_MEMORY MIB

/* Memory that a worker gives to others: each word i is i * factor + term. */
struct gift {
	CUipcMemHandle handle;
	uint64_t size;
	uint32_t factor, term;
};

struct slot {
	_Atomic int pid;
	_Atomic uint64_t life, step;
	/*
	 * Bytes on the device that no limit refuses, by design: contexts, graphs' memory. Raised
	 * before they come, lowered after they went.
	 */
	_Atomic uint64_t unrefused;
	_Atomic uint64_t operations, verified, refused;
	_Atomic int has_failed;
	char failure[400];
	char journal[JOURNAL][LINE];   /* by step */
	_Atomic uint32_t gift_version; /* odd while it is written */
	struct gift gift;
};

struct sampled {
	_Atomic uint64_t samples, peak, over; /* bytes: most held, most held beyond the bound */
};

struct board {
	uint64_t seed;
	_Atomic bool is_ending;
	_Atomic uint64_t bound[JOBS]; /* bytes the job may hold besides what is unrefused */
	struct sampled sampled[JOBS];
	_Atomic int sampler_failed;
	char sampler_failure[800];
	struct slot slot[SLOTS];
};

extern struct board *board;

/* Maps the board in the working directory; make: a new one. Ends the program where that fails. */
void board_open(bool make);
/* Says what was wrong at which step of which process, with its last operations. */
void board_tell(const struct slot *slot, int number);

#endif
