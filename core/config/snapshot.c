/* SPDX-License-Identifier: MIT */
/* The snapshot: settings of all layers, and what can be read off it directly. */
#include "core/config/snapshot.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"

enum { REGION_MINOR = 2 };

struct config *config_create(void)
{
	struct config *config = calloc(1, sizeof(*config));

	if (config) {
		config->nvml = true;
		config->region_minor = REGION_MINOR;
	}
	return config;
}

static void free_setting(struct config_setting *setting)
{
	free((char *)setting->place.file);
	free(setting->text);
	free(setting->origin);
}

void config_release(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->count; i++)
		free_setting(&config->settings[i]);
	free(config->settings);
	free(config->warnings);
	free(config->nvml_origin);
	free(config->status_file);
	for (int layer = 0; layer < CONFIG_LAYERS; layer++)
		free(config->text_of[layer]);
	free(config);
}

const struct config_setting *config_find(const struct config *config, enum config_layer layer,
                                         enum config_key key,
                                         const struct config_selector *selector)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];

		if (setting->layer == layer && setting->key == key &&
		    config_selector_equal(&setting->selector, selector))
			return setting;
	}
	return NULL;
}

static char *describe_place(struct config_place place)
{
	char *text;
	int length = place.line > 0   ? asprintf(&text, "%s:%d", place.file, place.line)
	             : place.line < 0 ? asprintf(&text, "%s", place.file)
	                              : asprintf(&text, "environment %s", place.file);

	return length < 0 ? NULL : text;
}

static int out_of_memory(struct config_error *error, struct config_place place)
{
	return config_fail(error, -ENOMEM, place, "out of memory");
}

/*
 * Returns whether programs write the layer. An override file counts: an earlier version of
 * `spillway set` took bytes without a unit, and a job that is alive reads what that has written.
 */
static bool is_by_program(enum config_layer layer)
{
	return layer == LAYER_HAMI || layer == LAYER_ORDERS || layer == LAYER_OVERRIDE;
}

