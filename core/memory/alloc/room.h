/*
 * Room: charging bytes to the job's quota, and what can be done where there is no room for them: what nobody uses goes,
 * what the program has freed is waited for, what can be on the host goes there. Thread-safe.
 */
#ifndef SPILLWAY_ROOM_H
#define SPILLWAY_ROOM_H

#include <stdbool.h>

#include "core/base/deadline.h"
#include "core/state/segment.h"

struct allocation;
struct device;

/*
 * Room that a request wants: so many bytes; the least of them that are of use to it alone; and the request's deadline,
 * the one for everything that is waited for on its way. Who makes a request makes it, by room_deadline().
 */
struct wanted {
	uint64_t bytes, least;
	struct deadline *until;
};

/*
 * Returns how long a request may be kept waiting: for what drains and for what was freed; for_good: for the mover, too,
 * because it cannot be served on the host.
 */
struct deadline room_deadline(struct device *device, bool for_good);

/*
 * Charges bytes of device memory that cannot be served by vmem_allocate(). 0 or a negative errno as
 * device_charge(). The limit of the moment applies.
 */
int room_charge(struct device *device, uint64_t bytes, struct deadline *until);
/* Likewise for what cannot be on the host: what can goes there first. May wait for the mover; not in the gate. */
int room_charge_for_good(struct device *device, uint64_t bytes, struct deadline *until);
/* Demotes for memory that cannot be on the host. Whether another try is worth it. */
bool room_demote_for(struct device *device, uint64_t bytes, struct deadline *until);
/*
 * Makes room for what is wanted: has the driver give back what it keeps for pools and graphs and nobody uses, gives back
 * what the program has freed already, which is waited for, at most demote_deadline, lets spares and orphans go, and waits
 * for what drains. Returns whether anything came back, so that what was refused is worth another try.
 */
bool room_make(struct device *device, const struct wanted *wanted);
/*
 * What was freed while work was to be done on it: waits until so many bytes came back, or nothing more can. Whether any
 * did.
 */
bool room_wait_for_freed(struct device *device, uint64_t bytes, struct deadline *until);

/*
 * Formats what limit would be enough for so many bytes more, of memory that cannot leave the device: for who is refused
 * when all else has left. Returns buf.
 */
const char *room_enough(struct device *device, uint64_t bytes, char *buf, size_t size);

/* Charges bytes for the host side within the host limit of the moment. */
int room_charge_host(struct device *device, uint64_t bytes, struct deadline *until);
/* The most bytes the job may have on the host now. */
uint64_t room_host_limit(struct device *device);
/* Books a spill in the statistics and the ring. NULL: of no allocation. */
void room_note_spill(struct device *device, uint64_t bytes, enum spill_reason reason,
                     const struct allocation *a);

#endif
