/* SPDX-License-Identifier: MIT */
/*
 * Output that goes where an option says. "-" is standard output. A file is replaced as one step
 * (replace.h). Into any other object, for example a pipe, a socket or /dev/stdout, it is written.
 * core/base/target.h has the rules for links.
 */
#ifndef SPILLWAY_OUTPUT_H
#define SPILLWAY_OUTPUT_H

#include "core/base/target.h"
#include "tools/formats/replace.h"

struct output {
	const char *path; /* the caller's; lives as long as this */
	struct target target;
	struct replace replace;
	bool is_replaced;
	FILE *out; /* write to it */
};

/* Finds where it goes, before anything is opened. False after saying why not. */
bool output_find(const char *path, struct target *target);
/* Opens a TARGET_FILE for reading, without waiting. NULL after printing the reason. */
FILE *output_read(const struct target *target);
/*
 * Begins it; a new file gets this mode. Waits some seconds for a pipe's reader. False after saying
 * why not.
 */
bool output_begin(struct output *output, const char *path, mode_t mode);
/* Ends it: a file takes its place. False after saying why not. */
bool output_end(struct output *output);

#endif
