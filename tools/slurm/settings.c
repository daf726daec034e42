/* SPDX-License-Identifier: MIT */
/* Settings of a job, made of the machine's item by item. Both are read as the shim reads them. */
#include "tools/slurm/settings.h"

#include <ini.h>
#include <stdlib.h>
#include <string.h>

/* The job's own lines, with any contents of the machine's file. */
struct line {
	const char *section, *key, *value;
};
enum { LINES = 2 * JOB_OPTION_COUNT + 8 };

struct copy {
	FILE *out;
	const struct job_settings *settings;
	bool is_enforced;                   /* the machine's own file is */
	bool has_ceiling[JOB_OPTION_COUNT]; /* [ceiling] of it names the key */
	char *most[JOB_OPTION_COUNT];       /* the values of its [gpu] */
	struct line line[LINES];
	int count;
	char section[128]; /* the one that was begun */
	char *message;     /* "": nothing is wrong */
	size_t size;
};

/* Returns the option that sets a key, JOB_OPTION_COUNT if none. */
static int option_of(const char *key)
{
	const enum config_key found = config_find_key(key);
	int i = 0;

	while (i < JOB_OPTION_COUNT && option_key((enum job_option)i) != found)
		i++;
	return i;
}

static bool is_every_gpu(const char *section)
{
	return strcmp(section, "gpu") == 0;
}

static bool is_one_gpu(const char *section)
{
	return strncmp(section, "gpu ", 4) == 0;
}

/* --- the machine's bounds on a job --- */

/*
 * Returns whether an enforced file's value of this option binds the job's request: a limit binds
 * how far it may rise, too.
 */
static bool asks_for(const struct job_settings *settings, int option)
{
	return settings->value[option] ||
	       (option == OPTION_memory && settings->value[OPTION_memory_max]);
}

static int survey(void *cookie, const char *section, const char *key, const char *value)
{
	struct copy *copy = cookie;
	int option = option_of(key);

	if (option == JOB_OPTION_COUNT)
		return 1;
	if (strcmp(section, "ceiling") == 0)
		copy->has_ceiling[option] = true;
	else if (is_every_gpu(section))
		copy->most[option] = strdup(value);
	else if (copy->is_enforced && is_one_gpu(section) && asks_for(copy->settings, option))
		snprintf(copy->message, copy->size,
		         "%s: [%s] %s: expected in [gpu] or [ceiling], as the file is enforced and "
		         "the job asks for its own",
		         MACHINE_INI, section, key);
	return 1;
}

/* --- the job's file --- */

static void slurm_settings_say(struct copy *copy, const char *section, const char *key,
                               const char *value)
{
	copy->line[copy->count++] = (struct line){section, key, value};
}

static void say_all(struct copy *copy, const char *name, const char *state)
{
	const struct job_settings *settings = copy->settings;

	slurm_settings_say(copy, "job", "name", name);
	slurm_settings_say(copy, "job", "labels", settings->labels);
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		if (settings->value[i])
			slurm_settings_say(copy, "gpu",
			                   config_key_name(option_key((enum job_option)i)),
			                   settings->value[i]);
	if (settings->is_weight && settings->value[OPTION_share])
		slurm_settings_say(copy, "gpu", "share_policy", "weight");
	slurm_settings_say(copy, "ceiling", "enforce", "yes");
	slurm_settings_say(copy, "ceiling", "required", "yes");
	slurm_settings_say(copy, "ceiling", "per", "job");
	slurm_settings_say(copy, "ceiling", "state_dir", state);
	/*
	 * A value of an enforced file is the most; of a priority, which it does not mention, the
	 * built-in one.
	 */
	for (int i = 0; i < JOB_OPTION_COUNT && copy->is_enforced; i++) {
		const char *most = copy->most[i] || i != OPTION_priority ? copy->most[i] : "normal";

		if (most && !copy->has_ceiling[i])
			slurm_settings_say(copy, "ceiling",
			                   config_key_name(option_key((enum job_option)i)), most);
	}
}

