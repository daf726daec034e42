/* SPDX-License-Identifier: MIT */
/* Memory that is freed all at once: the results of parsing, and the objects of a module. */
#ifndef SOFTGPU_PTX_ARENA_H
#define SOFTGPU_PTX_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_block *blocks;
	char *next, *end;
};

/* Zeroed, aligned to 64 bytes when size is at least that, else to 16; NULL when memory is out. */
void *arena_try(struct arena *arena, size_t size);
void arena_free(struct arena *arena);

#endif
