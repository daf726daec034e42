/* SPDX-License-Identifier: MIT */
/*
 * One job as text and as JSON.
 */
#ifndef SPILLWAY_REPORT_H
#define SPILLWAY_REPORT_H

#include "core/state/segment.h"
#include "tools/formats/json.h"
#include "tools/view/node.h"
#include "tools/view/unmanaged.h"

/* Prints the job, devices, processes and complaints. */
void report_text(const struct segment_view *view);
/* Writes the members of an object: a job of this user. jobs: as node_find_apart() takes them. */
void report_json(struct json *json, const struct segment_view *view, const char *user,
                 const struct node_jobs *jobs);
/*
 * Writes the document of `stat --json`: of one job of the state directory, or of all jobs of the
 * node where job is NULL. unmanaged: the findings of earlier looks; NULL: looks twice, and waits a
 * second between them where that is needed. Returns false where a job cannot be read.
 */
bool report_all_json(FILE *out, const char *job, struct unmanaged *unmanaged);

#endif
