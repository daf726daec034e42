/* SPDX-License-Identifier: MIT */
/*
 * The ring of a process: its latest events, in a file beside the job's segment.
 *
 * Bounded: the newest 8192 are kept, older ones are overwritten. The first of them have 64 KiB;
 * when a quarter of that is written the ring gets the rest of its 528 KiB, where there is room. The
 * file outlives the process, so that its last events can be read. It goes with the segment, when a
 * new run of the job begins, and when RING_KEPT processes of the run have ended since.
 *
 * Any number of threads write at the same time (event.h). A writer that is killed leaves one record
 * that readers skip.
 *
 * A writer takes a ticket and then its place, by compare-and-swap: one that finds another at work
 * there drops its record, so none is ever of two writers. Noting an event is one load and a branch
 * where there is no ring.
 */
#ifndef SPILLWAY_RING_H
#define SPILLWAY_RING_H

#include <stddef.h>

#include "core/rings/event.h"

struct segment;

/*
 * Makes the ring of the process that joined the segment; once. Returns 0 or a negative errno,
 * message filled. It does not become event_ring by itself.
 */
int ring_create(const struct segment *segment, struct ring **ring, char *message, size_t size);
/*
 * Sets how the process's ring is made, by make(), once there is an event to write: ring_begin()
 * starts that, and waits until it is made. A process that has begun before makes it at once.
 */
void ring_prepare(void (*make)(void));
void ring_begin(void);
/*
 * Says that the device of this ordinal in the process is the job's device `index`. Called before
 * the ring is written to.
 */
void ring_name_device(struct ring *ring, int ordinal, int index);

#endif
