/* SPDX-License-Identifier: MIT */
/*
 * Shortage: a device has no room, though the job may have more there, because other jobs have it.
 * The mover or a call reports that here; the thread that reads the peer records and decides
 * (core/modules/sharing) waits for it. Thread-safe.
 */
#ifndef SPILLWAY_SHORTAGE_H
#define SPILLWAY_SHORTAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct deadline;
struct device;

/* --- for the reporting thread --- */

/* Reports that memory on the host finds no room. By the mover. */
void shortage_say(const struct device *device);
/*
 * Claims so many bytes for a call that must have them on the device, and waits until other jobs
 * have given them, or no job is left that could. Returns whether another try is worth it. Not to be
 * called inside the gate. will_tell: the call takes long. Other jobs then leave the room alone for
 * a while, until shortage_tried() says that the call has been tried again.
 */
bool shortage_claim(const struct device *device, uint64_t bytes, bool will_tell,
                    struct deadline *until);
void shortage_tried(const struct device *device, uint64_t bytes);

/* --- for the deciding thread --- */

/* Changes, and wakes its waiters, when a decision is due. */
extern _Atomic uint32_t shortage_called;
/*
 * Sets the function that a claim calls first, on its own thread, so that a thread decides it; it
 * returns whether one does. Until then there are no claims.
 */
void shortage_serve(bool (*begin)(const struct device *device));
/* Wakes the deciding thread. */
void shortage_call(void);
/* Returns the bytes that calls wait for. Where there are none, those that are tried by now. */
uint64_t shortage_claimed(const struct device *device, bool *is_tried);
/* Has those that wait try again. */
void shortage_decide(const struct device *device);

#endif
