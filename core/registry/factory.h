/* SPDX-License-Identifier: MIT */
/*
 * Factories: ways of making one kind of thing. The one with the highest priority that works is
 * chosen.
 *
 * They are tried by priority, in any order of the list; no two of a kind have the same priority.
 *
 * `cuda` comes before `soft`, then the host's NUMA nodes to which devices spill, as `cpu:N`;
 * `managed` before `pinned`. The lists are constant: nothing registers itself at run time.
 */
#ifndef SPILLWAY_FACTORY_H
#define SPILLWAY_FACTORY_H

#include <stddef.h>

/* First member of every maker. */
struct factory {
	const char *name;
	int priority;
};

/* Returns the factory to try after `before` (NULL: first) failed; NULL: none is left. */
static inline const struct factory *factory_next(const struct factory *const *factories, size_t n,
                                                 const struct factory *before)
{
	const struct factory *next = NULL;

	for (size_t i = 0; i < n; i++)
		if ((!before || factories[i]->priority < before->priority) &&
		    (!next || factories[i]->priority > next->priority))
			next = factories[i];
	return next;
}

#endif
