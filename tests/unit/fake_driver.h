/* SPDX-License-Identifier: MIT */
/*
 * A driver for unit tests of core/memory: it counts the memory that is held, finds misuse, and
 * fails on demand. Included once by a test program; it defines `driver`.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda/driver.h"

struct driver driver;

enum { FAKE_LIVE_MAX = 4096 };

/* Everything live, by kind; addresses and handles count up from 1 << 32. */
enum fake_kind {
	FAKE_DEVICE,
	FAKE_MANAGED,
	FAKE_PINNED,
	FAKE_PHYSICAL,
	FAKE_RESERVED,
	FAKE_MAPPED
};

struct fake_object {
	enum fake_kind kind;
	unsigned long long id;
	size_t size;
	bool on_device;
};

static struct {
	struct fake_object live[FAKE_LIVE_MAX];
	int count;
	unsigned long long next;
	size_t device_bytes, device_size;
	bool no_host_numa, no_host_vmm, no_managed;
	long calls;   /* of everything that can fail */
	long fail_at; /* the n-th fails; 0: none */
	CUresult failure;
	int misuse;
	CUcontext current;
} fake;

static bool fake_fails(void)
{
	return ++fake.calls == fake.fail_at;
}

#define FAKE_STEP()                          \
	do {                                 \
		if (fake_fails())            \
			return fake.failure; \
	} while (0)

static struct fake_object *fake_find(enum fake_kind kind, unsigned long long id)
{
	for (int i = 0; i < fake.count; i++) {
		if (fake.live[i].kind == kind && fake.live[i].id == id)
			return &fake.live[i];
	}
	return NULL;
}

static unsigned long long fake_add(enum fake_kind kind, unsigned long long id, size_t size,
                                   bool on_device)
{
	if (!id) {
		id = fake.next;
		fake.next += (size + 0xfffff) & ~0xfffffull;
		fake.next += 0x100000;
	}
	fake.live[fake.count++] = (struct fake_object){kind, id, size, on_device};
	if (on_device)
		fake.device_bytes += size;
	return id;
}

