/* SPDX-License-Identifier: MIT */
/* spillway doctor: the configuration, value by value. */
#include "tools/doctor/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/surroundings.h"
#include "tools/view/configuration.h"
#include "tools/view/selectors.h"

void values_idle_section(const char *path, const char *selector)
{
	finding(FINDING_NOTE,
	        "configuration: %s: [gpu %s]: there is no such GPU, nothing is limited by it", path,
	        selector);
	finding_try(strstr(path, ".override.ini")
	                ? "spillway doctor --clean, which removes the file once its job has ended"
	                : "nvidia-smi -L and name a GPU that it lists, or remove the section");
}

struct setting {
	const struct config *config;
	const struct config_device *device;
	const struct config_gpu *settings; /* of the device */
	enum config_key key;
	const char *written; /* NULL: built-in */
};

/* Returns whether it is a percentage of a GPU that is not there. */
static bool values_is_unknown(const struct setting *setting, const char *written)
{
	return setting->device->memory == 0 && written && strchr(written, '%');
}

/* Returns why the setting does not do what it says, "" if it does. */
static const char *why_not_obeyed(const struct setting *setting)
{
	const struct config_gpu *settings = setting->settings;
	const char *written = setting->written;

	if (setting->key != CONFIG_KEY_memory_max || !written || strtod(written, NULL) == 0 ||
	    values_is_unknown(setting,
	                      config_written(setting->config, setting->device, CONFIG_KEY_memory)))
		return "";
	if (settings->memory == CONFIG_UNLIMITED)
		return ": has no effect, memory is unlimited";
	return settings->memory_max ? "" : ": has no effect, it is less than memory";
}

static void print_setting(const char *which, const struct setting *setting, uint64_t value)
{
	const char *why = why_not_obeyed(setting), *text = setting->written;
	char formatted[64];

	/* The value of a percentage is known with the GPU; a setting without effect has none. */
	if (!*why && !values_is_unknown(setting, text))
		text = config_format(setting->key, value, formatted, sizeof formatted);
	finding(*why ? FINDING_NOTE : FINDING_OK, "%s: %s = %s (%s)%s", which,
	        config_key_name(setting->key), text,
	        config_origin(setting->config, setting->device, setting->key), why);
}

static bool is_built_in(const char *origin)
{
	return strcmp(origin, "built-in") == 0;
}

static void print_settings(const struct config *config, const struct config_device *device,
                           const char *which, bool all)
{
	struct config_gpu settings;
	struct setting setting = {.config = config, .device = device, .settings = &settings};

	config_for_device(config, device, &settings);
	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		setting.key = (enum config_key)key;
		setting.written = config_written(config, device, setting.key);
		if (all || !is_built_in(config_origin(config, device, setting.key)))
			print_setting(which, &setting, settings.of[key]);
	}
}

static void print_warning(const char *line)
{
	finding(FINDING_NOTE, "configuration: %s", line);
}

void values_check(const struct driver_report *report, const struct pod *pod, bool all)
{
	static const struct config_device any = {0};
	const char *const files[] = {CONFIG_SYSTEM_FILE, configuration_file()};
	const struct config_sources sources = {
	    .system_file = files[0],
	    .file = files[1],
	    .environment = pod->is_ours ? pod->environment : environ,
	    .stands_in = pod->is_ours,
	};
	struct config *config = NULL;
	struct config_error error;
	bool enabled;

	if (config_load(&sources, &config, &error) != 0 ||
	    config_check_devices(config, report->device, (size_t)report->device_count, &error) !=
	        0) {
		config_release(config);
		finding(FINDING_NO, "configuration: %s", error.message);
		finding_try("man spillway.ini, which lists all settings");
		return;
	}
	if (config_machine()->fault[0])
		finding(FINDING_NO, "configuration: %s; cuInit is refused",
		        config_machine()->fault);
	else if (config_job(config)->enforces)
		finding(FINDING_OK,
		        "configuration: " CONFIG_SYSTEM_FILE " is enforced; the job is %s",
		        config_job(config)->name);
	enabled = !config_job(config)->is_disabled;
	finding(enabled ? FINDING_OK : FINDING_NO, "configuration: %s",
	        enabled
	            ? config_job(config)->is_set ? "valid" : "nothing is set, built-in values hold"
	            : "the environment disables Spillway");
	if (!enabled)
		finding_try("unset SPILLWAY_DISABLE CUDA_DISABLE_CONTROL");
	configuration_warn(config, print_warning);
	surroundings_hami(sources.environment, pod);
	surroundings_preloaded();
	if (all || !is_built_in(config_job(config)->nvml_origin))
		finding(FINDING_OK, "job: nvml = %s (%s)", config_job(config)->nvml ? "yes" : "no",
		        config_job(config)->nvml_origin);
	if (config_job(config)->status_file)
		finding(FINDING_OK, "job: status_file = %s", config_job(config)->status_file);
	for (int i = 0; i < report->device_count; i++) {
		char which[16], size[32];

		snprintf(which, sizeof which, "gpu %d", i);
		print_settings(config, &report->device[i], which, all);
		if (config_reserve(config, &report->device[i]))
			finding(FINDING_OK, "%s: %s are left free ([ceiling] reserve)", which,
			        units_format_size(config_reserve(config, &report->device[i]), size,
			                          sizeof size));
	}
	for (int i = 0; i < 2 && report->device_count; i++)
		if (files[i])
			selectors_check(files[i], report->device, report->device_count,
			                values_idle_section);
	if (report->device_count == 0)
		print_settings(config, &any, "any gpu", all);
	config_release(config);
}
