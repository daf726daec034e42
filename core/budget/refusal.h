/* SPDX-License-Identifier: MIT */
/*
 * Refusals: where there is no room it is said and counted that memory was spilled, or that
 * the program was refused, and why.
 */
#ifndef SPILLWAY_REFUSAL_H
#define SPILLWAY_REFUSAL_H

#include <stdint.h>

#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/ledger/codes.h"
#include "core/ledger/refused.h"
#include "core/state/segment.h"

/*
 * Lack: the room that is missing to a call which answers "no room". It keeps its memory, and goes
 * on where it is called again after room was made (memory/alloc/reclaim.h).
 */
struct lack {
	enum segment_tier tier;
	uint64_t bytes;        /* in all; 0: it is not room that is lacking */
	uint64_t least;        /* of them of use alone */
	enum spill_reason why; /* SPILL_NONE on the host: it is the process that has no memory */
};

/*
 * Returns whether the program is to be refused instead of memory being spilled, so that it gives
 * back its cached memory. That is so where spill_after is a count that is not reached yet, and no
 * capture is active. For example, with spill_after = 2 the third request in a row spills.
 */
bool refusal_is_wanted(const struct device *device, const struct terms *terms);

/* The memory that was refused, as the log names it. */
#define REFUSED_MEMORY(X)                                                               \
	X(REFUSED_ALLOCATION, "")                                                       \
	X(REFUSED_ARRAY, " for an array")                                               \
	X(REFUSED_SHARED_POOL, " of a pool that can be exported")                       \
	X(REFUSED_PINNED, " that must stay on the GPU (pin_new)")                       \
	X(REFUSED_EXPORT, " that are to be exported (cuMemCreate)")                     \
	X(REFUSED_GIVE, " to be shared with another process")                           \
	X(REFUSED_IMPORT, " that another job, or a process without Spillway, exported") \
	X(REFUSED_OVERHEAD, " that the driver takes for itself")

#define X(constant, text) constant,
enum refused_memory { REFUSED_MEMORY(X) REFUSED_MEMORIES };
#undef X

/*
 * Judges which limit refused: by the lack that ended the last try. A lack->bytes of 0 is no lack of
 * room on the device. Callers that lack nothing, as a pool at its maxSize, name the reason.
 */
struct refused refusal_by_lack(struct device *device, const struct terms *terms, uint64_t bytes,
                               const struct lack *lack);
/* Returns the refusal of memory that can only be on the device, where the limit has no room. */
struct refused refusal_of_unmovable(struct device *device, uint64_t bytes);
/*
 * Notes that the program is told it is out of memory: in the books, in the ring of events, and,
 * once per reason and kind of memory, in the log. The one way to count a refusal.
 */
void refusal_note(struct device *device, enum refused_memory memory, const struct refused *refused);

/*
 * The program's call that asks for memory, by its return address; of this thread. What it gets is
 * said to be held by that call.
 */
extern __thread const void *refusal_site __attribute__((tls_model("initial-exec")));

/* A refusal, for modules that add to its message. */
struct refusal {
	struct device *device;
	const struct refused *refused;
	const char *text; /* which limit refused, and the next step */
	uint64_t at_ns;   /* CLOCK_REALTIME, as the event has it */
	char more[400];   /* "", or text behind the message */
};

/* The spilled memory: its address and container; 0 and NULL where it has none. */
struct spilled {
	uint64_t object;
	const char *container;
};
void spill_note(struct device *device, uint64_t bytes, enum spill_reason reason,
                const struct spilled *what);

#endif
