/* SPDX-License-Identifier: MIT */
/*
 * Events: the acts of a process and their times, on which device; each process writes its own into
 * its ring (ring.h).
 *
 * EVENTS(X): X(kind, time, meaning, and three values, each a name and its unit). time: SPAN (has a
 * begin and a duration) or MOMENT (a begin alone). Unit: bytes, count, ns, millipercent, flag (0 or
 * 1), user (number + 1; 0: none), a code of codes.h, or none, named _. `used` is the device memory
 * that this process holds just then, and host_used the host memory in its place.
 *
 * event_note() may be called in any thread, with any lock held, and in a signal handler: no lock,
 * no system call, no allocation. Without a reader there is no ring, and it is one load and one
 * branch.
 */
#ifndef SPILLWAY_EVENT_H
#define SPILLWAY_EVENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/ledger/codes.h"

#define EVENTS(X)                                                                                  \
	X(burst, SPAN, "work of the device, as measured", launches, count, _, none, _, none)       \
	X(slot, SPAN, "idle slot before a launch", why, idle, _, none, _, none)                    \
	X(turn, SPAN, "time in which this job had the device", _, none, _, none, _, none)          \
	X(move, SPAN, "memory moved, while calls were held", bytes, bytes, to, tier, used, bytes)  \
	X(spill, MOMENT, "memory was placed on the host", bytes, bytes, reason, spill, used,       \
	  bytes)                                                                                   \
	X(refusal, MOMENT, "an allocation was answered with out of memory", bytes, bytes, limit,   \
	  bytes, reason, refusal)                                                                  \
	X(limit, MOMENT, "the memory limit in force is another, or is held now", set, bytes, held, \
	  bytes, used, bytes)                                                                      \
	X(share, MOMENT, "the share of GPU time is another", set, millipercent, _, none, _, none)  \
	X(pause, MOMENT, "launches wait from now on", _, none, _, none, _, none)                   \
	X(resume, MOMENT, "launches go on", _, none, _, none, _, none)                             \
	X(step, SPAN, "one period of the launch sequence", number, count, _, none, _, none)        \
	X(configuration, MOMENT, "settings were read again", accepted, flag, through, cause, by,   \
	  user)                                                                                    \
	X(allocation, MOMENT, "more than 1 MiB was allocated", bytes, bytes, used, bytes,          \
	  host_used, bytes)                                                                        \
	X(free, MOMENT, "more than 1 MiB was freed", bytes, bytes, used, bytes, host_used, bytes)  \
	X(context, MOMENT, "a context was met, or is gone", alive, flag, _, none, _, none)         \
	X(claim, MOMENT, "memory was claimed of other jobs", bytes, bytes, used, bytes, host_used, \
	  bytes)                                                                                   \
	X(yield, MOMENT, "memory has left for another job, which claimed it", bytes, bytes, used,  \
	  bytes, host_used, bytes)                                                                 \
	X(grant, MOMENT, "memory has come that other jobs gave", bytes, bytes, used, bytes,        \
	  host_used, bytes)

enum event_kind {
#define X(kind, time, meaning, ...) EVENT_##kind,
	EVENTS(X)
#undef X
	    EVENT_KINDS
};

/* allocation and free are noted above this size; smaller ones lie in slabs. */
#define EVENT_ALLOCATION_LEAST ((uint64_t)1 << 20)
#define EVENT_NO_DEVICE        (-1)

struct event {
	enum event_kind kind;
	int device;                     /* ordinal in this process, or EVENT_NO_DEVICE */
	uint64_t begin_ns, duration_ns; /* CLOCK_MONOTONIC; begin 0: now */
	uint64_t a, b, c;               /* as EVENTS says */
	uint64_t object;                /* the address by which a handle names it; 0: none */
	uint32_t context;               /* of the object: N of its container "ctxN"; 0: none */
};

struct ring;

/* The process's ring; NULL: events are not kept. */
extern _Atomic(struct ring *) event_ring;

void ring_write(struct ring *ring, const struct event *event);

/* Returns N of "ctxN"; 0: another container. */
static inline uint32_t event_context(const char *container)
{
	return strncmp(container, "ctx", 3) == 0 ? (uint32_t)strtoul(container + 3, NULL, 10) : 0;
}

/*
 * event_note(.kind = EVENT_burst, .device = ordinal, ...): the arguments are evaluated only if the
 * event is kept.
 */
#define event_note(...)                                                                          \
	do {                                                                                     \
		struct ring *event_to = atomic_load_explicit(&event_ring, memory_order_acquire); \
		if (__builtin_expect(event_to != NULL, 0))                                       \
			ring_write(event_to, &(const struct event){__VA_ARGS__});                \
	} while (0)

#endif
