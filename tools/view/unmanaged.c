/* SPDX-License-Identifier: MIT */
/* Programs without a process slot. */
#include "tools/view/unmanaged.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"
#include "tools/view/gpus.h"
#include "tools/view/processes.h"
#include "tools/view/reach.h"
#include "tools/view/tool.h"

/* --- the known slots --- */

struct gathering {
	struct slot_of *slot;
	uid_t *unread;
	int slots, unreads;
};

static void add_slots(struct gathering *gathering, const struct segment_view *view, uid_t owner)
{
	for (int i = 0; i < view->process_count; i++) {
		if (view->process[i].state != SLOT_LIVE)
			continue;
		gathering->slot = grow(gathering->slot, gathering->slots, sizeof *gathering->slot);
		gathering->slot[gathering->slots++] =
		    (struct slot_of){.owner = owner, .pid = view->process[i].pid};
	}
}

static void ignore(const char *line)
{
	(void)line;
}

/* Goes through all jobs. A command that shows them has complained of those that cannot be read. */
static void gather(struct gathering *gathering)
{
	void (*complained_to)(const char *line) = complain_to;
	struct reach_walk walk;

	complain_to = ignore;
	walk = reach_walk(NULL);
	while (reach_next(&walk)) {
		uid_t owner = walk.page ? walk.page->owner : geteuid();

		if (walk.view) {
			add_slots(gathering, walk.view, owner);
			continue;
		}
		gathering->unread =
		    grow(gathering->unread, gathering->unreads, sizeof *gathering->unread);
		gathering->unread[gathering->unreads++] = owner;
	}
	complain_to = complained_to;
}

/* Returns whether the jobs of other users are seen: by root, where they have pages. */
static bool reaches_all(void)
{
	char path[PATH_MAX];

	return geteuid() == 0 && access(directory_of_node(path, sizeof path), R_OK) == 0;
}

/* --- looking --- */

struct look {
	const struct slots_known *known;
	struct unmanaged_process *found;
	int count, not_judged;
};

static void view_unmanaged_look_at(void *cookie, const char *uuid, pid_t pid, uint64_t bytes)
{
	struct look *look = cookie;
	struct process_seen seen;
	struct unmanaged_process *process;

	if (!process_look(pid, &seen)) {
		/* It has ended, or lives where its number means another process or none. */
		look->not_judged++;
		return;
	}
	if (seen.is_probe)
		return;
	switch (unmanaged_check(look->known, seen.owner, seen.inside)) {
	case SLOT_HELD:
		return;
	case SLOT_NOT_KNOWN:
		look->not_judged++;
		return;
	case SLOT_MISSING:
		break;
	}
	look->found = grow(look->found, look->count, sizeof *look->found);
	process = &look->found[look->count++];
	*process = (struct unmanaged_process){
	    .pid = pid, .started = seen.started, .owner = seen.owner, .bytes = bytes};
	snprintf(process->uuid, sizeof process->uuid, "%s", uuid);
	snprintf(process->command, sizeof process->command, "%s", seen.command);
	node_user(seen.owner, process->user, sizeof process->user);
}

void unmanaged_look(struct unmanaged *unmanaged)
{
	struct gathering gathering = {0};
	struct slots_known known;
	struct look look = {.known = &known};

	gather(&gathering);
	known = (struct slots_known){.slot = gathering.slot,
	                             .count = gathering.slots,
	                             .unread = gathering.unread,
	                             .unread_count = gathering.unreads,
	                             .reaches_all = reaches_all(),
	                             .own = geteuid()};
	unmanaged->is_known = gpus_each_process(view_unmanaged_look_at, &look);
	unmanaged->not_judged = look.not_judged;
	unmanaged_settle(unmanaged, look.found, look.count, clock_now());
	free(gathering.slot);
	free(gathering.unread);
}

void unmanaged_look_twice(struct unmanaged *unmanaged)
{
	const struct timespec apart = {.tv_sec = 1, .tv_nsec = 10000000};

	unmanaged_look(unmanaged);
	if (!unmanaged->suspects && !unmanaged->not_judged)
		return;
	nanosleep(&apart, NULL);
	unmanaged_look(unmanaged);
}
