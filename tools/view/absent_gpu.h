/* SPDX-License-Identifier: MIT */
/*
 * A GPU that `run --limit-gpu` names: whether there is one, only the program's processes know, once
 * they use CUDA.
 */
#ifndef SPILLWAY_ABSENT_GPU_H
#define SPILLWAY_ABSENT_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "core/state/segment.h"

struct absent_gpu {
	const char *selector, *job;
	const char *run;  /* the token of the run that is meant; "": any */
	int devices;      /* that the job had when it was looked at last, */
	uint64_t settled; /* and since when it has had no other processes; CLOCK_MONOTONIC */
	bool is_said;
};

/* Returns whether the view is of the run; "": of any. By token, because the clock may be set back
 * between the beginning of a run and its first process. */
bool view_is_of_run(const struct segment_view *view, const char *run);
/*
 * Says that the job has no such GPU, once it has had the same GPUs for some seconds. Returns
 * whether nothing more is to be found out.
 */
bool absent_gpu_look(struct absent_gpu *absent);
/* Says so now, if it is not said yet, of the GPUs that the job has had. */
void absent_gpu_say(struct absent_gpu *absent);

#endif
