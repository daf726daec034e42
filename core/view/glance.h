/* SPDX-License-Identifier: MIT */
/*
 * The memory of a job on its devices, by a glance at a few KB of its segment instead of all of it.
 * It is for a reader that asks often and belongs to the job without taking part in it.
 */
#ifndef SPILLWAY_GLANCE_H
#define SPILLWAY_GLANCE_H

#include <stdint.h>

#include "core/state/segment.h"

struct segment_glance {
	int device_count;
	char uuid[SEGMENT_DEVICES][48];
	uint64_t charged[SEGMENT_DEVICES][2]; /* by enum segment_tier; a second old at most */
	uint64_t limit[SEGMENT_DEVICES];      /* as last set; 0: no process has met the device */
};

/*
 * Reads it while a process of the job lives. Returns 0 or a negative errno: -EAGAIN where none is
 * seen to live, or it changes just now; segment_read() tells then. Thread-safe.
 */
int segment_glance(const char *job, struct segment_glance *glance);

#endif
