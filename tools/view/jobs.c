/* SPDX-License-Identifier: MIT */
/* Looking at jobs: the segments of this state directory. */
#include "tools/view/jobs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file_status.h"
#include "core/state/directory.h"
#include "tools/view/counters.h"
#include "tools/view/tool.h"

static int jobs_collect(void *cookie, const char *job)
{
	struct job_list *list = cookie;

	list->name = grow(list->name, list->count, sizeof *list->name);
	list->name[list->count++] = text("%s", job);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void jobs_list(struct job_list *list)
{
	int rc;

	*list = (struct job_list){0};
	rc = segment_list(jobs_collect, list);
	/* Before the first job there is no directory yet. */
	if (rc < 0 && rc != -ENOENT) {
		char message[512] = "";

		directory_open(0, message, sizeof message);
		fail("%s", message[0] ? message : strerror(-rc));
	}
	if (list->count)
		qsort(list->name, list->count, sizeof *list->name, by_name);
}

void jobs_list_free(struct job_list *list)
{
	for (int i = 0; i < list->count; i++)
		free(list->name[i]);
	free(list->name);
}

static struct segment_view *jobs_read_view(const char *job, int *rc, char *message, size_t size)
{
	struct segment_view *view = allocate(sizeof *view);

	*rc = segment_read(job, view, message, size);
	if (*rc == 0)
		return view;
	segment_view_free(view);
	return NULL;
}

/* Adds a name to a list of at most so many; the caller counts the rest. */
static void add_name(char **list, int count, const char *name)
{
	enum { NAMED = 10 };
	char *longer;

	if (count > NAMED)
		return;
	longer = count == NAMED ? text("%s, ...", *list)
	                        : text("%s%s%s", *list, count ? ", " : "", name);
	free(*list);
	*list = longer;
}

/* Names the jobs that run, and of those that have ended how many there are. */
static void complain_no_job(const char *job)
{
	char directory[PATH_MAX], message[512];
	struct job_list list;
	char *running = text("%s", ""), *among = text("%s", "");
	int live = 0, ended = 0, rc;

	jobs_list(&list);
	for (int i = 0; i < list.count; i++) {
		struct segment_view *view =
		    jobs_read_view(list.name[i], &rc, message, sizeof message);

		if (view && jobs_live_process(view))
			add_name(&running, live++, list.name[i]);
		else if (view)
			ended++;
		segment_view_free(view);
	}
	if (ended) {
		free(among);
		among = text("%s%d that %s ended (spillway stat --all)", live ? ", and " : "",
		             ended, ended == 1 ? "has" : "have");
	}
	directory_path(directory, sizeof directory);
	if (live || ended)
		complain("no job '%s' in %s; there %s: %s%s", job, directory,
		         live + ended == 1 ? "is" : "are", running, among);
	else
		complain("no job '%s' in %s; there is none at all", job, directory);
	free(running);
	free(among);
	jobs_list_free(&list);
}

struct segment_view *jobs_read(const char *job)
{
	char message[512] = "";
	int rc;
	struct segment_view *view;

	if (directory_check_name(job) != 0) {
		complain("'%s' cannot be a job: expected 1 to 63 of A-Z a-z 0-9 . _ - "
		         "not beginning with a dot",
		         job);
		return NULL;
	}
	view = jobs_read_view(job, &rc, message, sizeof message);
	if (rc == -ENOENT)
		complain_no_job(job);
	else if (!view)
		complain("%s", message);
	return view;
}

/* Reads one of the list. False: it has gone since, which is no fault. */
static bool read_listed(struct jobs_walk *walk)
{
	char message[512] = "";
	int rc;

	walk->name = walk->list.name[walk->next++];
	walk->view = jobs_read_view(walk->name, &rc, message, sizeof message);
	if (!walk->view && rc != -ENOENT)
		complain("%s", message);
	return rc != -ENOENT;
}

struct jobs_walk jobs_walk(const char *job)
{
	struct jobs_walk walk = {.job = job};

	if (!job)
		jobs_list(&walk.list);
	return walk;
}

bool jobs_next(struct jobs_walk *walk)
{
	segment_view_free(walk->view);
	walk->view = NULL;
	if (walk->job && walk->next == 0) {
		walk->name = walk->job;
		walk->view = jobs_read(walk->job);
		walk->next++;
		return true;
	}
	while (walk->next < walk->list.count)
		if (read_listed(walk))
			return true;
	jobs_list_free(&walk->list);
	return false;
}

struct segment_view *jobs_read_if_any(const char *job)
{
	char message[512] = "";
	int rc;
	struct segment_view *view = jobs_read_view(job, &rc, message, sizeof message);

	/* One of another version without a process is in no one's way. */
	if (!view && rc == -EPROTO && segment_remove(job) == 0)
		return NULL;
	if (!view && rc != -ENOENT)
		fail("%s; remove %s if no process uses it", message, jobs_file(job, "segment"));
	return view;
}

const struct segment_process *jobs_live_process(const struct segment_view *view)
{
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].state == SLOT_LIVE)
			return &view->process[i];
	return NULL;
}

int jobs_live_count(const struct segment_view *view)
{
	int count = 0;

	for (int i = 0; i < view->process_count; i++)
		count += view->process[i].state == SLOT_LIVE;
	return count;
}

bool jobs_gpu_is_used(const struct segment_view *view, int gpu)
{
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].state == SLOT_LIVE &&
		    counter_any(&view->process[i].device[gpu]))
			return true;
	return false;
}

bool jobs_pause(const char *job, struct config_pause *pause)
{
	char *path = jobs_file(job, "pause.ini");
	char boot[SEGMENT_BOOT_ID_MAX];

	segment_read_boot_id(boot);
	config_pause_read(path, boot, pause);
	free(path);
	return pause->is_on;
}

bool jobs_last_change(const char *job, struct jobs_change *change)
{
	char *path = jobs_file(job, "override.ini");
	const struct config_sources sources = {.override_file = path};
	struct config_cause cause = {0};
	struct config *config = NULL;
	struct config_error error;
	struct stat file;

	if (file_status(path, &file) == 0 && config_load(&sources, &config, &error) == 0)
		cause = config_job(config)->cause;
	config_release(config);
	free(path);
	change->through = cause.by ? counter_unit_word(COUNTER_cause, cause.through) : NULL;
	if (!change->through)
		return false;
	change->at_ns = (uint64_t)file.st_mtim.tv_sec * 1000000000 + (uint64_t)file.st_mtim.tv_nsec;
	change->by = cause.by - 1;
	return true;
}

char *jobs_file(const char *job, const char *suffix)
{
	char directory[PATH_MAX];

	directory_path(directory, sizeof directory);
	return text("%s/%s.%s", directory, job, suffix);
}
