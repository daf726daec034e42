/* SPDX-License-Identifier: MIT */
/*
 * Exported memory in this process: the key (core/state/exports.c) under which each of the driver's
 * handles was given to other processes, and the imported keys. Thread-safe; makes no driver call.
 */
#ifndef SPILLWAY_EXPORTED_H
#define SPILLWAY_EXPORTED_H

#include "core/budget/device.h"

/* --- memory of this process --- */

/*
 * Follows device memory that is charged to this process and was exported. Returns its key; 0: it is
 * not followed.
 */
uint64_t exported_as(const struct device *device, uint64_t bytes);
/* Follows it likewise, by the driver's handle; again is the same key. */
uint64_t exported_enter(const struct device *device, CUmemGenericAllocationHandle handle,
                        uint64_t bytes);
/*
 * Takes the handle out, before the driver releases it and may give it to other memory. Returns its
 * key; 0: it was not there.
 */
uint64_t exported_take(CUmemGenericAllocationHandle handle);
/* Marks a descriptor of it for its importer. key 0: of memory that weighs nothing. */
void exported_mark(const struct device *device, int descriptor, uint64_t key, uint64_t bytes);

/* --- memory of other processes --- */

/* Memory as its descriptor, or another shareable handle, tells of it. */
struct import {
	uint64_t
	    key; /* by which it is known to be of the job, now open in this process; 0: it is not */
	uint64_t bytes; /* to be charged; 0: not known, or none */
	bool is_weightless;
};
/*
 * Reads the descriptor's mark, before the program can close it; the driver has it open already or
 * is about to. Memory of the job counts so from here on.
 */
struct import imported_read(struct device *device, int descriptor);
struct import imported_read_name(struct device *device, const void *name, size_t size);
/* This process has it no more; once for each that was read with a key. */
void imported_leave(struct device *device, uint64_t key);

#endif
