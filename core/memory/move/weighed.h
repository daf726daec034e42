/* SPDX-License-Identifier: MIT */
/*
 * Memory that was weighed: what a device has that can move, as a survey (heat/survey.h) says that
 * kernels use it, in the order in which it leaves (heat/weigh.h). By the mover alone.
 */
#ifndef SPILLWAY_WEIGHED_H
#define SPILLWAY_WEIGHED_H

#include "core/budget/device.h"
#include "core/memory/heat/survey.h"

struct ranked {
	CUdeviceptr address;
	uint64_t bytes;
	uint64_t before; /* bytes that leave before it */
	uint32_t order;
	bool is_used;     /* by kernels; what is not leaves first, and has no place in the order */
	bool was_on_host; /* when it was weighed */
};

struct weighed {
	struct ranked *piece; /* by address; NULL: nothing was weighed */
	size_t pieces;
	uint64_t bytes, unknown; /* of those that are used, and of the others */
	uint64_t spill;          /* bytes of those that are used that had to be on the host */
	/*
	 * What all kernels take together, in nanoseconds: by what is reckoned as it was, as it will
	 * be, and with nothing on the host; and as it was measured, 0: it was not.
	 */
	double now, then, least, took;
	size_t kernels; /* of the survey */
};

struct weighed_terms {
	uint64_t leaves; /* bytes that have to be on the host, of all that can move */
	bool is_shared;  /* other programs' kernels ran during the survey */
	bool is_whole;   /* allocations move as a whole */
};

/*
 * Weighs what is movable of the device. Returns false without memory for it, or where kernels use
 * nothing that moves.
 */
bool weighed_make(struct device *device, const struct survey *survey,
                  const struct weighed_terms *terms, struct weighed *weighed);
/* Forgets it. */
void weighed_free(struct weighed *weighed);
/* Returns the piece at the address that is used, or NULL. */
const struct ranked *weighed_find(const struct weighed *weighed, CUdeviceptr address);
/* Has all leave first that was on the host when it was weighed, as if it had not been. */
void weighed_take_back(struct weighed *weighed);

#endif
