/* SPDX-License-Identifier: MIT */
/*
 * Counters that are codes, each with its values and the word for each, from one list per code.
 *
 * CODES_<unit>(X): X(constant, word). The first means that there is nothing to report and is 0; of
 * several processes the highest counts, so graver ones come later. CODES(X): X(unit), every code
 * there is.
 */
#ifndef SPILLWAY_CODES_H
#define SPILLWAY_CODES_H

#include <stdint.h>

#define CODES(X)     \
	X(spill)     \
	X(refusal)   \
	X(pending)   \
	X(elastic)   \
	X(held)      \
	X(provider)  \
	X(tier)      \
	X(idle)      \
	X(placement) \
	X(shrink)    \
	X(source)    \
	X(cause)

/* Why memory was placed on the host. */
#define CODES_spill(X)                      \
	X(SPILL_NONE, "-")                  \
	X(SPILL_EVICTED, "evicted")         \
	X(SPILL_LIMIT, "limit")             \
	X(SPILL_DEVICE_FULL, "device_full") \
	X(SPILL_HOST_LIMIT, "host_memory")  \
	X(SPILL_YIELDED, "yielded") /* other jobs have claimed the device */

/* The limit, or the lack, for which the program was told that it is out of memory. */
#define CODES_refusal(X)                                                                    \
	X(REFUSED_NOTHING, "-")                                                             \
	X(REFUSED_MEMORY_LIMIT, "memory") /* spill = off: beyond it nothing is placed */    \
	X(REFUSED_UNMOVABLE, "unmovable") /* the limit, by memory that cannot leave */      \
	X(REFUSED_HOST_LIMIT, "host_memory")                                                \
	X(REFUSED_HOST_FULL, "host_full")     /* the machine, or its memory cgroup */       \
	X(REFUSED_POOL_SIZE, "pool_size")     /* the maxSize of the program's own pool */   \
	X(REFUSED_NO_BOOKS, "no_books")       /* the process is not in its job's books */   \
	X(REFUSED_DEVICE_FULL, "device_full") /* the device, with any limit */              \
	X(REFUSED_FIRST, "spill_after")       /* so that the program frees its cache */     \
	X(REFUSED_PROCESS, "process")         /* the process has no memory for its books */ \
	X(REFUSED_BOOKS_HELD, "books_held")   /* another process stands still with them */  \
	X(REFUSED_BY_DRIVER, "driver")        /* the driver, for a reason of its own */

/* Why a wanted move has not happened yet. */
#define CODES_pending(X)                                                                    \
	X(MOVE_NONE, "-")                  /* nothing is wanted */                          \
	X(MOVE_SOON, "soon")               /* wanted, and being prepared */                 \
	X(MOVE_CAPTURE, "capture")         /* a capture is active */                        \
	X(MOVE_INSIDE, "inside")           /* a thread stays inside a call of the driver */ \
	X(MOVE_WORK, "work")               /* work on the device does not end */            \
	X(MOVE_HOST_LIMIT, "host_memory")  /* the host has no room */                       \
	X(MOVE_PINNED, "pinned")           /* the rest must stay where it is */             \
	X(MOVE_DEVICE_FULL, "device_full") /* the device has no room, with any limit */     \
	X(MOVE_FAILED, "failed")           /* the driver refuses; it is tried again */

/* Says whether the device's allocations live in the arena, and if not, why. */
#define CODES_elastic(X)                                                                           \
	X(ELASTIC_UNUSED, "-") /* no allocation, or neither a name nor a limit */                  \
	X(ELASTIC_YES, "yes")                                                                      \
	X(ELASTIC_NO_VMM, "no_vmm")   /* driver or device have no virtual memory management */     \
	X(ELASTIC_NO_HOST, "no_host") /* nor physical memory on the host: old, or not permitted */ \
	X(ELASTIC_SPILL, "spill")     /* spill = managed or pinned: such memory cannot move */     \
	X(ELASTIC_NO_ADDRESSES, "no_addresses")

/*
 * Why limit_held is above limit_set, or memory of an evicted job on the device: the kind of memory
 * that cannot be moved.
 */
#define CODES_held(X)                                                                          \
	X(HELD_NONE, "-")                                                                      \
	X(HELD_CHANGING, "changing")   /* settings change faster than they can be read */      \
	X(HELD_PENDING, "pending")     /* it will move; see move_pending */                    \
	X(HELD_FOREIGN, "foreign")     /* contexts, arrays and other memory of the driver's */ \
	X(HELD_PINNED, "pinned")       /* exported, registered, or pin_new */                  \
	X(HELD_HOST_FULL, "host_full") /* host_memory, or no memory there */

