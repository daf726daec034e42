/* SPDX-License-Identifier: MIT */
/* The table of known address ranges, in address order. */
#include "tests/softgpu/memory.h"

#include <stdlib.h>
#include <string.h>

static struct range **table;
static size_t count, capacity;

/* The index of the first range that ends after the address. */
static size_t lower_bound(uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (table[middle]->base + table[middle]->size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct range *range_find(uint64_t address)
{
	size_t index = lower_bound(address);
	return index < count && table[index]->base <= address ? table[index] : NULL;
}

struct range *range_at(size_t index)
{
	return index < count ? table[index] : NULL;
}

bool range_overlaps(uint64_t base, uint64_t size)
{
	size_t index = lower_bound(base);
	return index < count && table[index]->base < base + size;
}

struct range *range_add(enum range_kind kind, uint64_t base, uint64_t size, struct context *context)
{
	static uint64_t last_id;
	struct range *range = calloc(1, sizeof(*range));
	if (!range)
		return NULL;
	*range = (struct range){
	    .base = base,
	    .size = size,
	    .kind = kind,
	    .context = context,
	    .device = context ? context->device->index : -1,
	    .id = ++last_id,
	};
	pthread_rwlock_wrlock(&memory_lock);
	if (count == capacity) {
		size_t larger = capacity ? 2 * capacity : 256;
		struct range **moved = realloc(table, larger * sizeof(struct range *));
		if (!moved) {
			pthread_rwlock_unlock(&memory_lock);
			free(range);
			return NULL;
		}
		table = moved;
		capacity = larger;
	}
	size_t index = lower_bound(base);
	memmove(table + index + 1, table + index, (count - index) * sizeof(struct range *));
	table[index] = range;
	count++;
	pthread_rwlock_unlock(&memory_lock);
	return range;
}

void range_remove(struct range *range)
{
	pthread_rwlock_wrlock(&memory_lock);
	size_t index = lower_bound(range->base);
	memmove(table + index, table + index + 1, (count - index - 1) * sizeof(struct range *));
	count--;
	pthread_rwlock_unlock(&memory_lock);
	free(range);
}
