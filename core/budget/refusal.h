/*
 * Refusals: where there is no room it is said and counted that memory was spilled, that the
 * program was refused, and which limit would have been enough.
 */
#ifndef SPILLWAY_REFUSAL_H
#define SPILLWAY_REFUSAL_H

#include "core/budget/device.h"
#include "core/budget/terms.h"

/*
 * Returns whether the program is to be told instead of memory being spilled, so that it gives back
 * what it caches: where spill_after is a count that is not reached yet, and no capture is active.
 */
bool refusal_is_wanted(const struct device *device, const struct terms *terms);
/* Counts what the program is told in the end. */
void refusal_note(struct device *device, uint64_t bytes);
/*
 * Formats what limit would be enough for so many bytes more, of memory that cannot leave the
 * device: for who is refused when all else has left. Returns buf.
 */
const char *refusal_enough(struct device *device, uint64_t bytes, char *buf, size_t size);

/* The spilled memory: its address and container; 0 and NULL where it has none. */
struct spilled {
	uint64_t object;
	const char *container;
};
void spill_note(struct device *device, uint64_t bytes, enum spill_reason reason,
                const struct spilled *what);

#endif
