/* SPDX-License-Identifier: MIT */
/* Resolving: which setting counts for a device, clamped by the ceiling, and contradictions. */
#include "core/config/snapshot.h"

#include "core/base/hash.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct config_value resolve_builtin(enum config_key key)
{
	struct config_value value = {0};
	struct config_problem problem;

	(void)config_value_parse(key, config_keys[key].builtin, &value, &problem);
	return value;
}

/* Ranks a selector: a more specific one is higher. */
static int selector_rank(const struct config_selector *selector)
{
	return (int)selector->kind + (int)strlen(selector->uuid);
}

/*
 * Finds the setting that counts up to a layer: the strongest layer wins; within it the more
 * specific selector.
 */
static const struct config_setting *effective_up_to(enum config_layer most,
                                                    const struct config *config,
                                                    const struct config_device *device,
                                                    enum config_key key)
{
	const struct config_setting *best = NULL;

	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];

		if (setting->key != key || setting->layer > most ||
		    !config_selector_matches(&setting->selector, device))
			continue;
		if (!best || setting->layer > best->layer ||
		    (setting->layer == best->layer &&
		     selector_rank(&setting->selector) > selector_rank(&best->selector)))
			best = setting;
	}
	return best;
}

/* Returns whether only the machine's file may set the key. */
static bool is_machines(const struct config *config, enum config_key key)
{
	return config->job.enforces && config_keys[key].bound == CONFIG_MACHINES;
}

static const struct config_setting *
effective(const struct config *config, const struct config_device *device, enum config_key key)
{
	const struct config_setting *setting = effective_up_to(
	    is_machines(config, key) ? LAYER_SYSTEM : LAYER_PAUSE, config, device, key);

	/* As in Kubernetes, a limit without a request is the request, too. */
	if (setting || key != CONFIG_KEY_memory)
		return setting;
	setting = effective_up_to(LAYER_PAUSE, config, device, CONFIG_KEY_memory_max);
	return setting && setting->value.number ? setting : NULL;
}

/* Finds the value of [ceiling] for a key. */
static const struct config_setting *written_ceiling(const struct config *config,
                                                    enum config_key key)
{
	const struct config_selector all = {.kind = SELECT_ALL};

	return config_find(config, LAYER_CEILING, key, &all);
}

/* Finds the machine's own value, which is the most where the file is enforced. */
static const struct config_setting *enforced_setting(const struct config *config,
                                                     const struct config_device *device,
                                                     enum config_key key)
{
	return config->job.enforces && config_keys[key].bound == CONFIG_CEILING
	           ? effective_up_to(LAYER_SYSTEM, config, device, key)
	           : NULL;
}

/* Finds the job's room of a key in its cgroup. A part of a GPU (MIG) has no such limit. */
static const struct config_setting *limit_from_outside(const struct config *config,
                                                       const struct config_device *device,
                                                       enum config_key key)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];

		if (setting->layer == LAYER_LIMITS && setting->key == key &&
		    strncmp(device->uuid, "MIG-", 4) != 0 &&
		    config_selector_matches(&setting->selector, device))
			return setting;
	}
	return NULL;
}

static uint64_t amount(struct config_value value, uint64_t memory)
{
	const uint64_t whole = 100 * 1000;

	if (!value.of_memory)
		return value.number;
	if (memory == 0)
		return CONFIG_UNLIMITED;
	return memory / whole * value.number + memory % whole * value.number / whole;
}

/*
 * Finds the ceiling that files give a key: that of [ceiling], else, where the machine's file is
 * enforced, its own value. Either on the limit holds for its growth too, unless that has its own of
 * that kind.
 */
static const struct config_setting *ceiling_of_files(const struct config *config,
                                                     const struct config_device *device,
                                                     enum config_key key)
{
	bool grows = key == CONFIG_KEY_memory_max;
	const struct config_setting *setting = written_ceiling(config, key);

