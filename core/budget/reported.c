/* SPDX-License-Identifier: MIT */
/* Answers to the program. Rules: runs inside the user's process, within its calls. */
#include "core/budget/reported.h"

#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/budget/host_memory.h"
#include "core/budget/terms.h"

/* --- frameworks that take a part of the total --- */

/* Looks for a framework in so many answers at first: one that comes later than the first counts. */
enum { LOOKS = 100 };

static bool reported_says(const char *variable, const char *value)
{
	const char *text = getenv(variable);

	return text && strcmp(text, value) == 0;
}

/*
 * TensorFlow and XLA take a part of the total and nothing beyond it. They take all of that part at
 * once, unless these variables make them take it as they need it. `spillway run` sets them.
 */
static int reported_look_at(struct dl_phdr_info *library, size_t size, void *cookie)
{
	const char *slash = library->dlpi_name ? strrchr(library->dlpi_name, '/') : NULL;
	bool *is_found = cookie;

	(void)size;
	if (!slash)
		return 0;
	if (strncmp(slash, "/libtensorflow_", 15) == 0)
		*is_found = reported_says("TF_FORCE_GPU_ALLOW_GROWTH", "true");
	else if (strncmp(slash, "/xla_cuda_plugin.so", 19) == 0)
		*is_found = reported_says("XLA_PYTHON_CLIENT_PREALLOCATE", "false") ||
		            reported_says("XLA_PYTHON_CLIENT_PREALLOCATE", "0");
	return *is_found;
}

/* Returns whether the process has such a framework. */
static bool reported_by_part(void)
{
	static atomic_int answers; /* negative: it has */
	int before = atomic_load_explicit(&answers, memory_order_relaxed);
	bool is_found = false;

	if (before < 0 || before >= LOOKS)
		return before < 0;
	dl_iterate_phdr(reported_look_at, &is_found);
	if (!is_found) {
		atomic_fetch_add_explicit(&answers, 1, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&answers, INT_MIN, memory_order_relaxed);
	log_once(LOG_INFO, "reported_memory = auto: this framework takes a part of the total, so "
	                   "it is told the GPU's own");
	return true;
}

/* Returns whether memory on the host is among the total. */
static bool reported_with_host(const struct config_gpu *settings)
{
	if (settings->reported_memory == REPORTED_AUTO)
		return settings->memory != CONFIG_UNLIMITED && reported_by_part();
	return settings->reported_memory == REPORTED_LIMIT_AND_HOST;
}

/*
 * Returns the total a program is told. hardware: bytes the device has; on_host: bytes the job holds
 * in place of device memory; with_host: they are among the total. By `auto` it is never more than
 * the device has, so that a framework allocates as it does without a limit.
 */
static uint64_t reported_total(const struct config_gpu *settings, uint64_t hardware,
                               uint64_t on_host, bool with_host)
{
	uint64_t total = settings->memory < hardware ? settings->memory : hardware;
	uint64_t host;

	if (settings->spill == SPILL_OFF || !with_host)
		return total;
	host = host_memory_limit(settings->host_memory, settings->host_at_most_auto, on_host);
	total = host > UINT64_MAX - total ? UINT64_MAX : total + host;
	return settings->reported_memory == REPORTED_AUTO && total > hardware ? hardware : total;
}

bool reported_memory(const struct config_gpu *settings, uint64_t on_device, uint64_t on_host,
                     struct reported *memory)
{
	bool with_host;
	uint64_t left;

	if (settings->memory == CONFIG_UNLIMITED &&
	    settings->reported_memory != REPORTED_LIMIT_AND_HOST && !settings->evict)
		return false;
	with_host = reported_with_host(settings);
	memory->used = on_device;
	/* Evicted memory is still the program's, as far as it can tell. */
	if (with_host || settings->evict)
		memory->used += on_host;
	memory->total = reported_total(settings, memory->total, on_host, with_host);
	/*
	 * A limit that has risen, or was lowered, may be below the used memory; programs subtract.
	 */
	if (memory->used > memory->total)
		memory->used = memory->total;
	left = memory->total - memory->used;
	/* Memory of other jobs counts where the host cannot make up for it. */
	if (settings->spill != SPILL_OFF || left < memory->free)
		memory->free = left;
	return true;
}

/* --- by the job's charges --- */

/*
 * Counts an answer that hides the host. A program that looks before it allocates may end here, and
 * nothing else would show why.
 */
static void report_note(struct device *device, const struct config_gpu *settings, uint64_t hardware,
                        uint64_t total)
{
	if (total < hardware && settings->reported_memory != REPORTED_LIMIT_AND_HOST &&
	    settings->spill != SPILL_OFF)
		statistics_add(&device->statistics->reported_limit, 1);
}

bool report_memory(struct device *device, struct reported *memory)
{
	struct terms terms = terms_of(device);
	uint64_t hardware = memory->total;

	/* Memory given to other jobs is still the program's, too, as far as it can tell. */
	if (terms.yields_above != UINT64_MAX && terms.settings.memory != CONFIG_UNLIMITED)
		terms.settings.evict = true;
	if (!reported_memory(&terms.settings, device_charged(device, SEGMENT_ON_DEVICE),
	                     device_charged(device, SEGMENT_ON_HOST), memory))
		return false;
	report_note(device, &terms.settings, hardware, memory->total);
	return true;
}
