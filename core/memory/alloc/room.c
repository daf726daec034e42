/* Charging and making room. Rules: runs inside the user's process, within its calls or on the mover's thread. */
#include "core/memory/alloc/room.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/uses/graph_memory.h"
#include "core/budget/host_memory.h"
#include "core/memory/alloc/ordered.h"
#include "core/budget/wanted.h"
#include "core/memory/arena/spare.h"
#include "core/memory/alloc/freed.h"
#include "core/cuda/capture.h"
#include "core/state/event.h"

enum { FREED_LOOK_NS = 50000, DRAIN_LOOK_NS = 10000000 };

struct deadline room_deadline(struct device *device, bool for_good)
{
	uint64_t freed_ns = device_setting(device, demote_deadline);
	uint64_t least_ns = SEGMENT_DRAIN_NS + (for_good ? WANTED_ANSWER_NS : 0);

	return DEADLINE_IN(freed_ns > UINT64_MAX - least_ns ? UINT64_MAX : least_ns + freed_ns);
}

bool room_wait_for_freed(struct device *device, uint64_t bytes, struct deadline *until)
{
	uint64_t before = spilled_came_back(), got = 0;
	bool is_pending;
	int cancel;

	/* The caller may hold addresses that nobody knows of yet. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	do {
		spilled_fence();
		got += ordered_make_room(device, &is_pending);
	} while (got + spilled_came_back() - before < bytes &&
	         (spilled_is_pending() || is_pending) && !capture_is_active() &&
	         deadline_nap(until, FREED_LOOK_NS));
	pthread_setcancelstate(cancel, NULL);
	return got + spilled_came_back() - before != 0;
}

/* --- what drains --- */

static uint64_t limit_on(struct device *device, enum segment_side side)
{
	return side == SEGMENT_ON_DEVICE ? device_limit(device) : room_host_limit(device);
}

static bool fits(struct device *device, enum segment_side side, uint64_t bytes)
{
	uint64_t limit = limit_on(device, side);

	return bytes <= limit && device_charged(device, side) <= limit - bytes;
}

/* Returns whether memory of the dead is in the way of so much, and what the living hold is not. */
static bool is_drained_for(struct device *device, enum segment_side side, uint64_t bytes)
{
	/* In this order: who is let go meanwhile is not taken for one of the living. */
	uint64_t draining = segment_draining(device->segment, device->index, side);
	uint64_t charged = segment_charged(device->segment, device->index, side);
	uint64_t limit = limit_on(device, side);
	uint64_t living = charged > draining ? charged - draining : 0;

	return draining && bytes <= limit && living <= limit - bytes;
}

/* A rerun finds its dead predecessor's memory still charged. Waits until all fits, or nothing drains for the least of it. */
static bool wait_for_drained(struct device *device, enum segment_side side,
                             const struct wanted *wanted)
{
	bool has_waited = false;
	int cancel;

	if (!device->segment)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (!fits(device, side, wanted->bytes) && is_drained_for(device, side, wanted->least) &&
	       deadline_nap(wanted->until, DRAIN_LOOK_NS))
		has_waited = true;
	pthread_setcancelstate(cancel, NULL);
	return has_waited && fits(device, side, wanted->least);
}

/* --- room on the device --- */

bool room_make(struct device *device, const struct wanted *wanted)
{
	bool pools = pools_make_room(device), graphs = graph_memory_make_room(device);
	struct deadline freed_until =
	    deadline_within(wanted->until, device_setting(device, demote_deadline));
	bool freed = room_wait_for_freed(device, wanted->bytes, &freed_until);

	/* Memory that was freed may have become spare. */
	bool spares = spare_trim(device, SEGMENT_ON_DEVICE, true) != 0;
	bool orphans = device_let_orphans_go(device);

	return wait_for_drained(device, SEGMENT_ON_DEVICE, wanted) || freed || pools || graphs ||
	       spares || orphans;
}

/* The limit may fall, or others may take what was made free. */
enum { ROOM_TRIES = 3 };

int room_charge(struct device *device, uint64_t bytes, struct deadline *until)
{
	int error = device_charge(device, bytes);

	if (error && room_make(device, &(struct wanted){bytes, bytes, until}))
		error = device_charge(device, bytes);
	return error;
}

bool room_demote_for(struct device *device, uint64_t bytes, struct deadline *until)
{
	return bytes <= device_limit(device) && wanted_room(device, bytes, until);
}

int room_charge_for_good(struct device *device, uint64_t bytes, struct deadline *until)
{
	int error = room_charge(device, bytes, until);

	for (int tries = 0; error && tries < ROOM_TRIES && room_demote_for(device, bytes, until);
	     tries++)
		error = room_charge(device, bytes, until);
	return error;
}

const char *room_enough(struct device *device, uint64_t bytes, char *buf, size_t size)
{
	const uint64_t mib = (uint64_t)1 << 20;

	/* Whole MiB, never too few. */
	snprintf(buf, size, "memory_limit = %" PRIu64 "MiB would be enough",
	         (device_charged(device, SEGMENT_ON_DEVICE) + bytes + mib - 1) / mib);
	return buf;
}

/* --- room on the host --- */

uint64_t room_host_limit(struct device *device)
{
	uint64_t setting = device_setting(device, host_limit);

	/* As device_limit(): a number of bytes is the whole job's; what the machine has left is nobody's. */
	if (!device->segment && setting < CONFIG_AUTO)
		return 0;
	return host_memory_limit(setting, device_charged(device, SEGMENT_ON_HOST));
}

int room_charge_host(struct device *device, uint64_t bytes, struct deadline *until)
{
	const struct wanted wanted = {bytes, bytes, until};
	int error = device_charge_host(device, bytes, room_host_limit(device));

	if (error && (spare_trim(device, SEGMENT_ON_HOST, true) ||
	              wait_for_drained(device, SEGMENT_ON_HOST, &wanted)))
		error = device_charge_host(device, bytes, room_host_limit(device));
	return error;
}

void room_note_spill(struct device *device, uint64_t bytes, enum spill_reason reason,
                     const struct allocation *a)
{
	struct statistics *s = device->statistics;
	char size[32];

	statistics_begin(s);
	statistics_add(&s->spills, 1);
	statistics_add(&s->spilled_bytes, bytes);
	statistics_set(&s->spill_reason, reason);
	statistics_end(s);
	event_note(.kind = EVENT_spill, .device = device->id.ordinal, .a = bytes, .b = reason,
	           .c = statistics_get(&s->device_used), .object = a ? a->address : 0,
	           .context = a ? event_context(a->context.container) : 0);
	log_once(LOG_INFO, "gpu %d: first spill to host memory, %s (%s)", device->id.ordinal,
	         units_format_size(bytes, size, sizeof(size)),
	         reason == SPILL_LIMIT     ? "memory_limit reached"
	         : reason == SPILL_EVICTED ? "evicted"
	                                   : "device full");
}
