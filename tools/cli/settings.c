/* SPDX-License-Identifier: MIT */
/* The limits that `run` and `set` take as options. */
#include "tools/cli/settings.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "tools/view/ini_file.h"
#include "tools/view/tool.h"

static const struct {
	bool has_option;
	const char *meaning;
} of_key[CONFIG_KEY_COUNT] = {
#define X(name, kind, builtin, choices, bound, has_option, meaning) {has_option, meaning},
    CONFIG_GPU_KEYS(X)
#undef X
};

bool settings_any(const struct settings *settings)
{
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (settings->value[key])
			return true;
	return false;
}

/*
 * Returns whether most is known to be below limit: a size and a percentage cannot be compared
 * before the GPU is known.
 */
static bool is_below(const char *most, const char *limit)
{
	uint64_t most_bytes, limit_bytes;
	double most_percent, limit_percent;

	if (units_parse_size(most, &most_bytes) == 0 && units_parse_size(limit, &limit_bytes) == 0)
		return most_bytes != 0 && most_bytes < limit_bytes;
	return strchr(most, '%') && strchr(limit, '%') &&
	       units_parse_percent(most, &most_percent) == 0 &&
	       units_parse_percent(limit, &limit_percent) == 0 && most_percent != 0 &&
	       most_percent < limit_percent;
}

void settings_check(const struct settings *settings)
{
	const char *limit = settings->value[CONFIG_KEY_memory];
	const char *most = settings->value[CONFIG_KEY_memory_max];

	if (*settings->selector && !settings_any(settings))
		usage_error("--limit-gpu '%s': expected a limit beside it", settings->selector);
	if (limit && most && is_below(most, limit))
		usage_error("--memory-max '%s': below --memory '%s'; expected 0 or at least as "
		            "much",
		            most, limit);
}

static void cli_settings_take_limit(const struct argument *argument, const char *value)
{
	struct settings *settings = argument->into;
	char expected[CONFIG_MESSAGE_MAX] = "";
	char option[CONFIG_SPELLING_MAX];
	int key = 0;

	while (strcmp(config_as_option(config_key_name(key), option), argument->name) != 0)
		key++;
	if (config_check_value(key, value, expected, sizeof expected) != 0)
		usage_error("--%s '%s': %s", argument->name, value, expected);
	settings->value[key] = value;
}

static void cli_settings_take_gpu(const struct argument *argument, const char *value)
{
	if (!*value || config_check_selector(value, NULL) != 0)
		usage_error("--%s '%s': expected an ordinal such as 0, a UUID such as GPU-5ac3..., "
		            "or a PCI bus id such as 0000:3b:00.0",
		            argument->name, value);
	argument_text(argument, value);
}

void settings_arguments(struct settings *settings, struct argument arguments[SETTINGS_ARGUMENTS])
{
	static char value[CONFIG_KEY_COUNT][64], name[SETTINGS_ARGUMENTS][CONFIG_SPELLING_MAX];
	const char *spelling;
	enum config_key of;
	int count = 0;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		if (!of_key[key].has_option)
			continue;
		arguments[count] =
		    (struct argument){config_as_option(config_key_name(key), name[count]),
		                      0,
		                      config_key_argument(key, value[key], sizeof value[key]),
		                      of_key[key].meaning,
		                      cli_settings_take_limit,
		                      settings};
		count++;
		for (int i = 0; (spelling = config_old_spelling(i, &of)); i++)
			if (of == (enum config_key)key) {
				arguments[count] = arguments[count - 1];
				arguments[count].name = config_as_option(spelling, name[count]);
				arguments[count++].help = NULL;
			}
	}
	settings->selector = "";
	arguments[count++] =
	    (struct argument){"limit-gpu",
	                      0,
	                      "GPU",
	                      "Limit this GPU only: an ordinal, a UUID or a PCI bus id",
	                      cli_settings_take_gpu,
	                      &settings->selector};
	arguments[count] = (struct argument){0};
}

bool settings_change(const struct settings *settings, struct config_change *change,
                     struct deadline *deadline)
{
	const char *keys[CONFIG_KEY_COUNT + 1] = {NULL};
	const char *values[CONFIG_KEY_COUNT + 1] = {NULL};
	uint32_t version = settings->job_version ? settings->job_version : UINT32_MAX;
	struct config_error error;
	int count = 0;
	bool done;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		if (!settings->value[key])
			continue;
		keys[count] = config_key_name_for(key, version);
		values[count++] = config_value_for(key, settings->value[key], version);
	}
	change->selector = settings->selector;
	change->keys = keys;
	change->values = values;
	done = config_override_change(change, deadline, &error) == 0;
	change->keys = change->values = NULL;
	if (!done)
		complain("%s", error.message);
	return done;
}

bool settings_write(const struct settings *settings, const char *path, struct deadline *deadline)
{
	struct config_change change = {.path = path};
	bool done = settings_change(settings, &change, deadline);

	free(change.before);
	return done;
}

bool settings_are_known(const struct settings *settings, const char *job, uint32_t version)
{
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (settings->value[key] && config_key_since(key) > version) {
			complain("job '%s' runs with an earlier version of Spillway, which does "
			         "not know %s: nothing is changed; start the job again to set it",
			         job, config_key_name(key));
			return false;
		}
	return true;
}

struct standing {
	const struct settings *settings;
	bool key[CONFIG_KEY_COUNT];
};

static int cli_settings_see(void *cookie, const char *section, const char *name, const char *value)
{
	struct standing *standing = cookie;
	const struct settings *settings = standing->settings;
	const char *selector = ini_selector(section);

	if (!selector || strcmp(selector, settings->selector) != 0)
		return 1;
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (settings->value[key] && config_find_key(name) == (enum config_key)key)
			standing->key[key] = strcmp(value, settings->value[key]) == 0;
	return 1;
}

bool settings_stand(const struct settings *settings, const char *path)
{
	struct standing standing = {.settings = settings};

	ini_read(path, cli_settings_see, &standing);
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (settings->value[key] && !standing.key[key])
			return false;
	return true;
}
