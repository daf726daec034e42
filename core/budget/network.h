/* SPDX-License-Identifier: MIT */
/*
 * Memory that a network card or a disk reaches without the driver's knowledge: registered by
 * nvidia-peermem (ibv_reg_mr) or nvidia-fs, of which the driver's interface shows nothing.
 *
 * caller  a return address: the code that makes the memory, or asks about it
 *
 * Known is memory that NCCL, UCX, NVSHMEM, libfabric and cuFile make or ask about themselves, in a
 * process that holds a descriptor by which memory can be registered. Thread-safe; keeps errno.
 */
#ifndef SPILLWAY_NETWORK_H
#define SPILLWAY_NETWORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The pages of code that called first and is none of these libraries' (network.c). */
extern _Atomic uint64_t network_stranger;
enum { NETWORK_PAGE_BITS = 12, NETWORK_COUNT_BITS = 28 };

static inline bool network_is_in(uint64_t pages, const void *caller)
{
	uint64_t first = pages >> NETWORK_COUNT_BITS, count = pages % (1u << NETWORK_COUNT_BITS);

	return ((uintptr_t)caller >> NETWORK_PAGE_BITS) - first < count;
}

/* Returns whether the caller is known to be no such library. One load. */
static inline bool network_is_stranger(const void *caller)
{
	uint64_t stranger = atomic_load_explicit(&network_stranger, memory_order_relaxed);

	return __builtin_expect(network_is_in(stranger, caller), 1);
}

bool network_looks(const void *caller);
/* Returns whether such memory must stay on the device. One load for a program's own code. */
static inline bool network_keeps(const void *caller)
{
	return !network_is_stranger(caller) && network_looks(caller);
}

/*
 * Returns whether the process holds such a descriptor; once it did, always. `root` stands before
 * the paths that are looked for: "" but in tests.
 */
bool network_is_open(const char *root);

#endif
