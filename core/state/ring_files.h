/* SPDX-License-Identifier: MIT */
/* The files of rings: the meaning of their names, and when they go. */
#ifndef SPILLWAY_RING_FILES_H
#define SPILLWAY_RING_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many rings of processes that have ended are kept while their job's run lasts. */
enum { RING_KEPT = 16, RING_NAME_MAX = 128 };

struct segment_file;

/* The parts of a ring file's name: "JOB.PID-STARTED.events" */
struct ring_id {
	char job[64];
	int pid;
	uint64_t started_ns;
};

const char *ring_name(const struct ring_id *id, char *name, size_t size);
bool ring_name_parse(const char *name, struct ring_id *id);
/* Removes rings of the job, under the job lock: of processes that are not in the file; all of them
 * with NULL. The newest `keep` stay. */
void rings_remove(int directory, const char *job, struct segment_file *file, int keep);
/*
 * Removes rings of jobs without a segment that no process writes to, of any version. Returns how
 * many.
 */
int rings_remove_left(int directory);
/*
 * Calls found() (NULL: none) with each ring's file name in the directory; job NULL: of every job.
 * Returns their number or -errno.
 */
int ring_list(int directory, const char *job, void (*found)(void *cookie, const char *name),
              void *cookie);

#endif
