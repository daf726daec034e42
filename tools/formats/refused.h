/* SPDX-License-Identifier: MIT */
/* The latest refusal of a job, and the driver's own part of its memory, in words. */
#ifndef SPILLWAY_TOOL_REFUSED_H
#define SPILLWAY_TOOL_REFUSED_H

#include <stddef.h>
#include <stdio.h>

#include "core/state/segment.h"

/* Returns the GPU on which the job was refused last; -1: it never was. */
int refused_device(const struct segment_view *view);
/* Writes "refused 12 MiB: host memory is used up ...". Returns buf. */
const char *refused_latest(const struct statistics *statistics, char *buf, size_t size);
/* Writes ", of which 2 MiB are the driver's own", or nothing of none. */
void refused_driver_s(FILE *out, uint64_t bytes);

#endif
