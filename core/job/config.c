/* SPDX-License-Identifier: MIT */
/*
 * The configuration of one process, and new settings. Rules: runs inside the user's process, on one
 * thread at a time.
 */
#include "core/job/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_status.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/budget/growth.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/job/launch.h"
#include "core/job/module.h"
#include "core/job/pace.h"
#include "core/job/process.h"
#include "core/job/sharing.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/move/idle_point.h"
#include "core/registry/actions.h"
#include "core/rings/event.h"
#include "core/state/directory.h"
#include "core/state/segment.h"

static char **config_copy_environment(void)
{
	size_t count = 0;
	char **copy;

	/* That of a set-uid process is not to be trusted. */
	while (environ && environ[count] && !getauxval(AT_SECURE))
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < count; i++) {
		copy[i] = strdup(environ[i]);
		if (!copy[i]) {
			while (i > 0)
				free(copy[--i]);
			free(copy);
			return NULL;
		}
	}
	return copy;
}

/* Makes a plain name that says which program this is: "python-4711". */
static void name_after_process(char *name, size_t size)
{
	const char *program = program_invocation_short_name;
	size_t n = 0;

	for (; program[n] && n + 16 < size; n++) {
		char c = program[n];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		             (c >= '0' && c <= '9') || c == '_' || (c == '.' && n > 0);

		name[n] = '-';
		if (plain)
			name[n] = c;
	}
	snprintf(name + n, size - n, "-%d", (int)getpid());
}

/*
 * Loads the layers as they are now. Of a bad one its last good values stay; *complaint names the
 * fault, "" where there is none. Returns 0, or -ENOMEM with *complaint filled.
 */
static int load_all(const struct job_config *c, const struct config *last_good,
                    const struct device_set *devices, struct config **loaded,
                    struct config_pause *pause, struct config_error *complaint)
{
	struct config_device ids[DEVICE_MAX];
	struct config_error error;
	struct config_sources sources = {
	    .system_file = CONFIG_SYSTEM_FILE,
	    .file = c->file,
	    .override_file = c->override_path[0] ? c->override_path : NULL,
	    .environment = c->environment,
	    .pause = pause,
	    .complaint = complaint,
	    .last_good = last_good,
	};
	int status;

	memset(pause, 0, sizeof(*pause));
	if (c->pause_path[0])
		config_pause_read(c->pause_path, c->boot_id, pause);
	for (int i = 0; devices && i < devices->count; i++)
		ids[i] = devices->device[i].id;
	if (devices) {
		sources.devices = ids;
		sources.device_count = (size_t)devices->count;
	}
	modules_call(add_source, &sources);
	status = config_load(&sources, loaded, &error);
	if (status != 0)
		*complaint = error;
	return status;
}

struct config *job_config_read(const struct job_config *c)
{
	struct config *loaded = NULL;
	struct config_pause pause;
	struct config_error complaint;

	load_all(c, NULL, NULL, &loaded, &pause, &complaint);
	return loaded;
}

/*
 * Names a job without a name by the processes that share the limits, or after the process alone
 * where there are no limits.
 */
static void name_unnamed(struct job_config *c, uint64_t limits)
{
	struct job_sharers sharers = {.name = ""};

	/* One container, one quota, with any limits of its processes. */
	if (limits && c->is_container)
		limits = 1;
	if (limits) {
		job_sharers_find(c->environment, limits, &sharers);
		memcpy(c->name, sharers.name, sizeof(c->name));
	} else {
		name_after_process(c->name, sizeof(c->name));
	}
	memcpy(c->shared_by, sharers.text, sizeof(c->shared_by));
}

static void locate_override(struct job_config *c)
{
	if (directory_override_path(c->name, c->override_path, sizeof(c->override_path)) != 0)
		c->override_path[0] = '\0';
	if (directory_pause_path(c->name, c->pause_path, sizeof(c->pause_path)) != 0)
		c->pause_path[0] = '\0';
}

static bool has_module(const char *name)
{
	for (const struct module *const *at = modules; *at; at++)
		if (strcmp((*at)->name, name) == 0)
			return true;
	return false;
}

