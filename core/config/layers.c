/* SPDX-License-Identifier: MIT */
/*
 * Loading: the sources in order, weakest first, into one snapshot. A layer takes effect whole or
 * not at all: it is tried in a snapshot of its own first where a bad one is not to fail the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/base/file_status.h"
#include "core/base/hash.h"
#include "core/base/once.h"
#include "core/base/place.h"
#include "core/base/units.h"
#include "core/config/snapshot.h"

/*
 * The defaults of HAMi mode (libvgpu.so), as its users expect. No memory goes to the host unless a
 * setting asks for it, and a share holds while the GPU is shared.
 */

/*
 * Sets a key of every GPU, in the name of a variable or of libvgpu.so. 0 or a negative errno.
 */
static int layers_set(struct config *config, enum config_layer layer, enum config_key key,
                      const char *from, const char *value, struct config_error *error)
{
	const struct config_item item = {
	    .place = {from, layer == LAYER_HAMI_DEFAULTS ? -1 : 0}, .key = from, .value = value};

	return config_add(config, (struct config_setting){.layer = layer, .key = key}, &item,
	                  error);
}

/*
 * Returns whether memory may lie on the host. A value that is neither yes nor no is logged, and
 * counts as no: the limits of the environment are to hold all the same.
 */
static bool layers_may_spill(struct config *config, char *const *environment)
{
	static const char name[] = "CUDA_OVERSUBSCRIBE";
	const char *text = config_variable(environment, name);
	bool may = false;

	if (text && units_parse_bool(text, &may) != 0)
		config_warn(config, "%s = %s: expected true or false; nothing is spilled", name,
		            text);
	return may;
}

/*
 * Takes the task's priority: 0 is HAMi's high one, 1 its low one, which it stops while a high one
 * works.
 */
static int take_priority(struct config *config, char *const *environment,
                         struct config_error *error)
{
	static const char name[] = "CUDA_TASK_PRIORITY";
	const char *text = config_variable(environment, name);
	char *end = NULL;
	long priority = text ? strtol(text, &end, 10) : 0;

	if (text && (*end || priority < 0)) {
		config_warn(config, "%s = %s: expected 0 or 1; the priority stays normal", name,
		            text);
		return 0;
	}
	return priority > 0 ? layers_set(config, LAYER_HAMI, CONFIG_KEY_priority, name,
	                                 "opportunistic", error)
	                    : 0;
}

/*
 * Adds the values of HAMi mode: its defaults, and its variables that mean something there alone.
 * environment may be NULL. 0 or a negative errno.
 */
static int config_add_hami_mode(struct config *config, char *const *environment, bool is_weighed,
                                struct config_error *error)
{
	static const char self[] = "libvgpu.so", policy_name[] = "GPU_CORE_UTILIZATION_POLICY";
	const char *policy = config_variable(environment, policy_name);
	bool is_forced = policy && strcasecmp(policy, "force") == 0;
	int status = layers_set(config, LAYER_HAMI_DEFAULTS, CONFIG_KEY_spill, self,
	                        layers_may_spill(config, environment) ? "auto" : "off", error);

	if (status == 0)
		status = layers_set(config, is_forced ? LAYER_HAMI : LAYER_HAMI_DEFAULTS,
		                    CONFIG_KEY_share_policy, is_forced ? policy_name : self,
		                    is_forced || !is_weighed ? "cap" : "weight", error);
	if (status == 0)
		status = take_priority(config, environment, error);
	return status;
}

/* One layer of a load. */
struct layer_source {
	const struct config_sources *sources;
	enum config_layer layer;
	const char *from; /* where its text was read */
	const char *text; /* NULL: it is not made of text */
	size_t length;
	int (*add)(struct config *config, const struct layer_source *source,
	           struct config_error *error);
};

static int layer_add_text(struct config *config, const struct layer_source *source,
                          struct config_error *error)
{
	return config_add_text(config, source->layer, source->from, source->text, source->length,
	                       error);
}

static int layer_add_environment(struct config *config, const struct layer_source *source,
                                 struct config_error *error)
{
	return config_add_environment(config, source->sources->environment, error);
}

static int layer_add_hami_mode(struct config *config, const struct layer_source *source,
                               struct config_error *error)
{
	return config_add_hami_mode(config, source->sources->environment,
	                            source->sources->is_weighed, error);
}

/* Tries a layer alone, under the rules that the machine's file has set by now. */
static int layer_try(const struct config *config, const struct layer_source *source,
                     struct config_error *error)
{
	const struct config_sources *sources = source->sources;
	struct config *alone = config_create();
	int status;

