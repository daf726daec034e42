/* SPDX-License-Identifier: MIT */
/*
 * The fence: the point up to which the contexts of this process had been given work when it was
 * set. It has been passed when all that work is done.
 *
 * One event per context says it, recorded over everything the context has: streams known to us or
 * not, other threads' default streams, green contexts. Nothing is put into the program's own
 * streams, so none waits for another by it. There is one fence at a time. Not thread-safe: the
 * caller lets one thread in at a time. While a capture is active no fence is set, nor is one
 * passed: the captures would be invalidated.
 *
 * One event per context, not one per stream: it covers streams we do not know, other threads'
 * default streams and green contexts, and an event in the legacy stream would make the program's
 * streams wait for each other.
 */
#ifndef SPILLWAY_FENCE_H
#define SPILLWAY_FENCE_H

#include <stdbool.h>

#include "core/cuda/driver.h"

/*
 * Sets it, in the place of an earlier one. Returns false where the driver cannot (before CUDA 12.5)
 * or does not.
 */
bool fence_set(void);
/*
 * Returns whether the fence has been passed; true where none is set. Of a context that is broken or
 * gone no work is left.
 */
bool fence_has_passed(void);
/* Waits no more for a context that is gone, and its event with it. */
void fence_forget_context(CUcontext context);

#endif
