/* SPDX-License-Identifier: MIT */
/*
 * A grid at work.
 *
 * worker a thread that takes blocks of the grid and runs them; the caller of ptx_run() is the first
 * frame  one call of a function by some lanes of a warp: its registers and its local memory
 * split  lanes of a warp that are at the same instruction; a warp that has not diverged is one
 * join   where the splits of a divergent branch meet again: the immediate post-dominator, or the
 *        return address of a call; lanes that got there wait until all others did or exited
 *
 * Waiting at a join is a matter of speed, not of meaning. If the other lanes of a warp spin for
 * long, the waiting ones go on by themselves. So a spin lock between lanes makes progress.
 */
#ifndef SOFTGPU_PTX_MACHINE_H
#define SOFTGPU_PTX_MACHINE_H

#include <pthread.h>
#include <setjmp.h>

#include "helpers.h"
#include "module.h"

enum { MAX_JOINS = 64, MAX_WARPS = 32, BARRIERS = 16 };
enum { RESERVED_SHARED = 1024 }; /* bytes of a block that are the system's, as from sm_80 on */

struct frame {
	struct frame *parent; /* NULL: that of the entry */
	struct frame *next_free, *next_of_warp;
	const struct ptx_function *function;
	uint8_t *registers;
	uint32_t capacity; /* of registers */
	uint32_t lanes;    /* that are in this call or in a call it made */
	uint32_t return_at;
	const struct call *call;
	uint32_t local_base, local_top;
	uint32_t depth;
};

enum split_state {
	SPLIT_READY,
	SPLIT_AT_BARRIER,
	SPLIT_AT_COLLECTIVE,
};

struct join {
	struct frame *frame;
	uint32_t at;
	uint32_t expected, arrived;
	uint8_t outer; /* index of a join, or NO_JOIN */
	bool used;
};
enum { NO_JOIN = 255 };

struct split {
	struct frame *frame;
	uint32_t at; /* instruction index */
	uint32_t lanes;
	uint8_t join;
	uint8_t state;
	uint8_t barrier;
};

struct warp {
	uint8_t *bank[BANK_COUNT]; /* of the running split; first, for lanes() */
	struct frame *frame;       /* likewise */
	/* The accesses that may fault now; read after a signal. */
	const struct insn *volatile insn;
	volatile uint32_t mask;
	struct block *block;
	struct worker *worker;
	struct grid *grid;

	uint32_t index;
	uint32_t live; /* lanes that have not exited */
	struct split splits[LANES];
	uint32_t split_count;
	uint32_t current;
	struct join joins[MAX_JOINS];
	uint32_t budget; /* backward branches left of this turn */
	uint32_t spins;  /* turns that ended without anything but backward branches */
	bool polls;      /* a polling instruction has run since the last backward branch */
	bool polled;     /* this turn had a round of a loop that polls */
	bool met;        /* several splits may be at one place */
	bool asleep;
	uint64_t slept_until; /* by the launch's clock; of the last nap */

	struct frame *entry_frame, *free_frames, *all_frames;
	uint8_t *special;
	uint8_t *local; /* [lane][local_capacity] */
	uint32_t local_capacity;
};

struct barrier {
	uint32_t arrived;  /* threads */
	uint32_t expected; /* 0: all of the block that have not exited */
	uint32_t count;    /* threads that came with a true predicate */
};

struct block {
	struct block *next; /* of the worker */
	struct worker *worker;
	struct grid *grid;
	uint32_t id[3];
	struct warp *warps;
	uint32_t live; /* threads */
	struct barrier barriers[BARRIERS];
	uint8_t *shared;
	bool active;
};

enum { MAX_WORKERS = 16 };

/* One thread of a grid, as far as it has things for itself. */
struct worker {
	struct grid *grid;
	struct block *blocks; /* resident ones */
	uint32_t block_count;
	uint64_t executed;            /* warp instructions */
	uint64_t look_up;             /* at so many of them: time to poll */
	uint64_t next_wake;           /* of the warps that slept in this pass; 0: one was awake */
	uint64_t host_low, host_high; /* host memory that may be touched right now */

	struct warp *volatile running;
	sigjmp_buf failed;
	enum ptx_status status;
	struct ptx_fault fault;
	bool caller; /* of ptx_run() */
};

