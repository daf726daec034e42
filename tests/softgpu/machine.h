/*
 * What all processes on the machine share about its devices: how much memory each process holds,
 * whose turn the device is, how long it ran. One mapped file in the state directory.
 *
 * A process is in the books while its keeper thread holds the slot's robust mutex; the kernel
 * releases that at any death, so a killed process's bytes come back when somebody looks.
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
void machine_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes);

/*
 * The device as kernels hold it: one process at a time, a slice at a time (all together under MPS).
 * slice_poll() passes the device on when the slice is over and comes back with the next one. Call
 * these three on the thread that runs the kernel.
 */
#define SLICE_NS 2000000ULL

struct slice {
	int device;
	uint64_t begin_ns; /* of this slice */
	uint64_t held_ns;  /* in earlier slices of this kernel */
};

void slice_begin(struct slice *slice, int device);
void slice_poll(struct slice *slice);
void slice_end(struct slice *slice);
/* Time this kernel has had the device. */
uint64_t slice_held(const struct slice *slice);

/* Reads the books without joining them; what softgpu_truth() answers. */
int machine_truth(int device, struct softgpu_truth *truth, int capacity);

uint64_t now_ns(void);

#endif
