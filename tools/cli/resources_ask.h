/* SPDX-License-Identifier: MIT */
/*
 * Asking the live processes of a job for their resources.
 */
#ifndef SPILLWAY_RESOURCES_ASK_H
#define SPILLWAY_RESOURCES_ASK_H

#include <stddef.h>

#include "core/state/segment.h"
#include "core/wire/wire.h"
#include "tools/cli/looked_up.h"

/* One process that was asked. */
struct asked {
	const struct segment_process *process;
	struct wire_token token;
	int listener; /* -1: the answer is there, or will not come */
	struct resources_reply reply;
	struct listed *line;
	size_t count;
	char *why; /* no answer; NULL: one */
};

/*
 * Asks all of them, into an array as long as there are processes. Returns how many were asked and
 * live still.
 */
int resources_ask(const struct segment_view *view, struct asked *asked);

#endif
