/*
 * Placing: from where a request for memory is served: the arena, the driver, or the host for good.
 *
 * A request is charged to the job's quota and served on the device; what exceeds the limit, or what a full device
 * refuses, is placed on the host by the best provider, at an address that kernels, copies and memsets use like any
 * other. Thread-safe.
 */
#ifndef SPILLWAY_PLACING_H
#define SPILLWAY_PLACING_H

#include <stddef.h>
#include <stdint.h>

#include "core/cuda/driver.h"

struct context;
struct vmem_request;

/* One try, in this context; *address is set on success only. As vmem_allocate() else. */
CUresult placing_serve(const struct context *context, const struct vmem_request *request,
                       CUdeviceptr *address);
/* How many bytes the driver takes for an allocation of its own. */
uint64_t placing_rounded(size_t size);

#endif
