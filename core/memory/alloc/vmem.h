/*
 * vmem: the allocator behind cuMemAlloc and its kin.
 *
 * A request is charged to the job's quota and served by the driver on the device; what exceeds the
 * limit, or what a full device refuses, is spilled: placed on the host by the best provider, at an
 * address that kernels, copies and memsets use like any other. To the application it is device
 * memory.
 *
 * Everything here answers with CUresults the API called may return. Thread-safe.
 */
#ifndef SPILLWAY_VMEM_H
#define SPILLWAY_VMEM_H

#include <stdbool.h>

#include "core/cuda/driver.h"
#include "core/budget/reported.h"
#include "core/state/segment.h"

struct allocation;
struct context;
struct deadline;
struct device;
struct device_set;
struct pool;

/* One request: how the driver itself would serve it, and how many bytes it stands for. */
struct vmem_request {
	size_t size;
	CUresult (*native)(void *cookie, CUdeviceptr *address);
	void *cookie;
	struct pool *pool;      /* the driver serves it from, NULL: none */
	CUstream stream;        /* then, by its explicit name */
	struct deadline *until; /* vmem_allocate()'s: for all that is waited for on its way */
};

/*
 * Serves a request in the current context; *address is set on success only. What is not ours to
 * judge (no context, size 0, NULL) is left to the driver.
 */
CUresult vmem_allocate(const struct vmem_request *request, CUdeviceptr *address);

/* What ACTION_PRE_ALLOC and ACTION_POST_ALLOC act on. */
struct vmem_act {
	const struct vmem_request *request;
	/* afterwards: */
	CUresult result;
	CUdeviceptr address; /* where it is a success */
};

/*
 * Frees. native() frees what the driver made. Before spilled memory goes, `wait` says for what: all work
 * of its context, as cuMemFree does (NULL), or what was put on this stream, as cuMemFreeAsync promises.
 * Addresses Spillway does not know are the driver's to judge.
 */
struct vmem_free {
	CUresult (*native)(void *cookie, CUdeviceptr address);
	void *cookie;
	CUstream wait;
};
CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how);

/* The elastic or spilled allocation around an address. A reference for the caller, or NULL. */
struct allocation *vmem_at(CUdeviceptr address);
/* Whether the address is where the program has nothing any more, although the driver still knows it. */
bool vmem_is_gone(CUdeviceptr address);
/* From here on allocations live in the arena where there can be one: somebody named or limited the job. */
void vmem_start(bool is_elastic);
bool vmem_is_elastic(void);

/* The driver has destroyed a context: what is ours of the memory made in it goes. */
void vmem_forget_context(const struct context *context);

/* After that: a device without a context keeps nothing for the next allocation. */
void vmem_left_context(struct device_set *devices);

/* The program has waited for work: what it has freed and need not be kept goes. */
void vmem_waited(void);

/* What the device has to the application: `limit` bytes instead of the hardware's. Counted where the host had more. */
uint64_t vmem_reported_total(struct device *device, uint64_t hardware);
bool vmem_reported_memory(struct device *device,
                          struct reported *memory); /* as reported_memory() */
void vmem_reported_info(struct device *device, size_t *free, size_t *total);

#endif
