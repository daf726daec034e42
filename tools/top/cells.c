/* SPDX-License-Identifier: MIT */
/* spillway top: the text of a row. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/formats/value.h"
#include "tools/formats/table.h"
#include "tools/top/top.h"
#include "tools/view/counters.h"

/* As tools/formats/table.h has them: "<" stands on the left. Bars have no heading. */
static const char *const headings[TOP_COLUMNS] = {
    [TOP_PID] = "PID",        [TOP_JOB] = "<JOB",         [TOP_GPU] = "GPU",
    [TOP_DEVICE_BAR] = "",    [TOP_DEVICE] = "DEVICE",    [TOP_HOST_BAR] = "",
    [TOP_HOST] = "HOST",      [TOP_LIMIT] = "LIMIT",      [TOP_SHARE] = "SHARE",
    [TOP_HELD] = "HELD",      [TOP_SPILLS] = "SPILLS",    [TOP_STEP] = "STEP",
    [TOP_PRIORITY] = "<PRIO", [TOP_LENDING] = "<LENDING", [TOP_COMMAND] = "<COMMAND",
};

const char *top_heading(enum top_column column, bool *left)
{
	*left = *headings[column] == '<';
	return headings[column] + *left;
}

/* Writes the narrow form of "12.0 MiB": "12.0M". */
static const char *short_size(uint64_t bytes, char *buf, size_t size)
{
	char *end = (char *)units_format_size(bytes, buf, size) + strcspn(buf, " ");

	end[0] = *end && end[1] != 'B' ? end[1] : '\0';
	if (*end)
		end[1] = '\0';
	return buf;
}

const char *top_mark(enum top_mark mark)
{
	static const char *const marks[TOP_MARKS] = {"█", "▒", "░", "▓"};
	static const char *const plain[TOP_MARKS] = {"#", "!", ".", "o"};

	return MB_CUR_MAX > 1 ? marks[mark] : plain[mark];
}

const char *top_legend(char *buf, size_t size)
{
	snprintf(buf, size, "%s held  %s beyond the limit  %s other users  %s free",
	         top_mark(TOP_USED), top_mark(TOP_OVER), top_mark(TOP_OTHERS), top_mark(TOP_FREE));
	return buf;
}

int top_bar_cells(uint64_t part, uint64_t all, int width)
{
	double cells = all ? (double)part / (double)all * width : 0;

	if (part >= all)
		return part ? width : 0;
	return part && cells < 1 ? 1 : (int)cells;
}

/* Appends a mark of a bar, as far as there is room. */
static void cells_append(char *bar, size_t size, const char *mark)
{
	size_t length = strlen(bar);

	if (length + strlen(mark) < size)
		snprintf(bar + length, size - length, "%s", mark);
}

/* Draws the GPU's memory: the process's, beyond the limit too, and the free part within it. */
static void device_bar(const struct top_row *row, int width, char *bar, size_t size)
{
	uint64_t memory = row->device.memory, limit = row->statistics.limit_set;
	int used = top_bar_cells(row->statistics.device_used, memory, width);
	int allowed = top_bar_cells(limit, memory, width);

	for (int i = 0; i < width; i++) {
		bool is_over = row->job_used > limit && i >= allowed;

		cells_append(bar, size,
		             i < used      ? top_mark(is_over ? TOP_OVER : TOP_USED)
		             : i < allowed ? top_mark(TOP_FREE)
		                           : " ");
	}
}

/* Draws all memory of the process, and its part on the host. */
static void host_bar(const struct top_row *row, int width, char *bar, size_t size)
{
	uint64_t host = row->statistics.host_used;
	int cells = top_bar_cells(host, host + row->statistics.device_used, width);

	for (int i = 0; i < width; i++)
		cells_append(bar, size, top_mark(i < cells ? TOP_USED : TOP_FREE));
}

const char *top_gpu_name(const struct top_gpu *gpu, char *buf, size_t size)
{
	const char *bus = strchr(gpu->device.pci_bus_id, ':');

	if (gpu->index >= 0)
		snprintf(buf, size, "GPU %d %s", gpu->index, gpu->device.name);
	else
		snprintf(buf, size, "GPU %s %s", bus ? bus + 1 : "?", gpu->device.name);
	return buf;
}

uint64_t top_gpu_free(const struct top_gpu *gpu)
{
	uint64_t used = gpu->mine + gpu->others;

	return used < gpu->device.memory ? gpu->device.memory - used : 0;
}

const char *top_gpu_figures(const struct top_gpu *gpu, char *buf, size_t size)
{
	char mine[32], others[32], rest[32], busy[16] = "-";
	uint64_t percent = (gpu->busy + 500) / 1000;

	if (gpu->busy_is_known)
		snprintf(busy, sizeof busy, "%d%%", percent < 100 ? (int)percent : 100);
	snprintf(buf, size, "you %5s others %5s free %5s busy %4s jobs %2d",
	         short_size(gpu->mine, mine, sizeof mine),
	         short_size(gpu->others, others, sizeof others),
	         short_size(top_gpu_free(gpu), rest, sizeof rest), busy, gpu->jobs);
	return buf;
}

