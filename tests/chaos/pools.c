/* SPDX-License-Identifier: MIT */
/* Memory in stream order. */
#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

static CUmemoryPool own_pool(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	if (!worker.pool)
		OK(cuMemPoolCreate(&worker.pool, &props));
	return worker.pool;
}

void do_pool(struct dice *dice)
{
	size_t size = any_size(dice);
	bool is_own = one_in(dice, 3);
	CUstream stream = any_stream(dice);
	struct block *block = block_new(KIND_POOL, size);

	if (!block)
		return;
	if (!HAD(is_own ? cuMemAllocFromPoolAsync(&block->at, size, own_pool(), stream)
	                : cuMemAllocAsync(&block->at, size, stream))) {
		block->kind = KIND_NONE;
		return;
	}
	block->stream = stream;
	block_fill(block, dice);
}

static CUmemoryPool any_pool(struct dice *dice)
{
	CUmemoryPool pool;

	if (one_in(dice, 2))
		return own_pool();
	OK(cuDeviceGetDefaultMemPool(&pool, worker.device));
	return pool;
}

void do_pool_trim(struct dice *dice)
{
	CUmemoryPool pool = any_pool(dice);

	OK(cuMemPoolTrimTo(pool, one_in(dice, 2) ? 0 : below(dice, 8 << 20)));
}

void do_pool_change(struct dice *dice)
{
	CUmemoryPool pool = any_pool(dice);
	cuuint64_t threshold = one_in(dice, 2) ? UINT64_MAX : below(dice, 16 << 20);

	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}
