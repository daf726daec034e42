/*
 * What the prolog leaves for a job's tasks on this node, in DIR/JOB:
 *
 * spillway.ini    the machine's settings with the job's in them, for /etc/spillway/spillway.ini
 * ld.so.preload   the machine's list with the shim in it, for /etc/ld.so.preload
 * state           the job's state directory, its user's
 * refused         in place of these, why the job's limits cannot be enforced: its tasks fail
 *
 * A job for which none is there was given nothing that is to be limited.
 */
#ifndef SPILLWAY_SLURM_FILES_H
#define SPILLWAY_SLURM_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/slurm/options.h"

#define MACHINE_INI     "/etc/spillway/spillway.ini"
#define MACHINE_PRELOAD "/etc/ld.so.preload"

struct job_files {
	char directory[PATH_MAX / 2];
	char ini[PATH_MAX], preload[PATH_MAX], state[PATH_MAX], refused[PATH_MAX];
};

/* What one job is given: the values of its options or their defaults, NULL where there is none. */
struct job_settings {
	uint32_t id;
	uid_t user;
	gid_t group;
	const char *labels;
	const char *value[JOB_OPTION_COUNT];
	bool is_weight; /* its share binds only while others want the GPU */
};

void files_name(const struct arguments *arguments, uint32_t job, struct job_files *files);
/* Makes the job's directory, empty. Root's. Returns false with a line in message. */
bool files_begin(const struct job_files *files, char *message, size_t size);
/* Writes all of it. Returns likewise; nothing half written stands then. */
bool files_write(const struct job_files *files, const struct arguments *arguments,
                 const struct job_settings *settings, char *message, size_t size);
/* Leaves the reason why the job's tasks are to fail. */
void files_refuse(const struct job_files *files, const char *reason);
/*
 * Finds an option for which a step asks another value than its job has; JOB_OPTION_COUNT if there
 * is none.
 */
int files_differ(const struct job_files *files, const char *const value[JOB_OPTION_COUNT]);
/* Removes all of it; what is not there is fine. */
void files_remove(const struct job_files *files);
/* Makes what tasks' mounts go over, where the machine has none: an empty file says nothing. */
void files_make_targets(void);

#endif
