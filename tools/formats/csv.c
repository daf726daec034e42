/* SPDX-License-Identifier: MIT */
/* Comma-separated values, as RFC 4180 has them. */
#include "tools/formats/formats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "tools/view/counters.h"
#include "tools/view/tool.h"

static const char *csv_unit_of(const struct counter *counter)
{
	static const char *const units[COUNTER_UNITS] = {
	    [COUNTER_bytes] = "B",
	    [COUNTER_ns] = "ns",
	    [COUNTER_time] = "ns",
	    [COUNTER_millipercent] = "%",
	};

	return units[counter->unit] ? units[counter->unit] : "";
}

/* Names come from other processes: a character that would end a field is quoted. */
static void put_text(FILE *out, const char *name)
{
	char *shown = printable(text("%s", name));
	bool is_quoted = strpbrk(shown, ",\"");

	if (is_quoted)
		putc('"', out);
	for (const char *c = shown; *c; c++) {
		if (*c == '"')
			putc('"', out);
		putc(*c, out);
	}
	if (is_quoted)
		putc('"', out);
	free(shown);
}

static void csv_put_bytes(FILE *out, uint64_t bytes, bool with_unit)
{
	fprintf(out, ",%" PRIu64 "%s", bytes, with_unit ? " B" : "");
}

static void csv_put_counter(FILE *out, const struct counter *counter, const struct row *row,
                            bool with_unit)
{
	const char *word;
	uint64_t value;

	putc(',', out);
	if (row->gpu < 0 || !row_counter(row, counter, &value))
		return;
	word = counter_word(counter, value);
	if (counter_is_code(counter))
		fputs(word ? word : "unknown", out);
	else if (counter->unit == COUNTER_millipercent)
		fprintf(out, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
	else
		fprintf(out, "%" PRIu64, value);
	if (with_unit && *csv_unit_of(counter))
		fprintf(out, " %s", csv_unit_of(counter));
}

static void put_header(FILE *out)
{
	fputs("job,user,labels,state,processes,gpu,uuid,pci_bus_id,name,"
	      "memory [B],device_charged [B],host_charged [B],device_orphaned [B],share_apart",
	      out);
	for (const struct counter *counter = counters; counter->name; counter++) {
		fprintf(out, ",%s", counter->name);
		if (*csv_unit_of(counter))
			fprintf(out, " [%s]", csv_unit_of(counter));
	}
	putc('\n', out);
}

static void put_row(FILE *out, const struct row *row, bool with_unit)
{
	put_text(out, row->job);
	putc(',', out);
	put_text(out, row->user);
	putc(',', out);
	put_text(out, row->labels);
	fprintf(out, ",%s,%d,", row->running ? "running" : "ended", row->processes);
	if (row->gpu < 0) {
		fputs(",,,,,,,,", out);
	} else {
		fprintf(out, "%d,", row->gpu);
		put_text(out, row->device.uuid);
		putc(',', out);
		put_text(out, row->device.pci_bus_id);
		putc(',', out);
		put_text(out, row->device.name);
		csv_put_bytes(out, row->device.memory, with_unit);
		csv_put_bytes(out, row->charged[SEGMENT_ON_DEVICE], with_unit);
		csv_put_bytes(out, row->charged[SEGMENT_ON_HOST], with_unit);
		if (row->is_of_page) {
			fputs(",,", out);
		} else {
			csv_put_bytes(out, row->orphaned, with_unit);
			fprintf(out, ",%d", row->is_apart);
		}
	}
	for (const struct counter *counter = counters; counter->name; counter++)
		csv_put_counter(out, counter, row, with_unit);
	putc('\n', out);
}

void format_csv(FILE *out, const struct rows *rows, bool header, bool with_unit)
{
	if (header)
		put_header(out);
	for (int i = 0; i < rows->count; i++)
		put_row(out, &rows->row[i], with_unit);
}
