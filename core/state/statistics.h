/*
 * Every counter Spillway keeps about one process on one device, from one list.
 *
 * X(name, how, unit, meaning); how: SUM (grows; a job's is the sum over processes, the ended ones
 * too), NOW (a level; a job's is the sum over live processes), MOST (a level; a job's is the highest of
 * live processes), PEAK (highest level; a job's is the segment's own peak where it has one, else the
 * highest), SAME (a setting, alike in all processes; a job's is the live ones', else the last); unit:
 * bytes, count, ns, millipercent (thousandths of a percent), error (a CUresult), or a code of codes.h.
 * Written by the owning process alone with relaxed atomics; read by anyone. What belongs together is changed between
 * statistics_begin() and statistics_end(), which wait for nobody; who looks sees none of it or all (view.c).
 */
#ifndef SPILLWAY_STATISTICS_H
#define SPILLWAY_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/state/codes.h"

#define STATISTICS(X)                                                                      \
	X(device_used, NOW, bytes, "device memory held")                                   \
	X(device_peak, PEAK, bytes, "most device memory held")                             \
	X(host_used, NOW, bytes, "host memory held in place of device memory")             \
	X(host_peak, PEAK, bytes, "most host memory held in place of device memory")       \
	X(pinned_used, NOW, bytes, "host memory the program pinned itself")                \
	X(limit_set, SAME, bytes, "limit in force; 18446744073709551615: none")            \
	X(limit_held, SAME, bytes, "limit that could be reached")                          \
	X(allocations, NOW, count, "live allocations")                                     \
	X(spills, SUM, count, "allocations placed on the host")                            \
	X(spilled_bytes, SUM, bytes, "bytes placed on the host")                           \
	X(refusals, SUM, count, "allocations answered with out of memory")                 \
	X(told_limit, SUM, count, "questions for the memory's size answered by the limit") \
	X(spill_reason, PEAK, spill, "gravest reason of a spill")                          \
	X(launches, SUM, count, "kernel launches")                                         \
	X(graph_launches, SUM, count, "graph launches")                                    \
	X(busy_ns, SUM, ns, "measured GPU time; counted while paced")                      \
	X(idle_ns, SUM, ns, "idle time inserted before launches")                          \
	X(idle_slots, SUM, count, "idle slots inserted")                                   \
	X(share_set, SAME, millipercent, "share of GPU time asked for")                    \
	X(share_held, NOW, millipercent, "share held over the last 5 s, while paced")      \
	X(share_estimated, MOST, count, "1 while share_held is an estimate")               \
	X(paused, NOW, count, "1 while a launch waits because the share is 0")             \
	X(steps, SUM, count, "steps of the program, as its launches tell")                 \
	X(step_ns, SAME, ns, "time of a step lately; 0: not known")                        \
	X(device_pool, NOW, bytes, "device memory held ready for new chunks")              \
	X(host_pool, NOW, bytes, "host memory held ready for new chunks")                  \
	X(pinned_chunks, NOW, bytes, "device memory that must stay on the device")         \
	X(demotions, SUM, count, "live chunks moved to the host")                          \
	X(promotions, SUM, count, "live chunks moved to the device")                       \
	X(demoted_bytes, SUM, bytes, "bytes of live chunks moved to the host")             \
	X(promoted_bytes, SUM, bytes, "bytes of live chunks moved to the device")          \
	X(queued_moves, SUM, count, "of all moves: those before which work was in flight") \
	X(move_ns, SUM, ns, "time for which the gate was closed to move chunks")           \
	X(move_longest_ns, PEAK, ns, "longest time for which it was closed")               \
	X(move_pending, MOST, pending, "why a move waits")                                 \
	X(elastic, SAME, elastic, "whether memory can move, or why not")                   \
	X(limit_grown, SAME, bytes, "of limit_set: by how much it has risen by itself")    \
	X(held_reason, MOST, held, "why more is on the device than is to be")              \
	X(evicted, SAME, count, "1 while pause --evict is in force")                       \
	X(provider, SAME, provider, "what makes memory on the host")                       \
	X(numa_error, SAME, error, "why provider vmm_numa does not work; 0: it does")      \
	X(host_error, SAME, error, "why provider vmm_host does not work; 0: it does")      \
	X(managed_error, SAME, error, "why provider managed does not work; 0: it does")    \
	X(pinned_error, SAME, error, "why provider pinned does not work; 0: it does")

struct statistics {
	_Atomic uint64_t ended; /* of the changes that were begun; a reader's first */
#define X(name, how, unit, meaning) _Atomic uint64_t name;
	STATISTICS(X)
#undef X
	_Atomic uint64_t begun; /* a reader's last */
};

#define statistics_add(counter, n) atomic_fetch_add_explicit(counter, n, memory_order_relaxed)
#define statistics_sub(counter, n) atomic_fetch_sub_explicit(counter, n, memory_order_relaxed)
#define statistics_set(counter, n) atomic_store_explicit(counter, n, memory_order_relaxed)
#define statistics_get(counter)    atomic_load_explicit(counter, memory_order_relaxed)

/* Any number of threads may be between them at a time; nothing that waits belongs there. */
static inline void statistics_begin(struct statistics *statistics)
{
	atomic_fetch_add_explicit(&statistics->begun, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static inline void statistics_end(struct statistics *statistics)
{
	atomic_fetch_add_explicit(&statistics->ended, 1, memory_order_release);
}

#endif
