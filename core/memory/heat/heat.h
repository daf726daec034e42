/* SPDX-License-Identifier: MIT */
/*
 * Heat: which memory the program's kernels, copies and graphs use, sampled from their parameters.
 *
 * touched  of a run (allocation or slab): when it was used last, and how its use is known (enum
 *          heat_use). A run of more than 256 MiB may be a program's own pool of memory. Once
 *          kernels were given addresses in two parts of it, of 64 MiB, each part is known by
 *          itself, and every rule for runs holds for parts
 * time     milliseconds in which the program was at work. A pause counts as HEAT_GAP at most, so
 *          nothing cools down in a program that is stopped, waits for input or for one long kernel
 * window   how long after its last use a run is hot: 16 times the interval at which runs are
 *          typically met again, at least 2 s. Steps that take long or are sampled thinly stretch
 *          it. For example, with steps of 300 ms it is 4.8 s
 * blind    work was launched with unknown memory
 *
 * hot: used within the window. Mild: likewise, but met by copies only, which cost the same from the
 * host. Cold: handed to kernels once, and not within the window. All else is warm, because its
 * pointer may hide where no sample looks. Memory that was never met is warm, and memory met by
 * copies only, since a table on the device may lead to it. So are memory behind a descriptor, and
 * cold memory while the program launches blindly.
 *
 * Thread-safe; takes no lock except in a sampled launch.
 *
 * A launch is looked at after the driver took it, at random, at most once in 32 or 64 where
 * launches come quickly, else as often as 0.1 ms per look allows; captures always. Before CUDA
 * 12.4 parameters are read from `.nv.info` of cubins; PTX kernels count as blind there.
 */
#ifndef SPILLWAY_HEAT_H
#define SPILLWAY_HEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cuda/capture.h"
#include "core/cuda/driver.h"
#include "core/memory/arena/arena.h"

enum { HEAT_GAP = 128 };

/* Returns the time now, in steps of 4 ms; never 0. */
uint32_t heat_now(void);

enum heat { HEAT_COLD, HEAT_WARM, HEAT_MILD, HEAT_HOT };

/* The low bits of `touched`. A run starts with 0: never met. */
enum heat_use {
	HEAT_COPIED = 0,
	HEAT_LAUNCHED = 1, /* it was a parameter of a kernel */
	HEAT_HIDDEN = 2,   /* a descriptor leads to it: it is never cold */
	HEAT_USE = 3,
};

/* Returns the heat of a run with this `touched`, as of now. */
enum heat heat_of(uint32_t touched, uint32_t now);
/*
 * Returns the milliseconds since it was touched: the order within one heat. It may have been
 * touched after `now` was taken.
 */
static inline uint32_t heat_age(uint32_t touched, uint32_t now)
{
	uint32_t age = now - (touched & ~(uint32_t)HEAT_USE);

	return age > UINT32_MAX - 60000 ? 0 : age;
}

/* --- sampling --- */

/*
 * Launches and copies between two that are looked at, on average, where they come quickly; 0: none
 * is.
 */
enum heat_sampling { HEAT_OFF = 0, HEAT_CLOSELY = 32, HEAT_THINLY = 64, HEAT_SELDOM = 8192 };
extern _Atomic uint32_t heat_sampling;

/*
 * Samples thinly where an arena exists, closely where something is spilled or to be demoted, seldom
 * where it is known what is to be on the host.
 */
static inline void heat_sample(enum heat_sampling sampling)
{
	atomic_store_explicit(&heat_sampling, sampling, memory_order_relaxed);
}

struct heat_countdown {
	int32_t left; /* launches and copies of this thread until one is looked at */
};
extern __thread struct heat_countdown heat_countdown __attribute__((tls_model("initial-exec")));

/*
 * Returns, after each launch or copy, whether to look at this one; while a capture is active,
 * always. Where nothing is sampled one relaxed load and one predictable branch.
 */
static inline bool heat_is_due(void)
{
	if (__builtin_expect(!atomic_load_explicit(&heat_sampling, memory_order_relaxed), 1))
		return false;
	return __builtin_expect((--heat_countdown.left <= 0) | (int)capture_is_active(), 0);
}

/* --- for samples (used.h) --- */

/* The touched memory: so many runs, or parts of a large one, the first at this address. */
struct heat_touched {
	CUdeviceptr first; /* 0: nothing that moves */
	uint32_t count;
};

#define HEAT_PART (ARENA_PART_UNITS * ARENA_UNIT)

/*
 * Marks its run as used now (outside of arenas its 2 MiB, heat.h). Of a run that is known by
 * parts those from the address on to the next that kernels were given an address in; behind the
 * last of these, one.
 */
struct heat_touched heat_touch(CUdeviceptr address, enum heat_use use, uint32_t now);
/* Returns the first unit of the run, or part, that a unit's heat is of. */
uint32_t heat_unit(const struct arena *arena, uint32_t unit);
/* Notes a launch with parameters that cannot be read. */
void heat_launched_blindly(void);
/* Returns the time now, and notes that the program is at work. */
uint32_t heat_work(void);
/* Puts this thread's next sample off for a while. */
void heat_sampled(void);

/*
 * When memory outside of arenas was used last: a word for each 2 MiB of addresses that the
 * program has mapped itself.
 *
 * Words are never freed, so that they are found without a lock. Thread-safe.
 */
#define TOUCHED_UNIT ((uint64_t)2 << 20)

/* All words are for addresses within; low is above high while there are none. */
extern struct touched_span {
	_Atomic CUdeviceptr low, high;
} touched_span;

/* Gives the range words, all 0: never used. Returns whether there was memory for them. */
bool touched_open(CUdeviceptr address, size_t size);
/* Returns the word for an address; NULL: it has none. */
_Atomic uint32_t *touched_word(CUdeviceptr address);

#endif
