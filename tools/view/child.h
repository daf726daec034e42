/* SPDX-License-Identifier: MIT */
/* A command of the tool in a process of its own, so that its waits and its refusals are its own. */
#ifndef SPILLWAY_CHILD_H
#define SPILLWAY_CHILD_H

#include <sys/types.h>

/*
 * Begins it; arguments as after "spillway", NULL-terminated. *output, which does not block, has its
 * standard output and its complaints. Returns the process, which the caller waits for.
 */
pid_t child_begin(const char *const *arguments, int *output);

#endif
