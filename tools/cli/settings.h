/* SPDX-License-Identifier: MIT */
/*
 * The limits that `run` and `set` take as options, as a table of arguments.
 */
#ifndef SPILLWAY_SETTINGS_H
#define SPILLWAY_SETTINGS_H

#include <stdbool.h>

#include "core/base/deadline.h"
#include "core/config/config.h"
#include "tools/view/arguments.h"

struct settings {
	const char *selector;                /* --limit-gpu; "" is every GPU */
	const char *value[CONFIG_KEY_COUNT]; /* as given; NULL: left alone */
	uint32_t job_version;                /* of the segment of the job; 0: it has none yet */
};

enum { SETTINGS_ARGUMENTS = (int)CONFIG_KEY_COUNT + (int)CONFIG_OLD_SPELLING_COUNT + 2 };
/* Lists the options; each value is checked as the INI's would be. */
void settings_arguments(struct settings *settings, struct argument arguments[SETTINGS_ARGUMENTS]);
/* Checks them together, when all are read: a contradiction is a usage error. */
void settings_check(const struct settings *settings);
bool settings_any(const struct settings *settings);
/*
 * Merges them into an override file, waiting for its other writers until the deadline. Returns
 * false after printing the reason.
 */
bool settings_write(const struct settings *settings, const char *path, struct deadline *deadline);
/* Does the same, by a change that can be taken back; path and devices are given in it. */
bool settings_change(const struct settings *settings, struct config_change *change,
                     struct deadline *deadline);
/*
 * Returns whether processes with a segment of this version know all of the keys; it has named those
 * that they do not know.
 */
bool settings_are_known(const struct settings *settings, const char *job, uint32_t version);
/* Returns whether all of them stand in an override file already, as they are written. */
bool settings_stand(const struct settings *settings, const char *path);

#endif
