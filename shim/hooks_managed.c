/*
 * Managed memory. Prefetches and advices are work and bring memory to the device: they pass the gate, and are followed
 * as far as the limit allows. What may not come is prefetched to where it is, so that the driver judges the call.
 */
#include "shim/shim.h"

#include "core/job.h"
#include "core/memory/managed.h"

HOOK(cuMemAllocManaged, CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemAllocManaged)(dptr, bytesize, flags);

	if (result == CUDA_SUCCESS && dptr && job_is_active())
		managed_made(*dptr, bytesize);
	return result;
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

#define PREFETCH(symbol)                                                                     \
	HOOK(symbol, CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) \
	{                                                                                    \
		if (dstDevice != CU_DEVICE_CPU && !may_come(devPtr, &count))                 \
			dstDevice = CU_DEVICE_CPU;                                           \
		return PASSING_GATE(REAL(symbol)(devPtr, count, dstDevice, hStream));        \
	}
PREFETCH(cuMemPrefetchAsync)
PREFETCH(cuMemPrefetchAsync_ptsz)

static const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};

#define PREFETCH_V2(symbol)                                                                        \
	HOOK(symbol, CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, \
	     CUstream hStream)                                                                     \
	{                                                                                          \
		if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !may_come(devPtr, &count))     \
			location = host;                                                           \
		return PASSING_GATE(REAL(symbol)(devPtr, count, location, flags, hStream));        \
	}
PREFETCH_V2(cuMemPrefetchAsync_v2)
PREFETCH_V2(cuMemPrefetchAsync_v2_ptsz)

/* An advice to prefer a device, or to prefer nothing any more, lets pages come. */
static bool lets_come(CUmem_advise advice, bool device)
{
	return advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION ||
	       (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && device);
}

HOOK(cuMemAdvise, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	if (lets_come(advice, device != CU_DEVICE_CPU) && !may_come(devPtr, &count)) {
		advice = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
		device = CU_DEVICE_CPU;
	}
	return PASSING_GATE(REAL(cuMemAdvise)(devPtr, count, advice, device));
}

HOOK(cuMemAdvise_v2, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	if (lets_come(advice, location.type == CU_MEM_LOCATION_TYPE_DEVICE) &&
	    !may_come(devPtr, &count)) {
		advice = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
		location = host;
	}
	return PASSING_GATE(REAL(cuMemAdvise_v2)(devPtr, count, advice, location));
}

/* Batches are charged as far as the limit allows, and followed as they are: a part cannot be left out of one call. */
static void charge_batch(const CUdeviceptr *dptrs, const size_t *sizes, size_t count)
{
	for (size_t i = 0; dptrs && sizes && i < count; i++) {
		size_t size = sizes[i];

		may_come(dptrs[i], &size);
	}
}

#define PREFETCH_BATCH(symbol)                                                                     \
	HOOK(symbol, CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, \
	     size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,            \
	     CUstream hStream)                                                                     \
	{                                                                                          \
		charge_batch(dptrs, sizes, count);                                                 \
		return PASSING_GATE(REAL(symbol)(dptrs, sizes, count, prefetchLocs,                \
		                                 prefetchLocIdxs, numPrefetchLocs, flags,          \
		                                 hStream));                                        \
	}
PREFETCH_BATCH(cuMemPrefetchBatchAsync)
PREFETCH_BATCH(cuMemPrefetchBatchAsync_ptsz)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync)
PREFETCH_BATCH(cuMemDiscardAndPrefetchBatchAsync_ptsz)

/* Contents go, the charge stays: what is discarded comes back with the next touch. */
GATED_2(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, (CUdeviceptr *, dptrs),
        (size_t *, sizes), (size_t, count), (unsigned long long, flags), (CUstream, hStream))
