/* SPDX-License-Identifier: MIT */
/*
 * Managed memory. Prefetches and advices are work and bring memory to the device: they pass the
 * gate, and are followed as far as the limit allows. What may not come is prefetched to where it
 * is, so that the driver judges the call.
 */
#include "shim/shim.h"

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/job.h"
#include "core/memory/alloc/advice.h"
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
static bool may_go(CUdeviceptr address, size_t *count, CUmemLocation location)
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
	const CUmemLocation location = advice_location(dstDevice);
	size_t follow = count;
	CUdevice to = may_go(devPtr, &follow, location) ? dstDevice : CU_DEVICE_CPU;
	CUresult result = PASSING_GATE(real(devPtr, follow, to, hStream));

	if (result == CUDA_SUCCESS)
		prefetched(devPtr, count, location);
	return result;
}

BOTH(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz, (CUdeviceptr, devPtr), (size_t, count),
     (CUmemLocation, location), (unsigned int, flags), (CUstream, hStream))
{
	size_t follow = count;
	CUmemLocation to = may_go(devPtr, &follow, location) ? location : host;
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
	const CUmemLocation location = advice_location(device);
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
 * Batches are charged as far as the limit allows, and followed as they are: a part cannot be left
 * out of one call.
 */
static void charge_batch(const CUdeviceptr *dptrs, const size_t *sizes, size_t count)
{
	for (size_t i = 0; dptrs && sizes && i < count; i++) {
		size_t size = sizes[i];

		may_come(dptrs[i], &size);
	}
}

/*
 * Notes what a batch prefetched. Each location is for the ranges from its index up to the next
 * one's.
 */
static void batch_prefetched(const CUdeviceptr *dptrs, const size_t *sizes, size_t count,
                             const CUmemLocation *locations, const size_t *first,
                             size_t locations_count)
{
	for (size_t i = 0; i < locations_count; i++) {
		size_t end = i + 1 < locations_count ? first[i + 1] : count;

		for (size_t range = first[i]; range < end && range < count; range++)
			prefetched(dptrs[range], sizes[range], locations[i]);
	}
}

#define PREFETCH_BATCH(symbol)                                                                     \
	HOOK(symbol, CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, \
	     size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,            \
	     CUstream hStream)                                                                     \
	{                                                                                          \
		charge_batch(dptrs, sizes, count);                                                 \
		CUresult result =                                                                  \
		    PASSING_GATE(REAL(symbol)(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,  \
		                              numPrefetchLocs, flags, hStream));                   \
		if (result == CUDA_SUCCESS && dptrs && sizes && prefetchLocs && prefetchLocIdxs)   \
			batch_prefetched(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,       \
			                 numPrefetchLocs);                                         \
		return result;                                                                     \
	}
PREFETCH_BATCH(cuMemPrefetchBatchAsync)
PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)

/* Contents go, the charge stays: what is discarded comes back with the next touch. */
GATED_2(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, (CUdeviceptr *, dptrs),
        (size_t *, sizes), (size_t, count), (unsigned long long, flags), (CUstream, hStream))
