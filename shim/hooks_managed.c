/* SPDX-License-Identifier: MIT */
/*
 * Managed memory. Prefetches and advices are work and bring memory to the device: they pass the
 * gate, and are followed as far as the limit allows. What may not come is prefetched to where it
 * is, so that the driver judges the call.
 */
#include <stdlib.h>

#include "shim/shim.h"

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/job.h"
#include "core/memory/alloc/managed.h"

AFTER(cuMemAllocManaged, (CUdeviceptr *, dptr), (size_t, bytesize), (unsigned int, flags))
{
	if (dptr)
		managed_made(*dptr, bytesize);
}

/* Cuts the range to what may come; false: nothing may. */
static bool may_come(CUdeviceptr address, size_t *count)
{
	KEEP_ERRNO;
	size_t most;

	if (!job_is_active())
		return true;
	most = managed_may_come(address, *count);
	if (most)
		*count = most;
	return most != 0 || *count == 0;
}

/* Returns whether it is a device of the job's. One that is not there the driver must refuse. */
static bool is_on_device(CUmemLocation location)
{
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE && job_is_active() &&
	       context_device(location.id);
}

/* Cuts what goes to a device to what may come there. Returns whether any of it may. */
static bool managed_may_go(CUdeviceptr address, size_t *count, CUmemLocation location)
{
	return !is_on_device(location) || may_come(address, count);
}

static void prefetched(CUdeviceptr address, size_t count, CUmemLocation location)
{
	KEEP_ERRNO;

	if (job_is_active())
		managed_prefetched(address, count, location);
}

static const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};

BOTH(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, (CUdeviceptr, devPtr), (size_t, count),
     (CUdevice, dstDevice), (CUstream, hStream))
{
	const CUmemLocation location = managed_location(dstDevice);
	size_t follow = count;
	CUdevice to = managed_may_go(devPtr, &follow, location) ? dstDevice : CU_DEVICE_CPU;
	CUresult result = PASSING_GATE(real(devPtr, follow, to, hStream));

	if (result == CUDA_SUCCESS)
		prefetched(devPtr, count, location);
	return result;
}

BOTH(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, (CUdeviceptr, devPtr), (size_t, count),
     (CUmemLocation, location), (unsigned int, flags), (CUstream, hStream))
{
	size_t follow = count;
	CUmemLocation to = managed_may_go(devPtr, &follow, location) ? location : host;
	CUresult result = PASSING_GATE(real(devPtr, follow, to, flags, hStream));

	if (result == CUDA_SUCCESS)
		prefetched(devPtr, count, location);
	return result;
}

/*
 * Returns whether an advice may be followed, cut to what may come: one that lets pages come,
 * because it prefers a device, or nothing any more. What may not come is to prefer the host.
 */
static bool may_follow(CUdeviceptr address, size_t *count, CUmem_advise advice,
                       CUmemLocation location)
{
	if (advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION &&
	    (advice != CU_MEM_ADVISE_SET_PREFERRED_LOCATION || !is_on_device(location)))
		return true;
	return may_come(address, count);
}

static void advised(CUdeviceptr address, size_t count, CUmem_advise advice, CUmemLocation location,
                    uint64_t mark)
{
	KEEP_ERRNO;

	if (job_is_active())
		managed_advised(address, count, advice, location, mark);
}

HOOK(cuMemAdvise, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	const CUmemLocation location = managed_location(device);
	const uint64_t mark = managed_mark();
	size_t follow = count;
	bool may = may_follow(devPtr, &follow, advice, location);
	CUresult result = PASSING_GATE(
	    REAL(cuMemAdvise)(devPtr, follow, may ? advice : CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	                      may ? device : CU_DEVICE_CPU));

	if (result == CUDA_SUCCESS)
		advised(devPtr, count, advice, location, mark);
	return result;
}

HOOK(cuMemAdvise_v2, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	const uint64_t mark = managed_mark();
	size_t follow = count;
	bool may = may_follow(devPtr, &follow, advice, location);
	CUresult result = PASSING_GATE(REAL(cuMemAdvise_v2)(
	    devPtr, follow, may ? advice : CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
	    may ? location : host));

	if (result == CUDA_SUCCESS)
		advised(devPtr, count, advice, location, mark);
	return result;
}

/* The driver judges the question; what our own advice would answer is put right after. */
AFTER(cuMemRangeGetAttribute, (void *, data), (size_t, dataSize),
      (CUmem_range_attribute, attribute), (CUdeviceptr, devPtr), (size_t, count))
{
	managed_answer(data, dataSize, attribute, devPtr, count);
}

AFTER(cuMemRangeGetAttributes, (void **, data), (size_t *, dataSizes),
      (CUmem_range_attribute *, attributes), (size_t, numAttributes), (CUdeviceptr, devPtr),
      (size_t, count))
{
	for (size_t i = 0; i < numAttributes; i++)
		managed_answer(data[i], dataSizes[i], attributes[i], devPtr, count);
}

/*
 * Gives the driver the batch with each range cut to what may come, and with a location of its own.
 * A range of which nothing may come is prefetched to the host. For example, with 4 MiB left below
 * the limit a batch of 2, 4 and 2 MiB to the device becomes 2 and 2 MiB to the device and 2 MiB to
 * the host. A batch with wrong indices is for the driver to refuse.
 */
static CUresult prefetch_batch(typeof(cuMemPrefetchBatchAsync) *real, CUdeviceptr *dptrs,
                               size_t *sizes, size_t count, CUmemLocation *locations, size_t *first,
                               size_t location_count, unsigned long long flags, CUstream stream)
{
	KEEP_ERRNO;
	CUmemLocation *wanted = NULL, *to;
	size_t *follow, *each, at = 0;
	CUresult result;

	if (job_is_active() && dptrs && sizes && locations && first && location_count &&
	    !(wanted = calloc(count, 2 * sizeof *follow + 2 * sizeof *wanted)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!wanted)
		return PASSING_GATE(
		    real(dptrs, sizes, count, locations, first, location_count, flags, stream));
	to = wanted + count;
	follow = (size_t *)(to + count);
	each = follow + count;
	for (size_t i = 0; i < count; i++) {
		at += at + 1 < location_count && first[at + 1] == i;
		each[i] = i;
		follow[i] = sizes[i];
		wanted[i] = locations[at];
		to[i] = managed_may_go(dptrs[i], &follow[i], wanted[i]) ? wanted[i] : host;
	}
	if (first[0] == 0 && at + 1 == location_count)
		result = PASSING_GATE(real(dptrs, follow, count, to, each, count, flags, stream));
	else
		result = PASSING_GATE(
		    real(dptrs, sizes, count, locations, first, location_count, flags, stream));
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		prefetched(dptrs[i], sizes[i], wanted[i]);
	free(wanted);
	return result;
}

#define PREFETCH_BATCH(symbol)                                                                     \
	HOOK(symbol, CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, \
	     size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,            \
	     CUstream hStream)                                                                     \
	{                                                                                          \
		return prefetch_batch(REAL(symbol), dptrs, sizes, count, prefetchLocs,             \
		                      prefetchLocIdxs, numPrefetchLocs, flags, hStream);           \
	}
PREFETCH_BATCH(cuMemPrefetchBatchAsync)
PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)

/* Contents go, the charge stays: what is discarded comes back with the next touch. */
GATED_2(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, (CUdeviceptr *, dptrs),
        (size_t *, sizes), (size_t, count), (unsigned long long, flags), (CUstream, hStream))
