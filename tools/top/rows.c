/* SPDX-License-Identifier: MIT */
/* spillway top: the rows, read from the segments. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/top/top.h"
#include "tools/view/counters.h"
#include "tools/view/jobs.h"
#include "tools/view/reach.h"
#include "tools/view/tool.h"

static const char *const order_names[TOP_ORDERS] = {
    [TOP_BY_JOB] = "job",   [TOP_BY_DEVICE] = "device", [TOP_BY_HOST] = "host",
    [TOP_BY_HELD] = "held", [TOP_BY_SPILLS] = "spills",
};

const char *top_order_name(enum top_order order)
{
	return order_names[order];
}

bool top_row_is_same(const struct top_row *one, const struct top_row *other)
{
	return one->pid == other->pid && one->gpu == other->gpu &&
	       one->started_ns == other->started_ns && strcmp(one->job, other->job) == 0;
}

static const struct top_row *top_rows_find(const struct top_rows *rows, const struct top_row *row)
{
	for (int i = 0; rows && i < rows->count; i++)
		if (top_row_is_same(&rows->row[i], row))
			return &rows->row[i];
	return NULL;
}

/* Notes the changes since the rows before. */
static void top_rows_compare(struct top_row *row, const struct top_rows *before)
{
	const struct top_row *was = top_rows_find(before, row);
	const struct statistics *now = &row->statistics;

	if (was) {
		const struct statistics *then = &was->statistics;

		row->spills_now = now->spills > then->spills;
		row->moves_now = now->demoted_bytes > then->demoted_bytes ||
		                 now->promoted_bytes > then->promoted_bytes;
		memcpy(row->past, was->past, sizeof row->past);
		row->past_count = was->past_count;
		if (now->steps == then->steps)
			return;
	}
	if (now->step_ns == 0)
		return;
	if (row->past_count == TOP_PAST)
		memmove(row->past, row->past + 1, sizeof row->past - sizeof *row->past);
	else
		row->past_count++;
	row->past[row->past_count - 1] = now->step_ns;
}

/* Appends an empty row of the job. */
static struct top_row *append_row(struct top_rows *rows, const struct reach_walk *walk)
{
	char name[NODE_NAME_MAX];
	struct top_row *row;

	rows->row = grow(rows->row, rows->count, sizeof *rows->row);
	row = &rows->row[rows->count++];
	*row = (struct top_row){0};
	if (walk->page && walk->page->owner != geteuid())
		snprintf(row->other_user, sizeof row->other_user, "%s", walk->user);
	if (walk->page)
		snprintf(row->job, sizeof row->job, "%s/%s", walk->user,
		         node_name(walk->page, name));
	else
		memcpy(row->job, walk->view->job, sizeof walk->view->job);
	return row;
}

static void top_rows_add(struct top_rows *rows, const struct top_rows *before,
                         const struct reach_walk *walk, int process, int gpu, bool is_apart)
{
	const struct segment_view *view = walk->view;
	const struct segment_process *of = &view->process[process];
	struct top_row *row = append_row(rows, walk);

	row->pid = of->pid;
	row->started_ns = of->started_ns;
	row->draining = of->state != SLOT_LIVE;
	row->gpu = gpu;
	memcpy(row->command, of->command, sizeof row->command);
	if (gpu >= 0) {
		row->device = view->device[gpu];
		row->statistics = of->device[gpu];
		row->job_used = view->charged[gpu][SEGMENT_ON_DEVICE];
		row->is_apart = is_apart;
		sharing_see(view, gpu, &row->sharing);
	}
	top_rows_compare(row, before);
}

static void top_rows_add_process(struct top_rows *rows, const struct top_rows *before,
                                 const struct reach_walk *walk, int process,
                                 const bool is_apart[SEGMENT_DEVICES])
{
	const struct segment_view *view = walk->view;
	bool met = false;

	for (int gpu = 0; gpu < view->device_count; gpu++) {
		if (!counter_any(&view->process[process].device[gpu]))
			continue;
		top_rows_add(rows, before, walk, process, gpu, is_apart[gpu]);
		met = true;
	}
	if (!met)
		top_rows_add(rows, before, walk, process, -1, false);
}

/* Adds a row for each GPU of a job that has ended, with the sums of its processes. */
static void add_ended(struct top_rows *rows, const struct reach_walk *walk)
{
	const struct segment_view *view = walk->view;

	for (int gpu = 0; gpu < view->device_count; gpu++) {
		struct top_row *row = append_row(rows, walk);

		row->gpu = gpu;
		row->device = view->device[gpu];
		row->statistics = view->job_total[gpu];
		row->statistics.step_ns = 0;
		row->job_used = view->charged[gpu][SEGMENT_ON_DEVICE];
	}
}

static void add_job(struct top_rows *rows, const struct top_rows *before,
                    const struct reach_walk *walk, bool has_ended)
{
	const struct segment_view *view = walk->view;
	bool is_apart[SEGMENT_DEVICES];

	if (jobs_live_count(view) == 0) {
		if (has_ended)
			add_ended(rows, walk);
		return;
	}
	node_find_apart(view, &walk->node, is_apart);
	for (int i = 0; i < view->process_count; i++)
		top_rows_add_process(rows, before, walk, i, is_apart);
	rows->jobs++;
	rows->processes += jobs_live_count(view);
}

static void keep_matching(struct top_rows *rows, const char *filter)
{
	int kept = 0;

	for (int i = 0; i < rows->count; i++) {
		const struct top_row *row = &rows->row[i];

		if (strstr(row->job, filter) || strstr(row->command, filter) ||
		    strstr(row->device.uuid, filter))
			rows->row[kept++] = *row;
	}
	rows->count = kept;
}

/* Compares so that the largest comes first, for any column. */
static int descending(double one, double other)
{
	return (one < other) - (one > other);
}

static int by(const void *a, const void *b, void *cookie)
{
	const struct top_row *one = a, *other = b;
	const struct top_choice *choice = cookie;
	int result = 0;

	if (choice->order == TOP_BY_DEVICE)
		result = descending((double)one->statistics.device_used,
		                    (double)other->statistics.device_used);
	else if (choice->order == TOP_BY_HOST)
		result = descending((double)one->statistics.host_used,
		                    (double)other->statistics.host_used);
	else if (choice->order == TOP_BY_HELD)
		result = descending((double)one->statistics.share_held,
		                    (double)other->statistics.share_held);
	else if (choice->order == TOP_BY_SPILLS)
		result =
		    descending((double)one->statistics.spills, (double)other->statistics.spills);
	if (result == 0)
		result = strcmp(one->job, other->job);
	if (result == 0)
		result = one->pid != other->pid ? (one->pid > other->pid ? 1 : -1)
		                                : one->gpu - other->gpu;
	return choice->reverse ? -result : result;
}

void top_rows_read(struct top_rows *rows, const struct top_rows *before,
                   const struct top_choice *choice)
{
	struct reach_walk walk = reach_walk(choice->job);

	*rows = (struct top_rows){.read_ns = clock_now()};
	while (reach_next(&walk))
		if (walk.view)
			add_job(rows, before, &walk, choice->has_ended);
	keep_matching(rows, choice->filter);
	if (rows->count)
		qsort_r(rows->row, rows->count, sizeof *rows->row, by, (void *)choice);
}

void top_rows_free(struct top_rows *rows)
{
	free(rows->row);
	*rows = (struct top_rows){0};
}