static const char *held(const struct top_row *row, char *buf, size_t size)
{
	if (!row->pid)
		snprintf(buf, size, "ended");
	else if (row->statistics.evicted)
		snprintf(buf, size, "evict");
	else if (row->statistics.paused)
		snprintf(buf, size, "paused");
	else if (row->gpu < 0)
		snprintf(buf, size, "-");
	else
		return value_share_held(&row->statistics, row->is_apart, buf, size);
	return buf;
}

/* Appends a size behind a word, unless it is 0. */
static void append_size(char *buf, size_t size, const char *word, uint64_t bytes)
{
	char number[32];

	if (!bytes)
		return;
	cells_append(buf, size, *buf ? ", " : "");
	cells_append(buf, size, word);
	cells_append(buf, size, short_size(bytes, number, sizeof number));
}

const char *top_lending(const struct top_row *row, char *buf, size_t size)
{
	const struct sharing_seen *seen = &row->sharing;

	*buf = '\0';
	append_size(buf, size, "lent ", seen->lent);
	append_size(buf, size, "borrows ", seen->borrowed);
	append_size(buf, size, "claims ", seen->claimed);
	if (seen->waits) {
		cells_append(buf, size, *buf ? ", waits: " : "waits: ");
		cells_append(buf, size, claim_wait_name(seen->waits));
	}
	cells_append(buf, size, *buf ? "" : "-");
	return buf;
}

static const char *device_cell(const struct top_row *row, enum top_column column, int width,
                               char *buf, size_t size)
{
	const struct statistics *statistics = &row->statistics;

	*buf = '\0';
	switch (column) {
	case TOP_DEVICE_BAR:
		device_bar(row, width, buf, size);
		break;
	case TOP_DEVICE:
		return short_size(statistics->device_used, buf, size);
	case TOP_HOST_BAR:
		host_bar(row, width, buf, size);
		break;
	case TOP_HOST:
		return short_size(statistics->host_used, buf, size);
	case TOP_LIMIT:
		if (statistics->limit_set != CONFIG_UNLIMITED)
			return short_size(statistics->limit_set, buf, size);
		snprintf(buf, size, "none");
		break;
	case TOP_SHARE:
		snprintf(buf, size, "%.3g%%", (double)statistics->share_set / 1000);
		break;
	case TOP_HELD:
		return held(row, buf, size);
	case TOP_PRIORITY:
		snprintf(buf, size, "%.4s",
		         row->sharing.peers ? sharing_priority_word(row->sharing.priority) : "-");
		break;
	case TOP_LENDING:
		return top_lending(row, buf, size);
	case TOP_SPILLS:
		snprintf(buf, size, "%" PRIu64, statistics->spills);
		break;
	case TOP_STEP:
		if (statistics->step_ns)
			return units_format_duration(statistics->step_ns, buf, size);
		snprintf(buf, size, "-");
		break;
	default:
		*buf = '\0';
	}
	return buf;
}

const char *top_sparkline(const struct top_row *row, char *buf, size_t size)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const plain[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
	const char *const *level = MB_CUR_MAX > 1 ? blocks : plain;
	uint64_t most = 1;
	size_t length = 0;

	for (int i = 0; i < row->past_count; i++)
		if (row->past[i] > most)
			most = row->past[i];
	*buf = '\0';
	for (int i = 0; i < row->past_count; i++) {
		int height = (int)((double)row->past[i] / (double)most * 7);

		if (length + strlen(level[height]) >= size)
			break;
		length += (size_t)snprintf(buf + length, size - length, "%s", level[height]);
	}
	return buf;
}

const char *top_cell(const struct top_row *row, enum top_column column, int width, char *buf,
                     size_t size)
{
	*buf = '\0';
	if (column == TOP_PID && row->pid)
		snprintf(buf, size, "%d", (int)row->pid);
	else if (column == TOP_PID)
		snprintf(buf, size, "-");
	else if (column == TOP_JOB)
		snprintf(buf, size, "%s", row->job);
	else if (column == TOP_COMMAND)
		snprintf(buf, size, "%s%s", row->draining ? "(draining) " : "", row->command);
	else if (row->gpu < 0)
		snprintf(buf, size, "%s", column == TOP_GPU ? "-" : "");
	else if (column == TOP_GPU)
		snprintf(buf, size, "%d", row->gpu);
	else
		return device_cell(row, column, width, buf, size);
	return buf;
}

void top_print(const struct top_rows *rows, FILE *out)
{
	const char *printed[TOP_COLUMNS + 1] = {NULL}; /* a file has no use for bars */
	struct table table;
	int count = 0;
	bool is_any_apart = false;

	for (enum top_column column = 0; column < TOP_COLUMNS; column++)
		if (*headings[column])
			printed[count++] = headings[column];
	table_start(&table, printed);
	for (int i = 0; i < rows->count; i++) {
		is_any_apart |= rows->row[i].is_apart;
		for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
			char cell[128];

			if (*headings[column])
				table_cell(&table, "%s",
				           top_cell(&rows->row[i], column, 0, cell, sizeof cell));
		}
	}
	table_end(&table, out);
	if (is_any_apart)
		value_explain_apart(out);
}