bool job_config_start(struct job_config *c)
{
	struct config_error error;
	const char *file = secure_getenv("SPILLWAY_CONFIG"), *run = secure_getenv("SPILLWAY_RUN");
	const struct config_machine *machine = config_machine();

	config_has_module = has_module;
	c->environment = config_copy_environment();
	c->file = file && *file ? strdup(file) : NULL;
	if (!c->environment || (file && *file && !c->file))
		return false;
	if (!getauxval(AT_SECURE))
		modules_call(prepare, c);
	c->is_run = run && *run;
	/* A process with a place of its own from the machine is one run, with all its programs. */
	if (machine->state_dir[0])
		run = "machine";
	snprintf(c->run, sizeof(c->run), "%s", run ? run : "");
	if (machine->fault[0]) {
		log_error("%s; " JOB_CONFIG_REFUSED, machine->fault);
		return false;
	}
	segment_read_boot_id(c->boot_id);
	if (load_all(c, NULL, NULL, &c->now, &c->pause, &error) != 0 || error.message[0]) {
		snprintf(c->complaint, sizeof(c->complaint), "%s", error.message);
		if (job_config_binds()) {
			log_error("%s; " JOB_CONFIG_REFUSED, c->complaint);
			return false;
		}
		log_error("%s; %s", c->complaint,
		          c->now ? "that does not count, all else does" : "nothing is limited");
		if (!c->now)
			return false;
	}
	/* Another name would be another quota: the container's is named after its cache. */
	if (!c->is_container || config_job(c->now)->enforces)
		snprintf(c->name, sizeof(c->name), "%s", config_job(c->now)->name);
	c->is_unnamed = c->name[0] == '\0';
	if (c->is_unnamed)
		name_unnamed(c, config_limits(c->now));
	locate_override(c);
	return true;
}

/* Returns whether the memory of one of the devices, or its host memory, is limited. */
static bool job_config_is_limited(const struct job_config *c, const struct device_set *devices)
{
	struct config_gpu settings;
	bool limited = false;

	for (int i = 0; i < devices->count; i++) {
		config_for_device(c->now, &devices->device[i].id, &settings);
		limited |=
		    settings.memory != CONFIG_UNLIMITED || settings.host_memory < CONFIG_AUTO;
	}
	return limited;
}

/* Returns whether launches on one of the devices are held to a share. */
static bool has_share(const struct job_config *c, const struct device_set *devices)
{
	const uint64_t all = 100 * 1000;
	struct config_gpu settings;
	bool found = false;

	for (int i = 0; i < devices->count; i++) {
		config_for_device(c->now, &devices->device[i].id, &settings);
		found |= settings.share < all;
	}
	return found;
}

/*
 * Returns whether the process must not use the devices unless it has its part in the job. The
 * machine's file wants that of every process, or is enforced and the job is limited.
 */
static bool job_config_must_hold(const struct job_config *c, const struct device_set *devices)
{
	return config_machine()->requires ||
	       (config_machine()->enforces &&
	        (job_config_is_limited(c, devices) || has_share(c, devices)));
}

void job_config_settle(struct job_config *c, const struct device_set *devices)
{
	if (c->is_unnamed && !job_config_is_limited(c, devices))
		name_unnamed(c, 0);
	locate_override(c);
}

/* Returns whether an override counts that is no longer there. */
static bool job_config_lost_override(const struct job_config *c)
{
	struct stat found;

	return config_job(c->now)->has_override && c->override_path[0] &&
	       file_status(c->override_path, &found) != 0;
}

/*
 * Reads all layers again, for these devices. Of a bad layer its last good values stay in force; the
 * complaint is logged once. Returns whether every layer is good. A pause holds with any fault of
 * the layers.
 */
static bool job_config_reload(struct job_config *c, const struct device_set *devices)
{
	struct config *loaded = NULL;
	struct config_error complaint;
	bool is_refused, was_said;

	if (load_all(c, c->now, devices, &loaded, &c->pause, &complaint) == 0) {
		config_release(c->now);
		c->now = loaded;
	}
	is_refused = config_job(c->now)->override_is_refused;
	was_said = strcmp(c->complaint + (c->is_refused ? strlen(JOB_CONFIG_NOT_TAKEN) : 0),
	                  complaint.message) == 0;
	c->is_refused = is_refused;
	snprintf(c->complaint, sizeof(c->complaint), "%s%s", is_refused ? JOB_CONFIG_NOT_TAKEN : "",
	         complaint.message);
	if (!was_said && complaint.message[0])
		log_error("%s; its last good text stays in force", complaint.message);
	return !complaint.message[0];
}

