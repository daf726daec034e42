/* SPDX-License-Identifier: MIT */
/*
 * Every figure that Spillway shows of one process on one device, from one list.
 *
 * STATISTICS_OF(C, L) is the list. A counter is C(name, how, unit, meaning). L(name, how, unit,
 * meaning) stands in the process's ledger or follows from it (ledger.h, verdict.h). STATISTICS(X)
 * has them all, COUNTERS(X) the counters alone. how says which figure a job has:
 *
 * SUM   it grows; the sum over the job's processes, the ended ones too
 * NOW   a level; the sum over live processes
 * MOST  a level; the highest of live processes
 * PEAK  the highest level; the segment's own peak where it has one, else the highest
 * SAME  a setting, alike in all processes; the live ones', else the last
 * LAST  a fact of the latest refusal; that of the process that was refused last
 *
 * For example, two live processes at 1 and 2 GiB make 3 GiB by NOW and 2 GiB by MOST. The unit is
 * bytes, count, ns, time (ns since 1970), millipercent (thousandths of a percent), error (a
 * CUresult), or a code of codes.h.
 *
 * A counter is written by the owning process alone with relaxed atomics and read by anyone; nothing
 * is decided by it. Counters that belong together are changed between statistics_begin() and
 * statistics_end(), which wait for no reader; a reader sees none of the changes or all (view.c).
 * Launches are counted in a place of the thread's own, if it is one of the first, because a locked
 * add costs as much as the rest of a launch. counters_get() adds the places up.
 *
 * tools/view/counters.c makes each list of all figures (JSON, CSV, Prometheus, its man page) from
 * this one. A new unit does not compile until each format knows it.
 */
#ifndef SPILLWAY_STATISTICS_H
#define SPILLWAY_STATISTICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/ledger/codes.h"

#define STATISTICS_OF(C, L)                                                                    \
	L(device_used, NOW, bytes, "device memory held")                                       \
	L(device_peak, PEAK, bytes, "most device memory held")                                 \
	L(host_used, NOW, bytes, "host memory held in place of device memory")                 \
	L(host_peak, PEAK, bytes, "most host memory held in place of device memory")           \
	L(driver_used, NOW, bytes, "of device_used: the driver's own, as for contexts")        \
	L(driver_peak, PEAK, bytes, "most of the driver's own")                                \
	C(pinned_used, NOW, bytes, "host memory the program pinned itself")                    \
	L(limit_set, SAME, bytes, "limit in force; 18446744073709551615: none")                \
	L(limit_held, SAME, bytes, "limit that could be reached")                              \
	L(hard_limit, SAME, bytes, "limit of a cgroup, beyond which the driver refuses")       \
	L(hard_from, SAME, source, "where hard_limit comes from")                              \
	L(soft_limit, SAME, bytes, "limit beyond which the driver may end a process")          \
	L(soft_from, SAME, source, "where soft_limit comes from")                              \
	L(reserve, SAME, bytes, "memory of the device that all jobs leave free")               \
	C(allocations, NOW, count, "live allocations")                                         \
	C(spills, SUM, count, "allocations placed on the host")                                \
	C(spilled_bytes, SUM, bytes, "bytes placed on the host")                               \
	C(refusals, SUM, count, "allocations answered with out of memory")                     \
	C(refused_reason, LAST, refusal, "why the latest was")                                 \
	C(refused_bytes, LAST, bytes, "bytes that the latest asked for")                       \
	C(refused_short, LAST, bytes, "of these: those for which there was no room")           \
	C(refused_limit, LAST, bytes, "the limit that refused it, if one did")                 \
	C(refused_at, LAST, time, "when the latest was, since 1970; 0: there was none")        \
	C(reported_limit, SUM, count, "questions for the memory's size answered by the limit") \
	C(spill_reason, PEAK, spill, "gravest reason of a spill")                              \
	C(launches, SUM, count, "kernel launches")                                             \
	C(graph_launches, SUM, count, "graph launches")                                        \
	C(busy_ns, SUM, ns, "measured GPU time; counted while paced")                          \
	C(idle_ns, SUM, ns, "idle time inserted before launches")                              \
	C(idle_slots, SUM, count, "idle slots inserted")                                       \
	L(share_set, SAME, millipercent, "share of GPU time asked for")                        \
	C(share_held, NOW, millipercent, "share held over the last 5 s, while paced")          \
	C(share_estimated, MOST, count, "1 while share_held is an estimate")                   \
	C(paused, NOW, count, "1 while a launch waits because the share is 0")                 \
	C(steps, SUM, count, "steps of the program that were seen in its launches")            \
	C(step_ns, SAME, ns, "time from step to step lately; 0: not known")                    \
	C(watched_launches, SUM, count, "launches in which steps were looked for")             \
	L(device_pool, NOW, bytes, "device memory held ready for new chunks")                  \
	L(host_pool, NOW, bytes, "host memory held ready for new chunks")                      \
	L(pinned_chunks, NOW, bytes, "device memory that must stay on the device")             \
	C(demotions, SUM, count, "live chunks moved to the host")                              \
	C(promotions, SUM, count, "live chunks moved to the device")                           \
	C(demoted_bytes, SUM, bytes, "bytes of live chunks moved to the host")                 \
	C(promoted_bytes, SUM, bytes, "bytes of live chunks moved to the device")              \
	C(queued_moves, SUM, count, "of all moves: those before which work was in flight")     \
	C(move_ns, SUM, ns, "time for which the gate was closed to move chunks")               \
	C(move_longest_ns, PEAK, ns, "longest time for which it was closed")                   \
	L(move_pending, MOST, pending, "why a move waits")                                     \
	L(elastic, SAME, elastic, "whether memory can move, or why not")                       \
	L(limit_grown, SAME, bytes, "of limit_set: by how much it has risen by itself")        \
	L(held_reason, MOST, held, "why more is on the device than is to be")                  \
	L(evicted, SAME, count, "1 while pause --evict is in force")                           \
	L(placement, SAME, placement, "what decides which memory is on the host")              \
	L(kernels_before, SAME, millipercent, "kernels' time, of that with none spilled")      \
	L(kernels_best, SAME, millipercent, "likewise, with memory where it is best")          \
	L(shrink, SAME, shrink, "how memory leaves where the limit falls")                     \
	C(provider, SAME, provider, "what makes memory on the host")                           \
	C(numa_error, SAME, error, "why provider vmm_numa does not work; 0: it does")          \
	C(host_error, SAME, error, "why provider vmm_host does not work; 0: it does")          \
	C(managed_error, SAME, error, "why provider managed does not work; 0: it does")        \
	C(pinned_error, SAME, error, "why provider pinned does not work; 0: it does")
