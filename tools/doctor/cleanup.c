/* SPDX-License-Identifier: MIT */
/* Removing the files of ended jobs in the state directory. */
#include "tools/doctor/cleanup.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/peers/peers.h"
#include "core/pages/page.h"
#include "core/state/directory.h"
#include "core/state/ring_files.h"
#include "tools/doctor/probe.h"
#include "tools/view/jobs.h"
#include "tools/view/tool.h"

int cleanup_job(const char *job)
{
	char *paused = jobs_file(job, "paused");
	char *lock = jobs_file(job, "override.ini.lock");
	int rc = segment_remove(job);

	if (rc == 0) {
		unlink(paused);
		unlink(lock);
		probe_forget(job);
	}
	free(paused);
	free(lock);
	return rc;
}

struct ended_job {
	const char *name;
	uint64_t ended_ns;
};

static int latest_first(const void *a, const void *b)
{
	const struct ended_job *one = a, *other = b;

	return (one->ended_ns < other->ended_ns) - (one->ended_ns > other->ended_ns);
}

void cleanup_old_jobs(void)
{
	struct job_list list;
	struct ended_job *ended;
	struct segment_view *view = allocate(sizeof *view);
	int count = 0;

	jobs_list(&list);
	ended = allocate(((size_t)list.count + 1) * sizeof *ended);
	for (int i = 0; list.count > CLEANUP_KEEPS && i < list.count; i++) {
		if (segment_read(list.name[i], view, NULL, 0) == 0 && !jobs_live_process(view))
			ended[count++] = (struct ended_job){list.name[i], view->ended_ns};
	}
	qsort(ended, (size_t)count, sizeof *ended, latest_first);
	for (int i = CLEANUP_KEEPS; i < count; i++)
		cleanup_job(ended[i].name);
	segment_view_free(view);
	free(ended);
	jobs_list_free(&list);
}

int cleanup_rings(void)
{
	int directory = directory_open(0, NULL, 0);
	int removed = directory < 0 ? 0 : rings_remove_left(directory);

	if (directory >= 0)
		close(directory);
	return removed;
}

int cleanup_told(void)
{
	char path[PATH_MAX];

	peers_sweep(directory_of_node(path, sizeof path), clock_now());
	peers_sweep(directory_path(path, sizeof path), clock_now());
	return page_sweep();
}