	if (!setting && grows)
		setting = written_ceiling(config, CONFIG_KEY_memory);
	if (!setting)
		setting = enforced_setting(config, device, key);
	if (!setting && grows)
		setting = enforced_setting(config, device, CONFIG_KEY_memory);
	return setting;
}

/* Finds the ceiling of a key: the lower of the files' and the cgroup's. */
static const struct config_setting *ceiling(const struct config *config,
                                            const struct config_device *device, enum config_key key)
{
	const struct config_setting *file = ceiling_of_files(config, device, key);
	const struct config_setting *cgroup = limit_from_outside(config, device, key);

	if (file && cgroup)
		return amount(cgroup->value, device->memory) < amount(file->value, device->memory)
		           ? cgroup
		           : file;
	return file ? file : cgroup;
}

/*
 * Returns whether the built-in value of a key is the most: the machine's file is enforced and does
 * not mention it.
 */
static bool is_bound_by_builtin(const struct config *config, const struct config_setting *ceiling,
                                enum config_key key)
{
	return !ceiling && config->job.enforces && config_keys[key].bound == CONFIG_CEILING &&
	       key != CONFIG_KEY_memory_max; /* which the limit binds */
}

/*
 * Resolves one key that is set so; NULL: it is not. `from` is the setting that the value comes
 * from, NULL for built-in; it may be NULL itself.
 */
static uint64_t resolve_setting(const struct config *config, const struct config_device *device,
                                enum config_key key, const struct config_setting *setting,
                                const struct config_setting **from)
{
	const struct config_setting *limit = ceiling(config, device, key);
	uint64_t value = amount(setting ? setting->value : resolve_builtin(key), device->memory);

	/* "auto", "unlimited", "never" and the highest priority are the largest numbers. */
	if (limit && amount(limit->value, device->memory) < value) {
		setting = limit;
		value = amount(limit->value, device->memory);
	}
	if (is_bound_by_builtin(config, limit, key) && resolve_builtin(key).number < value) {
		setting = NULL;
		value = resolve_builtin(key).number;
	}
	if (from)
		*from = setting;
	return value;
}

uint64_t config_reserve(const struct config *config, const struct config_device *device)
{
	return amount(config->reserve, device->memory);
}

static uint64_t resolve_resolve(const struct config *config, const struct config_device *device,
                                enum config_key key, const struct config_setting **from)
{
	return resolve_setting(config, device, key, effective(config, device, key), from);
}

/*
 * Returns the bytes that moves may put on the host. That is host_memory; where the file is enforced
 * it is at least the file's own value for the job, with any request of the job.
 */
static uint64_t resolve_moves(const struct config *config, const struct config_device *device,
                              uint64_t host_memory)
{
	const enum config_key key = CONFIG_KEY_host_memory;
	uint64_t machines = resolve_setting(
	    config, device, key, effective_up_to(LAYER_SYSTEM, config, device, key), NULL);

	return config->job.enforces && machines > host_memory ? machines : host_memory;
}

/*
 * Returns whether a number of bytes on the host is bound by "auto", too. The two cannot be compared
 * here, because the value of "auto" is found when memory is asked for.
 */
static bool is_bound_by_auto(const struct config *config, const struct config_device *device,
                             uint64_t host_memory)
{
	const enum config_key key = CONFIG_KEY_host_memory;

	return host_memory < CONFIG_AUTO &&
	       is_bound_by_builtin(config, ceiling(config, device, key), key);
}

/*
 * Finds the idle_yield of a guaranteed job: never, or as long as it may, unless a setting gives
 * one.
 */
static uint64_t resolve_kept(const struct config *config, const struct config_device *device,
                             uint64_t idle_yield)
{
	const struct config_setting *most = ceiling(config, device, CONFIG_KEY_idle_yield);

	if (effective(config, device, CONFIG_KEY_idle_yield))
		return idle_yield;
	return most ? most->value.number : CONFIG_NEVER;
}

