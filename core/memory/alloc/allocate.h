/* SPDX-License-Identifier: MIT */
/*
 * Allocating: the front behind cuMemAlloc and its kin.
 *
 * A request is charged to the job's quota and served on the device, in an arena or by the driver.
 * The part beyond the limit, or that a full device refuses, is placed on the host, at an address
 * that kernels, copies and memsets use like any other. To the program it is device memory. Room is
 * made for the bytes that a try lacks (reclaim.h), and the try goes on.
 *
 * Everything here answers with CUresults the API called may return. Thread-safe.
 */
#ifndef SPILLWAY_ALLOCATE_H
#define SPILLWAY_ALLOCATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/cuda/driver.h"

struct device_set;
struct pool;

/* One request: how the driver itself would serve it, and how many bytes it stands for. */
struct vmem_request {
	size_t size;
	CUresult (*native)(void *cookie, CUdeviceptr *address);
	void *cookie;
	struct pool *pool; /* the driver serves it from, NULL: none */
	CUstream stream;   /* then, by its explicit name */
	bool stays;        /* with pin_new = auto: it must stay on the device (network.h) */
};

/*
 * Serves a request in the current context; *address is set on success only. A request that is not
 * ours to judge (no context, size 0, NULL) is left to the driver.
 */
CUresult vmem_allocate(const struct vmem_request *request, CUdeviceptr *address);

/* The subject of ACTION_PRE_ALLOC and ACTION_POST_ALLOC. */
struct vmem_act {
	const struct vmem_request *request;
	/* afterwards: */
	CUresult result;
	CUdeviceptr address; /* where it is a success */
};

/*
 * Counts allocations from here on; is_elastic: and lets them live in the arena, where there can be
 * one, because the job has a name or a limit.
 */
void vmem_start(struct device_set *devices, bool is_elastic);
bool vmem_is_elastic(void);
/*
 * Charges small allocations exactly from here on, because the job has or had a name or a limit:
 * without an arena they come from slabs of ours (small.h).
 */
void vmem_count_exactly(void);
/*
 * Has the driver serve small allocations from here on, because the program gives them to other
 * processes, which can open an allocation of the driver's alone. Each is charged a whole block of 2
 * MiB. For example, a hundred allocations of 4 KiB are charged 200 MiB.
 */
void vmem_share_small(void);

#endif
