/* SPDX-License-Identifier: MIT */
/*
 * Actions. Rules: runs inside the user's process, on its launch path; the thread that runs a group
 * takes no lock.
 */
#include "core/registry/actions.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/lock.h"

static_assert((int)ACTION_GROUPS == (int)WIPED_GROUPS, "a pointer per group");

/*
 * Never changed and never freed once published: a thread that runs the group may be anywhere in it.
 */
struct action_list {
	const struct action_list *next; /* of all lists that the group has ever had */
	int count;
	struct action action[ACTIONS_MAX];
};

static LOCK_OF(ACTIONS) lock = LOCK_FREE; /* of the thread that adds or removes */
static struct kept {
	const struct action_list *first;
	int count;
} kept[ACTION_GROUPS];

/* Returns a copy of the group's list, to change; with the lock held. */
static struct action_list current(enum action_group group)
{
	const struct action_list *list = atomic_load(&wiped.actions[group]);

	return list ? *list : (struct action_list){0};
}

static bool are_same(const struct action_list *one, const struct action_list *other)
{
	if (one->count != other->count)
		return false;
	for (int i = 0; i < one->count; i++) {
		const struct action *a = &one->action[i], *b = &other->action[i];

		if (a->phase != b->phase || strcmp(a->name, b->name) != 0 || a->run != b->run ||
		    a->cookie != b->cookie)
			return false;
	}
	return true;
}

/*
 * Returns the list like this that is kept, made where there is none; with the lock held. NULL:
 * *error says why.
 */
static const struct action_list *actions_keep(enum action_group group,
                                              const struct action_list *like, int *error)
{
	struct kept *k = &kept[group];
	struct action_list *made;

	for (const struct action_list *list = k->first; list; list = list->next)
		if (are_same(list, like))
			return list;
	*error = k->count < ACTION_LISTS_MAX ? -ENOMEM : -ENOSPC;
	made = k->count < ACTION_LISTS_MAX ? malloc(sizeof(*made)) : NULL;
	if (!made)
		return NULL;
	*made = *like;
	made->next = k->first;
	k->first = made;
	k->count++;
	return made;
}

/* Publishes the list; with the lock held. Returns 0 or a negative errno. */
static int actions_publish(enum action_group group, const struct action_list *list)
{
	const struct action_list *published = NULL;
	int error = 0;

	if (list->count) {
		published = actions_keep(group, list, &error);
		if (!published)
			return error;
	}
	atomic_store_explicit(&wiped.actions[group], published, memory_order_release);
	return 0;
}

/* Returns the index of an action, or -1. */
static int actions_find(const struct action_list *list, int phase, const char *name)
{
	for (int i = 0; i < list->count; i++)
		if (list->action[i].phase == phase && strcmp(list->action[i].name, name) == 0)
			return i;
	return -1;
}

static int actions_insert(struct action_list *list, const struct action *action)
{
	int at = list->count;

	if (actions_find(list, action->phase, action->name) >= 0)
		return -EEXIST;
	if (list->count == ACTIONS_MAX)
		return -ENOSPC;
	for (; at > 0 && list->action[at - 1].phase > action->phase; at--)
		list->action[at] = list->action[at - 1];
	list->action[at] = *action;
	list->count++;
	return 0;
}

int action_add(enum action_group group, const struct action *action)
{
	struct action_list list;
	int error;

	lock_acquire(&lock);
	list = current(group);
	error = actions_insert(&list, action);
	if (!error)
		error = actions_publish(group, &list);
	lock_release(&lock);
	return error;
}

bool action_find(enum action_group group, int phase, const char *name, struct action *action)
{
	const struct action_list *list =
	    atomic_load_explicit(&wiped.actions[group], memory_order_acquire);
	int at = list ? actions_find(list, phase, name) : -1;

	if (at >= 0 && action)
		*action = list->action[at];
	return at >= 0;
}

int action_remove(enum action_group group, int phase, const char *name)
{
	struct action_list list;
	int at, error = -ENOENT;

	lock_acquire(&lock);
	list = current(group);
	at = actions_find(&list, phase, name);
	if (at >= 0) {
		list.count--;
		for (int i = at; i < list.count; i++)
			list.action[i] = list.action[i + 1];
		error = actions_publish(group, &list);
	}
	lock_release(&lock);
	return error;
}

void actions_forked(void)
{
	lock_init(&lock);
}

int actions_run_listed(enum action_group group, void *subject)
{
	const struct action_list *list =
	    atomic_load_explicit(&wiped.actions[group], memory_order_acquire);
	int result = 0;

	for (int i = 0; list && i < list->count && result == 0; i++)
		result = list->action[i].run(list->action[i].cookie, subject);
	return result;
}
