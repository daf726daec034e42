/* SPDX-License-Identifier: MIT */
/*
 * The container of the step that runs now on a device, and the record in it, which is made at the
 * first request. The record has the counters when the step began, so that its own part can be told.
 * Both go with the step (core/registry/step_container.h). Before a step has ended on a device there
 * is none. Thread-safe.
 *
 * At the end of a step that is reported, once a millisecond at most, the counting begins anew; a
 * record of it is made when `stat --resources` asks.
 */
#ifndef SPILLWAY_STEPS_STEP_RECORD_H
#define SPILLWAY_STEPS_STEP_RECORD_H

#include "core/budget/device.h"

struct step_counts {
	uint64_t launches, moved_bytes, idle_ns;
};

struct step_record {
	struct resource resource;
	struct device *device;
	uint64_t began_ns; /* of core/base/clock.h */
	struct step_counts before;
};

extern const struct resource_type step_record_type; /* "step_statistics", by the name "record" */

/*
 * Adds the actions that follow the steps to ACTION_STEP_END and ACTION_STEP_BEGIN. Returns false
 * without memory for it.
 */
bool step_record_start(void);
/*
 * Returns the record of the step that runs now, with a reference for the caller; NULL if none runs,
 * or without memory for it.
 */
struct resource *step_record_of(struct device *device);

#endif
