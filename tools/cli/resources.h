/* SPDX-License-Identifier: MIT */
/* spillway stat JOB --resources: asks the live processes of a job for their resources. */
#ifndef SPILLWAY_TOOL_RESOURCES_H
#define SPILLWAY_TOOL_RESOURCES_H

#include <stdbool.h>

#include "core/registry/registry.h"
#include "core/state/segment.h"

/*
 * Shows them. Returns the exit status: a process that does not answer in time is named, and all
 * other processes are shown.
 */
int resources_show(const struct segment_view *view, bool as_json);
/*
 * Shows n handles as they are looked up now. Returns the exit status: one that is not there is
 * said, and is a failure.
 */
int resources_look_up(const struct segment_view *view, const struct handle *handles, size_t n,
                      bool as_json);

#endif
