/* SPDX-License-Identifier: MIT */
/* The list of rings that a reader knows. */
#include "core/rings/ring_known.h"

#include <stdlib.h>
#include <string.h>

/* Returns where the ring stands in the list, or the end of it. */
struct known **ring_known_find(struct known **list, const struct ring_id *id)
{
	while (*list && ((*list)->id.pid != id->pid || (*list)->id.started_ns != id->started_ns ||
	                 strcmp((*list)->id.job, id->job) != 0))
		list = &(*list)->next;
	return list;
}

struct known *ring_known_meet(struct known **list, const struct ring_id *id)
{
	struct known **place = ring_known_find(list, id);

	if (!*place) {
		*place = calloc(1, sizeof **place);
		if (*place)
			(*place)->id = *id;
	}
	return *place;
}
