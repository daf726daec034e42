/* SPDX-License-Identifier: MIT */
/*
 * Providers: ways of making host memory that kernels reach like device memory.
 *
 *   managed  200: managed memory that prefers the host and is mapped for the device
 *   pinned   100: page-locked host memory mapped into the device's address space
 *
 * Each is found to work by trying it; the one with the highest priority that works serves the
 * device.
 */
#ifndef SPILLWAY_PROVIDER_H
#define SPILLWAY_PROVIDER_H

#include "core/budget/device.h"
#include "core/registry/factory.h"

struct allocation;

struct backing {
	const struct provider *provider;
	CUdeviceptr address;
	size_t size; /* bytes really taken, at least what was asked for */
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

extern const struct provider provider_managed, provider_pinned;

/*
 * Makes host backing of at least size bytes by the wanted kind (SPILL_AUTO: the best that has it).
 * Returns the last provider's error when none has it; one that cannot work here is not tried again.
 */
CUresult provider_allocate(struct device *device, enum config_spill wanted, size_t size,
                           struct backing *backing);

#endif
