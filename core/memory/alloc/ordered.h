/*
 * Elastic memory of pools that was freed in stream order (cuMemFreeAsync), and waits for who wants it next.
 *
 * It has left the books, and stays mapped and charged. The stream it was freed on may have it again at once; others,
 * and the device, when an event that was recorded there has been passed. What has been passed is given back when the
 * program waits for work, as far as the pool's release threshold allows, when the pool is trimmed, and when room is
 * wanted. Nothing here waits, and nothing asks for an event while a capture is active. Thread-safe.
 */
#ifndef SPILLWAY_ORDERED_H
#define SPILLWAY_ORDERED_H

#include "core/budget/device.h"

struct allocation;
struct pool;

/* Keeps one that has left the books from this point of the stream (by its explicit name) on. False: it is not kept. */
bool ordered_free(struct allocation *allocation, CUstream stream);
/* One of the pool that serves so many bytes, for use in this stream from now on. Its reference is the caller's; or NULL. */
struct allocation *ordered_take(struct pool *pool, size_t size, CUstream stream);

/* Gives back what is beyond the release thresholds: after the program has waited. */
void ordered_settle(void);
/* Likewise of one pool, until no more than so many bytes are reserved for it. */
void ordered_trim(struct pool *pool, uint64_t keep);
/* Gives back what nobody uses of a device's. Its bytes. *is_pending: work is still to be done on more; NULL is fine. */
uint64_t ordered_make_room(struct device *device, bool *is_pending);

/* Returns whether anything waits for a stream. */
bool ordered_keeps_any(void);
/* The stream is destroyed: another may get its name, or has it and was given nothing yet. */
void ordered_stream_gone(CUstream stream);
/* The context is gone, and its events with it: what waits for its work now waits for everything. */
void ordered_forget_context(CUcontext context);

#endif
