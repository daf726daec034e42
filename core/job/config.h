/* SPDX-License-Identifier: MIT */
/*
 * The configuration that one process follows: which layers it reads, the effect of a bad one, and
 * how new settings take effect.
 *
 * The environment is copied once: the program may change its own at any time, on any thread. Not
 * thread-safe; job.c calls it on one thread at a time.
 */
#ifndef SPILLWAY_JOB_CONFIG_H
#define SPILLWAY_JOB_CONFIG_H

#include <stdbool.h>

#include "core/job/process.h"

/* How a complaint begins of an override that is not in force; the tool waits for it. */
#define JOB_CONFIG_NOT_TAKEN "refused: "

#define JOB_CONFIG_REFUSED \
	"cuInit is refused, because " CONFIG_SYSTEM_FILE " wants no job run without its limits"

/* Returns whether the machine's file is enforced or wants every process limited. */
static inline bool job_config_binds(void)
{
	return config_machine()->enforces || config_machine()->requires;
}

/* Reads all layers for the first time. One that is bad or cannot be read does not count, and that
 * is said; where the machine's file binds none does. Returns false then, and without memory. */
bool job_config_start(struct job_config *config);
/*
 * Decides on the name, once the devices are known and the state directory is made: a process
 * without a limited device shares nothing. Finds the job's override.
 */
void job_config_settle(struct job_config *config, const struct device_set *devices);
/*
 * Reads the layers as they are now, without those that are bad.
 * The caller releases the result; NULL: no memory. Says nothing, and reads nothing that
 * job_config_reload() writes, so any thread may call it.
 */
struct config *job_config_read(const struct job_config *config);

/* --- new settings take effect, on the thread that starts the job, then on its helper --- */

/* The subject of ACTION_CONFIG_CHANGED. */
struct job_change {
	const struct config *config;
	struct device_set *devices;
	unsigned int paced; /* devices, a bit each: launches are to be held back */
};

/* Adds the actions on new settings, launches and steps. Returns false without memory for them. */
bool job_settings_start(void);
/*
 * Puts the configuration in force into effect for the first time, with the facts that were not
 * known when the process started: the devices and the override's place. Says so in the segment.
 */
void job_settings_begin(void);
/*
 * Reads the layers again; a bad one changes nothing. is_news: a file has changed, which is an
 * event; else only a bad one is.
 */
void job_settings_reload(bool is_news);
/* Returns whether the job has a name, a file or a limit: its memory is to be seen and steered. */
bool job_settings_are_any(void);
/*
 * Reads the configuration where nothing is known of the job, because there is no helper or no
 * process slot. Returns whether there is a limit, which holds all the same, as 0.
 */
bool job_settings_hold_alone(void);
/* Returns whether the process is refused rather than run without a part in its job. */
bool job_settings_must_hold(void);

#endif
