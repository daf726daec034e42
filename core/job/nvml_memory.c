/* SPDX-License-Identifier: MIT */
/* Answers to NVML's memory queries. Rules: runs inside the user's process, with CUDA or without. */
#include "core/job/nvml_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file_status.h"
#include "core/base/lock.h"
#include "core/base/once.h"
#include "core/job/process.h"
#include "core/job/config.h"
#include "core/budget/reported.h"
#include "core/view/glance.h"
#include "core/state/segment.h"

/*
 * The configuration of a process without a part in a job's books (nvidia-smi, or one before
 * cuInit); read once.
 */
static struct job_config own;
static bool own_is_read;
static struct once own_once;

static void read_own(void)
{
	own_is_read = job_config_start(&own);
}

static const struct job_config *configuration(void)
{
	const struct job_config *of_job = job_configuration();

	if (of_job)
		return of_job;
	once_call(&own_once, read_own);
	return own_is_read ? &own : NULL;
}

/*
 * Returns whether two texts name the same device. The driver names a MIG device by the bytes of its
 * UUID alone, NVML with "MIG-" before them.
 */
static bool is_same_uuid(const char *one, const char *other)
{
	static const size_t prefix = sizeof("GPU-") - 1;

	return strlen(one) > prefix && strlen(other) > prefix &&
	       strcasecmp(one + prefix, other + prefix) == 0;
}

/*
 * Returns the ordinal CUDA gives a device in a process where CUDA_VISIBLE_DEVICES is `visible`
 * (NULL: not set), -1 when it shows the process no such device. In CUDA's default order the fastest
 * comes first, in NVML's the lowest PCI bus id: index is right where all GPUs are alike.
 */
static int ordinal_among(const char *visible, int index, const char *uuid)
{
	int ordinal = 0;

	if (!visible)
		return index;
	/* A word that is no device ends the list. */
	for (const char *entry = visible; *entry; ordinal++) {
		size_t length = strcspn(entry, ",");
		char *end;
		long number = strtol(entry, &end, 10);

		if (end == entry + length ? number == index : strncasecmp(entry, uuid, length) == 0)
			return length ? ordinal : -1;
		if (length == 0 || (end == entry + length && number < 0))
			break;
		entry += length;
		entry += *entry == ',';
	}
	return -1;
}

static const char *visible_devices(char *const *environment)
{
	static const char name[] = "CUDA_VISIBLE_DEVICES=";

	for (; *environment; environment++)
		if (strncmp(*environment, name, sizeof(name) - 1) == 0)
			return *environment + sizeof(name) - 1;
	return NULL;
}

/* A device as the job's books have it; all zero where there are none. */
struct books {
	uint64_t charged[2]; /* by enum segment_tier */
	uint64_t limit;      /* that its living processes hold; 0: none has met the device */
};

static struct books nvml_memory_read_view(const char *job, const char *uuid)
{
	struct segment_view *view = calloc(1, sizeof(*view));
	struct books books = {0};

	if (view && segment_read(job, view, NULL, 0) == 0) {
		for (int i = 0; i < view->device_count; i++) {
			if (!is_same_uuid(view->device[i].uuid, uuid))
				continue;
			memcpy(books.charged, view->charged[i], sizeof(books.charged));
			if (view->ended_ns == 0)
				books.limit = statistics_get(&view->job_total[i].limit_set) -
				              statistics_get(&view->job_total[i].limit_grown);
		}
	}
	segment_view_free(view);
	return books;
}

static struct books read_books(const char *job, const char *uuid)
{
	struct segment_glance glance;
	struct books books = {0};
	int error = segment_glance(job, &glance);

	if (error == -ENOENT)
		return books;
	if (error)
		return nvml_memory_read_view(job, uuid);
	for (int i = 0; i < glance.device_count; i++) {
		if (!is_same_uuid(glance.uuid[i], uuid))
			continue;
		memcpy(books.charged, glance.charged[i], sizeof(books.charged));
		books.limit = glance.limit[i];
	}
	return books;
}