int config_add(struct config *config, enum config_layer layer, enum config_key key,
               const struct config_selector *selector, struct config_place place, const char *name,
               const char *text, struct config_error *error)
{
	struct config_setting setting = {.layer = layer, .key = key, .selector = *selector};
	const char *module = config_key_lacks(key);
	char message[CONFIG_MESSAGE_MAX];

	if (module)
		return config_fail(error, -EINVAL, place,
		                   "%s = %s: the module '%s' of this key is not built in", name,
		                   text, module);
	if (config_value_parse(key, text, is_by_program(layer), &setting.value, message,
	                       sizeof(message)) != 0)
		return config_fail_value(error, place, name, text, message);
	if (config->count == config->capacity) {
		size_t capacity = config->capacity ? config->capacity * 2 : 16;
		struct config_setting *settings =
		    reallocarray(config->settings, capacity, sizeof(*settings));

		if (!settings)
			return out_of_memory(error, place);
		config->settings = settings;
		config->capacity = capacity;
	}
	setting.place.file = strdup(place.file);
	setting.place.line = place.line;
	setting.text = strdup(text);
	setting.origin = describe_place(place);
	if (!setting.place.file || !setting.text || !setting.origin) {
		free_setting(&setting);
		return out_of_memory(error, place);
	}
	config->settings[config->count++] = setting;
	return 0;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Sets the job's name, which becomes part of file names. */
static int set_name(struct config *config, struct config_place place, const char *name,
                    const char *text, struct config_error *error)
{
	size_t length = strlen(text);

	if (length == 0 || length >= sizeof(config->job_name) || strchr(".-", text[0]) ||
	    strspn(text, LETTERS "._-") != length)
		return config_fail_value(error, place, name, text,
		                         "expected 1 to 63 letters, digits, '.', '_' or '-', not "
		                         "beginning with '.' or '-'");
	strcpy(config->job_name, text);
	return 0;
}

/* Sets the labels, which end up in metrics and JSON: they hold nothing that would need quoting. */
static int set_labels(struct config *config, struct config_place place, const char *name,
                      const char *text, struct config_error *error)
{
	const char *c = text;
	size_t key, value;
	bool valid = strlen(text) < sizeof(config->labels);

	while (valid) {
		key = strspn(c, LETTERS "._-/");
		c += key;
		value = *c == '=' ? strspn(c + 1, LETTERS "._-/:@+") : 0;
		c += value + 1;
		valid = key > 0 && value > 0 && (*c == '\0' || *c == ',');
		if (valid && *c++ == '\0')
			break;
	}
	if (!valid)
		return config_fail_value(error, place, name, text,
		                         "expected labels such as team=vision,user=ada, at most "
		                         "255 bytes");
	strcpy(config->labels, text);
	return 0;
}

static int set_nvml(struct config *config, struct config_place place, const char *name,
                    const char *text, struct config_error *error)
{
	char *origin;

	if (units_parse_bool(text, &config->nvml) != 0)
		return config_fail_value(error, place, name, text, "expected yes or no");
	origin = describe_place(place);
	if (!origin)
		return out_of_memory(error, place);
	free(config->nvml_origin);
	config->nvml_origin = origin;
	return 0;
}

static int set_status_file(struct config *config, struct config_place place, const char *name,
                           const char *text, struct config_error *error)
{
	size_t length = strlen(text);
	char *copy;

	if (text[0] != '/' || text[length - 1] == '/' || length > CONFIG_PATH_MAX)
		return config_fail_value(error, place, name, text,
		                         "expected the absolute path of a file");
	copy = strdup(text);
	if (!copy)
		return out_of_memory(error, place);
	free(config->status_file);
	config->status_file = copy;
	return 0;
}

/* HAMi's monitor knows the region's version 1.1 by the same layout. */
static int set_region(struct config *config, struct config_place place, const char *name,
                      const char *text, struct config_error *error)
{
	if (strcmp(text, "off") == 0)
		config->region_minor = -1;
	else if (strcmp(text, "1.1") == 0 || strcmp(text, "1.2") == 0)
		config->region_minor = text[2] - '0';
	else
		return config_fail_value(error, place, name, text, "expected 1.2, 1.1 or off");
	return 0;
}

int config_set_job(struct config *config, enum config_job_key key, struct config_place place,
                   const char *name, const char *text, struct config_error *error)
{
	switch (key) {
	case JOB_KEY_name:
		return set_name(config, place, name, text, error);
	case JOB_KEY_labels:
		return set_labels(config, place, name, text, error);
	case JOB_KEY_nvml:
		return set_nvml(config, place, name, text, error);
	case JOB_KEY_status_file:
		return set_status_file(config, place, name, text, error);
	case JOB_KEY_region:
		return set_region(config, place, name, text, error);
	case JOB_KEY_COUNT:
		break;
	}
	return -EINVAL;
}

/*
 * A name that the process chose would be another full quota. So it is the one of the machine's file
 * or, where that gives none or each user has one quota, the user's.
 */
void config_name_enforced(struct config *config)
{
	if (config_enforces(config) &&
	    (config->ceiling[CEILING_KEY_per] || !config->is_machines[JOB_KEY_name]))
		snprintf(config->job_name, sizeof(config->job_name), "user-%u",
		         (unsigned)geteuid());
}

bool config_job_is_bound(const struct config *config, enum config_job_key key)
{
	return config_enforces(config) && (key == JOB_KEY_name || config->is_machines[key]);
}

int config_warn(struct config *config, const char *format, ...)
{
	const char *before = config->warnings ? config->warnings : "";
	char *line, *all;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&line, format, arguments);
	va_end(arguments);
	if (length < 0)
		return -ENOMEM;
	length = asprintf(&all, "%s%s%s", before, *before ? "\n" : "", line);
	free(line);
	if (length < 0)
		return -ENOMEM;
	free(config->warnings);
	config->warnings = all;
	return 0;
}

bool config_is_set(const struct config *config)
{
	return config->has_file || config->count > 0 || config->job_name[0] != '\0';
}

const char *config_job_name(const struct config *config)
{
	return config->job_name;
}

const char *config_labels(const struct config *config)
{
	return config->labels;
}

bool config_nvml(const struct config *config)
{
	return config->nvml;
}

const char *config_status_file(const struct config *config)
{
	return config->status_file;
}

const char *config_nvml_origin(const struct config *config)
{
	return config->nvml_origin ? config->nvml_origin : "built-in";
}

int config_region_minor(const struct config *config)
{
	return config->region_minor;
}

bool config_enforces(const struct config *config)
{
	return config->ceiling[CEILING_KEY_enforce];
}

bool config_disabled(const struct config *config)
{
	return config->disabled;
}

uint64_t config_override_hash(const struct config *config)
{
	return config->override_hash;
}

bool config_override_is_refused(const struct config *config)
{
	return config->is_refused;
}

bool config_has_override(const struct config *config)
{
	return config->text_of[LAYER_OVERRIDE] != NULL;
}

const char *config_warnings(const struct config *config)
{
	return config->warnings ? config->warnings : "";
}
