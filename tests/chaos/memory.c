/* SPDX-License-Identifier: MIT */
/* Plain, pitched, managed and pinned memory, and the work on it. */
#include <stdlib.h>
#include <string.h>

#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

void do_allocate(struct dice *dice)
{
	size_t size = any_size(dice), pitch;
	bool is_pitched = one_in(dice, 8);
	CUstream stream = any_stream(dice);
	struct block *block;

	/* Rows that leave no gaps. */
	if (is_pitched)
		size = (size / 4096 + 1) * 4096;
	block = block_new(is_pitched ? KIND_PITCH : KIND_PLAIN, size);
	if (!block)
		return;
	if (!HAD(is_pitched ? cuMemAllocPitch(&block->at, &pitch, 4096, size / 4096, 4)
	                    : cuMemAlloc(&block->at, size))) {
		block->kind = KIND_NONE;
		return;
	}
	if (is_pitched && pitch != 4096)
		fail("rows of 4096 bytes have a pitch of %zu", pitch);
	block->stream = stream;
	block_fill(block, dice);
}

void do_managed(struct dice *dice)
{
	struct block *block = block_new(KIND_MANAGED, any_size(dice));

	if (!block)
		return;
	if (!HAD(cuMemAllocManaged(&block->at, block->size, CU_MEM_ATTACH_GLOBAL))) {
		block->kind = KIND_NONE;
		return;
	}
	block_fill(block, dice);
}

void do_move_managed(struct dice *dice)
{
	bool to_device = one_in(dice, 2), is_advised = one_in(dice, 3);
	struct block *block = block_any(dice, KIND(KIND_MANAGED), true);
	CUmemLocation place = {.type = to_device ? CU_MEM_LOCATION_TYPE_DEVICE
	                                         : CU_MEM_LOCATION_TYPE_HOST};

	if (!block)
		return;
	note(is_advised ? " advised" : " prefetched");
	note(to_device ? " to the device" : " to the host");
	if (is_advised)
		OK(cuMemAdvise(block->at, block->size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
		               place));
	else
		OK(cuMemPrefetchAsync(block->at, block->size, place, 0, block->stream));
}

void do_free(struct dice *dice)
{
	struct block *block = block_any(dice, KINDS_ALL, false);

	if (!block)
		return;
	block_verify(block);
	/* The driver's own memory, which nobody frees before all have closed it. */
	if (block->is_given && job_of(worker.number) == JOB_NONE)
		return;
	block_free(block);
}

/*
 * The kernel that was just launched may still be at it: the memory is nobody else's before it is
 * done.
 */
void do_free_at_work(struct dice *dice)
{
	uint32_t term = (uint32_t)roll(dice);
	struct block *block =
	    block_any(dice, KIND(KIND_PLAIN) | KIND(KIND_POOL) | KIND(KIND_PITCH), true);

	if (!block)
		return;
	block_verify(block);
	for (int i = 0; i < 3; i++)
		block_add(block, term, block->stream);
	block_free(block);
}

void do_verify(struct dice *dice)
{
	struct block *block = block_any(dice, KINDS_ALL, false);

	if (block)
		block_verify(block);
}

void do_add(struct dice *dice)
{
	uint32_t times = 1 + below(dice, 4), term = (uint32_t)roll(dice);
	CUstream stream = any_stream(dice);
	struct block *block = block_any(dice, KINDS_ALL, true);

	for (uint32_t i = 0; block && i < times; i++)
		block_add(block, term + i, stream);
}

/*
 * The whole of one is copied over the beginning of the other, which then ends there in what is
 * compared: it is filled anew.
 */
void do_copy(struct dice *dice)
{
	CUstream stream = any_stream(dice);
	struct block *from = block_any(dice, KINDS_ALL, false);
	struct block *to = block_any(dice, KINDS_ALL, true);

	if (!from || !to || from == to)
		return;
	block_on(from, stream);
	block_on(to, stream);
	if (from->size < to->size) {
		OK(cuMemcpyDtoDAsync(to->at, from->at, from->size, stream));
		/* Word i of `from` is what `to` has at i, the rest is written by a kernel. */
		block_launch(worker.affine, to->at + from->size, to->size - from->size,
		             (struct pattern){from->pattern.factor,
		                              from->pattern.term + (uint32_t)(from->size / 4) *
		                                                       from->pattern.factor},
		             stream);
	} else {
		OK(cuMemcpyDtoDAsync(to->at, from->at, to->size, stream));
	}
	to->pattern = from->pattern;
}

void do_refill(struct dice *dice)
{
	struct block *block = block_any(dice, KINDS_ALL, true);

	if (block)
		block_fill(block, dice);
}

void do_host_memory(struct dice *dice)
{
	size_t size = 4096 * (1 + below(dice, 64));
	struct block *block = block_any(dice, KINDS_ALL, false);
	uint32_t *words;

	if (!block)
		return;
	if (size > block->size)
		size = block->size;
	OK(cuMemHostAlloc((void **)&words, size, 0));
	OK(cuMemcpyDtoHAsync(words, block->at, size, block->stream));
	OK(cuStreamSynchronize(block->stream));
	if (pattern_compare(block->pattern, words, size / 4) < size / 4)
		fail("block #%u in pinned memory: wrong bytes", (uint32_t)block->number);
	OK(cuMemFreeHost(words));
}

void do_wait(struct dice *dice)
{
	size_t free_bytes, total;
	unsigned int which = below(dice, 3);

	if (which == 0)
		OK(cuCtxSynchronize());
	else if (which == 1)
		OK(cuStreamSynchronize(any_stream(dice)));
	OK(cuMemGetInfo(&free_bytes, &total));
	if (free_bytes > total)
		fail("cuMemGetInfo: %zu of %zu bytes are free", free_bytes, total);
}
