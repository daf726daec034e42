/* SPDX-License-Identifier: MIT */
/* A command of the tool in a process of its own, so that its waits and its refusals are its own. */
#ifndef SPILLWAY_CHILD_H
#define SPILLWAY_CHILD_H

#include <sys/types.h>

/* The name by which a child learns that top or the page has begun it, so that it is the cause. */
#define CHILD_OF_TOP  "spillway top"
#define CHILD_OF_PAGE "spillway web"

/*
 * Begins it by that name; arguments as after "spillway", NULL-terminated. *output, which does not
 * block, has its standard output and its complaints. Returns the process, which the caller waits
 * for.
 */
pid_t child_begin(const char *name, const char *const *arguments, int *output);

#endif
