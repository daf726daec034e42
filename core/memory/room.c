/* Charging and making room. Rules: runs inside the user's process, within its calls or on the mover's thread. */
#include "core/memory/room.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/memory/allocation.h"
#include "core/memory/graph_memory.h"
#include "core/memory/host_memory.h"
#include "core/memory/ordered.h"
#include "core/memory/residency.h"
#include "core/memory/spare.h"
#include "core/memory/spilled.h"
#include "core/pace/capture.h"
#include "core/state/event.h"

bool room_wait_for_freed(struct device *device, uint64_t bytes, uint64_t patience_ns)
{
	const struct timespec pause = {.tv_nsec = 50000};
	uint64_t before = spilled_came_back(), got = 0, waited = 0;
	int saved = errno, cancel;
	bool is_pending;

	/* The caller may hold a lock, or addresses that nobody knows of yet. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (;;) {
		spilled_fence();
		got += ordered_make_room(device, &is_pending);
		if (got + spilled_came_back() - before >= bytes || waited >= patience_ns ||
		    !(spilled_is_pending() || is_pending) || capture_is_active())
			break;
		nanosleep(&pause, NULL);
		waited += (uint64_t)pause.tv_nsec;
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return got + spilled_came_back() - before != 0;
}

bool room_make(struct device *device, uint64_t bytes)
{
	bool pools = pools_make_room(device), graphs = graph_memory_make_room(device);

	return room_wait_for_freed(device, bytes, device_setting(device, demote_deadline)) ||
	       pools || graphs;
}

/* The limit may fall, or others may take what was made free. */
enum { ROOM_TRIES = 3 };

int room_charge(struct device *device, uint64_t bytes)
{
	int error = device_charge(device, SEGMENT_ON_DEVICE, bytes, device_limit(device));

	/* Making room may take long: the limit may be another by then. */
	if (error && room_make(device, bytes))
		error = device_charge(device, SEGMENT_ON_DEVICE, bytes, device_limit(device));
	return error;
}

bool room_demote_for(struct device *device, uint64_t bytes)
{
	return bytes <= device_limit(device) && residency_make_room(device, bytes);
}

int room_charge_for_good(struct device *device, uint64_t bytes)
{
	int error = room_charge(device, bytes);

	for (int tries = 0; error && tries < ROOM_TRIES && room_demote_for(device, bytes); tries++)
		error = room_charge(device, bytes);
	return error;
}

uint64_t room_host_limit(struct device *device)
{
	uint64_t setting = device_setting(device, host_limit);

	/* As device_limit(): a number of bytes is the whole job's; what the machine has left is nobody's. */
	if (!device->segment && setting < CONFIG_AUTO)
		return 0;
	return host_memory_limit(setting, device_charged(device, SEGMENT_ON_HOST));
}

int room_charge_host(struct device *device, uint64_t bytes)
{
	int error = device_charge(device, SEGMENT_ON_HOST, bytes, room_host_limit(device));

	if (error && spare_trim(device, SEGMENT_ON_HOST, true))
		error = device_charge(device, SEGMENT_ON_HOST, bytes, room_host_limit(device));
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