/* Returns whether there is something at the path, or it cannot be known. */
static bool is_anything_at(const char *path)
{
	struct stat found;

	return *path && (file_status_itself(path, &found) == 0 || errno != ENOENT);
}

/* Returns whether a selector names several of the devices, which was not known before. */
static bool is_ambiguous(const struct config *loaded, const struct device_set *devices)
{
	struct config_device ids[DEVICE_MAX];
	struct config_error error;

	for (int i = 0; i < devices->count; i++)
		ids[i] = devices->device[i].id;
	return config_check_devices(loaded, ids, (size_t)devices->count, &error) != 0;
}

/*
 * Reads them again for the first time, for facts that were not known when the process started: the
 * devices and the override's place. Where there is no override nothing is read.
 */
static void job_config_complete(struct job_config *c, const struct device_set *devices)
{
	if (is_anything_at(c->override_path) || is_anything_at(c->pause_path) || c->complaint[0] ||
	    is_ambiguous(c->now, devices))
		job_config_reload(c, devices);
}

/*
 * Ends the pause of earlier processes, or of another boot, where this process is the first of the
 * job's life; it has begun to join at began_ns (CLOCK_MONOTONIC). A later pause stays.
 */
static void job_config_begin_life(struct job_config *c, uint64_t began_ns)
{
	struct config_pause pause;

	if (!c->pause_path[0])
		return;
	config_pause_read(c->pause_path, "", &pause);
	if (!pause.is_on || (pause.at_ns > began_ns && strcmp(pause.boot_id, c->boot_id) == 0))
		return;
	if (unlink(c->pause_path) == 0)
		log_warning("job %s: it was paused%s%s when its last process ended: that is over",
		            c->name, pause.by[0] ? " by " : "", pause.by);
}

/* Writes when a pause began: "since 2026-11-24 21:05:00 UTC"; "" where that is not known. */
static const char *since_text(const struct config_pause *pause, char *text, size_t size)
{
	time_t seconds = (time_t)(pause->since_ns / 1000000000u);
	struct tm parts;

	text[0] = '\0';
	if (pause->since_ns && gmtime_r(&seconds, &parts))
		strftime(text, size, " since %Y-%m-%d %H:%M:%S UTC", &parts);
	return text;
}

/* Logs in a line that the job is paused or has a share of 0, by which user, and how to go on. */
static void job_config_say_if_held(const struct job_config *c, const struct device_set *devices)
{
	char since[64];

	if (c->pause.is_on) {
		log_warning("job %s: paused%s%s%s: its launches wait; let it go on by 'spillway "
		            "resume %s'",
		            c->name, c->pause.by[0] ? " by " : "", c->pause.by,
		            since_text(&c->pause, since, sizeof(since)), c->name);
		return;
	}
	for (int i = 0; i < devices->count; i++) {
		const struct config_device *id = &devices->device[i].id;
		struct config_gpu settings;

		config_for_device(c->now, id, &settings);
		if (settings.share != 0)
			continue;
		log_warning("job %s: a share of 0 on gpu %d (%s): its launches wait; let it go on "
		            "by 'spillway set %s --share 100'",
		            c->name, id->ordinal, config_origin(c->now, id, CONFIG_KEY_share),
		            c->name);
		return;
	}
}

/* --- new settings take effect --- */

bool job_settings_are_any(void)
{
	bool is_limited = false;

	for (int i = 0; i < this_job.devices.count; i++)
		is_limited |=
		    terms_of(&this_job.devices.device[i]).settings.memory != CONFIG_UNLIMITED ||
		    config_reserve(this_job.config.now, &this_job.devices.device[i].id);
	return !this_job.config.is_unnamed || this_job.config.file || is_limited;
}

static int change_devices(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct device *device = &change->devices->device[i];
		struct config_gpu settings;

		config_for_device(change->config, &device->id, &settings);
		if (device_apply(device, &settings))
			wanted_wake(device);
	}
	return CUDA_SUCCESS;
}

static int change_pacers(void *cookie, void *subject)
{
	struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct config_gpu settings;

		config_for_device(change->config, &change->devices->device[i].id, &settings);
		if (job_pace_set(i, &settings))
			change->paced |= 1U << i;
		sharing_set(i, &settings);
	}
	return CUDA_SUCCESS;
}