/* Ways to make memory on the host. */
#define CODES_provider(X)              \
	X(PROVIDER_NONE, "-")          \
	X(PROVIDER_NUMA, "vmm_numa")   \
	X(PROVIDER_HOST, "vmm_host")   \
	X(PROVIDER_MANAGED, "managed") \
	X(PROVIDER_PINNED, "pinned")

/* Where memory is; as enum segment_tier. */
#define CODES_tier(X)            \
	X(TIER_DEVICE, "device") \
	X(TIER_HOST, "host")

/* Why a launch was held back. */
#define CODES_idle(X)                                                 \
	X(IDLE_NONE, "-")                                             \
	X(IDLE_SHARE, "share")       /* the account is in debt */     \
	X(IDLE_TURN, "turn")         /* another job has the device */ \
	X(IDLE_PAUSE, "pause")       /* the share is 0 */             \
	X(IDLE_PRIORITY, "priority") /* jobs that go first leave no time */

/* The rule by which memory is on the host. */
#define CODES_placement(X)                                                                 \
	X(PLACED_NOWHERE, "-")         /* no memory that can move is on the host */        \
	X(PLACED_BY_HEAT, "heat")      /* how lately it was used */                        \
	X(PLACED_SURVEYED, "survey")   /* heat, until a survey has measured the kernels */ \
	X(PLACED_KEPT, "kept")         /* a survey: little would be gained elsewhere */    \
	X(PLACED_BALANCED, "balanced") /* a survey: it is where it costs kernels least */

/* How memory leaves where the limit falls. */
#define CODES_shrink(X)                                \
	X(SHRINKS_NOTHING, "-") /* nothing can move */ \
	X(SHRINKS_FAST, "fast")                        \
	X(SHRINKS_GENTLY, "gentle")

/* Where a limit comes from that something else enforces. */
#define CODES_source(X)                                                        \
	X(SOURCE_NONE, "-")                                                    \
	X(SOURCE_CGROUP, "cgroup") /* the process's own: dmem.max, dmem.min */ \
	X(SOURCE_PARENT, "parent") /* a cgroup above it */                     \
	X(SOURCE_NVML, "nvml")

/* The command by which a user changed settings: set, pause or resume; top; web's page. */
#define CODES_cause(X) \
	X(CAUSE_NONE, "-") X(CAUSE_COMMAND, "command") X(CAUSE_TOP, "top") X(CAUSE_PAGE, "page")

#define X(constant, word) constant,
enum spill_reason { CODES_spill(X) };
enum refusal_reason { CODES_refusal(X) };
enum move_pending { CODES_pending(X) };
enum elastic { CODES_elastic(X) };
enum held_reason { CODES_held(X) };
enum provider_code { CODES_provider(X) };
enum tier_code { CODES_tier(X) };
enum idle_reason { CODES_idle(X) };
enum placement_code { CODES_placement(X) };
enum shrink_code { CODES_shrink(X) };
enum limit_source { CODES_source(X) };
enum cause_code { CODES_cause(X) };
#undef X

/* The sources of a hard and a soft limit as one word. */
static inline uint64_t limit_source_pack(enum limit_source hard, enum limit_source soft)
{
	return (uint64_t)hard | (uint64_t)soft << 8;
}

/*
 * How a process's memory is placed on a device, and the worth of that: one word, so that a reader
 * has all of it, or 0. It stands beside the ledger; the mover alone writes it.
 */
struct placed {
	enum placement_code placement;
	enum shrink_code shrink;
	/*
	 * The time of the program's kernels, in percent of their time with nothing on the host: as
	 * a survey found it, and as it estimated it with memory where it is best. For example, 130
	 * means that a step of 100 ms takes 130 ms. 0: no survey was made. At most PLACED_MOST.
	 */
	uint32_t before, best;
};

#define PLACED_MOST ((UINT32_C(1) << 24) - 1)

static inline uint64_t placed_pack(const struct placed *placed)
{
	return (uint64_t)placed->placement | (uint64_t)placed->shrink << 8 |
	       (uint64_t)placed->before << 16 | (uint64_t)placed->best << 40;
}

static inline struct placed placed_unpack(uint64_t word)
{
	return (struct placed){.placement = (enum placement_code)(word & 0xff),
	                       .shrink = (enum shrink_code)(word >> 8 & 0xff),
	                       .before = word >> 16 & PLACED_MOST,
	                       .best = word >> 40 & PLACED_MOST};
}

#endif
