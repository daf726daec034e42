/* SPDX-License-Identifier: MIT */
/*
 * Overhead: device memory that the driver takes for contexts, modules, streams, graphs and the like
 * without reporting it. It is one figure per device: the bytes that NVML reports for the process,
 * less its other charges. For example, NVML reports 1,500 MiB, 1,024 MiB are charged, and the
 * overhead is 476 MiB.
 *
 * It is charged to the job with any limit, because the driver has it already, and shown apart
 * (device_charge_driver()). It is a resource of the device's registry, "overhead". A call that may
 * have changed it is noted, which costs one store. NVML is asked when a context was made or has
 * gone, after a load once 50 ms have passed, and by the helper thread each second for the rest.
 *
 * charged    before the driver takes memory, and until after it gave it back. So a thread that is
 *            about to do either makes the figure too small for one look, and a smaller figure holds
 *            once two looks in a row agree. Memory on its way is not taken for the driver's for
 *            long: a thread that charges or gives back has the helper thread look again
 * elsewhere  charges that the driver may not count as this process's: managed memory, and memory of
 *            other processes. Within it the figure stays the same
 * uncharged  memory that the driver may count as this process's and that is not charged. It is
 *            exported memory of the job that it has open, or has given up while other processes
 *            hold it. Within it likewise
 *
 * Thread-safe; no driver call.
 */
#ifndef SPILLWAY_OVERHEAD_H
#define SPILLWAY_OVERHEAD_H

#include "core/budget/device.h"

enum { OVERHEAD_LOOK_MS = 50 };

/* The figure, and the most that the last look allowed. */
struct overhead {
	uint64_t bytes, most;
};

/*
 * A look: bytes that the process has; that it is charged for all else, before and after; elsewhere;
 * and uncharged.
 */
struct overhead_look {
	uint64_t held, charged[2], elsewhere, uncharged;
};

extern const struct resource_type overhead_type;

/*
 * Set once NVML has reported this process's memory on the device; until then nothing is reported,
 * and differences are measured.
 */
extern _Atomic bool overhead_is_told[DEVICE_MAX];
static inline bool overhead_is_known(const struct device *device)
{
	return atomic_load_explicit(&overhead_is_told[device->id.ordinal], memory_order_relaxed);
}

extern _Atomic bool overhead_is_noted;
/*
 * Notes that something was made or has gone for which the driver may have taken memory or given it
 * back.
 */
static inline void overhead_note(void)
{
	atomic_store_explicit(&overhead_is_noted, true, memory_order_relaxed);
}

/* Asks NVML now, even if it was just asked. Returns whether it knows the process. */
bool overhead_ask(struct device *device);
/*
 * Gives back bytes that were charged ahead of a call, once the figure has the driver's bytes: now,
 * or after a capture.
 */
void overhead_settle(struct device *device, uint64_t ahead);
/* Returns the figure's bytes; 0: there is none. */
uint64_t overhead_bytes(const struct device *device);
/* Asks likewise, unless it was asked within the last 50 ms: then the change is noted. */
void overhead_changed(struct device *device);
/* Ends the figure: the device's last context has gone, and with it all that the driver took. */
void overhead_end(struct device *device);
/*
 * Asks where something is noted. The helper thread's. Returns true where it is to look again in
 * OVERHEAD_LOOK_MS.
 */
bool overhead_poll(struct device_set *set);

#endif
