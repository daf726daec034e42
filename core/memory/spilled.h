/*
 * Spilled memory on its way back to the host.
 *
 * The driver's own cuMemFree waits for the work that may use the memory; so must we, and the driver forbids to wait
 * while a stream is captured. Where its own free would succeed in spite of that, the program is told it did: the
 * memory has left the books by then, so that nobody finds it, and is postponed: it stays charged, and goes when no
 * capture is active any more and the program makes a call that may wait. Thread-safe.
 */
#ifndef SPILLWAY_SPILLED_H
#define SPILLWAY_SPILLED_H

#include "core/memory/vmem.h"

struct allocation;

/* Frees one that has left the books. False: it is still there, with *result for the program. */
bool spilled_free(struct allocation *allocation, const struct vmem_free *how, CUresult *result);
/* Likewise in a context that goes now; nobody is asked. */
void spilled_leave(struct allocation *allocation);

/* Whether the address is in memory that the program has freed: the driver still knows it. */
bool spilled_is_postponed(CUdeviceptr address);
/* Waits and frees what was postponed, unless a capture is active: in calls that wait anyway, or may. */
void spilled_settle(void);
/* Likewise in a context that is about to be destroyed (alive) or was, captures or not. */
void spilled_settle_context(CUcontext context, bool alive);

#endif
