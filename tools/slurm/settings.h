/* SPDX-License-Identifier: MIT */
/*
 * The settings of a job: the machine's, with the job's values in place of its own, and enforced.
 * Rules for the machine's users bind the job, too.
 */
#ifndef SPILLWAY_SLURM_SETTINGS_H
#define SPILLWAY_SLURM_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "tools/slurm/options.h"

#define MACHINE_INI "/etc/spillway/spillway.ini"

/* The values of one job: those of its options or their defaults, NULL where there is none. */
struct job_settings {
	uint32_t id;
	uid_t user;
	const char *labels;
	const char *value[JOB_OPTION_COUNT];
	bool is_weight; /* its share binds only while other jobs want the GPU */
};

/*
 * Writes the job's settings, with its state directory. Returns false, with a line in message, where
 * the machine's are wrong, or cannot be kept together with the job's.
 */
bool settings_write(FILE *out, const struct job_settings *settings, const char *state,
                    char *message, size_t size);
/* Checks that a file which was written so reads back with the same meaning. Returns likewise. */
bool settings_check(const char *path, char *message, size_t size);
/*
 * Finds an option for which a step asks another value than such a file has; JOB_OPTION_COUNT if
 * there is none.
 */
int settings_differ(const char *path, const char *const value[JOB_OPTION_COUNT]);

#endif
