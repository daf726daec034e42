/* SPDX-License-Identifier: MIT */
/*
 * What holds where we stand in for HAMi-core's libvgpu.so, so that who is used to that finds it: no
 * memory on the host unless somebody asked for it, and a share that holds while the GPU is shared.
 */
#include "core/config/snapshot.h"

#include "core/base/units.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct config_selector every = {.kind = SELECT_ALL};

/*
 * Sets a key of every GPU, in the name of a variable or of libvgpu.so. 0 or a negative errno.
 */
static int set(struct config *config, enum config_layer layer, enum config_key key,
               const char *from, const char *value, struct config_error *error)
{
	struct config_place place = {from, layer == LAYER_STAND_IN ? -1 : 0};

	return config_add(config, layer, key, &every, place, from, value, error);
}

/*
 * Returns whether memory may lie on the host. What is neither yes nor no is said, and is no: the
 * limits of the environment are to hold all the same.
 */
static bool may_spill(struct config *config, char *const *environment)
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
	return priority > 0
	           ? set(config, LAYER_HAMI, CONFIG_KEY_priority, name, "opportunistic", error)
	           : 0;
}

int config_add_stand_in(struct config *config, char *const *environment, bool is_weighed,
                        struct config_error *error)
{
	static const char self[] = "libvgpu.so", policy_name[] = "GPU_CORE_UTILIZATION_POLICY";
	const char *policy = config_variable(environment, policy_name);
	bool is_forced = policy && strcasecmp(policy, "force") == 0;
	int status = set(config, LAYER_STAND_IN, CONFIG_KEY_spill, self,
	                 may_spill(config, environment) ? "auto" : "off", error);

	if (status == 0)
		status = set(config, is_forced ? LAYER_HAMI : LAYER_STAND_IN,
		             CONFIG_KEY_share_policy, is_forced ? policy_name : self,
		             is_forced || !is_weighed ? "cap" : "weight", error);
	if (status == 0)
		status = take_priority(config, environment, error);
	return status;
}
