/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous copies between memory that was spilled and memory of the host.
 *
 * Between memory of the host a copy is synchronous, in all its forms ("API synchronization
 * behavior" in NVIDIA's documents of the driver API). A program with a stream that waits for an
 * event of the host would wait in the copy for ever, although with its memory on the device it goes
 * on. So such a copy is launched as a graph, which comes back at once. It takes no memory of the
 * device and waits for nothing. Thread-safe.
 */
#ifndef SPILLWAY_ASYNC_H
#define SPILLWAY_ASYNC_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/cuda/chunk.h"

/* Where a copy reads or writes. An address of the host is one, too. */
struct async_end {
	CUdeviceptr address;
	size_t pitch, slice; /* bytes from one row, one layer to the next */
};

struct async_copy {
	struct async_end to, from;
	size_t width, height, depth; /* bytes, rows, layers */
	CUstream stream;             /* by its explicit name */
	bool is_in_order; /* pageable memory, too, is read and written in the stream's order */
};

/* Returns whether a copy may concern memory on the host. One relaxed load. */
static inline bool async_is_concerned(void)
{
	return __builtin_expect(atomic_load_explicit(&chunk_is_on_host, memory_order_relaxed), 0);
}

/*
 * Makes the copy, with the driver's answer in *result. Returns false where it is the driver's own
 * call to make. That is so where no part of it is between memory of the host, nothing runs in the
 * stream, or a capture is active. It is so, too, where the copy would wait with its memory on the
 * device. Passes the gate.
 */
bool async_copy(const struct async_copy *copy, CUresult *result);
/*
 * Returns whether the driver's own call would wait for the stream's work before it made the copy. A
 * copy that is captured does not; its ends are kept as by async_keep_ends(). Passes the gate.
 */
bool async_would_wait(const struct async_copy *copy);
/*
 * Keeps both ends of a copy that becomes a node of a graph where they are, for good, if both are
 * the host's and the driver at hand makes it a node that the CPU executes.
 */
void async_keep_ends(const struct async_copy *copy);

#endif
