/* SPDX-License-Identifier: MIT */
/*
 * Allocation: the application's request by cuMemAlloc and its kin, as a registry resource.
 *
 * Its last reference gives its bytes back to the quota; the memory itself is freed before that by
 * freed.c. Spilled and managed allocations are also in the address map, so that a pointer into the
 * middle of one is recognised.
 *
 * The driver's own plain memory (no arena) is charged the most that the driver takes for it: whole
 * pages of 2 MiB. In a job without a name and a limit small requests count 512 bytes, because the
 * driver has them share a page and no limit depends on it.
 */
#ifndef SPILLWAY_ALLOCATION_H
#define SPILLWAY_ALLOCATION_H

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/uses/pool.h"
#include "core/registry/factory.h"

/*
 * Providers: ways of making host memory that kernels reach like device memory.
 *
 *   managed  200: managed memory that prefers the host and is mapped for the device
 *   pinned   100: page-locked host memory mapped into the device's address space
 *
 * Each is found to work by trying it; the one with the highest priority that works serves the
 * device.
 */

struct advice_book;
struct allocation;

struct backing {
	const struct provider *provider;
	CUdeviceptr address;
	size_t size; /* bytes really taken, at least the requested ones */
	void *host;  /* pinned */
};

struct provider {
	struct factory factory;
	enum config_spill kind;
	bool outlives_context; /* else the memory goes with the context it was made in */
	/* Makes memory while the device's context is current. Fills *backing on success only. */
	CUresult (*allocate)(struct device *device, size_t size, struct backing *backing);
	/* Releases memory that no work of any stream may touch any more. */
	CUresult (*release)(const struct allocation *allocation);
};

/*
 * Makes host backing of at least size bytes by the wanted kind (SPILL_AUTO: the best that has it).
 * Returns the last provider's error when none has it; one that cannot work here is not tried again.
 */
CUresult provider_allocate(struct device *device, enum config_spill wanted, size_t size,
                           struct backing *backing);

/* How far a stream had come where something was freed (freed.c). */
struct stream_point {
	CUcontext context;
	CUstream stream; /* NULL: it is gone */
	uint64_t thread; /* the thread of this default stream; 0: any other stream */
	uint64_t order;  /* of the frees: later is more */
	CUevent event;   /* recorded there; NULL: it has been passed */
};

struct allocation {
	struct resource resource;
	struct context context; /* it was made in */
	CUdeviceptr address;
	size_t size;      /* as asked for */
	const void *site; /* the program's call, by its return address */
	enum segment_tier tier;
	bool is_managed;
	_Atomic bool is_in_books; /* else it was freed, and goes as soon as may be */
	_Atomic bool is_shared;   /* another process may have it open: it must stay where it is */
	_Atomic uint64_t exported_as; /* a key of exported.h; 0: none */
	_Atomic bool is_in_order;   /* synchronous calls that touch it are done when they return */
	_Atomic uint64_t buffer_id; /* the number that programs know it by; 0: never asked for */
	_Atomic bool is_given_away; /* it has, or had, a number in ipc/server.c */
	_Atomic uint64_t shared_as; /* its number in ipc/server.c; 0: it has none */
	_Atomic uint64_t
	    charged; /* of managed memory it grows; lists of resources read it any time */
	struct backing
	    backing; /* made by us: elastic or spilled; its chunks are charged by themselves */
	struct pool *pool;  /* it was asked of, NULL: none; holds a reference */
	uint64_t pool_live; /* bytes in use of the pool's: on the device it is charged for them */
	uint64_t pool_span; /* elastic: bytes of the pool's reserve */
	struct advice_book
	    *advice; /* managed: of the part held back when it was made; NULL: none */
	/* freed.c's: the next of those that wait for the same, and for which event */
	struct allocation *freed_next;
	struct stream_point freed_at;
};

extern const struct resource_type allocation_type;

/* Notes that the driver has made a handle of the allocation by which other processes open it. */
void allocation_exported(struct allocation *allocation, const void *handle, size_t size);

/*
 * Makes an allocation with one reference, the caller's; returns NULL without memory for it. Takes
 * over bytes already charged to the device.
 */
struct allocation *allocation_create(const struct context *context, CUdeviceptr address,
                                     size_t size, enum segment_tier tier, uint64_t charged);
/* Does the same in an arena, at this time (clock_coarse()); the caller sets both addresses. */
struct allocation *allocation_create_elastic(const struct context *context, size_t size,
                                             uint64_t now_ns);
/* Does the same for a block of a slab of the driver's (small.h). */
struct allocation *allocation_create_small(const struct context *context, size_t size,
                                           uint64_t now_ns);
/* Returns whether the allocation lives in an arena. */
bool elastic_is(const struct allocation *allocation);
/* Returns whether it is a block of a slab of the driver's. */
bool small_is(const struct allocation *allocation);
/* Gives back memory that was made by us and is no longer in use. */
CUresult allocation_give_back(const struct allocation *allocation);
/*
 * Returns how many bytes the driver takes for an allocation of its own. is_exact: at most;
 * otherwise small ones are taken to share a page.
 */
uint64_t allocation_rounded(size_t size, bool is_exact);
/*
 * Enters it in the registry (and the address map), in the place of one that is leaving or gone;
 * takes over the reference.
 */
int allocation_enter(struct allocation *allocation);
/* Takes it out of both; false when another thread was quicker. The caller needs its own reference.
 */
bool allocation_leave(struct allocation *allocation);
/*
 * Takes an allocation of an arena, about which no driver is asked, out of the registry and the
 * address map; the books' reference becomes the caller's. Returns NULL if there is none, or another
 * thread was quicker.
 */
struct allocation *allocation_take(struct device *device, CUdeviceptr address);
/*
 * Takes an allocation of the driver's own, which it has freed, out of the registry: the one that
 * stood under the address before the driver was asked. Returns it in the same way.
 */
struct allocation *allocation_take_before(CUdeviceptr address, const struct before_leaving *before);
/* Ends the leaving of an allocation, in the registry and the address map. */
bool allocation_left(const struct leaving *leaving, bool gone);
/*
 * Finds an allocation by its first address, with any context current. Returns it with a reference,
 * or NULL.
 */
struct allocation *allocation_find(CUdeviceptr address);
/* Finds the allocation around an address of a slab of the driver's; likewise. */
struct allocation *allocation_in_slab(CUdeviceptr address);
/* Finds the allocation around an address of an arena. Returns it with a reference, or NULL. */
struct allocation *allocation_in_arena(CUdeviceptr address);
/*
 * Finds the elastic, small or spilled allocation around an address. Returns it with a reference, or
 * NULL.
 */
struct allocation *vmem_at(CUdeviceptr address);
/*
 * Finds the managed or spilled allocation that holds this address. Returns it with a reference, or
 * NULL.
 */
struct allocation *allocation_mapped_at(CUdeviceptr address, bool is_managed);

#endif
