/* SPDX-License-Identifier: MIT */
/* Memory that is freed all at once. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>

struct arena_block {
	struct arena_block *next;
};

enum { BLOCK_SIZE = 64 * 1024, HEADER = 64 };

void *arena_try(struct arena *arena, size_t size)
{
	size_t align = size >= 64 ? 64 : 16;
	size_t gap = -(uintptr_t)arena->next & (align - 1);
	if (size > SIZE_MAX / 2)
		return NULL;
	if (!arena->next || size + gap > (size_t)(arena->end - arena->next)) {
		size_t room = size > BLOCK_SIZE - HEADER ? size : BLOCK_SIZE - HEADER;
		struct arena_block *block = calloc(1, room + HEADER + 64);
		if (!block)
			return NULL;
		block->next = arena->blocks;
		arena->blocks = block;
		arena->next = (char *)(((uintptr_t)block + HEADER + 63) & ~(uintptr_t)63);
		arena->end = arena->next + room;
		gap = 0;
	}
	void *found = arena->next + gap;
	arena->next += gap + size;
	return found;
}

void arena_free(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;
		free(arena->blocks);
		arena->blocks = next;
	}
	arena->next = arena->end = NULL;
}
