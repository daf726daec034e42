/* SPDX-License-Identifier: MIT */
/* The machine's GPUs as NVML reports them, with the use of all programs, jobs or not. */
#ifndef SPILLWAY_GPUS_H
#define SPILLWAY_GPUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GPUS_MAX = 64 };

struct gpus {
	int count;
	struct gpu {
		char uuid[96];
		uint64_t memory, used;
	} gpu[GPUS_MAX];
};

/*
 * Calls each() for every process that NVML lists on a GPU, with its number as the machine has it
 * and the bytes it holds; UINT64_MAX: not known. Returns false where NVML lists none because it is
 * not there or does not know.
 */
bool gpus_each_process(void (*each)(void *cookie, const char *uuid, pid_t process, uint64_t bytes),
                       void *cookie);
/*
 * Calls each() for every GPU for which NVML keeps limits of the cgroup with this directory. Soft 0
 * and hard UINT64_MAX: there is no such limit.
 */
void gpus_each_limit(const char *cgroup,
                     void (*each)(const char *uuid, uint64_t soft, uint64_t hard));
/* Reads them; none where there is no NVML. It is loaded once, and stays. */
void gpus_read(struct gpus *gpus);

#endif
