/* SPDX-License-Identifier: MIT */
/*
 * The process in its job: the configuration it follows, the segment, the devices. The files of
 * core/job read and write it; all other code asks by the functions.
 */
#ifndef SPILLWAY_JOB_PROCESS_H
#define SPILLWAY_JOB_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/budget/device.h"
#include "core/config/config.h"
#include "core/job/sharers.h"

/* The configuration that one process follows. */
struct job_config {
	char **environment;
	char *file; /* SPILLWAY_CONFIG, NULL: none */
	char name[CONFIG_NAME_MAX];
	bool is_unnamed; /* a made-up name: of the limits' sharers, or the program */
	char shared_by
	    [SHARERS_MAX]; /* the sharers of the limits of a job without a name; "": no limits */
	char run[64]; /* which run the process belongs to, as SPILLWAY_RUN has it; may be empty */
	bool is_run;  /* `spillway run` started it and waits for its end */
	bool is_container; /* the job is all of a container, which has one quota */
	char override_path[512], pause_path[512];
	char boot_id[CONFIG_BOOT_ID_MAX];
	struct config_pause pause; /* as it was read last */
	bool is_refused;           /* the override as it stands: the complaint says so first */
	struct config *now;        /* never NULL after job_config_start() */
	char complaint[CONFIG_MESSAGE_MAX + 16]; /* the fault of the newest layers; "": none */
};

extern struct this_job {
	pid_t process;        /* which started */
	bool forks_are_wiped; /* else a child that passed pthread_atfork() is known by its number */

	_Atomic bool tells_nvml;  /* NVML's answers tell of the limit, by the settings in force */
	struct job_config config; /* after start, changes in it are the helper's */
	_Atomic bool configured;
	struct segment *segment;
	struct device_set devices;
} this_job;

/*
 * Returns whether the process takes part in a job. It does not before job_start(), in a forked
 * child, and where Spillway is configured off: then everything is forwarded.
 */
bool job_is_active(void);
struct device_set *job_devices(void);
/*
 * Returns the configuration with which the process became part of the job; NULL before. May be
 * called in a forked child.
 */
const struct job_config *job_configuration(void);

#endif