	if (!alone)
		return config_fail(error, -ENOMEM, (struct config_place){source->from, -1},
		                   "out of memory");
	alone->job.enforces = config->job.enforces;
	memcpy(alone->is_machines, config->is_machines, sizeof(alone->is_machines));
	memcpy(alone->job.name, config->job.name, sizeof(alone->job.name));
	status = source->add(alone, source, error);
	if (status == 0)
		status = config_check(alone, error);
	if (status == 0 && sources->devices)
		status =
		    config_check_devices(alone, sources->devices, sources->device_count, error);
	config_release(alone);
	return status;
}

static int layer_keep_text(struct config *config, const struct layer_source *source,
                           struct config_error *error)
{
	free(config->text_of[source->layer]);
	config->text_of[source->layer] = strdup(source->text);
	return config->text_of[source->layer]
	           ? 0
	           : config_fail(error, -ENOMEM, (struct config_place){source->from, -1},
	                         "out of memory");
}

/* Notes the fault of a layer. The override's is reported first: `set` waits for it. */
static void layer_complain(const struct layer_source *source, const struct config_error *error)
{
	struct config_error *complaint = source->sources->complaint;

	if (!complaint->message[0] || source->layer == LAYER_OVERRIDE)
		*complaint = *error;
}

static int layer_add(struct config *config, const struct layer_source *source,
                     struct config_error *error)
{
	int status = source->sources->complaint ? layer_try(config, source, error) : 0;

	if (status == 0)
		status = source->add(config, source, error);
	if (status == 0 && source->text)
		status = layer_keep_text(config, source, error);
	return status;
}

/* Puts the last good values of a bad layer into force. */
static int layer_stay(struct config *config, const struct layer_source *source,
                      struct config_error *error)
{
	const struct config *last_good = source->sources->last_good;
	struct layer_source stays = *source;

	layer_complain(source, error);
	if (source->layer == LAYER_OVERRIDE)
		config->job.override_is_refused = true;
	stays.text = last_good ? last_good->text_of[source->layer] : NULL;
	if (!stays.text)
		return 0;
	stays.length = strlen(stays.text);
	stays.add = layer_add_text;
	config->has_file = true;
	/* Under another machine's file it may be none any more. */
	if (layer_add(config, &stays, error) != 0)
		layer_complain(source, error);
	return 0;
}

/* Adds a layer. Where a bad one is tolerated only want of memory fails. */
static int layer_add_or_stay(struct config *config, const struct layer_source *source,
                             struct config_error *error)
{
	int status = layer_add(config, source, error);

	return status == 0 || status == -ENOMEM || !source->sources->complaint
	           ? status
	           : layer_stay(config, source, error);
}

static int layer_load(enum config_layer layer, const char *path, char **text, size_t *length,
                      struct config_error *error)
{
	struct config_place place = {path, 0};
	/* No tool links an override file; a link would have us read another file. */
	int status = config_file_load(path, layer != LAYER_OVERRIDE, text, length);

	if (layer != LAYER_FILE && (status == -ENOENT || status == -ENOTDIR))
		return -ENOENT;
	if (status == -EINVAL)
		return config_fail(error, status, place, "expected a regular file");
	errno = -status;
	if (status != 0)
		return config_fail(error, status == -ENOENT ? -ENODATA : status, place,
		                   "cannot read it: %m%s",
		                   layer == LAYER_FILE ? " (named by SPILLWAY_CONFIG)" : "");
	return 0;
}

static int layer_add_file(struct config *config, const struct config_sources *sources,
                          enum config_layer layer, const char *path, struct config_error *error)
{
	struct layer_source source = {sources, layer, path, NULL, 0, layer_add_text};
	char *text = NULL;
	size_t length;
	int status = layer_load(layer, path, &text, &length, error);

	if (status == -ENOENT)
		return 0;
	if (status == 0) {
		config->has_file = true;
		if (layer == LAYER_OVERRIDE) {
			config->job.override_hash = hash_bytes(HASH_NOTHING, text, length);
			config->job.cause = override_read_cause(text);
		}
		source.text = text;
		source.length = length;
		status = layer_add_or_stay(config, &source, error);
	} else if (sources->complaint && status != -ENOMEM) {
		status = layer_stay(config, &source, error);
	}
	free(text);
	return status == -ENODATA ? -ENOENT : status;
}

static int config_add_file(struct config *config, enum config_layer layer, const char *path,
                           struct config_error *error)
{
	return layer_add_file(config, &(struct config_sources){0}, layer, path, error);
}

