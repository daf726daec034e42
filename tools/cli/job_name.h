/* SPDX-License-Identifier: MIT */
/*
 * The name of a job that nobody named: programs that belong together are one job, and strangers
 * never share a quota.
 */
#ifndef SPILLWAY_JOB_NAME_H
#define SPILLWAY_JOB_NAME_H

#include <stdbool.h>

/*
 * Returns a name for the job: the Slurm job or the Kubernetes pod we are in, else the program and
 * our process number. *common: all that runs there is meant to be this one job. The caller frees
 * it; what cannot be a name ends the tool.
 */
char *job_name(char **program, bool *common);

#endif