static CUresult fake_remove(enum fake_kind kind, unsigned long long id)
{
	struct fake_object *o = fake_find(kind, id);

	if (!o) {
		fake.misuse++;
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (o->on_device)
		fake.device_bytes -= o->size;
	*o = fake.live[--fake.count];
	return CUDA_SUCCESS;
}

static CUresult fake_alloc(CUdeviceptr *p, size_t size)
{
	FAKE_STEP();
	if (fake.device_bytes + size > fake.device_size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*p = fake_add(FAKE_DEVICE, 0, size, true);
	return CUDA_SUCCESS;
}

static CUresult fake_free(CUdeviceptr p)
{
	FAKE_STEP();
	return fake_find(FAKE_MANAGED, p) ? fake_remove(FAKE_MANAGED, p)
	                                  : fake_remove(FAKE_DEVICE, p);
}

static CUresult fake_alloc_managed(CUdeviceptr *p, size_t size, unsigned int flags)
{
	(void)flags;
	FAKE_STEP();
	if (fake.no_managed)
		return CUDA_ERROR_NOT_SUPPORTED;
	*p = fake_add(FAKE_MANAGED, 0, size, false);
	return CUDA_SUCCESS;
}

static CUresult fake_host_alloc(void **p, size_t size, unsigned int flags)
{
	(void)flags;
	FAKE_STEP();
	*p = (void *)(uintptr_t)fake_add(FAKE_PINNED, 0, size, false);
	return CUDA_SUCCESS;
}

static CUresult fake_host_pointer(CUdeviceptr *p, void *host, unsigned int flags)
{
	(void)flags;
	FAKE_STEP();
	*p = (CUdeviceptr)(uintptr_t)host;
	return CUDA_SUCCESS;
}

static CUresult fake_free_host(void *p)
{
	FAKE_STEP();
	return fake_remove(FAKE_PINNED, (uintptr_t)p);
}

static CUresult fake_create(CUmemGenericAllocationHandle *h, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
	bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;

	(void)flags;
	FAKE_STEP();
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
	    (fake.no_host_numa || fake.no_host_vmm))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST && fake.no_host_vmm)
		return CUDA_ERROR_INVALID_VALUE;
	if (on_device && fake.device_bytes + size > fake.device_size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*h = fake_add(FAKE_PHYSICAL, 0, size, on_device);
	return CUDA_SUCCESS;
}

static CUresult fake_release(CUmemGenericAllocationHandle h)
{
	FAKE_STEP();
	return fake_remove(FAKE_PHYSICAL, h);
}

static CUresult fake_reserve(CUdeviceptr *p, size_t size, size_t align, CUdeviceptr at,
                             unsigned long long flags)
{
	(void)align, (void)at, (void)flags;
	FAKE_STEP();
	*p = fake_add(FAKE_RESERVED, 0, size, false);
	return CUDA_SUCCESS;
}

static CUresult fake_unreserve(CUdeviceptr p, size_t size)
{
	(void)size;
	FAKE_STEP();
	if (fake_find(FAKE_MAPPED, p))
		fake.misuse++;
	return fake_remove(FAKE_RESERVED, p);
}

static CUresult fake_map(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h,
                         unsigned long long flags)
{
	(void)offset, (void)flags;
	FAKE_STEP();
	if (!fake_find(FAKE_PHYSICAL, h) || !fake_find(FAKE_RESERVED, p))
		fake.misuse++;
	fake_add(FAKE_MAPPED, p, size, false);
	return CUDA_SUCCESS;
}

static CUresult fake_unmap(CUdeviceptr p, size_t size)
{
	(void)size;
	FAKE_STEP();
	return fake_remove(FAKE_MAPPED, p);
}

static CUresult fake_set_access(CUdeviceptr p, size_t size, const CUmemAccessDesc *d, size_t n)
{
	(void)p, (void)size, (void)d, (void)n;
	FAKE_STEP();
	return CUDA_SUCCESS;
}

static CUresult fake_advise(CUdeviceptr p, size_t n, CUmem_advise advice, CUdevice device)
{
	(void)p, (void)n, (void)advice, (void)device;
	return CUDA_SUCCESS;
}

static CUresult fake_granularity(size_t *g, const CUmemAllocationProp *prop,
                                 CUmemAllocationGranularity_flags option)
{
	(void)prop, (void)option;
	*g = (size_t)2 << 20;
	return CUDA_SUCCESS;
}

static CUresult fake_current(CUcontext *context)
{
	*context = fake.current;
	return CUDA_SUCCESS;
}

static CUresult fake_context_device(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult fake_synchronize(void)
{
	FAKE_STEP();
	return CUDA_SUCCESS;
}

static CUresult fake_push(CUcontext context)
{
	FAKE_STEP();
	fake.current = context;
	return CUDA_SUCCESS;
}

static CUresult fake_pop(CUcontext *context)
{
	*context = fake.current;
	return CUDA_SUCCESS;
}

static CUresult fake_count(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

static CUresult fake_device(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

static CUresult fake_uuid(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 0x11 + device, sizeof(*uuid));
	return CUDA_SUCCESS;
}

static CUresult fake_pci(char *text, int size, CUdevice device)
{
	snprintf(text, (size_t)size, "0000:%02x:00.0", device + 1);
	return CUDA_SUCCESS;
}

static CUresult fake_name(char *text, int size, CUdevice device)
{
	(void)device;
	snprintf(text, (size_t)size, "fake");
	return CUDA_SUCCESS;
}

static CUresult fake_total(size_t *bytes, CUdevice device)
{
	(void)device;
	*bytes = fake.device_size;
	return CUDA_SUCCESS;
}

static CUresult fake_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)attribute, (void)device;
	*value = 0;
	return CUDA_SUCCESS;
}

static void fake_driver_reset(size_t device_size)
{
	memset(&fake, 0, sizeof(fake));
	fake.device_size = device_size;
	fake.next = 1ull << 32;
	fake.failure = CUDA_ERROR_OUT_OF_MEMORY;
	fake.current = (CUcontext)(uintptr_t)0xc0de;
	driver.cuMemAlloc_v2 = fake_alloc;
	driver.cuMemFree_v2 = fake_free;
	driver.cuMemAllocManaged = fake_alloc_managed;
	driver.cuMemAdvise = fake_advise;
	driver.cuMemHostAlloc = fake_host_alloc;
	driver.cuMemHostGetDevicePointer_v2 = fake_host_pointer;
	driver.cuMemFreeHost = fake_free_host;
	driver.cuMemCreate = fake_create;
	driver.cuMemRelease = fake_release;
	driver.cuMemAddressReserve = fake_reserve;
	driver.cuMemAddressFree = fake_unreserve;
	driver.cuMemMap = fake_map;
	driver.cuMemUnmap = fake_unmap;
	driver.cuMemSetAccess = fake_set_access;
	driver.cuMemGetAllocationGranularity = fake_granularity;
	driver.cuCtxGetCurrent = fake_current;
	driver.cuCtxGetDevice = fake_context_device;
	driver.cuCtxSynchronize = fake_synchronize;
	driver.cuCtxPushCurrent_v2 = fake_push;
	driver.cuCtxPopCurrent_v2 = fake_pop;
	driver.cuDeviceGetCount = fake_count;
	driver.cuDeviceGet = fake_device;
	driver.cuDeviceGetUuid_v2 = fake_uuid;
	driver.cuDeviceGetUuid = fake_uuid;
	driver.cuDeviceGetPCIBusId = fake_pci;
	driver.cuDeviceGetName = fake_name;
	driver.cuDeviceTotalMem_v2 = fake_total;
	driver.cuDeviceGetAttribute = fake_attribute;
}

#endif
