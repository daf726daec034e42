/* The limits that `run` and `set` take as options. */
#include "tools/cli/settings.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "tools/view/arguments.h"
#include "tools/view/ini_file.h"
#include "tools/view/tool.h"

enum {
	OPTION_SETTING = 0x100, /* + enum config_key */
	OPTION_GPU = OPTION_SETTING + CONFIG_KEY_COUNT,
};

/* The option of each key; "": none. */
static const struct {
	const char *name, *help;
} of_key[CONFIG_KEY_COUNT] = {
#define X(name, kind, builtin, choices, has_ceiling, option, meaning) {option, meaning},
    CONFIG_GPU_KEYS(X)
#undef X
};

static struct argp_option options[CONFIG_KEY_COUNT + 2];

void settings_list_options(void)
{
	static char argument[CONFIG_KEY_COUNT][64];
	struct argp_option *option = options;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (*of_key[key].name)
			*option++ = (struct argp_option){
			    of_key[key].name,
			    OPTION_SETTING + key,
			    config_key_argument(key, argument[key], sizeof argument[key]),
			    0,
			    of_key[key].help,
			    0};
	*option = (struct argp_option){"limit-gpu",
	                               OPTION_GPU,
	                               "GPU",
	                               0,
	                               "Limit this GPU only: an ordinal, a UUID or a PCI bus id",
	                               0};
}

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

static void check_together(const struct settings *settings)
{
	const char *limit = settings->value[CONFIG_KEY_memory_limit];
	const char *most = settings->value[CONFIG_KEY_memory_limit_max];

	if (*settings->selector && !settings_any(settings))
		usage_error("--limit-gpu '%s': expected a limit beside it", settings->selector);
	if (limit && most && is_below(most, limit))
		usage_error("--memory-max '%s': below --memory '%s'; expected 0 or at least as "
		            "much",
		            most, limit);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct settings *settings = state->input;
	enum config_key setting = key - OPTION_SETTING;
	char expected[CONFIG_MESSAGE_MAX] = "";

	if (key == ARGP_KEY_INIT) {
		settings->selector = "";
		return 0;
	}
	if (key == ARGP_KEY_SUCCESS) {
		check_together(settings);
		return 0;
	}
	if (key == OPTION_GPU) {
		if (!*argument || config_check_selector(argument, NULL) != 0)
			usage_error("--limit-gpu '%s': expected an ordinal such as 0, a UUID such "
			            "as GPU-5ac3..., or a PCI bus id such as 0000:3b:00.0",
			            argument);
		settings->selector = argument;
		return 0;
	}
	if (setting < CONFIG_KEY_COUNT) {
		if (config_check_value(setting, argument, expected, sizeof expected) != 0)
			usage_error("--%s '%s': %s", of_key[setting].name, argument, expected);
		settings->value[setting] = argument;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp settings_argp = {.options = options, .parser = parse};

bool settings_write(const struct settings *settings, const char *path, struct deadline *deadline)
{
	const char *keys[CONFIG_KEY_COUNT + 1] = {NULL};
	const char *values[CONFIG_KEY_COUNT + 1] = {NULL};
	struct config_error error;
	int count = 0;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		if (!settings->value[key])
			continue;
		keys[count] = config_key_name(key);
		values[count++] = settings->value[key];
	}
	if (config_override_write(path, settings->selector, keys, values, deadline, &error) == 0)
		return true;
	complain("%s", error.message);
	return false;
}

struct standing {
	const struct settings *settings;
	bool key[CONFIG_KEY_COUNT];
};

static int see(void *cookie, const char *section, const char *name, const char *value)
{
	struct standing *standing = cookie;
	const struct settings *settings = standing->settings;
	const char *selector = ini_selector(section);

	if (!selector || strcmp(selector, settings->selector) != 0)
		return 1;
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (settings->value[key] && strcmp(name, config_key_name(key)) == 0)
			standing->key[key] = strcmp(value, settings->value[key]) == 0;
	return 1;
}

bool settings_stand(const struct settings *settings, const char *path)
{
	struct standing standing = {.settings = settings};

	ini_read(path, see, &standing);
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		if (settings->value[key] && !standing.key[key])
			return false;
	return true;
}
