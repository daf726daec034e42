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
#include "core/job/config.h"

extern struct this_job {
	pid_t process;        /* which started */
	bool forks_are_wiped; /* else a child that passed pthread_atfork() is known by its number */

	_Atomic bool tells_nvml;
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
/* Returns whether NVML's answers are to tell of the limit, as the configuration in force says. */
bool job_tells_nvml(void);

#endif
