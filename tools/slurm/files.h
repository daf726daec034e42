/* SPDX-License-Identifier: MIT */
/*
 * The prolog's files for a job's tasks on this node, in DIR/JOB:
 *
 * spillway.ini    the machine's settings with the job's in them, for /etc/spillway/spillway.ini
 * ld.so.preload   the machine's list with the shim in it, for /etc/ld.so.preload
 * state           the job's state directory, its user's
 * unlimited       in place of these: the job was given nothing that is to be limited
 * refused         why the job's limits cannot be enforced: its tasks fail
 *
 * Tasks fail, too, where none of it is there: the prolog has not run, or not to its end.
 */
#ifndef SPILLWAY_SLURM_FILES_H
#define SPILLWAY_SLURM_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/slurm/settings.h"

#define MACHINE_PRELOAD "/etc/ld.so.preload"

struct job_files {
	char directory[PATH_MAX / 2];
	char ini[PATH_MAX], preload[PATH_MAX], state[PATH_MAX], unlimited[PATH_MAX],
	    refused[PATH_MAX];
};

void files_name(const struct arguments *arguments, uint32_t job, struct job_files *files);
/* Makes the job's directory, empty. Root's. Returns false with a line in message. */
bool files_begin(const struct job_files *files, char *message, size_t size);
/* Writes the job's limits. Returns likewise; no half-written file is left then. */
bool files_write(const struct job_files *files, const struct arguments *arguments,
                 const struct job_settings *settings, char *message, size_t size);
/* Says that nothing limits the job. Returns likewise. */
bool files_leave_free(const struct job_files *files, char *message, size_t size);
/* Leaves the reason why the job's tasks are to fail. */
void files_refuse(const struct job_files *files, const char *reason);
/* Finds what a task has to do: FILES_REFUSED with a line in message. */
enum files_found { FILES_LIMIT, FILES_LEAVE_FREE, FILES_REFUSED };
enum files_found files_look(const struct job_files *files, char *message, size_t size);
/* Removes all of it; a missing file is fine. */
void files_remove(const struct job_files *files);
/* Makes the targets of tasks' mounts, where the machine has none: an empty file sets nothing. */
void files_make_targets(void);

#endif
