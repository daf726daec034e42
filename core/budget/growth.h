/* SPDX-License-Identifier: MIT */
/*
 * Growth: how far a job's limit rises by itself, towards memory_max, while the job is spilled. It
 * takes room of the device that is owed to no other job, and falls back when other jobs need that
 * room.
 *
 * owed      the room that the limits of other jobs on the device leave them; of one without a
 *           limit, its memory on the host. Nothing, where they can call it back (terms.h)
 * margin    a part of the device that growth leaves free, so that small needs of other jobs do not
 *           make limits swing; the least that is never lent (terms.h)
 *
 * The rule is a pure function. Which process applies it (one of the job, every GROWTH_INTERVAL_NS)
 * stands in the segment, and so does its decision, which holds for all of the job's processes at
 * once.
 *
 * The growth stands in the segment as bytes above the setting, so all processes charge against one
 * limit; another setting starts without growth. Only the headers of other jobs' segments are read,
 * by a path kept since the job was joined: the mover's thread must not read the environment.
 */
#ifndef SPILLWAY_GROWTH_H
#define SPILLWAY_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

struct device;

#define GROWTH_INTERVAL_NS 200000000ull

/* All in bytes; of the whole job where it is of one. */
struct growth {
	uint64_t memory;    /* that the device has */
	uint64_t limit;     /* the setting memory: certain */
	uint64_t limit_max; /* memory_max; below the limit: there is no growth */
	uint64_t now;       /* the limit in force */
	uint64_t used;      /* on the device */
	uint64_t spilled;   /* on the host */
	uint64_t free;      /* on the device, by the driver */
	uint64_t owed;      /* to other jobs */
	uint64_t margin;    /* that is never lent */
};

/*
 * Judges the device's growth if it is time and this process's turn. Cheap enough for a few calls
 * per second; at most one call of the driver, and none while a capture is active. The mover's, with
 * no lock held. Returns whether it is to be called again after GROWTH_INTERVAL_NS: the limit has
 * risen, or may.
 */
bool growth_tick(struct device *device);

/*
 * A step of the program has ended there: the time to judge growth, once in GROWTH_INTERVAL_NS;
 * between steps it is not, until none has ended for GROWTH_STEPLESS_NS. Returns whether the mover
 * is to be woken for it. Any thread; now_ns: CLOCK_MONOTONIC.
 */
#define GROWTH_STEPLESS_NS 2000000000ull
bool growth_step_ended(struct device *device, uint64_t now_ns);

#endif