/* Returns whether the machine's file is enforced and evicts the job. */
static bool enforced_evict(const struct config *config, const struct config_device *device)
{
	const struct config_setting *setting =
	    effective_up_to(LAYER_SYSTEM, config, device, CONFIG_KEY_evict);

	return config->job.enforces && setting && setting->value.number;
}

void config_for_device(const struct config *config, const struct config_device *device,
                       struct config_gpu *settings)
{
	const struct config_setting *setting;

	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		settings->of[key] = resolve_resolve(config, device, (enum config_key)key, NULL);
	/* An eviction of the machine's file stays: a job may ask to hold less, not more. */
	if (enforced_evict(config, device))
		settings->evict = true;
	settings->host_limit_of_moves = resolve_moves(config, device, settings->host_memory);
	settings->host_at_most_auto = is_bound_by_auto(config, device, settings->host_memory);
	settings->moves_at_most_auto =
	    is_bound_by_auto(config, device, settings->host_limit_of_moves);
	if (settings->priority == PRIORITY_GUARANTEED &&
	    !config_lists_user(config->guaranteed, geteuid()))
		settings->priority = PRIORITY_NORMAL;
	if (settings->priority == PRIORITY_GUARANTEED)
		settings->idle_yield = resolve_kept(config, device, settings->idle_yield);
	/*
	 * The driver ends a job that holds more than its soft limit when a neighbour needs room. So
	 * the job borrows where its own configuration says so, and not because a scheduler's
	 * variable names the hard limit.
	 */
	setting = effective(config, device, CONFIG_KEY_memory_max);
	if (setting && setting->layer == LAYER_HAMI &&
	    limit_from_outside(config, device, CONFIG_KEY_memory))
		settings->memory_max = 0;
	/* Cases that config_check() lets through: an unlimited limit, a percentage, a ceiling. */
	if (settings->memory_max < settings->memory)
		settings->memory_max = 0;
}

const char *config_origin(const struct config *config, const struct config_device *device,
                          enum config_key key)
{
	const struct config_setting *from;

	resolve_resolve(config, device, key, &from);
	return from ? from->origin : "built-in";
}

const char *config_written(const struct config *config, const struct config_device *device,
                           enum config_key key)
{
	const struct config_setting *from;

	resolve_resolve(config, device, key, &from);
	return from ? from->text : NULL;
}

/* Makes a device with the selector's identity alone. */
static struct config_device resolve_device_of(const struct config_selector *selector)
{
	struct config_device device = {.ordinal = -1};
	uint64_t pci = selector->pci;

	if (selector->kind == SELECT_ORDINAL)
		device.ordinal = selector->ordinal;
	else if (selector->kind == SELECT_PCI)
		snprintf(device.pci_bus_id, sizeof(device.pci_bus_id), "%08x:%02x:%02x.%x",
		         (unsigned)(pci >> 24), (unsigned)(pci >> 16 & 0xff),
		         (unsigned)(pci >> 8 & 0xff), (unsigned)(pci & 0xf));
	else
		snprintf(device.uuid, sizeof(device.uuid), "%s", selector->uuid);
	return device;
}

/* --- all limits as one number --- */

static const enum config_key quotas[] = {CONFIG_KEY_memory, CONFIG_KEY_memory_max,
                                         CONFIG_KEY_host_memory};
enum { QUOTAS = sizeof(quotas) / sizeof(*quotas) };

static bool is_quota(enum config_key key)
{
	for (int i = 0; i < QUOTAS; i++)
		if (quotas[i] == key)
			return true;
	return false;
}

/* The quotas of one selector and their ceilings, with which a percentage cannot be compared yet. */
struct quota_values {
	uint64_t number[QUOTAS], most[QUOTAS];
	uint32_t of_memory[QUOTAS], most_of_memory[QUOTAS];
};

