/* SPDX-License-Identifier: MIT */
/*
 * Limits that something else enforces, and memory that is kept free. Rules: runs inside the user's
 * process, on the helper; no driver call.
 *
 * A cgroup's limits are read as a layer of the configuration. The driver refuses memory beyond the
 * hard one, and ends a process beyond the soft one where a neighbour within its own needs room.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cgroup.h"
#include "core/base/deadline.h"
#include "core/base/hash.h"
#include "core/base/late.h"
#include "core/base/loading.h"
#include "core/base/place.h"
#include "core/budget/in_use.h"
#include "core/budget/terms.h"
#include "core/job/helper.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/job/sharing.h"

/* A limit that changes is followed, and free memory looked at, so often. */
enum { LOOK_MS = 100 };
/*
 * What is charged and not yet made counts twice where a limit is to rise: two large chunks.
 */
#define IN_FLIGHT ((uint64_t)64 << 20)
/* A job begins so much later at most, where others hold more than their soft limit. */
#define BORROWERS_NS      2000000000ull
#define BORROWERS_LOOK_NS 10000000ull
/* The kernel gives device memory in such units. */
#define UNIT ((uint64_t)2 << 20)

/* --- a cgroup's limits --- */

/*
 * Readers of the configuration have no lock while they use a finding, so two are kept: the last
 * one, and the one before it. Mapped late: without memory the driver alone enforces the limits.
 */
struct limits {
	struct cgroup_device device[2][CGROUP_DEVICES];
	struct config_limit limit[2][CGROUP_DEVICES];
	char from[2][CGROUP_DEVICES][2][CGROUP_PATH + 16];
	int count[2];
	_Atomic int now;
	uint64_t hash;
};
static _Atomic(void *) limits_place;

/* Reads the files into the half that is not in use. Returns whether there is news. */
static bool limits_read(void)
{
	struct limits *l = late_make(&limits_place, sizeof(*l));
	int to = l ? !atomic_load(&l->now) : 0;
	struct cgroup_device *device;
	uint64_t hash = HASH_NOTHING;

	if (!l)
		return false;
	device = l->device[to];
	l->count[to] = cgroup_devices("", place_variable("SPILLWAY_CGROUP"), device);
	for (int i = 0; i < l->count[to]; i++) {
		struct config_limit *limit = &l->limit[to][i];

		*limit = (struct config_limit){.hard = device[i].hard, .soft = device[i].soft};
		snprintf(limit->pci, sizeof(limit->pci), "%s", device[i].pci);
		snprintf(l->from[to][i][0], CGROUP_PATH + 16, "%s/dmem.max", device[i].hard_from);
		snprintf(l->from[to][i][1], CGROUP_PATH + 16, "%s/dmem.min", device[i].soft_from);
		limit->hard_from = l->from[to][i][0];
		limit->soft_from = l->from[to][i][1];
		hash = hash_text(hash, limit->pci);
		hash = hash_word(hash_word(hash, limit->hard), limit->soft);
	}
	if (hash == l->hash)
		return false;
	l->hash = hash;
	atomic_store(&l->now, to);
	return true;
}

static bool limits_are_any(void)
{
	struct limits *l = late_of(&limits_place);

	return l && l->count[atomic_load(&l->now)] != 0;
}

static void limits_prepare(struct job_config *config)
{
	(void)config;
	limits_read();
}

static void limits_add_source(struct config_sources *sources)
{
	struct limits *l = late_of(&limits_place);
	int now = l ? atomic_load(&l->now) : 0;

	if (!l)
		return;
	sources->limits = l->limit[now];
	sources->limit_count = (size_t)l->count[now];
}

/* --- the reserve --- */

/* Returns the memory of other jobs on the device, and how many they are. */
static uint64_t reserve_others(int i, int *jobs)
{
	const struct sharing *s = sharing_of(i);
	uint64_t bytes = 0;

	*jobs = 0;
	for (int k = 0; s && k < s->others.count; k++) {
		const struct peers_other *other = &s->others.other[k];

		if (other->record.job == s->own.now.job)
			continue;
		++*jobs;
		bytes += other->record.held;
	}
	return bytes;
}

/*
 * Returns how much the job may hold. Memory beyond the reserve is for all jobs alike, and missing
 * memory is given by each in proportion. For example, 3 GiB and 1 GiB give 384 and 128 MiB where
 * 512 are missing.
 */
static uint64_t reserve_bound(uint64_t held, uint64_t others, int jobs, uint64_t free,
                              uint64_t reserve)
{
	uint64_t bound;

	if (free >= reserve) {
		bound = held + (free - reserve) / (uint64_t)(jobs + 1);
	} else {
		double part = others ? (double)held / (double)(held + others) : 1;
		uint64_t given = (uint64_t)((double)(reserve - free) * part);

		bound = held > given ? held - given : 0;
	}
	return bound / UNIT * UNIT;
}

static bool reserve_keep(int i)
{
	struct device *device = &this_job.devices.device[i];
	uint64_t reserve = config_reserve(this_job.config.now, &device->id), used, others, free;
	uint64_t bound = UINT64_MAX;
	int jobs;

	if (reserve && in_use_without_context(device, &used)) {
		free = device->id.memory > used ? device->id.memory - used : 0;
		others = reserve_others(i, &jobs);
		bound = reserve_bound(device_charged(device, SEGMENT_ON_DEVICE), others, jobs, free,
		                      reserve);
		/* A limit that is lower keeps it by itself, and may rise as far as that. */
		if (terms_of(device).limit <= bound)
			bound = UINT64_MAX;
	}
	yield_set(device, YIELD_FOR_RESERVE, bound);
	return reserve != 0;
}

/* --- borrowing --- */

/*
 * Waits, before the program's first allocation, until jobs that borrow have made room for our soft
 * limit: they see it in our books. The driver would end them instead.
 */
static void limits_wait_for_borrowers(struct device *device)
{
	uint64_t limit = terms_of(device).settings.memory, used;
	struct deadline until = DEADLINE_IN(BORROWERS_NS);

	while (limit <= device->id.memory && in_use_without_context(device, &used) &&
	       used > device->id.memory - limit && deadline_nap(&until, BORROWERS_LOOK_NS))
		;
}

/* --- both --- */

/* NVML was opened for a job with a name alone. */
static void limits_started(void)
{
	bool is_limited = limits_are_any();

	if (!in_use_open_nvml ||
	    (!is_limited && !config_reserve(this_job.config.now, &this_job.devices.device[0].id)))
		return;
	loading_begin();
	in_use_open_nvml(&this_job.devices.device[0].id);
	loading_end();
	for (int i = 0; i < this_job.devices.count; i++) {
		reserve_keep(i);
		atomic_store(&yield_beside_owed[i], is_limited ? IN_FLIGHT : 0);
		if (is_limited)
			limits_wait_for_borrowers(&this_job.devices.device[i]);
	}
}

static void limits_tick(int *look_ms)
{
	bool is_watched, is_limited;

	if (limits_read())
		helper_reload();
	is_limited = is_watched = limits_are_any();
	for (int i = 0; i < this_job.devices.count; i++) {
		atomic_store(&yield_beside_owed[i], is_limited ? IN_FLIGHT : 0);
		is_watched |= reserve_keep(i);
	}
	if (is_watched && *look_ms > LOOK_MS)
		*look_ms = LOOK_MS;
}

const struct module module_limits = {.name = "limits",
                                     .prepare = limits_prepare,
                                     .add_source = limits_add_source,
                                     .started = limits_started,
                                     .tick = limits_tick};
