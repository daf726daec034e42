/* SPDX-License-Identifier: MIT */
/*
 * Reading rings: the events of one process after the other, each once.
 *
 * work unit   one ring, by its file's name (malloc'd; the reader frees it). It is read up to its
 *             last event at the beginning; put into the queue again, its new events
 * position    of each ring: the first record not handed out. serialize and restore carry positions
 *             and counts from one reader to the next
 * lost        records that were overwritten before they were read, or that their writer did not
 *             finish although later ones are
 *
 * Rings are data of other processes: read by pread(2), checked, never mapped or written to. A bad
 * record is an error of its work unit and the next one can be read. One thread uses a reader; any
 * may cancel it, a signal handler too.
 */
#ifndef SPILLWAY_RING_READER_H
#define SPILLWAY_RING_READER_H

#include <stdbool.h>

#include "core/state/ring_files.h"
#include "core/rings/ring.h"
#include "core/state/segment.h"
#include "tools/view/queue.h"

struct ring_reader;

/* A process whose ring was read; it and its texts stay until reset or destroy. */
struct ring_source {
	char job[64];
	char command[64];
	int pid;
	uint64_t started_ns;            /* CLOCK_REALTIME */
	int8_t device[SEGMENT_DEVICES]; /* ordinal in the process -> index in the job; -1: none */
	int64_t realtime_offset_ns;     /* CLOCK_REALTIME minus CLOCK_MONOTONIC, when it was made */
};

struct ring_entry {
	const struct ring_source *source;
	uint64_t
	    lost; /* so many records, and no event but the begin of the next one; 0: an event */
	struct event event;
};

/*
 * Makes a reader of rings in this directory, and takes the descriptor over. Returns NULL when there
 * is no memory.
 */
struct ring_reader *ring_reader_create(int directory);
void ring_reader_destroy(struct ring_reader *reader);

/*
 * Reads the next entries, at most n, of the unit at hand or of the next one in the queue. Returns
 * how many. 0: within this time there was no more work. -ECANCELED: the reader was cancelled. With
 * any other error the unit at hand is at fault, and message says why: -EPROTO not a ring of this
 * version, damaged or swapped; -ESTALE of an earlier boot; -ENOENT gone.
 */
int ring_reader_read_up_to(struct ring_reader *reader, struct queue *work, struct ring_entry *entry,
                           int n, uint64_t patience_ns, char *message, size_t size);
/* Makes the reader as if nothing had been read yet. */
void ring_reader_reset(struct ring_reader *reader);
/* Cancels: from now on, until reset, every read is answered -ECANCELED. */
void ring_reader_cancel(struct ring_reader *reader);

uint64_t ring_reader_produced(const struct ring_reader *reader); /* records */
uint64_t ring_reader_lost(const struct ring_reader *reader);     /* records */

/*
 * Positions of rings that are still there, and counts, as text that the caller frees; NULL: no
 * memory.
 */
char *ring_reader_serialize_state(const struct ring_reader *reader);
/*
 * Restores a saved state, before anything is read. Returns 0, -EINVAL with message (then nothing
 * has changed) or -ENOMEM.
 */
int ring_reader_restore_state(struct ring_reader *reader, const char *state, char *message,
                              size_t size);

#endif
