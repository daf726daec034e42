/* SPDX-License-Identifier: MIT */
/*
 * The process's part in its container's shared region: the figures that it writes there once a
 * second, and the monitor's settings that it finds there, as a layer of its configuration. Rules:
 * runs inside the user's process.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/place.h"
#include "core/budget/terms.h"
#include "core/job/helper.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/job/config.h"
#include "core/ledger/statistics.h"
#include "core/state/directory.h"
#include "core/modules/vgpu/region.h"
#include "core/modules/vgpu/hami_mode.h"

#define TELL_NS 1000000000ull

#define LIMIT_MAX (UINT64_C(1) << 60) /* no limit is larger */

enum { TEXT_MAX = 4096, TEXTS = 64 };

static struct {
	char cache[PATH_MAX]; /* "": there is no region */
	int priority;         /* as HAMi counts */
	bool is_shared_out;   /* the share counts: the policy is not "disable" */
	bool sees_others;     /* by a directory of the node, and takes turns with them there */
	bool is_seen;         /* by other containers, through such a directory */
	bool is_known;        /* the first launches */
	uint64_t launches, told_ns;
	_Atomic bool is_weighed;
	_Atomic bool is_over; /* the process exits */
	/* Readers have no lock: older texts are kept, and few differ. */
	char *texts[TEXTS];
	_Atomic(const char *) now;
} monitor;

/* --- as a layer --- */

static void write_monitor_settings(const struct region_settings *found, char text[TEXT_MAX])
{
	size_t used = 0;

	*text = '\0';
	if (found->is_blocked)
		used += (size_t)snprintf(text, TEXT_MAX, "[gpu]\nshare = 0\n");
	for (int i = 0; i < found->count && used < TEXT_MAX; i++) {
		uint64_t limit = found->device[i].limit;

		if ((!limit && !found->device[i].percent) || limit > LIMIT_MAX ||
		    config_check_selector(found->device[i].uuid, NULL) != 0)
			continue;
		used += (size_t)snprintf(text + used, TEXT_MAX - used, "[gpu %s]\n",
		                         found->device[i].uuid);
		if (limit && used < TEXT_MAX)
			used += (size_t)snprintf(text + used, TEXT_MAX - used,
			                         "memory = %" PRIu64 "B\n", limit);
		if (found->device[i].percent && monitor.is_shared_out && !found->is_blocked &&
		    used < TEXT_MAX)
			used += (size_t)snprintf(text + used, TEXT_MAX - used,
			                         "share = %" PRIu64 "\n", found->device[i].percent);
	}
}

/* Returns the kept text that is the same; NULL: there are too many, or no memory. */
static const char *monitor_keep(const char *text)
{
	for (int i = 0; i < TEXTS; i++) {
		if (!monitor.texts[i])
			monitor.texts[i] = strdup(text);
		if (!monitor.texts[i] || strcmp(monitor.texts[i], text) == 0)
			return monitor.texts[i];
	}
	return NULL;
}

/* Takes the findings. Returns whether they are new. */
static bool monitor_take(const struct region_settings *found)
{
	bool is_weighed = monitor.sees_others || !found->is_switched;
	bool is_news = atomic_exchange(&monitor.is_weighed, is_weighed) != is_weighed;
	const char *kept, *before = atomic_load(&monitor.now);
	char text[TEXT_MAX];

	write_monitor_settings(found, text);
	if (before && strcmp(before, text) == 0)
		return is_news;
	kept = monitor_keep(text);
	if (!kept) {
		log_once(LOG_WARNING,
		         "%s: the monitor has changed the limits too often: the earlier ones stay",
		         monitor.cache);
		return is_news;
	}
	atomic_store(&monitor.now, kept);
	return true;
}

/* Adds the monitor's settings to the sources of a configuration. Any thread may call it. */
static void monitor_add_source(struct config_sources *sources)
{
	const char *now = atomic_load(&monitor.now);

	sources->stands_in = hami_mode_is();
	sources->is_weighed = atomic_load(&monitor.is_weighed);
	sources->monitor = now && *now ? now : NULL;
	sources->monitor_from = monitor.cache;
}

/*
 * Looks whether jobs of other containers are seen. The directory that HAMi mounts everywhere does
 * not serve for turns with them (core/pages/turns.h).
 */
static void monitor_look_for_others(void)
{
	char path[PATH_MAX];

	directory_of_node(path, sizeof(path));
	monitor.is_seen = access(path, R_OK | X_OK) == 0;
	monitor.sees_others = monitor.is_seen && strcmp(path, HAMI_MODE_NODE) != 0;
}

/*
 * Takes the monitor's settings that stand in the region of this environment's cache. They hold from
 * the first allocation on.
 */
