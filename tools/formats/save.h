/* SPDX-License-Identifier: MIT */
/* Writing a job's limits into an INI file, keeping the user's own comments, order and spacing. */
#ifndef SPILLWAY_SAVE_H
#define SPILLWAY_SAVE_H

#include <stdbool.h>

/*
 * Puts the values of the job's override file into file, which is made if it is missing: each value
 * in its own place where its key has one. Of a paused job, the shares it will have again. The old
 * file stands unless the new one can be read. False after printing the reason.
 */
bool save_limits(const char *job, const char *override_file, const char *file);

#endif
