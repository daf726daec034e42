/*
 * Asynchronous copies between memory that was spilled and memory of the host.
 *
 * Between memory of the host a copy is synchronous, in all its forms ("API synchronization
 * behavior" in NVIDIA's documents of the driver API). A program whose stream waits for something
 * that the host does later would wait in the copy for ever, although with its memory on the device
 * it goes on. So such a copy is made in two: to a stage on the device, and from there. Thread-safe.
 */
#ifndef SPILLWAY_ASYNC_H
#define SPILLWAY_ASYNC_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/cuda/chunk.h"

struct async_copy {
	CUdeviceptr to, from; /* addresses of the host are such, too */
	size_t size;
	CUstream stream; /* by its explicit name */
};

/* Returns whether a copy may concern memory on the host. One relaxed load. */
static inline bool async_is_concerned(void)
{
	return __builtin_expect(atomic_load_explicit(&chunk_is_on_host, memory_order_relaxed), 0);
}

/*
 * Makes the copy, with the driver's answer in *result. Returns false where it is the driver's own
 * call to make: no part of it is between memory of the host, a capture is active, or there is no
 * stage. Passes the gate.
 */
bool async_copy(const struct async_copy *copy, CUresult *result);
/*
 * Keeps both ends of a copy that becomes a node of a graph where they are, if both are the host's
 * and the driver at hand makes it one that the CPU executes, for good.
 */
void async_keep_ends(CUdeviceptr to, CUdeviceptr from, size_t size);

#endif
