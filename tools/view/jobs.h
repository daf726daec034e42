/* SPDX-License-Identifier: MIT */
/*
 * Looking at jobs: the segments of this state directory, read or refused with a clear line.
 */
#ifndef SPILLWAY_JOBS_H
#define SPILLWAY_JOBS_H

#include "core/config/config.h"
#include "core/state/segment.h"

struct job_list {
	char **name;
	int count;
};

/* Lists every job with a segment, in order of name. */
void jobs_list(struct job_list *list);
void jobs_list_free(struct job_list *list);

/* Going through the jobs of the state directory, or through one. */
struct jobs_walk {
	const char *job; /* NULL: all */
	const char *name;
	struct segment_view *view; /* NULL: it cannot be read, which has been said */
	struct job_list list;
	int next;
};
/* Begins with those that are there now; job NULL: all. */
struct jobs_walk jobs_walk(const char *job);
/* Goes on to the next that has not gone since. Returns whether there is one. */
bool jobs_next(struct jobs_walk *walk);

/*
 * Reads the job's state; the caller frees it. Returns NULL after one line that says why, with the
 * jobs that there are when this one is not.
 */
struct segment_view *jobs_read(const char *job);
/*
 * Reads it likewise, but says nothing when there is no such job. Anything else wrong ends the tool.
 */
struct segment_view *jobs_read_if_any(const char *job);

/* Returns the first live process, or NULL. */
const struct segment_process *jobs_live_process(const struct segment_view *view);

int jobs_live_count(const struct segment_view *view);
/* Returns whether a live process uses the GPU; those of ended ones are the job's, too. */
bool jobs_gpu_is_used(const struct segment_view *view, int gpu);

/* Reads the pause of a job. Returns whether it is paused, by a process of this boot. */
bool jobs_pause(const char *job, struct config_pause *pause);
/* The last change of a job's settings by a command, top or the page. */
struct jobs_change {
	uint64_t at_ns; /* since 1970 */
	uid_t by;
	const char *through; /* "command", "top", "page" */
};
/* Reads it. Returns false where there was none that is known. */
bool jobs_last_change(const char *job, struct jobs_change *change);
/* Returns DIR/JOB.SUFFIX: a file beside the job's segment. The caller frees it. */
char *jobs_file(const char *job, const char *suffix);

#endif
