/*
 * Steps of the program, per device, told from its launches (steps/step.h). Private to core/job/job.c and core/job/launch.c.
 */
#ifndef SPILLWAY_JOB_STEPS_H
#define SPILLWAY_JOB_STEPS_H

#include "core/job/job.h"

/* Whether steps are looked for on the device of this ordinal, from now on. False: no memory. */
bool job_steps_want(int ordinal, bool wanted);
/* One launch that the driver took, in the thread that made it. Runs ACTION_STEP_END and ACTION_STEP_BEGIN
 * where a step ends with it. */
void job_steps_launched(const struct job_launch *launch);

#endif
