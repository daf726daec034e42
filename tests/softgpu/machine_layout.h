/* The layout of the shared file. MACHINE_VERSION is part of its name: raise it with any change. */
#ifndef SOFTGPU_MACHINE_LAYOUT_H
#define SOFTGPU_MACHINE_LAYOUT_H

#include <pthread.h>
#include <stdint.h>

#include "tests/softgpu/config.h"

#define MACHINE_VERSION 1
#define MAX_PROCESSES   128

struct machine_use {
	uint64_t physical; /* bytes; under the lock */
	uint64_t busy_ns;  /* atomic, like launches */
	uint64_t launches;
};

struct machine_process {
	pthread_mutex_t alive; /* held by the keeper thread for the life of the process */
	int32_t pid;           /* 0: free slot */
	struct machine_use device[MAX_DEVICES];
};

struct machine_device {
	uint64_t total;
	pthread_mutex_t next, running;
};

struct machine {
	uint32_t ready;
	int32_t device_count;
	pthread_mutex_t lock;
	struct machine_device devices[MAX_DEVICES];
	struct machine_process processes[MAX_PROCESSES];
};

void robust_init(pthread_mutex_t *mutex);
void robust_lock(pthread_mutex_t *mutex);

#endif
