/* SPDX-License-Identifier: MIT */
/* Peer access: the memory of one device seen by another. Here it holds for devices, not contexts.
 */
#include "tests/softgpu/memory.h"

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer_ordinal)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!can)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device_of(ordinal) || !device_of(peer_ordinal))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	*can = ordinal != peer_ordinal;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
                                        CUdevice source, CUdevice destination)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
	    attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device_of(source) || !device_of(destination) || source == destination)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	*value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
	         attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
	return leave(CUDA_SUCCESS);
}

/* Opens or closes all plain allocations of `owner` to `device`, those to come included. */
static void let(struct device *owner, struct device *device, bool access)
{
	uint32_t bit = 1U << device->index;
	owner->peers = access ? owner->peers | bit : owner->peers & ~bit;
	pthread_rwlock_wrlock(&memory_lock);
	struct range *range;
	for (size_t i = 0; (range = range_at(i)); i++) {
		if (range->device != owner->index ||
		    (range->kind != RANGE_DEVICE && range->kind != RANGE_MODULE))
			continue;
		uint64_t first = range->base & ~(GRANULARITY - 1);
		uint64_t end = (range->base + range->size + GRANULARITY - 1) & ~(GRANULARITY - 1);
		window_allow(first, end - first, device, access, access);
	}
	pthread_rwlock_unlock(&memory_lock);
}

static CUresult change(const char *call, CUcontext peer_handle, unsigned int flags, bool access)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *peer = context_find(peer_handle);
	if (!peer)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (flags != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (peer->device == context->device)
		return leave(access ? CUDA_ERROR_INVALID_DEVICE
		                    : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	bool has = peer->device->peers >> context->device->index & 1;
	if (has == access)
		return leave(access ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
		                    : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	let(peer->device, context->device, access);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	return change(__func__, peer, flags, true);
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	return change(__func__, peer, 0, false);
}
