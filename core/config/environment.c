/* SPDX-License-Identifier: MIT */
/*
 * The environment as two layers: HAMi's and KAI's names, and over them Spillway's.
 *
 * SPILLWAY_<KEY> sets a key for every GPU, SPILLWAY_<KEY>_<i> for one ordinal. An empty variable is
 * an absent one. A variable in an old spelling counts where the key's own is absent. A "0" under
 * HAMi's or KAI's names means no limit. Names of 64 bytes and more are not looked at.
 */
#include "core/config/snapshot.h"

#include "core/base/nearest.h"
#include "core/base/units.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { VARIABLE_MAX = 64 };

const char *config_variable(char *const *environment, const char *name)
{
	size_t length = strlen(name);

	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return (*environment)[length + 1] ? *environment + length + 1 : NULL;
	return NULL;
}

/* Returns whether name is base, or base_<ordinal>. */
static bool names_key(const char *name, const char *base, struct config_selector *selector)
{
	size_t length = strlen(base);

	if (strncmp(name, base, length) != 0)
		return false;
	if (name[length] == '\0')
		return config_selector_parse("", selector) == 0;
	return name[length] == '_' && config_selector_parse(name + length + 1, selector) == 0 &&
	       selector->kind == SELECT_ORDINAL;
}

/*
 * Adds a variable to the layer if its name is base or base_<ordinal>. Returns 1 where it is, 0
 * where it is not, or a negative errno.
 */
static int environment_take(struct config *config, struct config_setting setting, const char *base,
                            const struct config_item *item, struct config_error *error)
{
	int status = 0;

	if (!names_key(item->key, base, &setting.selector))
		return 0;
	/* getenv() finds the first of two; so do we. */
	if (*item->value && !config_find(config, setting.layer, setting.key, &setting.selector))
		status = config_add(config, setting, item, error);
	return status ? status : 1;
}

/* The variables that set no key of a GPU; the job's first, in the order of their keys. */
static const char *const others[] = {
#define X(name, variable) variable,
    CONFIG_JOB_KEYS(X)
#undef X
        "SPILLWAY_CONFIG",
    "SPILLWAY_DISABLE",
    "SPILLWAY_LOG",
    "SPILLWAY_STATE_DIR",
    "SPILLWAY_DRIVER",
    "SPILLWAY_NODE_DIR",
    "SPILLWAY_RUN",
    "SPILLWAY_DEVICE",
    NULL};

/* Warns of a variable without effect, because the machine's file is enforced. 0 or -ENOMEM. */
static int warn_of_bound(struct config *config, const char *name, const char *text)
{
	if (strcmp(name, others[JOB_KEY_name]) == 0 && strcmp(text, config->job.name) == 0)
		return 0; /* as `spillway run` has set it */
	return config_warn(config, "%s = %s: not followed: " CONFIG_SYSTEM_FILE " is enforced",
	                   name, text);
}

static int warn_of_all_bound(struct config *config, char *const *environment)
{
	static const char *const bound[] = {"SPILLWAY_CONFIG",      "SPILLWAY_DISABLE",
	                                    "CUDA_DISABLE_CONTROL", "SPILLWAY_STATE_DIR",
	                                    "SPILLWAY_NODE_DIR",    "SPILLWAY_DRIVER"};
	int status = 0;

	for (size_t i = 0; i < sizeof(bound) / sizeof(*bound) && status == 0; i++) {
		const char *text = config_variable(environment, bound[i]);

		if (text)
			status = warn_of_bound(config, bound[i], text);
	}
	return status;
}

