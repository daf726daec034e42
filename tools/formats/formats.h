/* SPDX-License-Identifier: MIT */
/*
 * Jobs in the forms that other programs read.
 */
#ifndef SPILLWAY_FORMATS_H
#define SPILLWAY_FORMATS_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/view/rows.h"

/*
 * Prints RFC 4180: a line of names, unless header is false, and a line per row; an unknown value is
 * empty.
 */
void format_csv(FILE *out, const struct rows *rows, bool header, bool units);
/* Prometheus' text exposition format 0.0.4; an unknown value is left out. */
void format_prometheus(FILE *out, const struct rows *rows);
/* Prints one job as AntMan's GPU_STATUS_FILE; an unknown value is null. */
void format_antman(FILE *out, const struct rows *rows);

#endif
