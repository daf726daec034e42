/* SPDX-License-Identifier: MIT */
/* Attributes of pools. Rules: runs inside the user's process, within its calls. */
#include "core/memory/uses/pool_private.h"

#include "core/budget/terms.h"

CUresult pool_get_attribute(struct pool *pool, CUmemPool_attribute attribute, void *value)
{
	cuuint64_t driver_says, *answer = value;
	uint64_t high = 0, more = 0;
	CUresult result = CUDA_SUCCESS;

	lock_acquire(&pool->lock);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		if (pool->has_threshold && value) {
			*answer = pool->threshold;
			goto out;
		}
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		more = pool_own_used(pool);
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		more = pool_own_reserved(pool);
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		high = pool->used_high;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		high = pool->reserved_high;
		break;
	default:
		break;
	}
	result = CUDA_ERROR_NOT_SUPPORTED;
	if (value && (more || high)) {
		result = driver.cuMemPoolGetAttribute(pool->handle, attribute, &driver_says);
		if (result == CUDA_SUCCESS)
			*answer = driver_says + more > high ? driver_says + more : high;
	}
out:
	lock_release(&pool->lock);
	return result;
}

CUresult pool_set_attribute(struct pool *pool, CUmemPool_attribute attribute, const void *value)
{
	const struct terms terms = terms_of(pool->device);
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (!value)
		return result;
	lock_acquire(&pool->lock);
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		uint64_t wanted = *(const cuuint64_t *)value;
		cuuint64_t clamped = wanted < terms.limit ? wanted : terms.limit;

		result = driver.cuMemPoolSetAttribute(pool->handle, attribute, &clamped);
		if (result == CUDA_SUCCESS) {
			pool->has_threshold = true;
			pool->threshold = wanted;
		}
	} else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !*(const cuuint64_t *)value) {
		pool->used_high = 0; /* and the driver's, by the driver */
	} else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !*(const cuuint64_t *)value) {
		pool->reserved_high = 0;
	}
	if (pool_own_reserved(pool) && result == CUDA_ERROR_NOT_SUPPORTED)
		pool_note_high(pool);
	lock_release(&pool->lock);
	return result;
}
