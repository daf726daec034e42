/* SPDX-License-Identifier: MIT */
/*
 * The module: its hooks, and the action by which it takes new settings. Rules: runs inside the
 * user's process.
 */
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/job/config.h"
#include "core/modules/sharing/parts.h"
#include "core/modules/sharing/exclusive_hold.h"
#include "core/registry/actions.h"

static int sharing_change(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct config_gpu settings;

		config_for_device(change->config, &change->devices->device[i].id, &settings);
		exclusive_set(change->devices, i, &settings);
	}
	return CUDA_SUCCESS;
}

static void sharing_module_start(bool *has_started)
{
	static const struct action change = {ACTION_RESOURCES, "sharing", sharing_change, NULL};

	exclusive_keep_environment();
	lending_start(&this_job.devices);
	*has_started &= action_add(ACTION_CONFIG_CHANGED, &change) == 0;
}

static void sharing_share(uint64_t now_ns, uint64_t *again_ns)
{
	uint64_t lending_ns = lending_step(now_ns), exclusive_ns = exclusive_step(now_ns);

	if (*again_ns > lending_ns)
		*again_ns = lending_ns;
	if (*again_ns > exclusive_ns)
		*again_ns = exclusive_ns;
}

static void sharing_look(uint64_t now_ns, bool *has_news)
{
	*has_news |= lending_has_news(now_ns);
}

const struct module module_sharing = {.name = "sharing",
                                      .start = sharing_module_start,
                                      .share = sharing_share,
                                      .look = sharing_look,
                                      .let_go = exclusive_hold_let_go};
