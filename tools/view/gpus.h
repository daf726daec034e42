/* The machine's GPUs as NVML tells of them, with what all programs use, jobs or not. */
#ifndef SPILLWAY_GPUS_H
#define SPILLWAY_GPUS_H

#include <stdint.h>

enum { GPUS_MAX = 64 };

struct gpus {
	int count;
	struct gpu {
		char uuid[96];
		uint64_t memory, used;
	} gpu[GPUS_MAX];
};

/* Reads them; none where there is no NVML. It is loaded once, and stays. */
void gpus_read(struct gpus *gpus);

#endif
