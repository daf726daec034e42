/* The configuration of one process. Rules: runs inside the user's process. */
#include "core/job/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/base/log.h"
#include "core/base/place.h"
#include "core/budget/device.h"
#include "core/state/directory.h"
#include "core/vgpu/orders.h"
#include "core/vgpu/stand_in.h"

static char **copy_environment(void)
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

static int load_all(const struct job_config *c, struct config **loaded, struct config_error *error)
{
	struct config_sources sources = {
	    .system_file = CONFIG_SYSTEM_FILE,
	    .file = c->file,
	    .override_file = c->override_path[0] ? c->override_path : NULL,
	    .environment = c->environment,
	};

	orders_take(&sources);
	return config_load(&sources, loaded, error);
}

/*
 * Loads what can still be trusted where the first configuration is bad, or cannot be read: the
 * administrator's file above all, for its ceilings.
 */
static const char *load_the_rest(const struct job_config *c, struct config **loaded,
                                 struct config_error *error)
{
	static const struct {
		bool system, environment;
		const char *counts;
	} rests[] = {
	    {true, true, "only the system's file and the environment count"},
	    {true, false, "only the system's file counts"},
	    {false, true, "only the environment counts"},
	    {false, false, "nothing is limited"},
	};

	for (size_t i = 0; i < sizeof(rests) / sizeof(*rests); i++) {
		struct config_sources rest = {
		    .system_file = rests[i].system ? CONFIG_SYSTEM_FILE : NULL,
		    .environment = rests[i].environment ? c->environment : NULL,
		};

		orders_take(&rest);
		if (config_load(&rest, loaded, error) == 0)
			return rests[i].counts;
	}
	return NULL;
}

struct config *job_config_read(const struct job_config *c)
{
	struct config *loaded = NULL;
	struct config_error error;

	if (load_all(c, &loaded, &error) != 0)
		load_the_rest(c, &loaded, &error);
	return loaded;
}

/*
 * Names a job that nobody named by who shares the limits, or after the process alone where there
 * are no limits.
 */
static void name_unnamed(struct job_config *c, uint64_t limits)
{
	struct job_sharers sharers = {.name = ""};

	/* One container, one quota, whatever its processes think their limits are. */
	if (limits && stand_in_is())
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
}

/*
 * Finds out what the container was given and, where we stand in for HAMi-core, goes to the places
 * that it has: its folder for the job's files, and what HAMi mounts everywhere for the node.
 */
static void stand_in(struct job_config *c)
{
	char beside[DIRECTORY_MAX + 1];

	c->environment = stand_in_complete(c->environment);
	if (!stand_in_is())
		return;
	if (access(DIRECTORY_NODE, X_OK) != 0 && access(STAND_IN_NODE, W_OK | X_OK) == 0)
		directory_node = STAND_IN_NODE;
	if (!place_is_bound() && !place_variable("SPILLWAY_STATE_DIR") &&
	    stand_in_directory(config_variable(c->environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
	                       beside, sizeof(beside)))
		directory_use(beside);
	orders_begin(c->environment);
}

bool job_config_start(struct job_config *c)
{
	struct config_error error;
	const char *file = secure_getenv("SPILLWAY_CONFIG"), *run = secure_getenv("SPILLWAY_RUN");
	const struct config_machine *machine = config_machine();

	c->environment = copy_environment();
	c->file = file && *file ? strdup(file) : NULL;
	if (!c->environment || (file && *file && !c->file))
		return false;
	if (!getauxval(AT_SECURE))
		stand_in(c);
	/* What the machine gives a place of its own is one run, whatever programs it is. */
	if (machine->state_dir[0])
		run = "machine";
	snprintf(c->run, sizeof(c->run), "%s", run ? run : "");
	if (machine->fault[0]) {
		log_error("%s; " JOB_CONFIG_REFUSED, machine->fault);
		return false;
	}
	if (load_all(c, &c->now, &error) != 0) {
		const char *counts;

		memcpy(c->complaint, error.message, sizeof(c->complaint));
		if (job_config_binds()) {
			log_error("%s; " JOB_CONFIG_REFUSED, c->complaint);
			return false;
		}
		counts = load_the_rest(c, &c->now, &error);
		log_error("%s; %s", c->complaint, counts ? counts : error.message);
		if (!counts)
			return false;
	}
	/* Another name would be another quota: the container's is named after its cache. */
	if (!stand_in_is() || config_enforces(c->now))
		snprintf(c->name, sizeof(c->name), "%s", config_job_name(c->now));
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
		    settings.memory_limit != CONFIG_UNLIMITED || settings.host_limit < CONFIG_AUTO;
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

	return config_override_hash(c->now) != 0 && c->override_path[0] &&
	       file_status(c->override_path, &found) != 0;
}

void job_config_distrust(struct job_config *c)
{
	int directory = directory_open(0, NULL, 0);

	if (directory >= 0)
		close(directory);
	else
		c->override_path[0] = '\0';
}

static int check_devices(const struct config *loaded, const struct device_set *devices,
                         struct config_error *error)
{
	struct config_device ids[DEVICE_MAX];

	for (int i = 0; i < devices->count; i++)
		ids[i] = devices->device[i].id;
	return config_check_devices(loaded, ids, (size_t)devices->count, error);
}

void job_config_complete(struct job_config *c, const struct device_set *devices)
{
	struct config_error error;
	struct stat found;

	bool is_any = c->override_path[0] &&
	              (file_status_itself(c->override_path, &found) == 0 || errno != ENOENT);

	if (is_any || c->complaint[0] || check_devices(c->now, devices, &error) != 0)
		job_config_reload(c, devices);
}

bool job_config_reload(struct job_config *c, const struct device_set *devices)
{
	struct config *loaded = NULL;
	struct config_error error;

	if (load_all(c, &loaded, &error) == 0 && check_devices(loaded, devices, &error) == 0) {
		config_release(c->now);
		c->now = loaded;
		c->complaint[0] = '\0';
		return true;
	}
	config_release(loaded);
	if (strcmp(c->complaint, error.message) != 0) {
		memcpy(c->complaint, error.message, sizeof(c->complaint));
		log_error("%s; the configuration stays as it was", c->complaint);
	}
	return false;
}
