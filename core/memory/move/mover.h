/*
 * Residency: which chunks are on the device, and the mover, the thread that changes it while the program runs.
 *
 * urgent    a shrink, or room that a call waits for: natural moments are preferred, but only for demote_deadline
 * natural   a call of the program that waited for its work has just returned: little or nothing is in flight
 *
 * The mover holds the gate (cuda/gate.h), waits until nothing runs, moves what it can in a bounded time, and opens
 * it. While a capture is active it makes no driver call.
 */
#ifndef SPILLWAY_RESIDENCY_H
#define SPILLWAY_RESIDENCY_H

#include "core/base/deadline.h"
#include "core/budget/device.h"

/* For what the mover is asked: as long as an insisting closure and a shrink before it may take. */
#define RESIDENCY_ANSWER_NS 5000000000ull

/* Something changed: a limit, memory freed, memory spilled. Starts the mover when first needed. */
void residency_wake(struct device *device);
/*
 * Demotes so that `bytes` more fit below the limit, or are free on the device. Waits until it is begun, and then until it
 * has ended, which is bounded; not to be called inside the gate. Whether it is worth another try.
 */
bool residency_make_room(struct device *device, uint64_t bytes, struct deadline *until);

/*
 * Brings the run around an address of an arena, or the program's own physical memory that is mapped there, to the device
 * and keeps it there for good, in memory made for export if that is wanted. CUDA_ERROR_OUT_OF_MEMORY: the device has no
 * room; CUDA_ERROR_NOT_READY: it cannot be moved now. Not to be called inside the gate.
 */
CUresult residency_pin(struct device *device, CUdeviceptr address, bool is_exportable,
                       struct deadline *until);

/* The process ends or was forked: no move any more. Waits, bounded, for one that is under way. */
void residency_stop(void);

#endif