#define STATISTICS(X) STATISTICS_OF(X, X)
#define COUNTERS(X)   STATISTICS_OF(X, STATISTICS_OF_LEDGER)
#define STATISTICS_OF_LEDGER(...)

enum { COUNTERS_PLACES = 4 };

/* The counts of one thread, which is the only one that writes here. */
struct counters_place {
	_Atomic uint64_t launches, graph_launches;
};

/* The counters of one process on one device, in its process slot. */
struct counters {
	_Atomic uint64_t ended; /* of the changes that were begun; a reader's first */
	struct counters_place place[COUNTERS_PLACES];
#define X(name, how, unit, meaning) _Atomic uint64_t name;
	COUNTERS(X)
#undef X
	_Atomic uint64_t begun; /* a reader's last */
};

/* All that is shown of a process or a job on one device: counters, ledgers, and the verdict on them
 * (view.c). */
struct statistics {
#define X(name, how, unit, meaning) _Atomic uint64_t name;
	STATISTICS(X)
#undef X
};

#define statistics_add(counter, n) atomic_fetch_add_explicit(counter, n, memory_order_relaxed)
#define statistics_sub(counter, n) atomic_fetch_sub_explicit(counter, n, memory_order_relaxed)
#define statistics_set(counter, n) atomic_store_explicit(counter, n, memory_order_relaxed)
#define statistics_get(counter)    atomic_load_explicit(counter, memory_order_relaxed)

/* Counts one in a place, by its thread. */
static inline void statistics_count(_Atomic uint64_t *counter)
{
	statistics_set(counter, statistics_get(counter) + 1);
}

static inline uint64_t counters_sum(const struct counters *counters,
                                    const _Atomic uint64_t *counter)
{
	uint64_t sum = statistics_get(counter);

	for (int i = 0; i < COUNTERS_PLACES; i++) {
		if (counter == &counters->launches)
			sum += statistics_get(&counters->place[i].launches);
		else if (counter == &counters->graph_launches)
			sum += statistics_get(&counters->place[i].graph_launches);
	}
	return sum;
}
/* Returns a counter by its name, with the counts of all places. */
#define counters_get(counters, name) counters_sum(counters, &(counters)->name)

/* Begins a change of several counters. Any number of threads may be between begin and end at a
 * time; nothing that waits belongs there. */
static inline void statistics_begin(struct counters *counters)
{
	atomic_fetch_add_explicit(&counters->begun, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static inline void statistics_end(struct counters *counters)
{
	atomic_fetch_add_explicit(&counters->ended, 1, memory_order_release);
}

#endif
