/*
 * A GPU that `run --limit-gpu` names: whether there is one, only the program's processes know, once
 * they use CUDA.
 */
#ifndef SPILLWAY_ABSENT_GPU_H
#define SPILLWAY_ABSENT_GPU_H

#include <stdbool.h>
#include <stdint.h>

struct absent_gpu {
	const char *selector, *job;
	uint64_t since_ns; /* an earlier run of this name is not meant */
	int devices;       /* that the job had when it was looked at last, */
	uint64_t settled;  /* and since when it has had no others; CLOCK_MONOTONIC */
	bool is_said;
};

/*
 * Says that the job has no such GPU, once it has had the same GPUs for some seconds. Returns
 * whether nothing more is to be found out.
 */
bool absent_gpu_look(struct absent_gpu *absent);
/* Says so now, if it is not said yet, of the GPUs that the job has had. */
void absent_gpu_say(struct absent_gpu *absent);

#endif