/* Returns whether the job's file sets it in place of the machine's. */
static bool is_replaced(const struct copy *copy, const char *section, const char *key)
{
	int option = option_of(key);

	if (option < JOB_OPTION_COUNT)
		key = config_key_name(option_key((enum job_option)option));
	for (int i = 0; i < copy->count; i++)
		if (strcmp(copy->line[i].section, section) == 0 &&
		    strcmp(copy->line[i].key, key) == 0)
			return true;
	return is_one_gpu(section) && option < JOB_OPTION_COUNT && copy->settings->value[option];
}

static void emit(struct copy *copy, const char *section, const char *key, const char *value)
{
	if (strcmp(copy->section, section) != 0) {
		fprintf(copy->out, "[%s]\n", section);
		snprintf(copy->section, sizeof copy->section, "%s", section);
	}
	fprintf(copy->out, "%s = %s\n", key, value);
}

static int slurm_settings_keep(void *cookie, const char *section, const char *key,
                               const char *value)
{
	struct copy *copy = cookie;

	if (!is_replaced(copy, section, key))
		emit(copy, section, key, value);
	return 1;
}

/* Reads a file as the machine's. Returns false, with a line in message, where it is wrong. */
static bool slurm_settings_read_settings(const char *path, bool *is_enforced, char *message,
                                         size_t size)
{
	const struct config_sources sources = {.system_file = path};
	struct config *config = NULL;
	struct config_error error;

	if (config_load(&sources, &config, &error) != 0) {
		snprintf(message, size, "%s", error.message);
		return false;
	}
	*is_enforced = config_job(config)->enforces;
	config_release(config);
	return true;
}

bool settings_write(FILE *out, const struct job_settings *settings, const char *state,
                    char *message, size_t size)
{
	struct copy copy = {.out = out, .settings = settings, .message = message, .size = size};
	char name[32];

	*message = '\0';
	if (!slurm_settings_read_settings(MACHINE_INI, &copy.is_enforced, message, size))
		return false;
	ini_parse(MACHINE_INI, survey, &copy);
	if (!*message) {
		snprintf(name, sizeof name, "slurm-%u", settings->id);
		say_all(&copy, name, state);
		ini_parse(MACHINE_INI, slurm_settings_keep, &copy);
		for (int i = 0; i < copy.count; i++)
			if (*copy.line[i].value)
				emit(&copy, copy.line[i].section, copy.line[i].key,
				     copy.line[i].value);
	}
	for (int i = 0; i < JOB_OPTION_COUNT; i++)
		free(copy.most[i]);
	return !*message;
}

bool settings_check(const char *path, char *message, size_t size)
{
	bool is_enforced;

	if (!slurm_settings_read_settings(path, &is_enforced, message, size))
		return false;
	if (!is_enforced)
		snprintf(message, size, "%s: expected enforce = yes", path);
	return is_enforced;
}

/* The request that a step's words are compared with. */
struct asked {
	const char *const *value;
	bool is_given[JOB_OPTION_COUNT]; /* the job has just that */
};

static int slurm_settings_compare(void *cookie, const char *section, const char *key,
                                  const char *value)
{
	struct asked *asked = cookie;
	int option = option_of(key);

	if (is_every_gpu(section) && option < JOB_OPTION_COUNT && asked->value[option])
		asked->is_given[option] = config_is_same_value(option_key((enum job_option)option),
		                                               asked->value[option], value);
	return 1;
}

int settings_differ(const char *path, const char *const value[JOB_OPTION_COUNT])
{
	struct asked asked = {.value = value};
	int option = 0;

	ini_parse(path, slurm_settings_compare, &asked); /* a job without limits has no file */
	while (option < JOB_OPTION_COUNT && (!value[option] || asked.is_given[option]))
		option++;
	return option;
}
