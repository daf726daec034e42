/*
 * Trying mixed copies. Rules: runs inside the user's process; what was mapped for it is unmapped,
 * in reverse.
 */
#include "core/memory/arena/mixed.h"

#include <stdlib.h>

#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/cuda/mapping.h"
#include "core/budget/terms.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/reach.h"
#include "core/memory/arena/spare.h"
#include "core/cuda/capture.h"

enum { UNKNOWN, POSSIBLE, REFUSED };

#define TO_EITHER_SIDE ((uint64_t)1 << 20)

static _Atomic int known[DEVICE_MAX];

bool mixed_is_possible(struct device *device, const struct terms *terms)
{
	return terms->settings.mixed == MIXED_AUTO &&
	       atomic_load_explicit(&known[device->id.ordinal], memory_order_relaxed) != REFUSED;
}

bool mixed_is_unknown(struct device *device, const struct terms *terms)
{
	return terms->settings.mixed == MIXED_AUTO &&
	       atomic_load_explicit(&known[device->id.ordinal], memory_order_relaxed) == UNKNOWN;
}

/* Another mapping of a chunk, with addresses behind it for memory of the host. */
struct trial {
	CUdeviceptr base; /* 0: none */
	uint64_t size;
};

static CUresult read_over(CUdeviceptr border)
{
	void *host = malloc(2 * TO_EITHER_SIDE);
	CUstream stream;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!host)
		return result;
	result = driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS) {
		result = driver.cuMemcpyAsync((uintptr_t)host, border - TO_EITHER_SIDE,
		                              2 * TO_EITHER_SIDE, stream);
		if (result == CUDA_SUCCESS)
			result = driver.cuStreamSynchronize(stream);
		driver.cuStreamDestroy_v2(stream);
	}
	free(host);
	return result;
}

void mixed_try(struct device *device, const struct terms *terms, CUdeviceptr border)
{
	_Atomic int *what = &known[device->id.ordinal];
	CUresult result;

	if (!mixed_is_unknown(device, terms) || capture_is_active())
		return;
	result = read_over(border);
	if (result == CUDA_SUCCESS)
		atomic_store(what, POSSIBLE);
	if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_NOT_SUPPORTED)
		return; /* of another cause: it is tried again */
	atomic_store(what, REFUSED);
	log_info("gpu %d: the driver refuses copies over memory on both sides (error %d): each "
	         "allocation stays in one place",
	         device->id.ordinal, (int)result);
}

static void map_and_try(struct device *device, const struct terms *terms, const struct trial *trial,
                        CUmemGenericAllocationHandle on_host)
{
	const CUmemAccessDesc access = reach_right(device->handle);
	CUdeviceptr border = trial->base + trial->size;
	struct context context;

	if (driver.cuMemMap(border, ARENA_UNIT, 0, on_host, 0) != CUDA_SUCCESS)
		return;
	if (driver.cuMemSetAccess(trial->base, trial->size + ARENA_UNIT, &access, 1) ==
	        CUDA_SUCCESS &&
	    context_of_device(device, &context) && context_push(context.handle) == CUDA_SUCCESS) {
		mixed_try(device, terms, border);
		context_pop(context.handle);
	}
	mapping_remove(border, ARENA_UNIT);
}

/* Maps a chunk of the device once more and does nothing else, so that it may go meanwhile. */
static bool begin(struct trial *trial, CUmemGenericAllocationHandle on_device, uint64_t size)
{
	trial->size = size;
	if (driver.cuMemAddressReserve(&trial->base, size + ARENA_UNIT, 0, 0, 0) != CUDA_SUCCESS) {
		trial->base = 0;
		return false;
	}
	if (mapping_make(trial->base, size, on_device) == CUDA_SUCCESS)
		return true;
	driver.cuMemAddressFree(trial->base, size + ARENA_UNIT);
	trial->base = 0;
	return false;
}

static bool get_host(struct device *device, const struct terms *terms, struct chunk *host)
{
	if (spare_take(device, host, &host->handle, 1))
		return true;
	if (device_charge_host(device, ARENA_UNIT, terms_host_limit(terms, device)) != 0)
		return false;
	if (spare_create(device, host) == CUDA_SUCCESS)
		return true;
	device_uncharge(device, SEGMENT_ON_HOST, ARENA_UNIT);
	return false;
}

static void end(const struct trial *trial, struct device *device, const struct terms *terms)
{
	struct chunk host = {.size = ARENA_UNIT, .side = SEGMENT_ON_HOST};

	if (get_host(device, terms, &host)) {
		map_and_try(device, terms, trial, host.handle);
		spare_give(device, &host, 1, terms);
	}
	mapping_remove(trial->base, trial->size);
	driver.cuMemAddressFree(trial->base, trial->size + ARENA_UNIT);
}

void mixed_find_out(struct device *device, const struct terms *terms)
{
	struct arena *arena = arena_made(device);
	struct trial trial = {.base = 0};

	if (!arena)
		return;
	lock_acquire(&arena->lock);
	for (uint32_t i = 0; i < arena->top && !trial.base; i++) {
		const struct unit *unit = &arena->units[i];

		if (unit->kind != UNIT_FREE && unit->units && unit->side == SEGMENT_ON_DEVICE &&
		    !begin(&trial, unit->handle, unit->units * ARENA_UNIT))
			break;
	}
	lock_release(&arena->lock);
	/* Mapped once more, the memory lives as long as the trial. */
	if (trial.base)
		end(&trial, device, terms);
}
