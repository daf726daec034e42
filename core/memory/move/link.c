/* The link. Rules: by the mover thread alone. */
#include "core/memory/move/link.h"

enum { SIDES = 2 };

static double bytes_per_ns[DEVICE_MAX][SIDES]; /* 0: not known */

void link_note(const struct device *device, enum segment_side to, uint64_t bytes, uint64_t ns)
{
	double *known = &bytes_per_ns[device->id.ordinal][to];
	double measured = (double)bytes / (double)(ns ? ns : 1);

	/* What is slower than was known counts at once: the next shall not take too long, too. */
	*known = *known > 0 && measured > *known ? (*known + measured) / 2 : measured;
}

uint64_t link_bytes(const struct device *device, enum segment_side to, uint64_t ns)
{
	return (uint64_t)(bytes_per_ns[device->id.ordinal][to] * (double)ns);
}

uint64_t link_ns(const struct device *device, enum segment_side to, uint64_t bytes)
{
	double known = bytes_per_ns[device->id.ordinal][to];

	return known > 0 ? (uint64_t)((double)bytes / known) : 0;
}
