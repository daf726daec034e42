/* SPDX-License-Identifier: MIT */
/*
 * Readers: the reader of event rings and the queue of its work, as resources of a registry of the
 * tool's. The reader is found by the rings that it reads, made once and shared; the queue has no
 * name of its own and goes with its deleter.
 */
#ifndef SPILLWAY_TOOL_EVENT_READERS_H
#define SPILLWAY_TOOL_EVENT_READERS_H

#include "tools/view/queue.h"
#include "tools/view/ring_reader.h"

struct event_readers;

/* Ends the tool without memory. room: of the queue. */
struct event_readers *event_readers_create(size_t room);
/*
 * Finds the reader of this name, such as a job's (NULL: of every job's), in a directory; it stays
 * until the end.
 */
struct ring_reader *event_readers_find(struct event_readers *readers, const char *name,
                                       int directory);
struct queue *event_readers_work(struct event_readers *readers);
/* Destroys them: items in the queue are freed, and every reader is gone. */
void event_readers_destroy(struct event_readers *readers);

#endif
