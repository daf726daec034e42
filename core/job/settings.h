/* SPDX-License-Identifier: MIT */
/*
 * New settings take effect in this process. Not thread-safe: the thread that starts the job, then
 * its helper.
 */
#ifndef SPILLWAY_JOB_SETTINGS_H
#define SPILLWAY_JOB_SETTINGS_H

#include <stdbool.h>

#include "core/budget/device.h"

/* The subject of ACTION_CONFIG_CHANGED. */
struct job_change {
	const struct config *config;
	struct device_set *devices;
	unsigned int paced; /* devices, a bit each: launches are to be held back */
};

/* Adds the actions on new settings, launches and steps. Returns false without memory for them. */
bool job_settings_start(void);
/* Puts the configuration in force into effect, and says so in the segment. */
void job_settings_apply(void);
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
