/* SPDX-License-Identifier: MIT */
/* What a job is to others on its GPUs, as text and as JSON. */
#ifndef SPILLWAY_REPORT_SHARING_H
#define SPILLWAY_REPORT_SHARING_H

#include "core/state/segment.h"
#include "tools/formats/json.h"

/* Prints a table with a row per GPU that others use, too, and why the job waits; else nothing. */
void report_sharing(const struct segment_view *view);
/* Adds an object "sharing" to that of a device; null: no process of the job says anything. */
void report_sharing_json(struct json *json, const struct segment_view *view, int device);

#endif
