/* SPDX-License-Identifier: MIT */
/*
 * Places: the state directories whose rings are read: ours, and those of the node's other jobs
 * within reach.
 */
#ifndef SPILLWAY_TOOL_EVENT_PLACES_H
#define SPILLWAY_TOOL_EVENT_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/events/event_readers.h"
#include "tools/view/node.h"

struct event_places;

struct event_place {
	int directory;
	const char *user; /* NULL: the calling user */
	struct ring_reader *reader;
};

/* Makes them of ours alone. directory: its descriptor, which they take over; -1: there is none. */
struct event_places *event_places_create(const char *job, int directory, size_t room);
struct queue *event_places_work(struct event_places *places);
/* Returns the reader of our directory; NULL: there is none. */
struct ring_reader *event_places_own(const struct event_places *places);
/* Calls each() for every place, as its user. others asks for new ones, too. */
void event_places_each(struct event_places *places, bool others,
                       void (*each)(void *cookie, const struct event_place *place), void *cookie);
/* Cancels all reading. Async-signal-safe. */
void event_places_cancel(struct event_places *places);
void event_places_destroy(struct event_places *places);

#endif
