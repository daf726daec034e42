/*
 * Elastic and spilled memory on its way back.
 *
 * The driver's own cuMemFree waits for the work that may use the memory; so must we. Memory that is not waited for has
 * left the books, so that nobody finds it, and stays charged until it goes:
 *
 * deferred   deferred_free says so, or it is freed in stream order: it goes when a fence (fence.h) that was set after the free has been passed, which is
 *            looked at in later calls. Where there can be no fence, it is waited for after all
 * postponed  the driver forbids to wait while a stream is captured. Where its own free would succeed in spite of that,
 *            the program is told it did; the memory goes when no capture is active any more and the program makes a
 *            call that may wait
 *
 * Thread-safe.
 */
#ifndef SPILLWAY_SPILLED_H
#define SPILLWAY_SPILLED_H

#include <stdbool.h>

#include "core/cuda/driver.h"

struct allocation;

/* Frees one that has left the books; wait: as in struct vmem_free. What the program is told. */
CUresult spilled_free(struct allocation *allocation, CUstream wait);
/* One that has left the books goes when everything was waited for. Takes a reference of its own. */
void spilled_postpone(struct allocation *allocation);

/* Whether the address is in memory that the program has freed: the driver still knows it. */
bool spilled_is_freed(CUdeviceptr address);
/* Gives back what is behind a fence that was passed. Never waits; any call may do it. */
void spilled_poll(void);
/* Likewise, and waits for what was postponed, unless a capture is active: in calls that wait anyway, or may. */
void spilled_settle(void);
/* Puts what was postponed behind a fence instead, where it can be: in calls that may not wait. */
void spilled_fence(void);
/* Whether anything is behind a fence, and how many bytes have come back from there. */
bool spilled_is_pending(void);
uint64_t spilled_came_back(void);
/* Waits for all that was freed, however long it takes. Whether anything came back. */
bool spilled_wait(void);
/*
 * A context is gone: what was freed or postponed in it goes, once the others' work is done, or as soon as no capture is
 * active. What the driver has freed with it is not freed again.
 */
void spilled_forget_context(CUcontext context);

#endif
