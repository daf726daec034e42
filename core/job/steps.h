/* SPDX-License-Identifier: MIT */
/*
 * Steps of the program, per device, told from its launches (steps/step.h). Private to core/job.
 *
 * They are looked for where somebody uses them: in paced jobs, under limits that can rise, with
 * `steps = on`.
 */
#ifndef SPILLWAY_JOB_STEPS_H
#define SPILLWAY_JOB_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/budget/device.h"

/* The reasons for which steps are looked for. */
enum job_steps_for { STEPS_FOR_SETTINGS = 1, STEPS_FOR_SURVEY = 2 };

/*
 * Sets whether steps are looked for on the device of this ordinal for this, from now on. Returns
 * false without memory for it.
 */
bool job_steps_want(int ordinal, enum job_steps_for what, bool wanted);
/* A launch that the driver took, in the thread that made it. */
struct steps_launch {
	CUcontext context;
	CUstream stream;
	uint64_t function, threads;
	uint64_t now_ns; /* 0: now */
};
/* Takes note of it. Runs ACTION_STEP_END and ACTION_STEP_BEGIN where a step ends with it. */
void job_steps_launched(struct device *device, const struct steps_launch *launch);

#endif
