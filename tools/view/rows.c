/* SPDX-License-Identifier: MIT */
/* One row per job and GPU. */
#include "tools/view/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/reach.h"
#include "tools/view/tool.h"

static struct row *view_rows_add(struct rows *rows)
{
	rows->row = grow(rows->row, rows->count, sizeof *rows->row);
	return &rows->row[rows->count++];
}

static void view_rows_add_device(struct rows *rows, const struct reach_walk *walk, int gpu,
                                 bool is_apart)
{
	const struct segment_view *view = walk->view;
	struct row *row = view_rows_add(rows);

	*row = (struct row){.gpu = gpu};
	memcpy(row->job, view->job, sizeof row->job);
	memcpy(row->typed, view->job, sizeof view->job);
	if (walk->page)
		node_name(walk->page, row->typed);
	memcpy(row->labels, view->labels, sizeof row->labels);
	snprintf(row->user, sizeof row->user, "%s", walk->user);
	row->processes = jobs_live_count(view);
	row->running = row->processes > 0;
	if (gpu < 0)
		return;
	row->device = view->device[gpu];
	memcpy(row->charged, view->charged[gpu], sizeof row->charged);
	row->is_apart = is_apart;
	row->orphaned = view->orphaned[gpu];
	row->total = view->job_total[gpu];
	sharing_see(view, gpu, &row->sharing);
	if (walk->told && (uint32_t)gpu < walk->told->device_count)
		row->host_limit = walk->told->device[gpu].host_limit;
}

static void add_page(struct rows *rows, const struct node_job *job, int gpu)
{
	const struct page *page = &job->page;
	struct row *row = view_rows_add(rows);

	*row = (struct row){.gpu = gpu, .is_of_page = true, .running = job->running};
	memcpy(row->job, page->job, sizeof row->job);
	node_name(job, row->typed);
	memcpy(row->labels, page->labels, sizeof row->labels);
	memcpy(row->user, job->user, sizeof row->user);
	row->processes = job->running ? (int)page->processes : 0;
	if (gpu < 0)
		return;
	row->device = page->device[gpu].device;
	memcpy(row->charged, page->device[gpu].charged, sizeof row->charged);
	statistics_set(&row->total.limit_set, page->device[gpu].limit);
	statistics_set(&row->total.share_set, page->device[gpu].share);
	row->host_limit = page->device[gpu].host_limit;
}

void rows_read(struct rows *rows, const char *job)
{
	struct reach_walk walk = reach_walk(job);
	bool is_apart[SEGMENT_DEVICES];

	*rows = (struct rows){0};
	while (reach_next(&walk)) {
		int count = walk.view   ? walk.view->device_count
		            : walk.page ? (int)walk.page->page.device_count
		                        : 0;

		if (!walk.view && !walk.page) {
			rows->unreadable++;
			continue;
		}
		if (walk.view)
			node_find_apart(walk.view, &walk.node, is_apart);
		for (int gpu = count ? 0 : -1; gpu < count; gpu++) {
			if (walk.view)
				view_rows_add_device(rows, &walk, gpu, gpu >= 0 && is_apart[gpu]);
			else
				add_page(rows, walk.page, gpu);
		}
	}
}

bool row_counter(const struct row *row, const struct counter *counter, uint64_t *value)
{
	bool known = counter_read(counter, &row->total, value);

	if (!row->is_of_page)
		return known;
	return known && *value != 0 &&
	       (counter->offset == offsetof(struct statistics, limit_set) ||
	        counter->offset == offsetof(struct statistics, share_set));
}

void rows_free(struct rows *rows)
{
	free(rows->row);
}
