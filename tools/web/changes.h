/* SPDX-License-Identifier: MIT */
/* The latest changes by the page, so that the events of a job name their cause. */
#ifndef SPILLWAY_CHANGES_H
#define SPILLWAY_CHANGES_H

#include <stdbool.h>

#include "tools/formats/json.h"

/*
 * Notes the end of a command such as "set --memory=16MiB -- bert@3fa2", the lines that it printed,
 * and whether it failed.
 */
void changes_add(const char *line, const char *said, bool failed);
/* Appends the changes of a job, "bert" or "bert@3fa2", as events. */
void changes_list(const char *job, struct json *json);

#endif
