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
#include <stdlib.h>
#include <string.h>

#include "core/base/cgroup.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/hash.h"
#include "core/base/late.h"
#include "core/base/loading.h"
#include "core/base/place.h"
#include "core/budget/in_use.h"
#include "core/budget/refusal.h"
#include "core/budget/terms.h"
#include "core/job/helper.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/job/sharing.h"
#include "core/registry/actions.h"

/* A limit that changes is followed, and free memory looked at, so often. */
enum { LOOK_MS = 100 };
/*
 * What is charged and not yet made counts twice where a limit is to rise: two large chunks.
 */
#define IN_FLIGHT ((uint64_t)64 << 20)
/*
 * A job that starts waits so long after memory of the last borrowing job has left. For programs
 * without Spillway, whose memory never leaves, it waits for less. While a job holds borrowed memory
 * that can leave, the time begins anew for at most a minute: a process that gets hardly any CPU
 * time moves memory late.
 */
#define BORROWERS_NS      10000000000ull
#define BORROWERS_MOST_NS 60000000000ull
#define STRANGERS_NS      2000000000ull
#define BORROWERS_LOOK_NS 10000000ull
/* The kernel gives device memory in such units. */
#define UNIT ((uint64_t)2 << 20)

/* --- limits of a cgroup, from its files and from NVML --- */

/*
 * Readers of the configuration have no lock while they use a finding, so two are kept: the last
 * one, and the one before it. Mapped late: without memory the driver alone enforces the limits.
 */
struct limits {
	struct cgroup_device device[CGROUP_DEVICES]; /* of the thread that reads */
	char own[CGROUP_PATH];                       /* the process's cgroup; "": none */
	struct config_limit limit[2][CGROUP_DEVICES];
	char from[2][CGROUP_DEVICES][2][CGROUP_PATH + 16];
	enum limit_source source[2][CGROUP_DEVICES][2];
	int count[2];
	_Atomic int now;
	bool asks_nvml;
	uint64_t hash;
};
static _Atomic(void *) limits_place;

static enum limit_source limits_source(const struct limits *l, const char *directory)
{
	return !*directory                      ? SOURCE_NONE
	       : strcmp(directory, l->own) == 0 ? SOURCE_CGROUP
	                                        : SOURCE_PARENT;
}

/* Takes one of a device's limits as a file of the cgroup, or NVML, has it. */
static void limits_take(struct limits *l, int to, int i, bool is_soft, uint64_t bytes,
                        const char *directory, enum limit_source source)
{
	struct config_limit *limit = &l->limit[to][i];
	char *from = l->from[to][i][is_soft];

	snprintf(from, sizeof(l->from[to][i][is_soft]), "%s%s", directory,
	         source == SOURCE_NVML ? " (NVML)"
	         : is_soft             ? "/dmem.min"
	                               : "/dmem.max");
	*(is_soft ? &limit->soft : &limit->hard) = bytes;
	*(is_soft ? &limit->soft_from : &limit->hard_from) = from;
	l->source[to][i][is_soft] = source;
}

/* Asks NVML, whose limits hold where the kernel has no controller. The lower ones count. */
static void limits_ask_nvml(struct limits *l, int to, const struct config_device *device)
{
	uint64_t soft, hard;
	int i = 0;

	if (!in_use_limits_by_nvml || !in_use_limits_by_nvml(device, l->own, &soft, &hard) ||
	    (!soft && hard == UINT64_MAX))
		return;
	while (i < l->count[to] && !config_selects(l->limit[to][i].pci, device))
		i++;
	if (i == CGROUP_DEVICES)
		return;
	if (i == l->count[to]) {
		l->count[to]++;
		l->limit[to][i] = (struct config_limit){.hard = UINT64_MAX};
		l->source[to][i][0] = l->source[to][i][1] = SOURCE_NONE;
		snprintf(l->limit[to][i].pci, sizeof(l->limit[to][i].pci), "%s",
		         device->pci_bus_id);
	}
	if (hard < l->limit[to][i].hard)
		limits_take(l, to, i, false, hard, l->own, SOURCE_NVML);
	if (soft && (!l->limit[to][i].soft || soft < l->limit[to][i].soft))
		limits_take(l, to, i, true, soft, l->own, SOURCE_NVML);
}

