/* SPDX-License-Identifier: MIT */
/*
 * A table with a row per device of a job: each column is a counter in its unit's form, or the text
 * of cell().
 */
#ifndef SPILLWAY_DEVICE_TABLE_H
#define SPILLWAY_DEVICE_TABLE_H

#include <stddef.h>

#include "core/state/segment.h"

struct device_column {
	const char *heading; /* as of table.h; NULL: the end */
	size_t offset;       /* of the counter in the job's total */
	const char *(*cell)(const struct segment_view *view, int device, char *buf, size_t size);
};

#define DEVICE_COUNTER(heading, field)                            \
	{                                                         \
		heading, offsetof(struct statistics, field), NULL \
	}

/* Prints it on standard output, with the device's number before the columns. */
void device_table(const struct segment_view *view, const struct device_column *columns);

#endif