/* Warns of a misspelt SPILLWAY_ variable; others with that prefix are not ours to judge. */
static int warn_if_misspelt(struct config *config, const char *name)
{
	const char *meant = nearest_word(name, others);
	char spelt[CONFIG_KEY_COUNT][CONFIG_SPELLING_MAX];
	const char *known[CONFIG_KEY_COUNT + 1] = {NULL}, *spelling;
	char base[CONFIG_SPELLING_MAX];
	enum config_key key;

	if (!meant) {
		for (int k = 0; k < CONFIG_KEY_COUNT; k++)
			known[k] =
			    config_as_variable(config_key_name((enum config_key)k), spelt[k]);
		meant = nearest_word(name, known);
	}
	for (int i = 0; !meant && (spelling = config_old_spelling(i, &key)); i++)
		if (nearest_distance(name, config_as_variable(spelling, base)) <= NEAREST_SLIP)
			meant = config_as_variable(config_key_name(key), base);
	if (!meant || strcmp(meant, name) == 0)
		return 0;
	return config_warn(config, "%s: unknown environment variable; did you mean %s?", name,
	                   meant);
}

/* Takes a variable in an old spelling, once those of the keys' own names are taken. */
static int take_old_spelling(struct config *config, const struct config_item *item,
                             struct config_error *error)
{
	struct config_setting setting = {.layer = LAYER_ENVIRONMENT};
	char base[CONFIG_SPELLING_MAX];
	const char *spelling;
	int status = 0;

	for (int i = 0; !status && (spelling = config_old_spelling(i, &setting.key)); i++)
		status = environment_take(config, setting, config_as_variable(spelling, base), item,
		                          error);
	return status;
}

static bool is_old_spelling(const char *name)
{
	struct config_selector selector;
	char base[CONFIG_SPELLING_MAX];
	const char *spelling;
	enum config_key key;

	for (int i = 0; (spelling = config_old_spelling(i, &key)); i++)
		if (names_key(name, config_as_variable(spelling, base), &selector))
			return true;
	return false;
}

static int take_spillway(struct config *config, const struct config_item *item,
                         struct config_error *error)
{
	struct config_setting setting = {.layer = LAYER_ENVIRONMENT};
	char base[CONFIG_SPELLING_MAX];
	int status = is_old_spelling(item->key);

	for (int key = 0; key < CONFIG_KEY_COUNT && !status; key++) {
		setting.key = (enum config_key)key;
		status = environment_take(config, setting,
		                          config_as_variable(config_key_name(setting.key), base),
		                          item, error);
	}
	if (!status && warn_if_misspelt(config, item->key) != 0)
		status = config_fail(error, -ENOMEM, item->place, "out of memory");
	return status;
}

/* Its sizes are bytes or K, M, G in either case, which ours include. */
static int take_hami(struct config *config, const struct config_item *item, bool paced,
                     struct config_error *error)
{
	struct config_setting setting = {.layer = LAYER_HAMI, .key = CONFIG_KEY_memory};
	int status;

	if (strcmp(item->value, "0") == 0)
		return 0;
	status = environment_take(config, setting, "CUDA_DEVICE_MEMORY_LIMIT", item, error);
	setting.key = CONFIG_KEY_share;
	return status || !paced
	           ? status
	           : environment_take(config, setting, "CUDA_DEVICE_SM_LIMIT", item, error);
}

/*
 * Takes the variables of KAI's gpu-fractioning, which NVIDIA's container toolkit applies to the
 * cgroup: whole MiB, the request, and the limit up to which a container may borrow.
 */
static int take_kai(struct config *config, const struct config_item *item,
                    struct config_error *error)
{
	static const struct {
		const char *name;
		enum config_key key;
	} keys[] = {{"NVIDIA_GPU_MEMORY_REQUEST", CONFIG_KEY_memory},
	            {"NVIDIA_GPU_MEMORY_LIMIT", CONFIG_KEY_memory_max}};
	size_t digits = strspn(item->value, "0123456789");
	struct config_item with_unit = *item;
	char text[32];
	int status = 0;

