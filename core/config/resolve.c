/* Resolving: which setting counts for a device, clamped by the ceiling, and what contradicts what.
 */
#include "core/config/snapshot.h"

#include <errno.h>
#include <stdio.h>

/* The strongest layer wins; within it the more specific selector. */
static const struct config_setting *
effective(const struct config *config, const struct config_device *device, enum config_key key)
{
	const struct config_setting *best = NULL;

	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];

		if (setting->key != key || setting->layer == LAYER_CEILING ||
		    !config_selector_matches(&setting->selector, device))
			continue;
		if (!best || setting->layer > best->layer ||
		    (setting->layer == best->layer && config_selector_rank(&setting->selector) >
		                                          config_selector_rank(&best->selector)))
			best = setting;
	}
	return best;
}

/* A ceiling on the limit holds for its growth too, unless that has its own. */
static const struct config_setting *ceiling(const struct config *config, enum config_key key)
{
	const struct config_selector all = {.kind = SELECT_ALL};
	const struct config_setting *setting = config_find(config, LAYER_CEILING, key, &all);

	if (!setting && key == CONFIG_KEY_memory_limit_max)
		setting = config_find(config, LAYER_CEILING, CONFIG_KEY_memory_limit, &all);
	return setting;
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

/* *from: the setting the value comes from, NULL for built-in; may be NULL. */
static uint64_t resolve(const struct config *config, const struct config_device *device,
                        enum config_key key, const struct config_setting **from)
{
	const struct config_setting *setting = effective(config, device, key);
	const struct config_setting *limit = ceiling(config, key);
	uint64_t value =
	    amount(setting ? setting->value : config_value_builtin(key), device->memory);

	/* "auto" and "unlimited" are the largest numbers. */
	if (limit && amount(limit->value, device->memory) < value) {
		setting = limit;
		value = amount(limit->value, device->memory);
	}
	if (from)
		*from = setting;
	return value;
}

void config_for_device(const struct config *config, const struct config_device *device,
                       struct config_gpu *settings)
{
#define X(field, kind, builtin, choices, meaning) \
	settings->field = resolve(config, device, CONFIG_KEY_##field, NULL);
	CONFIG_GPU_KEYS(X)
#undef X
	/* What config_check() lets through: an unlimited limit, a percentage, a ceiling. */
	if (settings->memory_limit_max < settings->memory_limit)
		settings->memory_limit_max = 0;
}

const char *config_origin(const struct config *config, const struct config_device *device,
                          enum config_key key)
{
	const struct config_setting *from;

	resolve(config, device, key, &from);
	return from ? from->origin : "built-in";
}

const char *config_written(const struct config *config, const struct config_device *device,
                           enum config_key key)
{
	const struct config_setting *from;

	resolve(config, device, key, &from);
	return from ? from->text : NULL;
}

/* A device of which only what the selector names is known. */
static struct config_device device_of(const struct config_selector *selector)
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

/* Only what can be said of every device: a size and a percentage cannot be compared yet. */
static int check_growth(const struct config *config, const struct config_selector *selector,
                        struct config_error *error)
{
	struct config_device device = device_of(selector);
	const struct config_setting *limit = effective(config, &device, CONFIG_KEY_memory_limit);
	const struct config_setting *most = effective(config, &device, CONFIG_KEY_memory_limit_max);

	if (!limit || !most || limit->value.of_memory != most->value.of_memory ||
	    limit->value.number == CONFIG_UNLIMITED || most->value.number == 0 ||
	    most->value.number >= limit->value.number)
		return 0;
	return config_fail(error, -EINVAL, most->place,
	                   "memory_limit_max = %s: below memory_limit = %s (%s); expected 0 or at "
	                   "least as much",
	                   most->text, limit->text, limit->origin);
}

static int warn_of_ceiling(struct config *config, const struct config_setting *setting)
{
	const struct config_setting *limit = ceiling(config, setting->key);

	if (!limit || setting->layer == LAYER_CEILING)
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

int config_check(struct config *config, struct config_error *error)
{
	for (size_t i = 0; i < config->count; i++) {
		const struct config_setting *setting = &config->settings[i];
		int status = check_growth(config, &setting->selector, error);

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
