/* SPDX-License-Identifier: MIT */
/* Words of use. Rules: runs inside the user's process, also within launches. */
#include "core/memory/heat/touched.h"

#include "core/base/late.h"

/* Addresses have 48 bits: so many blocks of 16 GiB. */
enum { BLOCKS = 1 << 14, BLOCK_UNITS = 1 << 13 };

struct block {
	_Atomic uint32_t touched[BLOCK_UNITS];
};

static _Atomic(void *) blocks; /* BLOCKS of them */

typedef _Atomic(void *) block_place;

struct touched_span touched_span = {.low = UINT64_MAX};

static struct block *block_of(uint64_t unit)
{
	block_place *place = late_of(&blocks);

	return place && unit / BLOCK_UNITS < BLOCKS ? late_of(&place[unit / BLOCK_UNITS]) : NULL;
}

/* A search for leaks does not look at late memory: so nothing of the heap hangs on it. */
static struct block *make_block(uint64_t unit)
{
	block_place *place = late_make(&blocks, BLOCKS * sizeof(*place));

	return place && unit / BLOCK_UNITS < BLOCKS
	           ? late_make(&place[unit / BLOCK_UNITS], sizeof(struct block))
	           : NULL;
}

static void widen(CUdeviceptr low, CUdeviceptr high)
{
	CUdeviceptr was = atomic_load(&touched_span.low);

	while (low < was && !atomic_compare_exchange_weak(&touched_span.low, &was, low))
		;
	was = atomic_load(&touched_span.high);
	while (high > was && !atomic_compare_exchange_weak(&touched_span.high, &was, high))
		;
}

bool touched_open(CUdeviceptr address, size_t size)
{
	uint64_t first = address / TOUCHED_UNIT, last = (address + size - 1) / TOUCHED_UNIT;

	for (uint64_t unit = first; unit <= last; unit++) {
		struct block *block = make_block(unit);

		if (!block)
			return false;
		atomic_store_explicit(&block->touched[unit % BLOCK_UNITS], 0, memory_order_relaxed);
	}
	widen(address, address + size);
	return true;
}

_Atomic uint32_t *touched_word(CUdeviceptr address)
{
	uint64_t unit = address / TOUCHED_UNIT;
	struct block *block = block_of(unit);

	return block ? &block->touched[unit % BLOCK_UNITS] : NULL;
}