/* Reads them into the half that is not in use. Returns whether there is news. */
static bool limits_read(void)
{
	struct limits *l = late_make(&limits_place, sizeof(*l));
	int to = l ? !atomic_load(&l->now) : 0;
	const char *leaf = place_variable("SPILLWAY_CGROUP");
	uint64_t hash = HASH_NOTHING;

	if (!l)
		return false;
	l->own[0] = '\0';
	if (leaf)
		snprintf(l->own, sizeof(l->own), "%s", leaf);
	else if (!cgroup_own("", l->own))
		l->own[0] = '\0';
	l->count[to] = *l->own ? cgroup_devices("", leaf, l->device) : 0;
	for (int i = 0; i < l->count[to]; i++) {
		const struct cgroup_device *device = &l->device[i];

		snprintf(l->limit[to][i].pci, sizeof(l->limit[to][i].pci), "%s", device->pci);
		limits_take(l, to, i, false, device->hard, device->hard_from,
		            limits_source(l, device->hard_from));
		limits_take(l, to, i, true, device->soft, device->soft_from,
		            limits_source(l, device->soft_from));
	}
	for (int i = 0; *l->own && l->asks_nvml && i < this_job.devices.count; i++)
		limits_ask_nvml(l, to, &this_job.devices.device[i].id);
	for (int i = 0; i < l->count[to]; i++) {
		const struct config_limit *limit = &l->limit[to][i];

		hash = hash_text(hash, limit->pci);
		hash = hash_word(hash_word(hash, limit->hard), limit->soft);
	}
	if (hash == l->hash)
		return false;
	l->hash = hash;
	atomic_store(&l->now, to);
	return true;
}

