/* SPDX-License-Identifier: MIT */
/*
 * The books that all processes on the machine share about its devices: how much memory each process
 * holds, which process has the device, how long it ran. One mapped file in the state directory.
 *
 * A process is in the books while its keeper thread holds the slot's robust mutex. The kernel
 * releases that at any death, so a killed process's bytes come back when another process looks.
 */
#ifndef SOFTGPU_MACHINE_H
#define SOFTGPU_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/softgpu/softgpu.h"

/* Joins the books, with the sizes of config(); false when the state directory cannot be used. */
bool machine_join(void);

/* Physical memory of one device, across all processes. All are thread-safe. */
bool machine_take(int device, uint64_t bytes);
void machine_give(int device, uint64_t bytes);
/* Returns whether this process was ended by limiter.c: every call answers that. */
bool machine_is_terminated(void);
void machine_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes);
/* Counts, of bytes that come (or go, below zero), for softgpu_truth() alone. */
void machine_count_mapped(int device, int64_t bytes);
void machine_count_host(int64_t bytes);
void machine_count_fetched(int device, uint64_t bytes);
void machine_count_context(int device, bool is_made); /* or it is gone */

/*
 * slice.c: the device as kernels hold it: one process at a time, a slice at a time (all together
 * under MPS). slice_poll() passes the device on when the slice is over and comes back with the next
 * one. Call these three on the thread that runs the kernel.
 *
 * A device begins a kernel as soon as it is there and the one before is over. The simulator's
 * threads need longer; that is counted as the kernel's time, not as time between kernels: it begins
 * at ready_ns, or when the device became free.
 */
#define SLICE_NS 2000000ULL

struct slice {
	int device;
	uint64_t begin_ns; /* of this slice */
	uint64_t held_ns;  /* in earlier slices of this kernel */
	uint64_t lag_ns;   /* the thread began it so late */
	uint64_t late_ns;  /* its last sleep ended so late, which is no time of it */
};

void slice_begin(struct slice *slice, int device, uint64_t ready_ns);
void slice_poll(struct slice *slice);
/*
 * Returns when that was. is_kept: another kernel of the process is queued behind this one and can
 * begin, so the process keeps the device for it until the slice is over.
 */
uint64_t slice_end(struct slice *slice, bool is_kept);
/* Passes on a device that was kept for a kernel which does not run after all. */
void slice_drop(int device);
/* Time this kernel has had the device. */
uint64_t slice_held(const struct slice *slice);
/* Sleeps until it has had the device for so long; polls meanwhile. */
void slice_rest(struct slice *slice, uint64_t held_ns);
/*
 * Lets the calling thread, one that runs kernels, wake when it is time rather than some 50 us
 * later.
 */
void slice_wakes_on_time(void);

/* These read the books without joining them. The first is what softgpu_truth() answers; the others
 * tell of config()'s machine while no process uses one. */
int machine_truth(int device, struct softgpu_truth *truth, int capacity);
int machine_device_count(void);

struct machine_device_state {
	uint64_t total, used;        /* bytes */
	unsigned int recent_percent; /* of the last second that kernels had the device */
};

void machine_device(int device, struct machine_device_state *state);

/*
 * machine_share.c: device memory and events that several processes hold. A name stays good while
 * one of them does; whoever dies leaves.
 */
struct shared_name {
	uint64_t generation;
	uint32_t index;
};

/* Makes memory of this process, which machine_take() gave it, one that others can hold. */
bool machine_share(int device, uint64_t bytes, struct shared_name *name);
/* Joins the holders; false when it is gone. */
bool machine_hold(const struct shared_name *name);
/* Leaves them. The last one gives the bytes back, and is told so. */
bool machine_unhold(const struct shared_name *name);
bool machine_event_new(struct shared_name *name);
bool machine_event_hold(const struct shared_name *name);
void machine_event_unhold(const struct shared_name *name);
/* A new recording of the event; its number is to be said done once. */
uint32_t machine_event_record(const struct shared_name *name);
void machine_event_done(const struct shared_name *name, uint32_t number);
/* The last recording, and whether it is done. One of a dead process counts as done. */
uint32_t machine_event_last(const struct shared_name *name);
bool machine_event_is_done(const struct shared_name *name, uint32_t number);
/* Sleeps until the recording is done, or a moment has passed. */
void machine_event_wait(const struct shared_name *name, uint32_t number);

uint64_t now_ns(void);

/*
 * Has the calling thread not be cancelled until it has called cancelling_on() as often. A lock that
 * it took with it would stay taken.
 */
void cancelling_off(void);
void cancelling_on(void);

#endif