	if (strcmp(item->value, "0") == 0)
		return 0;
	if (digits && digits <= 20 && item->value[digits] == '\0') {
		snprintf(text, sizeof(text), "%sMiB", item->value);
		with_unit.value = text;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && !status; i++)
		status = environment_take(
		    config, (struct config_setting){.layer = LAYER_HAMI, .key = keys[i].key},
		    keys[i].name, &with_unit, error);
	return status;
}

/*
 * Reads HAMi's policy: "disable" ignores CUDA_DEVICE_SM_LIMIT; "force" and "default" both hold a
 * job to it here.
 */
static int read_policy(char *const *environment, bool *paced, struct config_error *error)
{
	static const char name[] = "GPU_CORE_UTILIZATION_POLICY";
	const char *policy = config_variable(environment, name);

	*paced = !policy || strcasecmp(policy, "disable") != 0;
	if (!*paced || !policy || strcasecmp(policy, "force") == 0 ||
	    strcasecmp(policy, "default") == 0)
		return 0;
	return config_fail_value(error, &(struct config_item){{name, 0}, NULL, name, policy},
	                         "expected default, force or disable");
}

static int read_disabled(struct config *config, char *const *environment,
                         struct config_error *error)
{
	const char *name = "SPILLWAY_DISABLE";
	const char *text = config_variable(environment, name);

	if (config->job.enforces)
		return 0;

	if (!text) {
		name = "CUDA_DISABLE_CONTROL";
		text = config_variable(environment, name);
	}
	if (text && units_parse_bool(text, &config->job.is_disabled) != 0)
		return config_fail_value(error, &(struct config_item){{name, 0}, NULL, name, text},
		                         "expected yes or no");
	return 0;
}

static int read_job(struct config *config, char *const *environment, struct config_error *error)
{
	int status = 0;

	for (int key = 0; key < JOB_KEY_COUNT && status == 0; key++) {
		const char *text = config_variable(environment, others[key]);

		if (text && config_job_is_bound(config, (enum config_job_key)key))
			status = warn_of_bound(config, others[key], text);
		else if (text)
			status = config_set_job(
			    config, (enum config_job_key)key,
			    &(struct config_item){{others[key], 0}, NULL, others[key], text},
			    error);
	}
	return status;
}

/* Reads the variables: first all but those in old spellings, then these. */
static int read_variables(struct config *config, char *const *environment, bool paced,
                          bool is_for_old, struct config_error *error)
{
	int status = 0;

	for (; *environment && status >= 0; environment++) {
		const char *value = strchr(*environment, '=');
		char name[VARIABLE_MAX];
		struct config_item item = {{name, 0}, NULL, name, NULL};

		if (!value || value - *environment >= (ptrdiff_t)sizeof(name))
			continue;
		memcpy(name, *environment, (size_t)(value - *environment));
		name[value - *environment] = '\0';
		item.value = value + 1;
		if (strncmp(name, "SPILLWAY_", 9) == 0)
			status = is_for_old ? take_old_spelling(config, &item, error)
			                    : take_spillway(config, &item, error);
		else if (!is_for_old && strncmp(name, "CUDA_DEVICE_", 12) == 0)
			status = take_hami(config, &item, paced, error);
		else if (!is_for_old && strncmp(name, "NVIDIA_GPU_MEMORY_", 18) == 0)
			status = take_kai(config, &item, error);
	}
	return status < 0 ? status : 0;
}

int config_add_environment(struct config *config, char *const *environment,
                           struct config_error *error)
{
	bool paced;
	int status;

	if (config->job.enforces && warn_of_all_bound(config, environment) != 0)
		return config_fail(error, -ENOMEM, (struct config_place){"environment", 0},
		                   "out of memory");
	if ((status = read_disabled(config, environment, error)) != 0 ||
	    (status = read_job(config, environment, error)) != 0 ||
	    (status = read_policy(environment, &paced, error)) != 0)
		return status;
	status = read_variables(config, environment, paced, false, error);
	return status ? status : read_variables(config, environment, paced, true, error);
}
