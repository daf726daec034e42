/*
 * Looking at jobs: the segments of this state directory, read or refused with a clear line.
 */
#ifndef SPILLWAY_JOBS_H
#define SPILLWAY_JOBS_H

#include "core/state/segment.h"

struct job_list {
	char **name;
	int count;
};

/* Every job with a segment, in order of name. */
void jobs_list(struct job_list *list);
void jobs_list_free(struct job_list *list);

/*
 * The job's state; the caller frees it. NULL after one line that says why, with the jobs that there
 * are when this one is not.
 */
struct segment_view *jobs_read(const char *job);
/* The same for one of a list: no line when it has gone since, which is no fault. */
struct segment_view *jobs_read_listed(const char *job, bool *has_gone);
/* The same, but no line and NULL when there is no such job. Anything else wrong ends the tool. */
struct segment_view *jobs_read_if_any(const char *job);

/* The first live process, or NULL. */
const struct segment_process *jobs_live_process(const struct segment_view *view);

int jobs_live_count(const struct segment_view *view);
/* Whether a live process uses the GPU; those of ended ones are the job's, too. */
bool jobs_gpu_is_used(const struct segment_view *view, int gpu);

/* DIR/JOB.SUFFIX: a file beside the job's segment. The caller frees it. */
char *jobs_file(const char *job, const char *suffix);

#endif