/* Writes a device's limits and reserve into its ledger, for `stat` and the metrics. */
static void limits_tell(const struct device *device)
{
	const struct limits *l = late_of(&limits_place);
	uint64_t words[LEDGER_OUTSIDE] = {0};
	int now = l ? atomic_load(&l->now) : 0;

	for (int i = 0; l && i < l->count[now]; i++) {
		const struct config_limit *limit = &l->limit[now][i];

		if (!config_selects(limit->pci, &device->id))
			continue;
		words[OUTSIDE_HARD] = limit->hard + 1;
		words[OUTSIDE_SOFT] = limit->soft;
		words[OUTSIDE_SOURCES] =
		    limit_source_pack(l->source[now][i][0], l->source[now][i][1]);
	}
	words[OUTSIDE_RESERVE] = config_reserve(this_job.config.now, &device->id);
	for (int i = 0; i < LEDGER_OUTSIDE; i++)
		atomic_store_explicit(&device->ledger->outside[i], words[i], memory_order_relaxed);
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

/* Says of a refusal by one of these limits where the limit is: the job's own may be higher. */
static int limits_refused(void *cookie, void *subject)
{
	struct refusal *refusal = subject;
	const struct refused *refused = refusal->refused;
	struct config_sources sources = {0};

	(void)cookie;
	if (refused->reason == REFUSED_MEMORY_LIMIT || refused->reason == REFUSED_UNMOVABLE)
		limits_add_source(&sources);
	for (size_t i = 0; i < sources.limit_count; i++) {
		const struct config_limit *limit = &sources.limits[i];
		bool is_soft = limit->soft && limit->soft == refused->limit;

		if (config_selects(limit->pci, &refusal->device->id) &&
		    (is_soft || limit->hard == refused->limit))
			snprintf(refusal->more, sizeof(refusal->more),
			         " The limit is that of %s: raise that first.",
			         is_soft ? limit->soft_from : limit->hard_from);
	}
	return CUDA_SUCCESS;
}

/* --- the reserve --- */

/*
 * Other jobs on the device, and whether one holds more than its limit in memory that can leave, or
 * has not said yet what it holds.
 */
struct others {
	uint64_t held;
	int jobs;
	bool may_give;
};

static struct others limits_others(const struct sharing *s, const struct peers *peers)
{
	struct others others = {0};

	for (int k = 0; s && k < peers->count; k++) {
		const struct peer_record *record = &peers->other[k].record;

		if (record->job == s->own.now.job)
			continue;
		others.jobs++;
		others.held += record->held;
		others.may_give |=
		    !record->tells_memory || (record->held > record->limit && record->movable);
	}
	return others;
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
	uint64_t reserve = config_reserve(this_job.config.now, &device->id), used, free;
	uint64_t bound = UINT64_MAX;
	const struct sharing *s = reserve ? sharing_of(i) : NULL;

	if (reserve && in_use_without_context(device, &used)) {
		const struct others others = limits_others(s, s ? &s->others : NULL);

		free = device->id.memory > used ? device->id.memory - used : 0;
		bound = reserve_bound(device_charged(device, SEGMENT_ON_DEVICE), others.held,
		                      others.jobs, free, reserve);
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
 * limit: they see it in our books. The driver would end them instead. It waits on while memory
 * leaves, or can leave: a busy machine moves slowly.
 */
static void limits_wait_for_borrowers(int i)
{
	struct device *device = &this_job.devices.device[i];
	uint64_t whole = in_use_whole_by_nvml ? in_use_whole_by_nvml(&device->id) : 0;
	uint64_t limit = terms_of(device).settings.memory, used, least = UINT64_MAX;
	struct deadline until = DEADLINE_IN(STRANGERS_NS), most = DEADLINE_IN(BORROWERS_MOST_NS);
	const struct sharing *s = sharing_join(i);
	struct peers *peers = s ? calloc(1, sizeof(*peers)) : NULL;

	if (peers)
		peers_start(peers, s->others.node, s->others.state, s->own.uuid,
		            s->own.place.token);
	while (limit <= whole && in_use_without_context(device, &used) && used > whole - limit &&
	       deadline_nap(&until, BORROWERS_LOOK_NS)) {
		struct others others;

		/* The helper does so once the start is over: a silent job is owed nothing. */
		if (this_job.segment)
			segment_poll(this_job.segment);
		if (!peers)
			continue;
		peers_copy(peers, clock_now());
		others = limits_others(s, peers);
		if (!others.jobs ||
		    (used >= least && (!others.may_give || deadline_has_passed(&most))))
			continue;
		least = used < least ? used : least;
		until = DEADLINE_IN(BORROWERS_NS);
	}
	if (peers)
		peers_end(peers);
	free(peers);
}

/* --- all of it --- */

static void limits_start(bool *has_started)
{
	static const struct action refused = {ACTION_STATISTICS, "limits", limits_refused, NULL};

	*has_started &= action_add(ACTION_REFUSED, &refused) == 0;
}

/*
 * NVML was opened for a job with a name alone. MPS, or a scheduler by its variable, may keep limits
 * of a job without one.
 */
static void limits_started(void)
{
	struct limits *l = late_of(&limits_place);
	bool is_limited = limits_are_any();

	if (in_use_open_nvml &&
	    (is_limited || !this_job.config.is_unnamed ||
	     place_variable("CUDA_MPS_PIPE_DIRECTORY") ||
	     place_variable("NVIDIA_GPU_MEMORY_LIMIT") ||
	     config_reserve(this_job.config.now, &this_job.devices.device[0].id))) {
		loading_begin();
		in_use_open_nvml(&this_job.devices.device[0].id);
		loading_end();
		if (l)
			l->asks_nvml = true;
	}
	for (int i = 0; i < this_job.devices.count; i++) {
		reserve_keep(i);
		limits_tell(&this_job.devices.device[i]);
		atomic_store(&yield_beside_owed[i], is_limited ? IN_FLIGHT : 0);
		if (is_limited)
			limits_wait_for_borrowers(i);
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
		limits_tell(&this_job.devices.device[i]);
	}
	if (is_watched && *look_ms > LOOK_MS)
		*look_ms = LOOK_MS;
}

const struct module module_limits = {.name = "limits",
                                     .prepare = limits_prepare,
                                     .add_source = limits_add_source,
                                     .start = limits_start,
                                     .started = limits_started,
                                     .tick = limits_tick};
