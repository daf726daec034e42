/* SPDX-License-Identifier: MIT */
/*
 * The name of a job without one: programs that belong together are one job, and unrelated ones
 * never share a quota. For example, `python3 train.py` as process 4711 becomes the job train-4711.
 */
#ifndef SPILLWAY_JOB_NAME_H
#define SPILLWAY_JOB_NAME_H

#include <stdbool.h>

/*
 * Returns a name for the job: the Slurm job or the Kubernetes pod we are in, else the program and
 * our process number. *common: all programs there are meant to be this one job. The caller frees
 * it; a name that is not allowed ends the tool.
 */
char *job_name(char **program, bool *common);

#endif
