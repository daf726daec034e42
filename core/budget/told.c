/* Answers to the program. Rules: runs inside the user's process, within its calls. */
#include "core/budget/told.h"

#include "core/budget/terms.h"

/*
 * Counts an answer that hides the host. A program that looks before it allocates may end here, and
 * nothing else would show why.
 */
static void note_told(struct device *device, const struct config_gpu *settings, uint64_t hardware,
                      uint64_t total)
{
	if (reported_hides_host(settings, hardware, total))
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
	const struct terms terms = terms_of(device);
	uint64_t hardware = memory->total;

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
