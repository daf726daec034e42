/* SPDX-License-Identifier: MIT */
/* The link. Rules: by the mover thread alone, but for link_bytes(). */
#include "core/memory/move/link.h"

enum { SIDES = 2 };

/* Bytes per nanosecond; 0: not known. */
static struct speed {
	_Atomic double lately; /* of exchanges */
	double fastest;        /* of their copies */
} speeds[DEVICE_MAX][SIDES];

static double speed(uint64_t bytes, uint64_t ns)
{
	return (double)bytes / (double)(ns ? ns : 1);
}

void link_note(const struct device *device, enum segment_side to, uint64_t bytes, uint64_t copy_ns,
               uint64_t all_ns)
{
	struct speed *s = &speeds[device->id.ordinal][to];
	double measured = speed(bytes, all_ns), copied = speed(bytes, copy_ns), lately = s->lately;

	/* What is slower than was known counts at once: the next shall not take too long, too. */
	s->lately = lately > 0 && measured > lately ? (lately + measured) / 2 : measured;
	if (copied > s->fastest)
		s->fastest = copied;
}

uint64_t link_bytes(const struct device *device, enum segment_side to, uint64_t ns)
{
	return (uint64_t)(speeds[device->id.ordinal][to].lately * (double)ns);
}

uint64_t link_copies_ns(const struct device *device, enum segment_side to, uint64_t bytes)
{
	double fastest = speeds[device->id.ordinal][to].fastest;

	return fastest > 0 ? (uint64_t)((double)bytes / fastest) : 0;
}