/* Adds the pause, which is stronger than everything that has a share. */
static int layer_add_pause(struct config *config, const struct config_pause *pause,
                           struct config_error *error)
{
	struct config_item item = {.place = {"spillway pause", -1}, .key = "share", .value = "0"};
	struct config_setting setting = {.layer = LAYER_PAUSE, .key = CONFIG_KEY_share};
	int status;

	if (!pause || !pause->is_on)
		return 0;
	config->job.override_hash ^= pause->hash;
	status = config_add(config, setting, &item, error);
	if (status != 0 || !pause->evict)
		return status;
	setting.key = CONFIG_KEY_evict;
	item.key = "evict";
	item.value = "yes";
	return config_add(config, setting, &item, error);
}

/*
 * A name that the process chose would be another full quota. So it is the one of the machine's file
 * or, where that gives none or each user has one quota, the user's.
 */
static void layers_name_job(struct config *config)
{
	if (config->job.enforces && (config->is_per_user || !config->is_machines[JOB_KEY_name]))
		snprintf(config->job.name, sizeof(config->job.name), "user-%u",
		         (unsigned)geteuid());
}

static int layer_add_limit(struct config *config, const struct config_selector *selector,
                           enum config_key key, uint64_t bytes, const char *from,
                           struct config_error *error)
{
	const struct config_setting setting = {
	    .layer = LAYER_LIMITS, .key = key, .selector = *selector};
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 "B", bytes);
	return config_add(config, setting,
	                  &(struct config_item){{from, -1}, NULL, config_key_name(key), text},
	                  error);
}

static int layer_add_limits(struct config *config, const struct config_sources *sources,
                            struct config_error *error)
{
	int status = 0;

	for (size_t i = 0; i < sources->limit_count && status == 0; i++) {
		const struct config_limit *limit = &sources->limits[i];
		bool is_soft = limit->soft && limit->soft < limit->hard;
		struct config_selector selector;

		if ((limit->hard == UINT64_MAX && !limit->soft) ||
		    config_selector_parse(limit->pci, &selector) != 0)
			continue;
		status = layer_add_limit(config, &selector, CONFIG_KEY_memory,
		                         is_soft ? limit->soft : limit->hard,
		                         is_soft ? limit->soft_from : limit->hard_from, error);
		if (status == 0 && limit->hard != UINT64_MAX)
			status = layer_add_limit(config, &selector, CONFIG_KEY_memory_max,
			                         limit->hard, limit->hard_from, error);
	}
	return status;
}

/* Adds a label unless the job has one of that name, or the value cannot be one. */
static void layers_add_label(struct config *config, const char *key, const char *value)
{
	char *labels = config->job.labels;
	size_t used = strlen(labels), length = strlen(key);

	for (const char *at = labels; *at; at += strcspn(at, ","), at += *at == ',')
		if (strncmp(at, key, length) == 0 && at[length] == '=')
			return;
	if (value && *value && !value[strspn(value, CONFIG_LETTERS "._-/:@+")] &&
	    used + length + strlen(value) + 2 < sizeof(config->job.labels))
		snprintf(labels + used, sizeof(config->job.labels) - used, "%s%s=%s",
		         used ? "," : "", key, value);
}

/* Adds the labels of a Kubernetes pod that the job does not have yet, by dcgm-exporter's names. */
static void layers_add_pod(struct config *config, char *const *environment)
{
	struct cgroup_pod pod;

	if (!config_variable(environment, "KUBERNETES_SERVICE_HOST"))
		return;
	cgroup_pod("", &pod);
	layers_add_label(config, "pod", config_variable(environment, "POD_NAME"));
	layers_add_label(config, "namespace", config_variable(environment, "POD_NAMESPACE"));
	layers_add_label(config, "container", pod.container);
	layers_add_label(config, "pod_uid", pod.uid);
}

static int add_layers(struct config *config, const struct config_sources *sources,
                      struct config_error *error)
{
	const struct layer_source hami_mode = {sources, LAYER_HAMI_DEFAULTS, "environment", NULL,
	                                       0,       layer_add_hami_mode};
	const struct layer_source environment = {sources, LAYER_ENVIRONMENT,    "environment", NULL,
	                                         0,       layer_add_environment};
	const struct layer_source monitor = {sources,
	                                     LAYER_MONITOR,
	                                     sources->monitor_from,
	                                     sources->monitor,
	                                     sources->monitor ? strlen(sources->monitor) : 0,
	                                     layer_add_text};
	int status = 0;

