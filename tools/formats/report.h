/*
 * One job as text and as JSON.
 */
#ifndef SPILLWAY_REPORT_H
#define SPILLWAY_REPORT_H

#include "core/state/segment.h"
#include "tools/formats/json.h"

/* A limit for people: "12.0 MiB", "none". */
const char *report_limit(uint64_t bytes, char *buf, size_t size);
/* A share for people: "60 %". */
const char *report_share(uint64_t millipercent, char *buf, size_t size);
/* "34.2%", with "~" before it where it is an estimate; "-" where it is not known. */
const char *report_share_held(const struct statistics *of, char *buf, size_t size);
/* Measured GPU time for people; "-" where launches were not paced, so that nobody measured. */
const char *report_busy(const struct statistics *total, char *buf, size_t size);

/* Job, devices, processes, complaints. */
void report_text(const struct segment_view *view);
/* "node_jobs": the other jobs of the node. */
void report_node_json(struct json *json);
void report_json(struct json *json, const struct segment_view *view);

#endif