/*
 * Notifies the mover and the growth of limits that a step has ended: memory moves best where
 * nothing of a step is in flight yet.
 */
static int job_settings_end_step(void *cookie, void *subject)
{
	(void)cookie;
	idle_point_has_come();
	if (growth_step_ended(subject, clock_now()))
		wanted_wake(subject);
	return CUDA_SUCCESS;
}

bool job_settings_start(void)
{
	static const struct {
		enum action_group group;
		struct action action;
	} ours[] = {
	    {ACTION_CONFIG_CHANGED, {ACTION_RESOURCES, "devices", change_devices, NULL}},
	    {ACTION_CONFIG_CHANGED, {ACTION_RESOURCES, "pacing", change_pacers, NULL}},
	    {ACTION_STEP_END, {ACTION_RESOURCES, "memory", job_settings_end_step, NULL}},
	};
	bool has_started = true;

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (action_add(ours[i].group, &ours[i].action) != 0)
			return false;
	modules_call(start, &has_started);
	return has_started && job_launches_start();
}

/* Lets new settings take effect. */
static void job_settings_do_apply(void)
{
	struct job_change change = {.config = this_job.config.now, .devices = &this_job.devices};

	atomic_store(&this_job.tells_nvml, config_job(this_job.config.now)->nvml);
	actions_run(ACTION_CONFIG_CHANGED, &change);
	if (job_settings_are_any())
		vmem_count_exactly();
	if (!job_launches_hold(HELD_BY_SHARE, change.paced))
		log_error("out of memory: launches are %s",
		          change.paced ? "not paced" : "paced as before");
}

/*
 * Writes into the segment the fault of the configuration, and which override the process follows:
 * for `stat`, and for commands that wait until every process follows.
 */
static void job_settings_tell(void)
{
	const char *complaint = this_job.config.complaint;

	if (!this_job.segment)
		return;
	if (!*complaint)
		complaint = config_job(this_job.config.now)->warnings;
	segment_tell(this_job.segment, config_job(this_job.config.now)->override_hash,
	             (config_lacks_module("events") ? SEGMENT_MODULE_events : 0) |
	                 (config_lacks_module("resources") ? SEGMENT_MODULE_resources : 0),
	             complaint);
}

/*
 * Returns whether the override is gone although no command took it back. The tool takes a setting
 * back by writing the file anew, never by removing it under living processes. So an override that
 * is gone went with the state directory, file by file, as logind's RemoveIPC has it.
 */
static bool has_lost_override(void)
{
	if (!this_job.segment || !job_config_lost_override(&this_job.config))
		return false;
	log_once(
	    LOG_WARNING,
	    "job %s: %s was removed while it runs (by RemoveIPC of logind?); its settings stay "
	    "until it is there again",
	    this_job.config.name, this_job.config.override_path);
	return true;
}

void job_settings_reload(bool is_news)
{
	uint64_t hash_before = config_job(this_job.config.now)->override_hash;
	bool is_lost = has_lost_override();
	bool accepted = !is_lost && job_config_reload(&this_job.config, &this_job.devices);
	struct config_cause cause = {0};

	if (!is_lost) /* of a faulty layer the last good settings, and the rest as it is now */
		job_settings_do_apply();
	if (config_job(this_job.config.now)->override_hash != hash_before)
		cause = config_job(this_job.config.now)->cause;
	if (is_news || !accepted)
		event_note(.kind = EVENT_configuration, .device = EVENT_NO_DEVICE, .a = accepted,
		           .b = cause.through, .c = cause.by);
	job_settings_tell();
}

bool job_settings_hold_alone(void)
{
	job_config_reload(&this_job.config, &this_job.devices);
	return job_config_is_limited(&this_job.config, &this_job.devices);
}

bool job_settings_must_hold(void)
{
	return job_config_must_hold(&this_job.config, &this_job.devices);
}

void job_settings_begin(void)
{
	struct job_config *config = &this_job.config;
	uint64_t began_ns;

	if (this_job.segment && segment_begins_job(this_job.segment, &began_ns))
		job_config_begin_life(config, began_ns);
	/* The override's place is known now: it holds from the first allocation on. */
	job_config_complete(config, &this_job.devices);
	job_config_say_if_held(config, &this_job.devices);
	job_settings_do_apply();
	job_settings_tell();
}
