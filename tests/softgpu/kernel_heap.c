/* SPDX-License-Identifier: MIT */
/*
 * The heap of a context: malloc in kernels takes from it, and free gives back to it. It is made
 * when the first module that uses it is loaded, and lives as long as the context. Its size is the
 * one that cuCtxSetLimit() set until then. Blocks outlive the kernels that took them.
 */
#include <stdlib.h>

#include "tests/softgpu/memory.h"

#define UNIT 16ULL

struct heap_block {
	uint64_t address, size;
	bool used;
	struct heap_block *prev, *next; /* in the order of addresses */
	UT_hash_handle hh;              /* of used ones, by address */
};

struct kernel_heap {
	pthread_mutex_t lock;
	struct heap_block *blocks, *used;
	struct heap_block *cursor; /* where the next search begins */
};

CUresult kernel_heap_open(struct context *context)
{
	uint64_t size = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] / UNIT * UNIT;
	if (context->heap)
		return CUDA_SUCCESS;
	struct kernel_heap *heap = calloc(1, sizeof(*heap));
	struct heap_block *block = calloc(1, sizeof(*block));
	struct range *range;
	if (!heap || !block || size == 0 ||
	    device_allocate(context, size, RANGE_HEAP, &range) != CUDA_SUCCESS) {
		free(heap);
		free(block);
		return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	}
	pthread_mutex_init(&heap->lock, NULL);
	block->address = range->base;
	block->size = size;
	DL_APPEND(heap->blocks, block);
	context->heap = heap;
	return CUDA_SUCCESS;
}

void kernel_heap_close(struct context *context)
{
	struct kernel_heap *heap = context->heap;
	if (!heap)
		return;
	context->heap = NULL;
	HASH_CLEAR(hh, heap->used);
	struct heap_block *block, *next;
	DL_FOREACH_SAFE(heap->blocks, block, next)
	{
		free(block);
	}
	pthread_mutex_destroy(&heap->lock);
	free(heap);
}

/* Cuts the block after `size` bytes; the rest is free. */
static bool cut(struct kernel_heap *heap, struct heap_block *block, uint64_t size)
{
	if (block->size == size)
		return true;
	struct heap_block *rest = calloc(1, sizeof(*rest));
	if (!rest)
		return false;
	rest->address = block->address + size;
	rest->size = block->size - size;
	block->size = size;
	/* cppcheck-suppress nullPointerRedundantCheck; the macro can do without an element */
	DL_APPEND_ELEM(heap->blocks, block, rest);
	return true;
}

static struct heap_block *find(const struct kernel_heap *heap, uint64_t size, uint64_t align)
{
	struct heap_block *first = heap->cursor ? heap->cursor : heap->blocks, *block = first;
	do {
		uint64_t gap = -block->address & (align - 1);
		if (!block->used && block->size >= gap && block->size - gap >= size)
			return block;
		block = block->next ? block->next : heap->blocks;
	} while (block != first);
	return NULL;
}

static uint64_t take(struct kernel_heap *heap, uint64_t size, uint64_t align)
{
	struct heap_block *block = find(heap, size, align);
	if (!block)
		return 0;
	uint64_t gap = -block->address & (align - 1);
	if (gap) {
		if (!cut(heap, block, gap))
			return 0;
		block = block->next;
	}
	if (!cut(heap, block, size))
		return 0;
	HASH_ADD(hh, heap->used, address, sizeof(block->address), block);
	if (!block->hh.tbl)
		return 0;
	block->used = true;
	heap->cursor = block->next;
	return block->address;
}

uint64_t kernel_heap_allocate(void *context, uint64_t size, uint64_t align)
{
	struct kernel_heap *heap = ((struct context *)context)->heap;
	if (!heap || size > window_size())
		return 0;
	pthread_mutex_lock(&heap->lock);
	uint64_t address = take(heap, (size + UNIT - 1) / UNIT * UNIT, align);
	pthread_mutex_unlock(&heap->lock);
	return address;
}

/* Joins the block with the free one behind it. */
static void join(struct kernel_heap *heap, struct heap_block *block)
{
	struct heap_block *behind = block->next;
	if (block->used || !behind || behind->used)
		return;
	block->size += behind->size;
	if (heap->cursor == behind)
		heap->cursor = block;
	DL_DELETE(heap->blocks, behind);
	free(behind);
}

bool kernel_heap_free(void *context, uint64_t address)
{
	struct kernel_heap *heap = ((struct context *)context)->heap;
	struct heap_block *block = NULL;
	if (!heap)
		return false;
	pthread_mutex_lock(&heap->lock);
	HASH_FIND(hh, heap->used, &address, sizeof(address), block);
	bool found = block != NULL;
	if (found) {
		HASH_DEL(heap->used, block);
		block->used = false;
		join(heap, block);
		if (block != heap->blocks)
			join(heap, block->prev);
	}
	pthread_mutex_unlock(&heap->lock);
	return found;
}
