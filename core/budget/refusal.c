/* Refusals and spills. Rules: runs inside the user's process, within its calls. */
#include "core/budget/refusal.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/rings/event.h"

bool refusal_is_wanted(const struct device *device, const struct terms *terms)
{
	return device_refusals(device) < terms->settings.spill_after;
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
	                                   : "device full");
}
