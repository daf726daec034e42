/* The rule of reported_memory. Rules: runs inside the user's process. */
#include "core/budget/reported.h"

#include "core/budget/host_memory.h"

uint64_t reported_total(const struct config_gpu *settings, uint64_t hardware, uint64_t on_host)
{
	uint64_t total = settings->memory_limit < hardware ? settings->memory_limit : hardware;
	uint64_t host;

	if (settings->reported_memory != REPORTED_LIMIT_AND_HOST || settings->spill == SPILL_OFF)
		return total;
	host = host_memory_limit(settings->host_limit, on_host);
	return host > UINT64_MAX - total ? UINT64_MAX : total + host;
}

bool reported_memory(const struct config_gpu *settings, uint64_t on_device, uint64_t on_host,
                     struct reported *memory)
{
	uint64_t left;

	if (settings->memory_limit == CONFIG_UNLIMITED &&
	    settings->reported_memory == REPORTED_LIMIT && !settings->evict)
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

bool reported_hides_host(const struct config_gpu *settings, uint64_t hardware, uint64_t total)
{
	return total < hardware && settings->reported_memory == REPORTED_LIMIT &&
	       settings->spill != SPILL_OFF;
}
