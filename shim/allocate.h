/* SPDX-License-Identifier: MIT */
/* Allocating, with the actions on allocations around it. */
#ifndef SPILLWAY_SHIM_ALLOCATE_H
#define SPILLWAY_SHIM_ALLOCATE_H

#include "core/budget/refusal.h"
#include "core/memory/alloc/allocate.h"
#include "core/registry/actions.h"

/* Allocates as vmem_allocate() does. Inlined, so that the return address is the hook's. */
__attribute__((always_inline)) static inline CUresult
allocate_acted_on(const struct vmem_request *request, CUdeviceptr *address)
{
	struct vmem_act act = {.request = request};

	refusal_site = __builtin_return_address(0);
	act.result = actions_run(ACTION_PRE_ALLOC, &act);
	if (act.result == CUDA_SUCCESS)
		act.result = vmem_allocate(request, address);
	if (actions_are_any(ACTION_POST_ALLOC)) {
		act.address = act.result == CUDA_SUCCESS && address ? *address : 0;
		actions_run(ACTION_POST_ALLOC, &act);
	}
	return act.result;
}

#endif