static void read_quotas(const struct config *config, const struct config_selector *selector,
                        struct quota_values *values)
{
	struct config_device device = resolve_device_of(selector);

	memset(values, 0, sizeof(*values)); /* it is hashed as bytes */
	for (int i = 0; i < QUOTAS; i++) {
		const struct config_setting *setting = effective(config, &device, quotas[i]);
		const struct config_setting *most = ceiling(config, &device, quotas[i]);
		struct config_value value = setting ? setting->value : resolve_builtin(quotas[i]);

		if (most && most->layer == LAYER_LIMITS) {
			values->most[i] = 1; /* it changes, and the job stays the same */
		} else if (most && most->value.of_memory == value.of_memory) {
			if (most->value.number < value.number)
				value.number = most->value.number;
		} else if (most) {
			values->most[i] = most->value.number;
			values->most_of_memory[i] = most->value.of_memory;
		}
		values->number[i] = value.number;
		values->of_memory[i] = value.of_memory;
	}
}

static bool resolve_is_limited(const struct quota_values *values)
{
	for (int i = 0; i < QUOTAS; i++) {
		uint64_t without = resolve_builtin(quotas[i]).number;

		if (quotas[i] == CONFIG_KEY_memory_max)
			continue; /* of a limit */
		if (values->most[i] || values->most_of_memory[i] || values->of_memory[i] ||
		    (values->number[i] != without && values->number[i] != CONFIG_UNLIMITED))
			return true;
	}
	return false;
}

/* Hashes a selector, in any spelling. */
static uint64_t hash_selector(const struct config_selector *selector)
{
	struct config_selector plain;

	memset(&plain, 0, sizeof(plain));
	plain.kind = selector->kind;
	plain.ordinal = selector->ordinal;
	plain.pci = selector->pci;
	for (size_t i = 0; selector->uuid[i]; i++)
		plain.uuid[i] = (char)tolower((unsigned char)selector->uuid[i]);
	return hash_bytes(HASH_NOTHING, &plain, sizeof(plain));
}

/* Returns whether the setting is the first of its selector. */
static bool is_first_of_selector(const struct config *config, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (is_quota(config->settings[i].key) &&
		    config_selector_equal(&config->settings[i].selector,
		                          &config->settings[index].selector))
			return false;
	return true;
}

uint64_t config_limits(const struct config *config)
{
	const struct config_selector all = {.kind = SELECT_ALL};
	struct quota_values common, own;
	bool limited;
	uint64_t sum;

	read_quotas(config, &all, &common);
	limited = resolve_is_limited(&common);
	sum = hash_bytes(HASH_NOTHING, &common, sizeof(common));
	/* In any order; a key that a selector does not change does not count for it. */
	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];

		if (!is_quota(setting->key) || setting->selector.kind == SELECT_ALL ||
		    !is_first_of_selector(config, i))
			continue;
		read_quotas(config, &setting->selector, &own);
		if (memcmp(&own, &common, sizeof(own)) == 0)
			continue;
		limited |= resolve_is_limited(&own);
		sum +=
		    hash_selector(&setting->selector) ^ hash_bytes(HASH_NOTHING, &own, sizeof(own));
	}
	if (!limited)
		return 0;
	return sum ? sum : 1;
}

/*
 * Checks the rules that hold for every device: a size and a percentage cannot be compared yet. Only
 * within a layer it is an error. A stronger layer may say otherwise than a weaker one: the limit
 * does not rise by itself then. So a layer that is right by itself is right over any other, and
 * `spillway set` needs to know no other layer than its own.
 */
static int check_growth(struct config *config, const struct config_selector *selector,
                        struct config_error *error)
{
	struct config_device device = resolve_device_of(selector);
	const struct config_setting *limit = effective(config, &device, CONFIG_KEY_memory);
	const struct config_setting *most = effective(config, &device, CONFIG_KEY_memory_max);

