/* SPDX-License-Identifier: MIT */
/*
 * One job as text and as JSON.
 */
#ifndef SPILLWAY_REPORT_H
#define SPILLWAY_REPORT_H

#include "core/state/segment.h"
#include "tools/formats/json.h"
#include "tools/view/node.h"

/* Prints the job, devices, processes and complaints. */
void report_text(const struct segment_view *view);
/* Writes the members of an object: a job of this user. jobs: as node_find_apart() takes them. */
void report_json(struct json *json, const struct segment_view *view, const char *user,
                 const struct node_jobs *jobs);
/* Writes "node_jobs": those of which only the pages are known. */
void report_node_json(struct json *json, const struct node_jobs *jobs);

#endif
