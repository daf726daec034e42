/* SPDX-License-Identifier: MIT */
/*
 * The shares that stand in an override file, per selector, so that `pause` of a job that runs with
 * an earlier version can set them aside and `resume` can put them back. They are set aside in
 * JOB.paused, an INI of the same form; that it exists means that the job is paused.
 */
#ifndef SPILLWAY_SHARES_H
#define SPILLWAY_SHARES_H

#include <stdbool.h>

enum { SHARES_MAX = 64 };

struct shares {
	int count;
	struct {
		char selector[64]; /* "" is every GPU */
		char value[32];
	} of[SHARES_MAX];
};

/* Reads them. Returns false when there is no such file. One that cannot be read ends the tool. */
bool shares_read(const char *path, struct shares *shares);
/* Reads the readable ones of them. Returns false when there is no such file of ours. */
bool shares_peek(const char *path, struct shares *shares);
/* Returns the value for this selector, or NULL. */
const char *shares_get(const struct shares *shares, const char *selector);
void shares_set(struct shares *shares, const char *selector, const char *value);
/* Replaces the file as one step, mode 0600. False after saying why not. */
bool shares_write(const char *path, const struct shares *shares);

#endif