	if (!limit || !most || limit->value.of_memory != most->value.of_memory ||
	    limit->value.number == CONFIG_UNLIMITED || most->value.number == 0 ||
	    most->value.number >= limit->value.number)
		return 0;
	if (limit->layer != most->layer)
		return config_warn(config,
		                   "%s: memory_max = %s: below memory = %s (%s), so "
		                   "that the limit does not rise by itself",
		                   most->origin, most->text, limit->text, limit->origin) == 0
		           ? 0
		           : config_fail(error, -ENOMEM, most->place, "out of memory");
	return config_fail(error, -EINVAL, most->place,
	                   "memory_max = %s: below memory = %s (%s); expected 0 or at "
	                   "least as much",
	                   most->text, limit->text, limit->origin);
}

static int warn_of_ceiling(struct config *config, const struct config_setting *setting)
{
	const struct config_device device = resolve_device_of(&setting->selector);
	const struct config_setting *limit = ceiling(config, &device, setting->key);

	if (is_machines(config, setting->key) && setting->layer > LAYER_SYSTEM)
		return config_warn(config,
		                   "%s: %s = %s: not followed: " CONFIG_SYSTEM_FILE " is enforced",
		                   setting->origin, config_key_name(setting->key), setting->text);
	if (is_bound_by_builtin(config, limit, setting->key) &&
	    setting->value.number > resolve_builtin(setting->key).number)
		return config_warn(config,
		                   "%s: %s = %s: not followed: " CONFIG_SYSTEM_FILE
		                   " is enforced and says nothing of it",
		                   setting->origin, config_key_name(setting->key), setting->text);
	if (!limit || setting->layer == LAYER_CEILING || limit == setting)
		return 0;
	if (setting->value.of_memory != limit->value.of_memory)
		return config_warn(config, "%s: %s = %s: no more than the ceiling of %s (%s)",
		                   setting->origin, config_key_name(setting->key), setting->text,
		                   limit->text, limit->origin);
	if (setting->value.number > limit->value.number)
		return config_warn(config, "%s: %s = %s: lowered to the ceiling of %s (%s)",
		                   setting->origin, config_key_name(setting->key), setting->text,
		                   limit->text, limit->origin);
	return 0;
}

/*
 * Checks, where the machine's file is enforced, that its sections name GPUs by their own
 * identities: the environment decides which of them has a number (CUDA_VISIBLE_DEVICES).
 */
static int resolve_check_name(const struct config *config, const struct config_setting *setting,
                              struct config_error *error)
{
	if (!config->job.enforces || setting->layer != LAYER_SYSTEM ||
	    setting->selector.kind != SELECT_ORDINAL)
		return 0;
	return config_fail(error, -EINVAL, setting->place,
	                   "[gpu %d]: expected a UUID or PCI bus id, as it is to be enforced and "
	                   "CUDA_VISIBLE_DEVICES says which GPU has a number",
	                   setting->selector.ordinal);
}

int config_check(struct config *config, struct config_error *error)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];
		int status = resolve_check_name(config, setting, error);

		if (status == 0)
			status = check_growth(config, &setting->selector, error);
		if (status != 0)
			return status;
		if (warn_of_ceiling(config, setting) != 0)
			return config_fail(error, -ENOMEM, setting->place, "out of memory");
	}
	return 0;
}

int config_check_devices(const struct config *config, const struct config_device *devices,
                         size_t count, struct config_error *error)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];
		const struct config_device *first = NULL;

		if (setting->selector.kind != SELECT_UUID)
			continue;
		for (size_t d = 0; d < count; d++) {
			if (!config_selector_matches(&setting->selector, &devices[d]))
				continue;
			if (first)
				return config_fail(error, -EINVAL, setting->place,
				                   "[gpu %s]: names both %s and %s; expected more "
				                   "of the UUID",
				                   setting->selector.uuid, first->uuid,
				                   devices[d].uuid);
			first = &devices[d];
		}
	}
	return 0;
}
