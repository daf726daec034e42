/* SPDX-License-Identifier: MIT */
/*
 * Freeing: the front behind cuMemFree and its kin, and memory that goes with contexts. Thread-safe.
 */
#ifndef SPILLWAY_FREE_H
#define SPILLWAY_FREE_H

#include "core/cuda/driver.h"

struct context;
struct device_set;

/*
 * Frees. native() frees memory that the driver made. Before memory of ours goes, `wait` names the
 * work to wait for: all work of its context, as cuMemFree does (NULL), or the work on this stream,
 * as cuMemFreeAsync promises. Addresses Spillway does not know are the driver's to judge.
 */
struct vmem_free {
	CUresult (*native)(void *cookie, CUdeviceptr address);
	void *cookie;
	CUstream wait;
};
CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how);

/* Releases our memory that was made in a context that the driver has destroyed. */
void vmem_forget_context(const struct context *context);

/*
 * Releases, after vmem_forget_context(), the memory that a device without a context would keep for
 * the next allocation.
 */
void vmem_left_context(struct device_set *devices);

/*
 * Gives back memory that the program has freed and need not be kept, because it has waited for
 * work.
 */
void vmem_waited(void);

#endif