	if (sources->system_file)
		status = layer_add_file(config, sources, LAYER_SYSTEM, sources->system_file, error);
	layers_name_job(config);
	if (status == 0 && sources->stands_in)
		status = layer_add_or_stay(config, &hami_mode, error);
	if (status == 0 && sources->file && !config->job.enforces)
		status = layer_add_file(config, sources, LAYER_FILE, sources->file, error);
	if (status == 0 && sources->environment)
		status = layer_add_or_stay(config, &environment, error);
	if (status == 0 && sources->monitor)
		status = layer_add_or_stay(config, &monitor, error);
	if (status == 0 && sources->override_file)
		status =
		    layer_add_file(config, sources, LAYER_OVERRIDE, sources->override_file, error);
	if (status == 0)
		status = layer_add_pause(config, sources->pause, error);
	if (status == 0)
		status = layer_add_limits(config, sources, error);
	if (status == 0)
		status = config_check(config, error);
	layers_add_pod(config, sources->environment);
	return status;
}

int config_load(const struct config_sources *sources, struct config **config,
                struct config_error *error)
{
	struct config *loaded = config_create();
	int status;

	if (!loaded)
		return config_fail(error, -ENOMEM, (struct config_place){"configuration", 0},
		                   "out of memory");
	if (sources->complaint)
		sources->complaint->message[0] = '\0';
	status = add_layers(loaded, sources, error);
	loaded->job.has_override = loaded->text_of[LAYER_OVERRIDE] != NULL;
	loaded->job.is_set = loaded->has_file || loaded->count > 0 || loaded->job.name[0];
	if (status == 0)
		*config = loaded;
	else
		config_release(loaded);
	return status;
}

/*
 * How the machine's file is to be kept to: read before anything else. A file that cannot be read
 * may have said that it is enforced, so it counts as if it had.
 */

static struct config_machine machine;
static struct once once;

static void machine_say(const char *path, const struct stat *found)
{
	snprintf(machine.fault, sizeof(machine.fault),
	         "%s: belongs to user %u, mode %04o; expected a file that user 0 "
	         "alone may write, as it is to be enforced",
	         path, (unsigned)found->st_uid, (unsigned)found->st_mode & 07777);
}

/* Checks that only root can have written the file at the path. */
static bool layers_is_roots(const char *path, mode_t others)
{
	struct stat found = {.st_uid = UINT32_MAX};

	if (file_status(path, &found) == 0 && found.st_uid == 0 && !(found.st_mode & others))
		return true;
	machine_say(path, &found);
	return false;
}

/* Checks the file and the folder: a user could put another file in its place. */
static void layers_check_owner(void)
{
	char folder[] = CONFIG_SYSTEM_FILE;

	*strrchr(folder, '/') = '\0';
	if (layers_is_roots(CONFIG_SYSTEM_FILE, S_IWGRP | S_IWOTH))
		layers_is_roots(folder, S_IWGRP | S_IWOTH);
}

/* Returns whether a text has a line that begins so, in any case, with any lines before it. */
static bool has_line(const char *text, size_t length, const char *key)
{
	const char *end = text + length, *line = text;

	for (;;) {
		line += strspn(line, " \t");
		if (strncasecmp(line, key, strlen(key)) == 0)
			return true;
		line = memchr(line, '\n', (size_t)(end - line));
		if (!line++)
			return false;
	}
}

/* Returns whether the text of a file that is no configuration says that it is enforced. */
static bool may_bind(void)
{
	char *text;
	size_t length;
	bool binds;

	int status = config_file_load(CONFIG_SYSTEM_FILE, true, &text, &length);

	if (status != 0)
		return status != -ENOENT && status != -ENOTDIR;
	/* misspelt, too */
	binds = has_line(text, length, "enforc") || has_line(text, length, "requir");
	free(text);
	return binds;
}

static void read_machine(void)
{
	struct config *config = config_create();
	struct config_error error = {.message = "out of memory"};
	int status =
	    config ? config_add_file(config, LAYER_SYSTEM, CONFIG_SYSTEM_FILE, &error) : -ENOMEM;

	if (status == 0) {
		machine.enforces = config->job.enforces;
		machine.requires = config->requires;
		memcpy(machine.state_dir, config->state_dir, sizeof(machine.state_dir));
		memcpy(machine.guaranteed, config->guaranteed, sizeof(machine.guaranteed));
		if (machine.enforces || machine.requires)
			layers_check_owner();
	} else if (may_bind()) {
		machine.enforces = machine.requires = true;
		snprintf(machine.fault, sizeof(machine.fault), "%s", error.message);
	}
	config_release(config);
	if (machine.enforces)
		place_bind(machine.state_dir);
}

const struct config_machine *config_machine(void)
{
	once_call(&once, read_machine);
	return &machine;
}

bool config_may_be_guaranteed(uid_t user)
{
	return config_lists_user(config_machine()->guaranteed, user);
}
