/* SPDX-License-Identifier: MIT */
/* The process in its job. Rules: runs inside the user's process, on its launch path. */
#include "core/job/process.h"

#include <unistd.h>

#include "core/base/wiped.h"

struct this_job this_job;

bool job_is_active(void)
{
	return atomic_load_explicit(&wiped.is_active, memory_order_acquire) &&
	       (this_job.forks_are_wiped || getpid() == this_job.process);
}

const struct job_config *job_configuration(void)
{
	return atomic_load_explicit(&this_job.configured, memory_order_acquire) ? &this_job.config
	                                                                        : NULL;
}

struct device_set *job_devices(void)
{
	return &this_job.devices;
}
