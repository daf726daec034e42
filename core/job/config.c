/* SPDX-License-Identifier: MIT */
/* The configuration of one process. Rules: runs inside the user's process. */
#include "core/job/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/job/module.h"
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

bool job_config_binds(void)
{
	return config_machine()->enforces || config_machine()->requires;
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

bool job_config_must_hold(const struct job_config *c, const struct device_set *devices)
{
	return config_machine()->requires ||
	       (config_machine()->enforces &&
	        (job_config_is_limited(c, devices) || has_share(c, devices)));
}

bool job_config_is_limited(const struct job_config *c, const struct device_set *devices)
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

void job_config_settle(struct job_config *c, const struct device_set *devices)
{
	if (c->is_unnamed && !job_config_is_limited(c, devices))
		name_unnamed(c, 0);
	locate_override(c);
}

bool job_config_lost_override(const struct job_config *c)
{
	struct stat found;

	return config_job(c->now)->has_override && c->override_path[0] &&
	       file_status(c->override_path, &found) != 0;
}

void job_config_distrust(struct job_config *c)
{
	int directory = directory_open(0, NULL, 0);

	if (directory >= 0)
		close(directory);
	else
		c->override_path[0] = c->pause_path[0] = '\0';
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

void job_config_complete(struct job_config *c, const struct device_set *devices)
{
	if (is_anything_at(c->override_path) || is_anything_at(c->pause_path) || c->complaint[0] ||
	    is_ambiguous(c->now, devices))
		job_config_reload(c, devices);
}

bool job_config_reload(struct job_config *c, const struct device_set *devices)
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

void job_config_begin_life(struct job_config *c, uint64_t began_ns)
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

void job_config_say_if_held(const struct job_config *c, const struct device_set *devices)
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
