/* SPDX-License-Identifier: MIT */
/* Answers to the program. Rules: runs inside the user's process, within its calls. */
#include "core/budget/reported.h"

#include "core/budget/host_memory.h"
#include "core/budget/terms.h"

/*
 * Returns the total a program is told. hardware: bytes the device has; on_host: bytes the job holds
 * in place of device memory.
 */
static uint64_t reported_total(const struct config_gpu *settings, uint64_t hardware,
                               uint64_t on_host)
{
	uint64_t total = settings->memory < hardware ? settings->memory : hardware;
	uint64_t host;

	if (settings->reported_memory != REPORTED_LIMIT_AND_HOST || settings->spill == SPILL_OFF)
		return total;
	host = host_memory_of(settings, on_host);
	return host > UINT64_MAX - total ? UINT64_MAX : total + host;
}

bool reported_memory(const struct config_gpu *settings, uint64_t on_device, uint64_t on_host,
                     struct reported *memory)
{
	uint64_t left;

	if (settings->memory == CONFIG_UNLIMITED && settings->reported_memory == REPORTED_LIMIT &&
	    !settings->evict)
		return false;
	memory->used = on_device;
	/* What is evicted is still the program's, as far as it can tell. */
	if (settings->reported_memory == REPORTED_LIMIT_AND_HOST || settings->evict)
		memory->used += on_host;
	memory->total = reported_total(settings, memory->total, on_host);
	/* A limit that has risen, or was lowered, may be below what is held; programs subtract. */
	if (memory->used > memory->total)
		memory->used = memory->total;
	left = memory->total - memory->used;
	/* What others hold counts where it cannot be made up for on the host. */
	if (settings->spill != SPILL_OFF || left < memory->free)
		memory->free = left;
	return true;
}

/* --- by the job's charges --- */

/*
 * Counts an answer that hides the host. A program that looks before it allocates may end here, and
 * nothing else would show why.
 */
static void note_told(struct device *device, const struct config_gpu *settings, uint64_t hardware,
                      uint64_t total)
{
	if (total < hardware && settings->reported_memory == REPORTED_LIMIT &&
	    settings->spill != SPILL_OFF)
		statistics_add(&device->statistics->told_limit, 1);
}

uint64_t told_total(struct device *device, uint64_t hardware)
{
	const struct terms terms = terms_of(device);
	uint64_t total =
	    reported_total(&terms.settings, hardware, device_charged(device, SEGMENT_ON_HOST));

	note_told(device, &terms.settings, hardware, total);
	return total;
}

bool told_memory(struct device *device, struct reported *memory)
{
	struct terms terms = terms_of(device);
	uint64_t hardware = memory->total;

	/* What other jobs have been given is still the program's, too, as far as it can tell. */
	if (terms.yields_above != UINT64_MAX && terms.settings.memory != CONFIG_UNLIMITED)
		terms.settings.evict = true;
	if (!reported_memory(&terms.settings, device_charged(device, SEGMENT_ON_DEVICE),
	                     device_charged(device, SEGMENT_ON_HOST), memory))
		return false;
	note_told(device, &terms.settings, hardware, memory->total);
	return true;
}

void told_info(struct device *device, size_t *free, size_t *total)
{
	struct reported memory = {.total = *total, .free = *free};

	told_memory(device, &memory);
	*total = memory.total;
	*free = memory.free;
}
