/* SPDX-License-Identifier: MIT */
/*
 * The action registry: actions around a launch and an allocation, at the end of a step and with new
 * settings.
 *
 * group    the occasion; its actions get its subject
 * phase    their order, ascending; within a phase they come in the order in which they were added
 *
 * Running a group calls its actions until one answers something else than 0, which is the group's
 * answer. An empty group costs a relaxed load and a predictable branch. Running takes no lock and
 * never waits for a thread that adds or removes: a group is an immutable list behind one pointer.
 * Lists are kept, and published again when the same actions stand again. So an action that is
 * switched on and off takes no more memory than its first time. Thread-safe. In a forked child all
 * groups are empty.
 *
 * A job is paced by being in the groups. An action at the end of a launch is never removed, so that
 * each launch that began also ends. A list is never changed or freed, because a thread may sleep in
 * the middle of it for as long as the job is paused. An action before a launch or an allocation can
 * refuse it; one after it no longer can.
 */
#ifndef SPILLWAY_ACTIONS_H
#define SPILLWAY_ACTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/wiped.h"

/*
 * Groups of actions, each with its subject, and the use of its answer. After the driver, or the
 * refusal, the call's answer stands.
 */
enum action_group {
	/* struct job_launch (job/launch.h); refused: nothing is launched, and that is the answer */
	ACTION_PRE_LAUNCH,
	ACTION_POST_LAUNCH, /* the same; after the driver or the refusal */
	/* struct vmem_act (memory/alloc/allocate.h); refused: nothing is allocated */
	ACTION_PRE_ALLOC,
	ACTION_POST_ALLOC,     /* the same; after the allocation or the refusal */
	ACTION_STEP_END,       /* struct device: a step of the program has ended there */
	ACTION_STEP_BEGIN,     /* likewise: the next one begins, with the time and counts of now */
	ACTION_CONFIG_CHANGED, /* struct job_change (job/config.h): new settings take effect */
	ACTION_REFUSED,        /* struct refusal (budget/refusal.h): the program is refused */
	ACTION_GROUPS
};

enum { ACTION_STATISTICS = 1, ACTION_RESOURCES = 2, ACTION_MEASURES = 3 }; /* phases */

enum {
	ACTIONS_MAX = 8,
	ACTION_LISTS_MAX = 64
}; /* at once in a group; different lists a group has ever had */

struct action {
	int phase;
	const char *name; /* not two alike in a phase; lives as long as the process */
	int (*run)(void *cookie, void *subject);
	void *cookie;
};

/*
 * Adds an action. Returns 0 or a negative errno: -EEXIST (of that phase and name there is one),
 * -ENOSPC, -ENOMEM. Calls of the group that have begun may not see it yet.
 */
int action_add(enum action_group group, const struct action *action);
/* Returns whether there is such an action; *action is set then, and may be NULL. */
bool action_find(enum action_group group, int phase, const char *name, struct action *action);
/*
 * Removes an action. Returns 0 or a negative errno, and it is still there: -ENOENT, -ENOSPC,
 * -ENOMEM. Calls of the group that have begun may call it after that: its data must stay.
 */
int action_remove(enum action_group group, int phase, const char *name);
/*
 * Makes the lock anew in a forked child: another thread of the parent may have held it. The groups
 * are wiped.
 */
void actions_forked(void);

int actions_run_listed(enum action_group group, void *subject);

static inline bool actions_are_any(enum action_group group)
{
	return __builtin_expect(
	    atomic_load_explicit(&wiped.actions[group], memory_order_relaxed) != NULL, 0);
}

/* Runs the group's actions. Returns the answer of the first that says no, else 0. */
static inline int actions_run(enum action_group group, void *subject)
{
	return actions_are_any(group) ? actions_run_listed(group, subject) : 0;
}

#endif
