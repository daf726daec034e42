/*
 * Shortage: a device has no room, though the job may have more there. Who finds that says so here;
 * who looks at the others' cards and decides (core/job/lending.h) waits for it. Thread-safe.
 */
#ifndef SPILLWAY_SHORTAGE_H
#define SPILLWAY_SHORTAGE_H

#include <stdatomic.h>
#include <stdint.h>

/* Changes, for who waits for it, when something is to be decided. */
extern _Atomic uint32_t shortage_called;
/* Says that there is. */
void shortage_say(void);

#endif
