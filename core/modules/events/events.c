/* SPDX-License-Identifier: MIT */
/*
 * Keeps the events of a process: makes its ring once there is something to write. Rules: runs
 * inside the user's process.
 */
#include "core/base/log.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/job/config.h"
#include "core/registry/actions.h"
#include "core/rings/ring.h"

/* Makes the ring, so that events are kept from now on. */
static void events_record(void)
{
	char message[512] = "";
	struct ring *ring;

	if (ring_create(this_job.segment, &ring, message, sizeof(message)) != 0) {
		log_warning("%s; no events are kept", message);
		return;
	}
	for (int i = 0; i < this_job.devices.count; i++)
		ring_name_device(ring, this_job.devices.device[i].id.ordinal,
		                 this_job.devices.device[i].index);
	atomic_store(&event_ring, ring);
	for (int i = 0; i < this_job.devices.count; i++)
		device_note_settings(&this_job.devices.device[i]);
}

/* Events are kept of a job that is paced, or has a name, a file or a limit. */
static int events_configured(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	if ((change->paced || job_settings_are_any()) && this_job.segment)
		ring_prepare(events_record);
	return CUDA_SUCCESS;
}

static void events_start(bool *has_started)
{
	/* After the action that says which devices are paced. */
	static const struct action configured = {ACTION_MEASURES, "events", events_configured,
	                                         NULL};

	*has_started &= action_add(ACTION_CONFIG_CHANGED, &configured) == 0;
}

const struct module module_events = {.name = "events", .start = events_start};