/* --- settings of a process that has no part in the books --- */

/* A stamp tells one version of a file from another; all zero where there is no file. */
struct stamp {
	uint64_t device, inode, size;
	struct timespec changed, modified;
};

enum { FILES = 3 };

/* The layers as they were read last, and from which files; its lock is never waited for. */
static struct {
	LOCK_OF(NVML) lock;
	struct config *config;
	struct stamp stamp[FILES];
} snapshot = {.lock = LOCK_FREE};

static struct stamp stamp_of(const char *path)
{
	struct stamp stamp = {0};
	struct stat found;

	if (path && *path && file_status(path, &found) == 0) {
		stamp.device = found.st_dev;
		stamp.inode = found.st_ino;
		stamp.size = (uint64_t)found.st_size;
		stamp.changed = found.st_ctim;
		stamp.modified = found.st_mtim;
	}
	return stamp;
}

/* Reads the layers again if a file is another than it was; the lock is held. */
static void renew(const struct job_config *c)
{
	const char *const paths[FILES] = {CONFIG_SYSTEM_FILE, c->file, c->override_path};
	struct stamp stamp[FILES];

	memset(stamp, 0, sizeof(stamp)); /* padding is compared, too */
	for (int i = 0; i < FILES; i++)
		stamp[i] = stamp_of(paths[i]);
	if (snapshot.config && memcmp(stamp, snapshot.stamp, sizeof(stamp)) == 0)
		return;
	config_release(snapshot.config);
	snapshot.config = job_config_read(c);
	memcpy(snapshot.stamp, stamp, sizeof(stamp));
}

static bool is_told_the_truth(const struct config *config)
{
	return config_job(config)->is_disabled || !config_job(config)->nvml;
}

/* Reads the layers for a device. Returns whether NVML is to report it. */
static bool settings_from(const struct job_config *c, const struct config *config,
                          const struct config_device *device, struct config_gpu *settings)
{
	struct config_device as_cuda = *device;

	if (!config || is_told_the_truth(config))
		return false;
	as_cuda.ordinal =
	    ordinal_among(visible_devices(c->environment), device->ordinal, device->uuid);
	config_for_device(config, &as_cuda, settings);
	return true;
}

static bool nvml_memory_read_settings(const struct job_config *c,
                                      const struct config_device *device,
                                      struct config_gpu *settings)
{
	struct config *config;
	bool is_told;

	/* In a forked child the lock may be held for ever, by a thread of its parent's. */
	if (lock_try(&snapshot.lock)) {
		renew(c);
		is_told = settings_from(c, snapshot.config, device, settings);
		lock_release(&snapshot.lock);
		return is_told;
	}
	config = job_config_read(c);
	is_told = settings_from(c, config, device, settings);
	config_release(config);
	return is_told;
}

/*
 * Returns the device as the process has it that takes part in the job, with settings and books of
 * its own; NULL if it has none.
 */
static struct device *own_device(const char *uuid)
{
	struct device_ref found;

	return job_is_active() && device_set_lookup(job_devices(), uuid, &found) ? found.gpu : NULL;
}

bool nvml_memory_reported(const struct config_device *device, struct reported *memory)
{
	struct device *taken = own_device(device->uuid);
	const struct job_config *c;
	struct config_gpu settings;
	struct books books;

	if (taken)
		return atomic_load_explicit(&this_job.tells_nvml, memory_order_relaxed) &&
		       report_memory(taken, memory);
	c = configuration();
	if (!c || !nvml_memory_read_settings(c, device, &settings))
		return false;
	books = read_books(c->name, device->uuid);
	if (books.limit)
		settings.memory = books.limit;
	return reported_memory(&settings, books.charged[SEGMENT_ON_DEVICE],
	                       books.charged[SEGMENT_ON_HOST], memory);
}
