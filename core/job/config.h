/* SPDX-License-Identifier: MIT */
/*
 * The configuration that one process follows: which layers it reads, and the effect of a bad one.
 *
 * The environment is copied once: the program may change its own at any time, on any thread. Not
 * thread-safe; job.c calls it on one thread at a time.
 */
#ifndef SPILLWAY_JOB_CONFIG_H
#define SPILLWAY_JOB_CONFIG_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/job/sharers.h"

struct device_set;

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

/* How a complaint begins of an override that is not in force; the tool waits for it. */
#define JOB_CONFIG_NOT_TAKEN "refused: "

#define JOB_CONFIG_REFUSED \
	"cuInit is refused, because " CONFIG_SYSTEM_FILE " wants no job run without its limits"

/* Returns whether the machine's file is enforced or wants every process limited. */
bool job_config_binds(void);
/*
 * Returns whether the process must not use the devices unless it has its part in the job. The
 * machine's file wants that of every process, or is enforced and the job is limited.
 */
bool job_config_must_hold(const struct job_config *config, const struct device_set *devices);

/* Reads all layers for the first time. One that is bad or cannot be read does not count, and that
 * is said; where the machine's file binds none does. Returns false then, and without memory. */
bool job_config_start(struct job_config *config);
/*
 * Decides on the name, once the devices are known and the state directory is made: a process
 * without a limited device shares nothing. Finds the job's override.
 */
void job_config_settle(struct job_config *config, const struct device_set *devices);
/* Returns whether the memory of one of the devices, or its host memory, is limited. */
bool job_config_is_limited(const struct job_config *config, const struct device_set *devices);
/* Ignores the override in the state directory if that directory is not ours. */
void job_config_distrust(struct job_config *config);
/* Returns whether an override counts that is no longer there. */
bool job_config_lost_override(const struct job_config *config);
/*
 * Reads the layers as they are now, without those that are bad.
 * The caller releases the result; NULL: no memory. Says nothing, and reads nothing that
 * job_config_reload() writes, so any thread may call it.
 */
struct config *job_config_read(const struct job_config *config);
/*
 * Reads all layers again, for these devices. Of a bad layer its last good values stay in force; the
 * complaint is logged once. Returns whether every layer is good. A pause holds with any fault of
 * the layers.
 */
bool job_config_reload(struct job_config *config, const struct device_set *devices);
/*
 * Reads them again for the first time, for facts that were not known when the process started: the
 * devices and the override's place. Where there is no override nothing is read.
 */
void job_config_complete(struct job_config *config, const struct device_set *devices);
/*
 * Ends the pause of earlier processes, or of another boot, where this process is the first of the
 * job's life; it has begun to join at began_ns (CLOCK_MONOTONIC). A later pause stays.
 */
void job_config_begin_life(struct job_config *config, uint64_t began_ns);
/* Logs in a line that the job is paused or has a share of 0, by which user, and how to go on. */
void job_config_say_if_held(const struct job_config *config, const struct device_set *devices);

#endif
