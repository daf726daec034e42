/* SPDX-License-Identifier: MIT */
/* New settings. Rules: runs inside the user's process, on one thread at a time. */
#include "core/job/settings.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/budget/growth.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/job/launch.h"
#include "core/job/module.h"
#include "core/job/pace.h"
#include "core/job/process.h"
#include "core/job/sharing.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/move/idle_point.h"
#include "core/registry/actions.h"
#include "core/rings/event.h"

bool job_settings_are_any(void)
{
	bool is_limited = false;

	for (int i = 0; i < this_job.devices.count; i++)
		is_limited |=
		    terms_of(&this_job.devices.device[i]).settings.memory != CONFIG_UNLIMITED ||
		    config_reserve(this_job.config.now, &this_job.devices.device[i].id);
	return !this_job.config.is_unnamed || this_job.config.file || is_limited;
}

static int change_devices(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct device *device = &change->devices->device[i];
		struct config_gpu settings;

		config_for_device(change->config, &device->id, &settings);
		if (device_apply(device, &settings))
			wanted_wake(device);
	}
	return CUDA_SUCCESS;
}

static int change_pacers(void *cookie, void *subject)
{
	struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct config_gpu settings;

		config_for_device(change->config, &change->devices->device[i].id, &settings);
		if (job_pace_set(i, &settings))
			change->paced |= 1U << i;
		sharing_set(i, &settings);
	}
	return CUDA_SUCCESS;
}

/*
 * Notifies the mover and the growth of limits that a step has ended: memory moves best where
 * nothing of a step is in flight yet.
 */
static int job_settings_end_step(void *cookie, void *subject)
{
	(void)cookie;
	idle_point_has_come();
	if (growth_step_ended(subject, clock_now()))
		wanted_wake(subject);
	return CUDA_SUCCESS;
}

bool job_settings_start(void)
{
	static const struct {
		enum action_group group;
		struct action action;
	} ours[] = {
	    {ACTION_CONFIG_CHANGED, {ACTION_RESOURCES, "devices", change_devices, NULL}},
	    {ACTION_CONFIG_CHANGED, {ACTION_RESOURCES, "pacing", change_pacers, NULL}},
	    {ACTION_STEP_END, {ACTION_RESOURCES, "memory", job_settings_end_step, NULL}},
	};
	bool has_started = true;

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (action_add(ours[i].group, &ours[i].action) != 0)
			return false;
	modules_call(start, &has_started);
	return has_started && job_launches_start();
}

/* Lets new settings take effect. */
static void job_settings_do_apply(void)
{
	struct job_change change = {.config = this_job.config.now, .devices = &this_job.devices};

	atomic_store(&this_job.tells_nvml, config_job(this_job.config.now)->nvml);
	actions_run(ACTION_CONFIG_CHANGED, &change);
	if (job_settings_are_any())
		vmem_count_exactly();
	if (!job_launches_pace(change.paced))
		log_error("out of memory: launches are %s",
		          change.paced ? "not paced" : "paced as before");
}

/*
 * Writes into the segment the fault of the configuration, and which override the process follows:
 * for `stat`, and for commands that wait until every process follows.
 */
static void job_settings_tell(void)
{
	const char *complaint = this_job.config.complaint;

	if (!this_job.segment)
		return;
	if (!*complaint)
		complaint = config_job(this_job.config.now)->warnings;
	segment_complain(this_job.segment, complaint);
	segment_follow(this_job.segment, config_job(this_job.config.now)->override_hash);
	segment_lack(this_job.segment,
	             (config_lacks_module("events") ? SEGMENT_MODULE_events : 0) |
	                 (config_lacks_module("resources") ? SEGMENT_MODULE_resources : 0));
}

/*
 * Returns whether the override is gone although no command took it back. The tool takes a setting
 * back by writing the file anew, never by removing it under living processes. So an override that
 * is gone went with the state directory, file by file, as logind's RemoveIPC has it.
 */
static bool has_lost_override(void)
{
	if (!this_job.segment || !job_config_lost_override(&this_job.config))
		return false;
	log_once(
	    LOG_WARNING,
	    "job %s: %s was removed while it runs (by RemoveIPC of logind?); its settings stay "
	    "until it is there again",
	    this_job.config.name, this_job.config.override_path);
	return true;
}

void job_settings_reload(bool is_news)
{
	uint64_t hash_before = config_job(this_job.config.now)->override_hash;
	bool is_lost = has_lost_override();
	bool accepted = !is_lost && job_config_reload(&this_job.config, &this_job.devices);
	struct config_cause cause = {0};

	if (!is_lost) /* of a faulty layer the last good settings, and the rest as it is now */
		job_settings_do_apply();
	if (config_job(this_job.config.now)->override_hash != hash_before)
		cause = config_job(this_job.config.now)->cause;
	if (is_news || !accepted)
		event_note(.kind = EVENT_configuration, .device = EVENT_NO_DEVICE, .a = accepted,
		           .b = cause.through, .c = cause.by);
	job_settings_tell();
}

bool job_settings_hold_alone(void)
{
	job_config_reload(&this_job.config, &this_job.devices);
	return job_config_is_limited(&this_job.config, &this_job.devices);
}

bool job_settings_must_hold(void)
{
	return job_config_must_hold(&this_job.config, &this_job.devices);
}

void job_settings_apply(void)
{
	job_settings_do_apply();
	job_settings_tell();
}
