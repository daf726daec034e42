/* SPDX-License-Identifier: MIT */
/* Programs that use a GPU without Spillway in them, as `stat` shows them. */
#ifndef SPILLWAY_REPORT_SEATLESS_H
#define SPILLWAY_REPORT_SEATLESS_H

#include "tools/formats/json.h"
#include "tools/view/seatless.h"

/*
 * Names them where limits are enforced. Elsewhere a program need not be under Spillway, and nothing
 * is printed.
 */
void report_seatless(void);
/*
 * Writes them as "without_spillway"; null where limits are not enforced, or it is not known.
 * seatless: what earlier looks have found, one of which is made now; NULL: looks twice.
 */
void report_seatless_json(struct json *json, struct seatless *seatless);

#endif
