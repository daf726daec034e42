/* SPDX-License-Identifier: MIT */
/*
 * Occupancy: how many blocks of a function are resident on a multiprocessor. Here threads, blocks
 * and shared memory limit it; the executor has as many registers as a kernel wants.
 */
#include "tests/softgpu/occupancy.h"

#define SHARED_UNIT 128

int blocks_per_multiprocessor(const struct function *function, unsigned int threads,
                              size_t dynamic_shared)
{
	if (threads == 0 || threads > function->info->max_threads)
		return 0;
	unsigned int warps = (threads + 31) / 32;
	size_t blocks = THREADS_PER_MULTIPROCESSOR / (warps * 32);
	if (blocks > BLOCKS_PER_MULTIPROCESSOR)
		blocks = BLOCKS_PER_MULTIPROCESSOR;
	size_t shared = function->info->shared_bytes + dynamic_shared + SHARED_RESERVED;
	shared = (shared + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
	size_t fit = SHARED_PER_MULTIPROCESSOR / shared;
	return (int)(blocks < fit ? blocks : fit);
}

static CUresult enter_function(const char *call, CUfunction handle, struct function **function)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result = function_find(handle, context, function);
	return result == CUDA_SUCCESS ? CUDA_SUCCESS : leave(result);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle,
                                                                     int threads,
                                                                     size_t dynamic_shared,
                                                                     unsigned int flags)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!blocks || threads <= 0 ||
	    (flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*blocks = blocks_per_multiprocessor(function, (unsigned int)threads, dynamic_shared);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle,
                                                            int threads, size_t dynamic_shared)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!blocks || threads <= 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*blocks = blocks_per_multiprocessor(function, (unsigned int)threads, dynamic_shared);
	return leave(CUDA_SUCCESS);
}

static CUresult best_block(const char *call, int *grid, int *block, CUfunction handle,
                           CUoccupancyB2DSize shared_of, size_t dynamic_shared, int limit)
{
	struct function *function;
	CUresult result = enter_function(call, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!grid || !block || limit < 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	int most = (int)function->info->max_threads;
	if (limit && limit < most)
		most = limit;
	int best = 0, best_threads = 0, best_blocks = 0;
	for (int threads = most; threads > 0; threads -= threads % 32 ? threads % 32 : 32) {
		size_t shared = shared_of ? shared_of(threads) : dynamic_shared;
		int blocks = blocks_per_multiprocessor(function, (unsigned int)threads, shared);
		if (blocks * threads > best) {
			best = blocks * threads;
			best_threads = threads;
			best_blocks = blocks;
		}
	}
	*grid = best_blocks * MULTIPROCESSORS;
	*block = best_threads;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction handle,
                                                 CUoccupancyB2DSize shared_of,
                                                 size_t dynamic_shared, int limit)
{
	return best_block(__func__, grid, block, handle, shared_of, dynamic_shared, limit);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                          CUoccupancyB2DSize shared_of,
                                                          size_t dynamic_shared, int limit,
                                                          unsigned int flags)
{
	if (flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	return best_block(__func__, grid, block, handle, shared_of, dynamic_shared, limit);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle,
                                                        int blocks, int threads)
{
	struct function *function;
	CUresult result = enter_function(__func__, handle, &function);
	if (result != CUDA_SUCCESS)
		return result;
	if (!bytes || blocks <= 0 || threads <= 0 ||
	    blocks > blocks_per_multiprocessor(function, (unsigned int)threads, 0))
		return leave(CUDA_ERROR_INVALID_VALUE);
	size_t each = SHARED_PER_MULTIPROCESSOR / (size_t)blocks / SHARED_UNIT * SHARED_UNIT;
	size_t taken = SHARED_RESERVED + function->info->shared_bytes;
	*bytes = each > taken ? each - taken : 0;
	return leave(CUDA_SUCCESS);
}
