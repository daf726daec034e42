/* Refusals and spills. Rules: runs inside the user's process, within its calls. */
#include "core/budget/refusal.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/cuda/capture.h"
#include "core/rings/event.h"

/*
 * By default no program is refused while there is room on the host. A caching allocator could give
 * its cache back first, but whether it asks again cannot be seen from here, and a refusal that is
 * its last is the user's out of memory. PyTorch 2.15 asks no second time in a capture, nor where
 * its own bound (set_per_process_memory_fraction) was met first. NCCL and cuBLAS in the same
 * process never do. A capture makes a count wait, too: nothing can be given back in it.
 */
bool refusal_is_wanted(const struct device *device, const struct terms *terms)
{
	return terms->settings.spill_after != CONFIG_AUTO && !capture_is_active() &&
	       device_refusals(device) < terms->settings.spill_after;
}

void refusal_note(struct device *device, uint64_t bytes)
{
	device_note_refusal(device);
	event_note(.kind = EVENT_refusal, .device = device->id.ordinal, .a = bytes,
	           .b = terms_of(device).limit, .c = device_used(device, SEGMENT_ON_DEVICE));
}

const char *refusal_enough(struct device *device, uint64_t bytes, char *buf, size_t size)
{
	const uint64_t mib = (uint64_t)1 << 20;

	/* Whole MiB, never too few. */
	snprintf(buf, size, "memory_limit = %" PRIu64 "MiB would be enough",
	         (device_charged(device, SEGMENT_ON_DEVICE) + bytes + mib - 1) / mib);
	return buf;
}

void spill_note(struct device *device, uint64_t bytes, enum spill_reason reason,
                const struct spilled *what)
{
	struct counters *s = device->statistics;
	char size[32];

	statistics_begin(s);
	statistics_add(&s->spills, 1);
	statistics_add(&s->spilled_bytes, bytes);
	statistics_set(&s->spill_reason, reason);
	statistics_end(s);
	event_note(.kind = EVENT_spill, .device = device->id.ordinal, .a = bytes, .b = reason,
	           .c = device_used(device, SEGMENT_ON_DEVICE), .object = what->object,
	           .context = what->container ? event_context(what->container) : 0);
	log_once(LOG_INFO, "gpu %d: first spill to host memory, %s (%s)", device->id.ordinal,
	         units_format_size(bytes, size, sizeof(size)),
	         reason == SPILL_LIMIT     ? "memory_limit reached"
	         : reason == SPILL_EVICTED ? "evicted"
	         : reason == SPILL_YIELDED ? "other jobs have claimed the device"
	                                   : "device full");
}
