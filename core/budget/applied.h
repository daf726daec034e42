/* SPDX-License-Identifier: MIT */
/*
 * The applied limit: which limit a process keeps on a device, and how far it has risen by itself,
 * for the job's other processes and for other jobs. Any thread.
 */
#ifndef SPILLWAY_APPLIED_H
#define SPILLWAY_APPLIED_H

#include <stddef.h>

#include "core/state/segment.h"

/* The settings that a process has been told to keep to on a device. */
struct applied_limit {
	uint64_t limit;      /* CONFIG_UNLIMITED: none */
	uint64_t settings;   /* a hash of all settings of the device */
	uint64_t generation; /* of those that the process had before; 0: none */
};
/*
 * Publishes new settings of the calling process: its limit, for other jobs' segment_owed(); a limit
 * other than before starts without growth. Returns the generation of its settings: that of the job
 * where another process has published the same before, else a new one.
 */
uint64_t segment_apply_limit(struct segment *segment, int device, const struct applied_limit *told);
/* Sets by how much the limit has risen. limit: the one it was judged for; when another limit
 * was applied meanwhile nothing is set. */
void segment_set_grown(struct segment *segment, int device, uint64_t limit, uint64_t bytes);
/* Returns whether the calling process is the one that judges growth now: one in interval_ns is. */
bool segment_judges_growth(struct segment *segment, int device, uint64_t interval_ns);
/*
 * Returns the bytes of the device that other live jobs of this state directory may still take. For
 * a job with a limit that is the room below it, for a job without one its memory on the host. For
 * example, jobs of 3 of 4 GiB and of 1 GiB, 512 MiB of it on the host and without a limit, may take
 * 1.5 GiB. Reads their files.
 */
uint64_t segment_owed(const struct segment *segment, int device);

/* The charge of one process on a device, or the orphaned bytes of a job there. */
struct charge {
	uint64_t job, began_ns; /* the segment's token; when the process began */
	uint32_t slot, device;  /* in the job; SEGMENT_SLOTS: orphaned */
	bool is_own_job;
	uint64_t bytes;
};
struct charges {
	struct charge *list;
	size_t count, room;
};
/*
 * Reads into charges the charge of each other process of this state directory on the device. Dead
 * processes count, too, while their process slots drain. charges is all zero or was read before.
 * realloc() makes the list. Reads their files likewise; in any call of the program's. Returns false
 * where memory lacks.
 */
bool segment_charges(const struct segment *segment, int device, struct charges *charges);
/*
 * Compares two looks. A process that is there at the second look alone has grown by all that it is
 * charged. One that is gone by then counts for nothing: it may have died, and its memory may have
 * gone, before the first look. Where a process of another job is charged less its memory may have
 * gone before the first look, too, so that only processes of the own job count as fallen. For
 * example, a job of 16 MiB that is killed before the first look and started again before the second
 * has grown by 16 MiB.
 */
struct charges_change {
	uint64_t grown, fallen;
};
struct charges_change charges_change(const struct charges *then, const struct charges *now);
bool charges_are_same(const struct charges *x, const struct charges *y);

#endif
