/* SPDX-License-Identifier: MIT */
/* The devices of a test, as a process has them. */
#ifndef SPILLWAY_TEST_DEVICES_H
#define SPILLWAY_TEST_DEVICES_H

#include "core/budget/device.h"
#include "core/ledger/verdict.h"
#include "core/state/segment.h"

/* Returns what follows from the process's books and from what is charged to the job. */
static inline struct verdict device_verdict(struct device *device)
{
	struct ledger_copy ledger = ledger_read(device->ledger);
	struct standing standing = {.generation = device_job_generation(device),
	                            .charged = device_charged(device, SEGMENT_ON_DEVICE),
	                            .orphaned = segment_orphaned(device->segment, device->index)};

	return verdict_of(&ledger, 1, &standing);
}

/* Finds the driver's devices and enters them in the job's books. Returns 0 or a negative errno. */
static inline int device_set_fill(struct device_set *set, struct segment *segment, const char *job)
{
	int error;

	*set = (struct device_set){0};
	error = device_set_identify(set);

	return error ? error : device_set_enter(set, segment, job);
}

#endif
