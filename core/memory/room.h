/*
 * Room: charging bytes to the job's quota, and what can be done where there is no room for them: what nobody uses goes,
 * what the program has freed is waited for, what can be on the host goes there. Thread-safe.
 */
#ifndef SPILLWAY_ROOM_H
#define SPILLWAY_ROOM_H

#include <stdbool.h>

#include "core/state/segment.h"

struct allocation;
struct device;

/*
 * Charges bytes of device memory that cannot be served by vmem_allocate(). 0 or a negative errno as
 * device_charge(). The limit of the moment applies.
 */
int room_charge(struct device *device, uint64_t bytes);
/* Likewise for what cannot be on the host: what can goes there first. May wait for the mover; not in the gate. */
int room_charge_for_good(struct device *device, uint64_t bytes);
/* Demotes for memory that cannot be on the host. Whether another try is worth it. */
bool room_demote_for(struct device *device, uint64_t bytes);
/*
 * Room for so many bytes is wanted: has the driver give back what it keeps for pools and graphs and nobody uses, and
 * gives back what the program has freed already, which is waited for, at most demote_deadline. Whether anything came
 * back, so that what was refused is worth another try.
 */
bool room_make(struct device *device, uint64_t bytes);
/*
 * What was freed while work was to be done on it: waits until so many bytes came back, or nothing more can. Whether any
 * did.
 */
bool room_wait_for_freed(struct device *device, uint64_t bytes, uint64_t patience_ns);

/* Charges bytes for the host side within the host limit of the moment. */
int room_charge_host(struct device *device, uint64_t bytes);
/* The most bytes the job may have on the host now. */
uint64_t room_host_limit(struct device *device);
/* Books a spill in the statistics and the ring. NULL: of no allocation. */
void room_note_spill(struct device *device, uint64_t bytes, enum spill_reason reason,
                     const struct allocation *a);

#endif
