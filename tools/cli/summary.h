/* SPDX-License-Identifier: MIT */
/* The summary at the end of `spillway run`: the job's memory and its waits. */
#ifndef SPILLWAY_SUMMARY_H
#define SPILLWAY_SUMMARY_H

#include <stdbool.h>

#include "core/state/segment.h"

/*
 * Says it in a line of words when the job spilled or waited, and of a job that the user named in
 * any case, so that it shows that the program ran under Spillway.
 */
void summary_say(const struct segment_view *view, bool is_named);
/* Writes it for programs: a line of JSON on standard error, of any job. */
void summary_json(const struct segment_view *view);

#endif
