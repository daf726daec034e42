/* SPDX-License-Identifier: MIT */
/* A table with a row per device of a job. */
#include "tools/formats/device_table.h"

#include <stdio.h>

#include "tools/formats/table.h"
#include "tools/formats/value.h"
#include "tools/view/counters.h"

static const char *cell(const struct segment_view *view, const struct device_column *column,
                        int device, char *buf, size_t size)
{
	const struct counter *counter = counter_at(column->offset);
	uint64_t value;

	if (column->cell)
		return column->cell(view, device, buf, size);
	counter_read(counter, &view->job_total[device], &value);
	return value_in_unit(counter->unit, value, buf, size);
}

void device_table(const struct segment_view *view, const struct device_column *columns)
{
	const char *headings[TABLE_COLUMNS + 1] = {"GPU"};
	struct table table;
	char buf[64];

	for (int i = 0; columns[i].heading; i++)
		headings[i + 1] = columns[i].heading;
	table_start(&table, headings);
	table.folds = true;
	for (int device = 0; device < view->device_count; device++) {
		table_cell(&table, "%d", device);
		for (int i = 0; columns[i].heading; i++)
			table_cell(&table, "%s", cell(view, &columns[i], device, buf, sizeof buf));
	}
	table_end(&table, stdout);
}
