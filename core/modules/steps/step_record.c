/* SPDX-License-Identifier: MIT */
/*
 * Records of steps. Rules: runs inside the user's process. steps.c runs the actions at the end and
 * the beginning of a step, on the program's thread whose launch ended the step, at most once a
 * millisecond. Any thread may ask for a record.
 */
#include "core/modules/steps/step_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/registry/actions.h"
#include "core/registry/step_container.h"

static struct {
	LOCK_OF(STEP_RECORDS) lock;
	bool is_begun;
	struct step_container container;
	uint64_t began_ns;
	struct step_counts before;
} steps[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = {.lock = LOCK_FREE}};

static uint64_t launches(const struct counters *s)
{
	return counters_get(s, launches) + counters_get(s, graph_launches);
}

static uint64_t moved_bytes(const struct counters *s)
{
	return statistics_get(&s->demoted_bytes) + statistics_get(&s->promoted_bytes);
}

static void record_describe(const struct resource *resource, char *buf, size_t size)
{
	const struct step_record *r = (const struct step_record *)resource;
	const struct counters *s = r->device->statistics;

	snprintf(buf, size,
	         "%" PRIu64 " launches, %" PRIu64 " bytes moved, %" PRIu64 " ns idle, in %" PRIu64
	         " ns so far",
	         launches(s) - r->before.launches, moved_bytes(s) - r->before.moved_bytes,
	         statistics_get(&s->idle_ns) - r->before.idle_ns, clock_now() - r->began_ns);
}

static void record_destroy(struct resource *resource)
{
	free(resource);
}

const struct resource_type step_record_type = {
    .name = "step_statistics", .describe = record_describe, .destroy = record_destroy};

static struct resource *record_create(void *cookie)
{
	struct device *device = cookie;
	struct step_record *r = malloc(sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct step_record){.device = device,
	                          .began_ns = steps[device->id.ordinal].began_ns,
	                          .before = steps[device->id.ordinal].before};
	resource_init(&r->resource, &step_record_type);
	return &r->resource;
}

/*
 * Ends the step's container. It runs within a launch, so it allocates nothing: step_record_of()
 * makes the record of the next step when a caller first asks for it.
 */
static int step_record_end_step(void *cookie, void *subject)
{
	int ordinal = ((struct device *)subject)->id.ordinal;

	(void)cookie;
	lock_acquire(&steps[ordinal].lock);
	if (steps[ordinal].is_begun)
		step_container_end(&steps[ordinal].container);
	steps[ordinal].is_begun = false;
	lock_release(&steps[ordinal].lock);
	return CUDA_SUCCESS;
}

static int step_record_begin_step(void *cookie, void *subject)
{
	struct device *device = subject;
	const struct counters *s = device->statistics;
	int ordinal = device->id.ordinal;

	(void)cookie;
	lock_acquire(&steps[ordinal].lock);
	step_container_begin(&steps[ordinal].container, device->registry,
	                     statistics_get(&s->steps) + 1);
	steps[ordinal].is_begun = true;
	steps[ordinal].began_ns = clock_now();
	steps[ordinal].before =
	    (struct step_counts){launches(s), moved_bytes(s), statistics_get(&s->idle_ns)};
	lock_release(&steps[ordinal].lock);
	return CUDA_SUCCESS;
}

struct resource *step_record_of(struct device *device)
{
	int ordinal = device->id.ordinal;
	struct resource *record = NULL;

	lock_acquire(&steps[ordinal].lock);
	if (steps[ordinal].is_begun)
		record = step_container_lookup_or_create(
		    &steps[ordinal].container, &step_record_type, "record", record_create, device);
	lock_release(&steps[ordinal].lock);
	return record;
}

bool step_record_start(void)
{
	static const struct action ends = {ACTION_STATISTICS, "record", step_record_end_step, NULL};
	static const struct action begins = {ACTION_STATISTICS, "record", step_record_begin_step,
	                                     NULL};

	return action_add(ACTION_STEP_END, &ends) == 0 &&
	       action_add(ACTION_STEP_BEGIN, &begins) == 0;
}
