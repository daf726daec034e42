/*
 * One job as text and as JSON.
 */
#ifndef SPILLWAY_REPORT_H
#define SPILLWAY_REPORT_H

#include "core/state/segment.h"
#include "tools/formats/json.h"

/* Prints the job, devices, processes and complaints. */
void report_text(const struct segment_view *view);
/* Writes "node_jobs": the other jobs of the node. */
void report_node_json(struct json *json);
void report_json(struct json *json, const struct segment_view *view);

#endif
