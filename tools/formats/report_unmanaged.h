/* SPDX-License-Identifier: MIT */
/* Programs that use a GPU without Spillway in them, as `stat` shows them. */
#ifndef SPILLWAY_REPORT_UNMANAGED_H
#define SPILLWAY_REPORT_UNMANAGED_H

#include "tools/formats/json.h"
#include "tools/view/unmanaged.h"

/*
 * Names them where limits are enforced. Elsewhere a program need not be under Spillway, and nothing
 * is printed.
 */
void report_unmanaged(void);
/*
 * Writes them as "without_spillway"; null where limits are not enforced, or it is not known.
 * unmanaged: what earlier looks have found, one of which is made now; NULL: looks twice.
 */
void report_unmanaged_json(struct json *json, struct unmanaged *unmanaged);

#endif
