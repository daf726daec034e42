/* SPDX-License-Identifier: MIT */
/*
 * The mailbox of the mover, so that a caller that needs memory to move need not know the mover.
 *
 * wake   something has changed: a limit, memory that was freed, memory that was spilled
 * room   memory is to leave the device, for memory that cannot be on the host
 * fill   room has come on the device, for memory on the host
 * pin    memory is to come to the device and stay there
 *
 * The thread that empties it (memory/move/mover.c) is given at the job's start, and starts at the
 * first request for a device with movable memory. Thread-safe.
 */
#ifndef SPILLWAY_WANTED_H
#define SPILLWAY_WANTED_H

#include "core/base/deadline.h"
#include "core/budget/device.h"

/* For an answer: as long as an insisting copy window and a shrink before it may take. */
#define WANTED_ANSWER_NS 5000000000ull

/* --- for the asking threads --- */

/* Says that memory of the device can move from now on; before that nothing is wanted of it. */
void wanted_open(const struct device *device);
void wanted_wake(const struct device *device);
/*
 * Notes that other jobs have made room on the device: memory on the host need not wait any longer.
 */
void wanted_fill(const struct device *device);
/*
 * Has memory leave so that `bytes` more fit below the limit, or are free on the device. Waits until
 * it is begun, and then until it has ended, which is bounded; not to be called inside the gate.
 * Returns whether it is worth another try.
 */
bool wanted_room(struct device *device, uint64_t bytes, struct deadline *until);
/*
 * Brings the run around an address of an arena to the device and keeps it there for good. The
 * address may also lie in the program's own physical memory that is mapped there. Where it is
 * wanted, the run is made anew in memory for export. CUDA_ERROR_OUT_OF_MEMORY: the device has no
 * room; CUDA_ERROR_NOT_READY: it cannot be moved now. Not to be called inside the gate.
 */
CUresult wanted_pin(struct device *device, CUdeviceptr address, bool is_exportable,
                    struct deadline *until);

/* --- for the thread that empties it --- */

struct wanted_request {
	struct device *device;
	uint64_t room;      /* bytes to be had on the device; or */
	CUdeviceptr pin;    /* memory to be on the device and stay; then `room` is its lack */
	bool is_exportable; /* in memory made for export */
	bool is_done;
	CUresult result;
	struct wanted_request *next;
};

/*
 * Sets the thread that empties the mailbox, and the function to be called as soon as memory of a
 * device can move. Until then nothing moves.
 */
void wanted_serve(void *(*serve)(void *), void (*opened)(void));
/* Takes the oldest request out, NULL: there is none. Its caller waits until it is answered. */
struct wanted_request *wanted_take(void);
/* Returns whether wanted_fill() was called since this was asked last. */
bool wanted_takes_fill(const struct device *device);
/* Returns the same, and leaves it to be asked again. */
bool wanted_has_fill(const struct device *device);
/* Returns whether there is a request: long work makes way for it. Takes no lock. */
bool wanted_is_asked(void);
void wanted_answer(struct wanted_request *request, CUresult result);
/* Sleeps until something is wanted, or until this time on the monotonic clock. */
void wanted_sleep(uint64_t until_ns);

/*
 * Closes the mailbox when the process ends or was forked: nothing is wanted any more, and the
 * thread is to end.
 */
void wanted_close(void);
bool wanted_is_closed(void);

#endif
