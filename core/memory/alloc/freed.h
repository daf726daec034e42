/* SPDX-License-Identifier: MIT */
/*
 * Memory of ours that the program has freed, and that work may still use: one list of it, by the
 * event that each waits for.
 *
 * stream   memory of a pool that was freed in stream order (cuMemFreeAsync): an event that was
 *          recorded there. The stream may have it again at once, other streams and the device once
 *          that has been passed. Then it is given back when the program waits for work, as far as
 *          the pool's release threshold allows, when the pool is trimmed, and when room is wanted
 * fence    deferred_free says so, or it was freed in stream order: all work that the contexts had
 *          been given (freed.c). Later calls look whether it is done. Where there can be no fence
 *          it is waited for after all
 * wait     the driver forbids to wait while a stream is captured. Where its own free would succeed
 *          in spite of that, the program is told it did; the memory goes when no capture is active
 *          any more and the program makes a call that may wait
 *
 * It has left the books, so no thread finds it, and stays charged until it goes. The driver's own
 * cuMemFree waits for the work that may use the memory; so must we. Nothing here asks for an event
 * while a capture is active. Thread-safe.
 *
 * Pools of plain memory of a device are served from the arena. Freed pieces serve requests of the
 * same number of chunks (or class of blocks) and are not split. While any capture is active, and
 * for pools that can be exported, are bounded or ask for special memory, the driver's own pool
 * serves; attributes are the sum of both.
 */
#ifndef SPILLWAY_FREED_H
#define SPILLWAY_FREED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cuda/driver.h"

struct allocation;
struct context;
struct device;
struct device_set;
struct pool;

enum freed_kind { FREED_OF_STREAM, FREED_OF_FENCE, FREED_OF_WAIT, FREED_KINDS };

/* How much waits for each: on the way of each allocation it is asked first if anything does. */
extern _Atomic size_t freed_counts[FREED_KINDS];
static inline bool freed_is_any(enum freed_kind kind)
{
	return __builtin_expect(
	    atomic_load_explicit(&freed_counts[kind], memory_order_relaxed) != 0, 0);
}

/*
 * Takes an allocation of the pool that serves so many bytes, for use in this stream from now on.
 * Returns it with its reference, the caller's; or NULL.
 */
struct allocation *freed_take(struct pool *pool, size_t size, CUstream stream);
/*
 * Returns whether the address is in memory, not of a pool, that the program has freed and the
 * driver may still know.
 */
bool freed_has(CUdeviceptr address);

/* Gives back memory behind a fence that was passed. Never waits; any call may do it. */
void freed_poll(void);
/*
 * Gives back as freed_poll() does, and waits for postponed memory, unless a capture is active; for
 * calls that wait anyway, or may wait.
 */
void freed_settle_now(void);
static inline void freed_settle(void)
{
	if (freed_is_any(FREED_OF_FENCE) || freed_is_any(FREED_OF_WAIT))
		freed_settle_now();
}
/* Puts postponed memory behind a fence instead, where it can be: in calls that may not wait. */
void freed_fence(void);
/*
 * Gives back, because the program has waited for work, also memory beyond the release thresholds of
 * the pools.
 */
void freed_waited(void);
/* Gives back freed memory of one pool, until no more than so many bytes are reserved for it. */
void freed_trim(struct pool *pool, uint64_t keep);
/*
 * Gives back memory that no work uses any more, of a device's pools all of it. Returns whether work
 * is still to be done on more.
 */
bool freed_give_back(struct device *device);
/* Returns the bytes that have come back so far without having been waited for. */
uint64_t freed_came_back(void);
/* Waits for all that was freed, however long it takes. Returns whether anything came back. */
bool freed_wait(void);

/* Forgets a destroyed stream: another may get its name, or has it and was given nothing yet. */
void freed_stream_gone(CUstream stream);

/* --- freeing --- */

/*
 * Frees. native() frees memory that the driver made. Before memory of ours goes, `wait` names the
 * work to wait for: all work of its context, as cuMemFree does (NULL), or the work on this stream,
 * as cuMemFreeAsync promises. Addresses Spillway does not know are the driver's to judge.
 */
struct vmem_free {
	CUresult (*native)(void *cookie, CUdeviceptr address);
	void *cookie;
	CUstream wait;
};
CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how);

/* Releases our memory that was made in a context that the driver has destroyed. */
void vmem_forget_context(const struct context *context);

/*
 * Releases, after vmem_forget_context(), the memory that a device without a context would keep for
 * the next allocation.
 */
void vmem_left_context(struct device_set *devices);

#endif
