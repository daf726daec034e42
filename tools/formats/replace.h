/* SPDX-License-Identifier: MIT */
/*
 * Replacing a file as one step: written beside it, then renamed over it, so that a reader sees the
 * old one or the new one, never half of one. For files of our own; where a user names the place,
 * output.h looks at the object there.
 */
#ifndef SPILLWAY_REPLACE_H
#define SPILLWAY_REPLACE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct replace {
	const char *path; /* the caller's; lives as long as this */
	char *temporary;
	FILE *out; /* write to it */
};

/* Returns false after saying why not. */
bool replace_begin(struct replace *replace, const char *path, mode_t mode);
/* Ends it: the new file takes its place. Returns false after saying why not: the old one stands. */
bool replace_end(struct replace *replace);

#endif