static void monitor_begin(char *const *environment)
{
	const char *policy = config_variable(environment, "GPU_CORE_UTILIZATION_POLICY");
	const char *cache = config_variable(environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE");
	const char *priority = config_variable(environment, "CUDA_TASK_PRIORITY");
	struct region_settings found;

	monitor.is_shared_out = !policy || strcasecmp(policy, "disable") != 0;
	monitor_look_for_others();
	atomic_store(&monitor.is_weighed, monitor.sees_others);
	monitor.priority = !priority || atoi(priority) != 0;
	if (!cache || *cache != '/' || strlen(cache) >= sizeof(monitor.cache))
		return;
	strcpy(monitor.cache, cache);
	if (region_read(cache, &found) == 0)
		monitor_take(&found);
}

/* --- telling --- */

/* Logs once which part is missing for a setting that concerns other pods. */
static void say_alone(const struct config_gpu *settings)
{
	if (!monitor.is_seen && settings->priority != PRIORITY_NORMAL)
		log_once(LOG_WARNING,
		         "no directory of the node (/run/spillway) is mounted here: the priority "
		         "is one among the processes of this container alone");
}

static void monitor_describe(struct device *device, struct region_device *described)
{
	const struct config_gpu settings = terms_of(device).settings;
	uint64_t share = settings.share < 1000 ? 1 : settings.share / 1000;

	say_alone(&settings);
	snprintf(described->uuid, sizeof(described->uuid), "%s", device->id.uuid);
	described->limit = settings.memory == CONFIG_UNLIMITED ? 0 : settings.memory;
	described->percent = share < 100 ? share : 0;
	described->used = device_used(device, SEGMENT_ON_DEVICE);
	described->busy = counters_get(device->statistics, share_held) / 1000;
}

/*
 * Tells, if it is time, and reads the monitor's settings. Returns whether they have changed, so
 * that the configuration is to be read again. Opens a file.
 */
static bool monitor_exchange(void)
{
	struct device_set *devices = &this_job.devices;
	struct region_tell tell = {.minor = config_job(this_job.config.now)->region_minor,
	                           .pid = getpid()};
	struct region_settings found;
	uint64_t now = clock_now(), launches = 0;
	char why[512];
	int error;

	if (!monitor.cache[0] || tell.minor < 0 || atomic_load(&monitor.is_over) ||
	    (monitor.told_ns && now - monitor.told_ns < TELL_NS))
		return false;
	monitor.told_ns = now;
	tell.priority = monitor.priority;
	tell.count = devices->count < REGION_DEVICES ? devices->count : REGION_DEVICES;
	for (int i = 0; i < tell.count; i++) {
		monitor_describe(&devices->device[i], &tell.device[i]);
		launches += counters_get(devices->device[i].statistics, launches) +
		            counters_get(devices->device[i].statistics, graph_launches);
	}
	tell.has_launched = monitor.is_known && launches != monitor.launches;
	monitor.is_known = true;
	monitor.launches = launches;
	error = region_tell(monitor.cache, &tell, &found, why, sizeof(why));
	/*
	 * Figures that were written while the process exits are taken back here, because they may
	 * come after that.
	 */
	if (atomic_load(&monitor.is_over))
		region_leave(monitor.cache, tell.pid);
	if (error && error != -EAGAIN)
		log_once(LOG_WARNING, "%s; HAMi's monitor does not see this process", why);
	/* A process that cannot write there follows the values it can read. */
	if (error && region_read(monitor.cache, &found) != 0)
		return false;
	return monitor_take(&found);
}

/* Says that the process holds nothing any more, as it exits. */
static void monitor_stop(void)
{
	atomic_store(&monitor.is_over, true);
	if (monitor.told_ns)
		region_leave(monitor.cache, getpid());
}

/* --- the module --- */

static void vgpu_hami_mode(const char *folder)
{
	hami_mode_begin(folder);
	if (!getauxval(AT_SECURE) && !getenv("SPILLWAY_LOG"))
		log_configure(hami_mode_log());
}

/*
 * Finds the container's limits. In place of HAMi-core it uses HAMi's places: the folder for the
 * job's files, and the directory that HAMi mounts for the node.
 */
static void vgpu_prepare(struct job_config *c)
{
	char beside[DIRECTORY_MAX + 1];

	c->environment = hami_mode_complete(c->environment);
	c->is_container = hami_mode_is();
	if (!c->is_container)
		return;
	if (access(DIRECTORY_NODE, X_OK) != 0 && access(HAMI_MODE_NODE, W_OK | X_OK) == 0)
		directory_node = HAMI_MODE_NODE;
	if (!place_is_bound() && !place_variable("SPILLWAY_STATE_DIR") &&
	    hami_mode_directory(config_variable(c->environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
	                        beside, sizeof(beside)))
		directory_use(beside);
	monitor_begin(c->environment);
}

static void vgpu_started(void)
{
	if (monitor_exchange())
		job_settings_reload(false);
}

static void vgpu_tick(int *look_ms)
{
	(void)look_ms;
	if (monitor_exchange())
		helper_reload();
}

const struct module module_vgpu = {.name = "vgpu",
                                   .hami_mode = vgpu_hami_mode,
                                   .prepare = vgpu_prepare,
                                   .add_source = monitor_add_source,
                                   .started = vgpu_started,
                                   .tick = vgpu_tick,
                                   .stop = monitor_stop};
