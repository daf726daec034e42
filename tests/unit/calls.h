/* SPDX-License-Identifier: MIT */
/*
 * The program's calls for memory, as the shim's hooks hand them on, over the driver of
 * fake_driver.h.
 */
#ifndef SPILLWAY_TEST_CALLS_H
#define SPILLWAY_TEST_CALLS_H

#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/freed.h"

static inline CUresult native_alloc(void *cookie, CUdeviceptr *address)
{
	return driver.cuMemAlloc_v2(address, *(size_t *)cookie);
}

static inline CUresult native_free(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	return driver.cuMemFree_v2(address);
}

static inline CUresult allocate(size_t size, CUdeviceptr *address)
{
	const struct vmem_request request = {.size = size, .native = native_alloc, .cookie = &size};

	return vmem_allocate(&request, address);
}

static inline CUresult release(CUdeviceptr address)
{
	const struct vmem_free how = {.native = native_free};

	return vmem_free(address, &how);
}

#endif
