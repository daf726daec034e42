/* SPDX-License-Identifier: MIT */
/*
 * The software GPU's own books, which no CUDA call reports, for tests that must not believe a shim.
 * Devices are numbered as the machine has them, before CUDA_VISIBLE_DEVICES.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stdint.h>

struct softgpu_truth {
	int pid;
	unsigned int recent_percent; /* of the last second that its kernels had the device */
	uint64_t physical_bytes;     /* device memory held now, contexts included */
	uint64_t mapped_bytes;  /* of it, what cuMemMap gave addresses; once for each address */
	uint64_t host_bytes;    /* of the host, held for all devices: pinned, managed, virtual */
	uint64_t busy_ns;       /* time its kernels had the device; others' slices are not in it */
	uint64_t launches;      /* kernels started */
	uint64_t contexts;      /* that it has now */
	uint64_t fetched_bytes; /* of host memory its kernels touched, as SOFTGPU_HOST_BANDWIDTH
	                         * counts them; 0 without that */
};

/*
 * Fills truth[] with the processes that use `device` (those that died are swept first) and returns
 * how many there are, which may exceed `capacity`; -1: no such device, or no state yet.
 */
__attribute__((visibility("default"))) int softgpu_truth(int device, struct softgpu_truth *truth,
                                                         int capacity);

#endif
