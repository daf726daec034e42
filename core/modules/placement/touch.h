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
#ifndef SPILLWAY_TOUCH_H
#define SPILLWAY_TOUCH_H

#include "core/memory/arena/arena.h"
#include "core/memory/arena/heat.h"

enum { HEAT_GAP = 128 };

/* Returns the time now, in steps of 4 ms; never 0. */
uint32_t heat_now(void);

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

/* --- for samples --- */

/* The touched memory: so many runs, or parts of a large one, the first at this address. */
struct heat_touched {
	CUdeviceptr first; /* 0: nothing that moves */
	uint32_t count;
};

#define HEAT_PART (ARENA_PART_UNITS * ARENA_UNIT)

/*
 * Marks its run as used now (outside of arenas its 2 MiB). Of a run that is known by
 * parts those from the address on to the next that kernels were given an address in; behind the
 * last of these, one.
 */
struct heat_touched heat_touch(CUdeviceptr address, enum heat_use use, uint32_t now);
/* Notes a launch with parameters that cannot be read. */
void heat_launched_blindly(void);
/* Returns the time now, and notes that the program is at work. */
uint32_t heat_work(void);

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

/* Fills in what the kernel asks of heat. */
void touch_add_calls(struct placement_calls *calls);

/*
 * Use of memory by the program: launches, copies and descriptors, and graphs. All of it ends as
 * heat.
 *
 * The memory of a graph is found when it is captured or a node gets its parameters. It is credited
 * to the graph, passed on to everything made of it, and touched again when that is launched.
 *
 * A graph or executable graph goes by its handle. Which stream a call is captured by is not asked:
 * what is met while captures are active is credited to each graph that comes out of them. Of a
 * graph with more than HEAT_GRAPH_RUNS runs the rest is used blindly. Thread-safe.
 */

enum { HEAT_GRAPH_RUNS = 4096, HEAT_GIVEN = 1 << 17 };

/* Fills in what the kernel says of launches, copies and graphs. */
void used_add_calls(struct placement_calls *calls);

/* --- queries of a survey --- */

/*
 * Writes the first addresses of the runs that an executable graph uses, or a launch's parameters
 * lead to where that is NULL, each once, and touches them. Returns how many; -1: not all are known,
 * or there are more than the room.
 */
int heat_uses_of(const void *graph, CUfunction function, void **parameters, void **extra,
                 CUdeviceptr *runs, size_t room);
/*
 * Returns a value that calls share which use the same memory, and touches that memory. For a launch
 * it takes no lock but that of the parameters.
 */
uint64_t heat_value_of_uses(const void *graph, CUfunction function, void **parameters,
                            void **extra);
/*
 * Writes the addresses that the kernels of the last such query were given, kernel by kernel, with a
 * 0 behind each kernel's. For example, a graph of two kernels that read A and write B, then read B:
 * A B 0 B 0. Returns how many words; 0: not all are known, or there are more than the room.
 */
size_t heat_given(CUdeviceptr *words, size_t room);

#endif
