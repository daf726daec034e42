/* SPDX-License-Identifier: MIT */
/* The snapshot of the configuration: the settings of all layers, those of [job], and errors. */
#include "core/config/snapshot.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"

enum { REGION_MINOR = 2 };

/* One line that names the place, the text that stood there, and the expected form. */
int config_fail(struct config_error *error, int status, struct config_place place,
                const char *format, ...)
{
	char *message = error->message;
	size_t size = sizeof(error->message);
	int length;
	va_list arguments;

	snprintf(error->file, sizeof(error->file), "%s", place.file);
	error->line = place.line;
	if (place.line > 0)
		length = snprintf(message, size, "%s:%d: ", place.file, place.line);
	else
		length = snprintf(message, size, "%s: ", place.file);
	if (length >= 0 && (size_t)length < size) {
		va_start(arguments, format);
		vsnprintf(message + length, size - (size_t)length, format, arguments);
		va_end(arguments);
	}
	return status;
}

int config_fail_value(struct config_error *error, const struct config_item *item,
                      const char *problem)
{
	config_fail(error, -EINVAL, item->place, "%s = %s: %s", item->key, item->value, problem);
	if (item->place.line == 0)
		snprintf(error->message, sizeof(error->message), "%s = %s: %s", item->place.file,
		         item->value, problem);
	return -EINVAL;
}

struct config *config_create(void)
{
	struct config *config = calloc(1, sizeof(*config));

	if (config)
		config->job = (struct config_job){.nvml = true,
		                                  .nvml_origin = "built-in",
		                                  .region_minor = REGION_MINOR,
		                                  .warnings = ""};
	return config;
}

const struct config_job *config_job(const struct config *config)
{
	return &config->job;
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
	free(config->job.status_file);
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
 * `spillway set` took bytes without a unit, and a job that is alive reads its files.
 */
static bool is_by_program(enum config_layer layer)
{
	return layer == LAYER_HAMI || layer == LAYER_MONITOR || layer == LAYER_OVERRIDE;
}

int config_fail_lacking(const char *key, const struct config_item *item, struct config_error *error)
{
#define X(name, module)                                                                            \
	if (strcmp(key, name) == 0 && config_lacks_module(module))                                 \
		return config_fail(error, -EINVAL, item->place,                                    \
		                   "%s = %s: the module '" module "' of this key is not built in", \
		                   item->key, item->value);
	CONFIG_MODULE_KEYS(X)
#undef X
	return 0;
}

int config_add(struct config *config, struct config_setting setting, const struct config_item *item,
               struct config_error *error)
{
	int lacks = config_fail_lacking(config_key_name(setting.key), item, error);
	struct config_problem problem;

	if (lacks)
		return lacks;
	if ((!is_by_program(setting.layer) &&
	     config_value_lacks_unit(setting.key, item->value, &problem)) ||
	    config_value_parse(setting.key, item->value, &setting.value, &problem) != 0)
		return config_fail_value(error, item, problem.text);
	if (config->count == config->capacity) {
		size_t capacity = config->capacity ? config->capacity * 2 : 16;
		struct config_setting *settings =
		    reallocarray(config->settings, capacity, sizeof(*settings));

		if (!settings)
			return out_of_memory(error, item->place);
		config->settings = settings;
		config->capacity = capacity;
	}
	setting.place.file = strdup(item->place.file);
	setting.place.line = item->place.line;
	setting.text = strdup(item->value);
	setting.origin = describe_place(item->place);
	if (!setting.place.file || !setting.text || !setting.origin) {
		free_setting(&setting);
		return out_of_memory(error, item->place);
	}
	config->settings[config->count++] = setting;
	return 0;
}

/* Sets the job's name, which becomes part of file names. */
static int set_name(struct config *config, const struct config_item *item,
                    struct config_error *error)
{
	const char *text = item->value;
	size_t length = strlen(text);

	if (length == 0 || length >= sizeof(config->job.name) || strchr(".-", text[0]) ||
	    strspn(text, CONFIG_LETTERS "._-") != length)
		return config_fail_value(error, item,
		                         "expected 1 to 63 letters, digits, '.', '_' or '-', not "
		                         "beginning with '.' or '-'");
	strcpy(config->job.name, text);
	return 0;
}

/* Sets the labels, which end up in metrics and JSON: they hold nothing that would need quoting. */
static int set_labels(struct config *config, const struct config_item *item,
                      struct config_error *error)
{
	const char *text = item->value;
	const char *c = text;
	size_t key, value;
	bool valid = strlen(text) < sizeof(config->job.labels);

	while (valid) {
		key = strspn(c, CONFIG_LETTERS "._-/");
		c += key;
		value = *c == '=' ? strspn(c + 1, CONFIG_LETTERS "._-/:@+") : 0;
		c += value + 1;
		valid = key > 0 && value > 0 && (*c == '\0' || *c == ',');
		if (valid && *c++ == '\0')
			break;
	}
	if (!valid)
		return config_fail_value(error, item,
		                         "expected labels such as team=vision,user=ada, at most "
		                         "255 bytes");
	strcpy(config->job.labels, text);
	return 0;
}

static int set_nvml(struct config *config, const struct config_item *item,
                    struct config_error *error)
{
	const char *text = item->value;
	char *origin;

	if (units_parse_bool(text, &config->job.nvml) != 0)
		return config_fail_value(error, item, "expected yes or no");
	origin = describe_place(item->place);
	if (!origin)
		return out_of_memory(error, item->place);
	free(config->nvml_origin);
	config->job.nvml_origin = config->nvml_origin = origin;
	return 0;
}

static int set_status_file(struct config *config, const struct config_item *item,
                           struct config_error *error)
{
	const char *text = item->value;
	size_t length = strlen(text);
	char *copy;

	if (text[0] != '/' || text[length - 1] == '/' || length > CONFIG_PATH_MAX)
		return config_fail_value(error, item, "expected the absolute path of a file");
	copy = strdup(text);
	if (!copy)
		return out_of_memory(error, item->place);
	free(config->job.status_file);
	config->job.status_file = copy;
	return 0;
}

/*
 * The region is the file that HAMi's monitor reads. Its versions 1.1 and 1.2 have one layout, so
 * the number alone differs.
 */
static int set_region(struct config *config, const struct config_item *item,
                      struct config_error *error)
{
	const char *text = item->value;

	if (config_fail_lacking("region", item, error) != 0)
		return -EINVAL;
	if (strcmp(text, "off") == 0)
		config->job.region_minor = -1;
	else if (strcmp(text, "1.1") == 0 || strcmp(text, "1.2") == 0)
		config->job.region_minor = text[2] - '0';
	else
		return config_fail_value(error, item, "expected 1.2, 1.1 or off");
	return 0;
}

int config_set_job(struct config *config, enum config_job_key key, const struct config_item *item,
                   struct config_error *error)
{
	static int (*const set[JOB_KEY_COUNT])(
	    struct config * config, const struct config_item *item, struct config_error *error) = {
#define X(name, variable) [JOB_KEY_##name] = set_##name,
	    CONFIG_JOB_KEYS(X)
#undef X
	};

	return set[key](config, item, error);
}

bool config_job_is_bound(const struct config *config, enum config_job_key key)
{
	return config->job.enforces && (key == JOB_KEY_name || config->is_machines[key]);
}

int config_warn(struct config *config, const char *format, ...)
{
	const char *before = config->job.warnings;
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
	config->job.warnings = config->warnings = all;
	return 0;
}
