/* SPDX-License-Identifier: MIT */
#include "tests/chaos/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "tests/chaos/operations.h"

enum { BYTES_MAX = 24 << 20 };

static struct block blocks[BLOCKS];
static uint64_t numbers;

struct block *block_new(enum kind kind, size_t size)
{
	struct block *found = NULL;
	size_t bytes = size;

	for (int i = 0; i < BLOCKS; i++) {
		bytes += blocks[i].kind ? blocks[i].size : 0;
		if (!blocks[i].kind && !found)
			found = &blocks[i];
	}
	if (!found || bytes > BYTES_MAX) {
		note(": enough");
		return NULL;
	}
	*found =
	    (struct block){.kind = kind,
	                   .number = worker.life << 40 | (uint64_t)worker.number << 32 | ++numbers,
	                   .size = size};
	note(" #%llu of %zu", (unsigned long long)numbers, size);
	return found;
}

static bool is_one_of(const struct block *block, unsigned int kinds, bool to_write)
{
	return block->kind && kinds & KIND(block->kind) &&
	       (!to_write ||
	        (!block->is_given && block->kind != KIND_OPENED && block->kind != KIND_IMPORTED));
}

struct block *block_any(struct dice *dice, unsigned int kinds, bool to_write)
{
	uint32_t first = below(dice, BLOCKS);

	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct block *block = &blocks[(first + i) % BLOCKS];

		if (!is_one_of(block, kinds, to_write))
			continue;
		note(" #%u", (uint32_t)block->number);
		return block;
	}
	note(": none");
	return NULL;
}

struct block *block_numbered(uint64_t number)
{
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].kind && blocks[i].number == number)
			return &blocks[i];
	return NULL;
}

int block_count(void)
{
	int count = 0;

	for (int i = 0; i < BLOCKS; i++)
		count += blocks[i].kind != KIND_NONE;
	return count;
}

void block_on(struct block *block, CUstream stream)
{
	CUevent event;

	if (block->stream == stream)
		return;
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, block->stream));
	OK(cuStreamWaitEvent(stream, event, 0));
	OK(cuEventDestroy(event));
	block->stream = stream;
}

void block_launch(CUfunction function, CUdeviceptr at, size_t size, struct pattern pattern,
                  CUstream stream)
{
	uint32_t words = (uint32_t)(size / 4);
	void *parameters[] = {&at, &words, &pattern.factor, &pattern.term};

	OK(cuLaunchKernel(function, words / 256 + 1, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

void block_add(struct block *block, uint32_t term, CUstream stream)
{
	block_on(block, stream);
	block_launch(worker.add, block->at, block->size, (struct pattern){0, term}, stream);
	block->pattern.term += term;
}

static uint32_t *room_for(size_t size)
{
	uint32_t *words = malloc(size);

	if (!words)
		fail("malloc of %zu bytes", size);
	return words;
}

/* In two pieces, which may lie in different chunks. */
static void copy_from_host(const struct block *block, struct dice *dice)
{
	uint32_t *words = room_for(block->size);
	size_t first = below(dice, (uint32_t)(block->size / 4)) * (size_t)4;

	pattern_write(block->pattern, words, block->size / 4);
	if (first > 0)
		OK(cuMemcpyHtoD(block->at, words, first));
	OK(cuMemcpyHtoDAsync(block->at + first, (char *)words + first, block->size - first,
	                     block->stream));
	OK(cuStreamSynchronize(block->stream));
	free(words);
}

void block_fill(struct block *block, struct dice *dice)
{
	static const char *const names[] = {"copied", "filled", "filled in bytes", "by a kernel"};
	uint32_t way = below(dice, 4);

	block->pattern = pattern_of(block->number + roll(dice), way == 1 || way == 2);
	note(", %s", names[way]);
	switch (way) {
	case 0:
		OK(cuStreamSynchronize(block->stream));
		copy_from_host(block, dice);
		break;
	case 1:
		OK(cuMemsetD32Async(block->at, block->pattern.term, block->size / 4,
		                    block->stream));
		break;
	case 2:
		block->pattern.term = (block->pattern.term & 0xff) * 0x01010101u;
		OK(cuMemsetD8Async(block->at, (unsigned char)block->pattern.term, block->size,
		                   block->stream));
		break;
	default:
		block_launch(worker.affine, block->at, block->size, block->pattern, block->stream);
	}
}

void block_verify(struct block *block)
{
	uint32_t *words = room_for(block->size);
	size_t count = block->size / 4, wrong;

	memset(words, 0x5a, block->size);
	OK(cuMemcpyDtoHAsync(words, block->at, block->size, block->stream));
	OK(cuStreamSynchronize(block->stream));
	wrong = pattern_compare(block->pattern, words, count);
	if (wrong < count)
		fail("block #%u of kind %d, %zu bytes at %#llx: word %zu is %#x, expected %#x",
		     (uint32_t)block->number, block->kind, block->size,
		     (unsigned long long)block->at, wrong, words[wrong],
		     (uint32_t)wrong * block->pattern.factor + block->pattern.term);
	worker.slot->verified += block->size;
	free(words);
}

void block_forget(struct block *block)
{
	graphs_forget(block->number);
	block->kind = KIND_NONE;
}

void block_free(struct block *block)
{
	graphs_forget(block->number);
	switch (block->kind) {
	case KIND_VIRTUAL:
	case KIND_IMPORTED:
		virtual_free(block);
		break;
	case KIND_OPENED:
		ipc_close(block);
		break;
	case KIND_POOL:
		if (block->number & 1)
			OK(cuMemFreeAsync(block->at, block->stream));
		else
			OK(cuMemFree(block->at));
		break;
	default:
		OK(cuMemFree(block->at));
	}
	block_forget(block);
}

size_t any_size(struct dice *dice)
{
	uint32_t kind = below(dice, 10);
	uint32_t most = kind < 5 ? 64 << 10 : kind < 8 ? 1 << 20 : 8 << 20;

	return 256 + below(dice, most / 4 - 64) * (size_t)4;
}