enum signal {
	SIGNAL_STOP = 1,  /* leave the grid */
	SIGNAL_PAUSE = 2, /* the caller is in poll() and may sleep there: wait for it */
};

struct grid {
	const struct ptx_function *function;
	const struct ptx_launch *launch;
	const struct ptx_memory *memory;
	const struct alu_set *alu;
	const uint8_t *parameters;

	uint32_t threads, warps; /* of a block */
	uint32_t shared_bytes, dynamic_shared_at, reserved_shared_at;
	uint32_t total_shared;             /* shared_bytes without those that are reserved */
	uint64_t poll_after;               /* warp instructions */
	uint64_t next_block, total_blocks; /* next_block: by atomic operations */
	uint64_t grid_words[2];            /* of a grid barrier */
	uint32_t signals;                  /* enum signal, by atomic operations */

	pthread_mutex_t pause; /* the caller is in poll() while SIGNAL_PAUSE is set */
	pthread_cond_t resume;
	pthread_mutex_t lock; /* of status and fault: the first that came */
	enum ptx_status status;
	struct ptx_fault *fault;

	bool asked; /* for help */
	struct offer offer;
	uint32_t worker_count; /* by atomic operations */
	struct worker workers[MAX_WORKERS];
};

static inline void *lanes(const struct warp *w, uint32_t slot)
{
	return w->bank[slot & 3] + (slot & ~3u);
}

/* Ends the grid; never returns. The message says what happened, in a person's words. */
__attribute__((noreturn, format(printf, 7, 8))) void
fault_raise(struct warp *w, enum ptx_status status, uint32_t lane, uint64_t address, uint32_t size,
            bool write, const char *format, ...);

/* Between these, SIGSEGV and SIGBUS of this thread inside the grid's memory end the grid. */
void fault_guard(struct worker *worker);
void fault_unguard(void);
/* After a signal: completes worker->fault from the warp that was running. */
void fault_locate(struct worker *worker);

/* Runs blocks until the grid has no more; faults leave it by a jump to worker->failed. */
void worker_run(struct worker *worker);
void worker_free(struct worker *worker);
/* Between turns: obeys signals, and polls when it is time. */
void worker_look_up(struct worker *worker);
/* Every warp that could run sleeps until then at least. */
void worker_rest(struct worker *worker, uint64_t until);

/* A turn of a warp: runs until it blocks, ends or has used up its budget. */
void warp_run(struct warp *w);
/*
 * Nothing in the block can move: lanes at collectives no longer wait, or else those at joins. For
 * example, lanes that leave early, while the rest of their warp is at a barrier of the block.
 * False: there are none.
 */
bool warp_force(struct warp *w);
void warp_start(struct warp *w, struct block *block, uint32_t index);

enum atomic {
	ATOMIC_ADD,
	ATOMIC_MIN,
	ATOMIC_MAX,
	ATOMIC_AND,
	ATOMIC_OR,
	ATOMIC_XOR,
	ATOMIC_INC,
	ATOMIC_DEC,
	ATOMIC_EXCH,
	ATOMIC_CAS,
};

enum barrier_mode {
	BARRIER_PLAIN,
	BARRIER_POPC,
	BARRIER_AND,
	BARRIER_OR,
};

/* Memory instructions; see memory.c for which instruction fields they read. */
handler memory_load, memory_load_padded, memory_store, memory_atomic, memory_load_parameter,
    memory_fence;
enum mbarrier_op {
	MBARRIER_INIT,
	MBARRIER_ARRIVE,
	MBARRIER_ARRIVE_DROP,
	MBARRIER_EXPECT,   /* bytes */
	MBARRIER_COMPLETE, /* bytes */
};
handler mbarrier_update, mbarrier_test, mbarrier_pending;
bool memory_atomic_is_supported(enum atomic op, enum type type);
/* Where `size` bytes at an address of a space are; faults otherwise. */
void *memory_resolve(struct warp *w, enum space space, uint32_t lane, uint64_t address,
                     uint32_t size, bool write);

handler collective_shuffle, collective_vote, collective_match, collective_reduce, collective_elect,
    collective_nothing;
handler rounded, read_clock, read_active_mask;

bool barrier_arrive(struct warp *w, const struct insn *in, uint32_t mask, bool wait);
void barrier_check(struct block *block);

#endif
