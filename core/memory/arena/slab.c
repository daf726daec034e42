/* SPDX-License-Identifier: MIT */
/*
 * Slabs. Rules: runs inside the user's process; a slab and its owners are one allocation.
 *
 * Up to 1 MiB an allocation is a block of a slab of 2 MiB. There are 38 sizes, so at most a fifth
 * is wasted (a third above 512 KiB). A thousand live blocks and a million cost the same.
 */
#include "core/memory/arena/slab.h"

#include <stdlib.h>

#include "core/base/clock.h"

enum { STEP = 512, WORD_BITS = 64 };

/*
 * Block sizes in steps: all of them, then four to a doubling, powers of two among them because
 * programs like them. From 128 KiB up a whole number of them fills the slab instead.
 */
static const uint16_t sizes[SLAB_CLASSES] = {
    1,  2,  3,  4,   5,   6,   7,   8,   10,  12,  14,  16,  20,  24,  28,  32,  40,   48,   56,
    64, 80, 96, 112, 128, 160, 192, 224, 256, 315, 372, 455, 512, 585, 682, 819, 1024, 1365, 2048};

static uint32_t class_size(unsigned int class)
{
	return (uint32_t)sizes[class] * STEP;
}

unsigned int slab_class(size_t size)
{
	unsigned int low = 0, high = SLAB_CLASSES - 1;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (size <= class_size(middle))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint64_t slab_span(size_t size)
{
	return size <= SLAB_BLOCK_MAX ? class_size(slab_class(size))
	                              : ((uint64_t)size + SLAB_BYTES - 1) / SLAB_BYTES * SLAB_BYTES;
}

static struct slab **slab_list_of(struct slabs *slabs, const struct slab *slab)
{
	return slab->has_room ? &slabs->with_room[slab->class] : &slabs->full;
}

static void slab_enter(struct slabs *slabs, struct slab *slab, bool has_room)
{
	struct slab **head;

	slab->has_room = has_room;
	head = slab_list_of(slabs, slab);
	slab->prev = NULL;
	slab->next = *head;
	if (*head)
		(*head)->prev = slab;
	*head = slab;
}

static void slab_leave(struct slabs *slabs, struct slab *slab)
{
	if (slab->prev)
		slab->prev->next = slab->next;
	else
		*slab_list_of(slabs, slab) = slab->next;
	if (slab->next)
		slab->next->prev = slab->prev;
}

struct slab *slab_create(struct slabs *slabs, unsigned int class)
{
	uint32_t block_size = class_size(class), blocks = SLAB_BYTES / block_size;
	struct slab *slab = calloc(1, sizeof(*slab) + blocks * sizeof(*slab->owners));

	if (!slab)
		return NULL;
	slab->class = (uint16_t) class;
	slab->block_size = block_size;
	slab->blocks = (uint16_t)blocks;
	slab->owners = (void **)(slab + 1);
	for (uint32_t done = 0, word = 0; done < blocks; done += WORD_BITS, word++) {
		uint32_t left = blocks - done;

		slab->bitmap[word] = left < WORD_BITS ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
		slab->words |= (uint64_t)1 << word;
	}
	slab_enter(slabs, slab, true);
	return slab;
}

void slab_destroy(struct slabs *slabs, struct slab *slab)
{
	slab_leave(slabs, slab);
	free(slab);
}

struct slab *slab_with_room(const struct slabs *slabs, unsigned int class)
{
	return slabs->with_room[class];
}

bool slab_maker_begin(struct slabs *slabs, unsigned int class, struct slab_maker *maker)
{
	if (!maker->makes && !slabs->is_made[class])
		slabs->is_made[class] = maker->makes = maker->is_held = true;
	return maker->makes;
}

bool slab_maker_end(struct slabs *slabs, unsigned int class, struct slab_maker *maker)
{
	bool was_held = maker->is_held;

	if (was_held)
		slabs->is_made[class] = false;
	maker->makes = maker->is_held = false;
	return was_held;
}

void slab_maker_wake(struct slabs *slabs)
{
	clock_in_use->wake(&slabs->made);
}

uint32_t slab_take(struct slabs *slabs, struct slab *slab, void *owner)
{
	uint32_t word = (uint32_t)__builtin_ctzll(slab->words);
	uint32_t block = word * WORD_BITS + (uint32_t)__builtin_ctzll(slab->bitmap[word]);

	slab->bitmap[word] &= slab->bitmap[word] - 1;
	if (!slab->bitmap[word])
		slab->words &= slab->words - 1;
	slab->owners[block] = owner;
	if (++slab->used + slab->spent == slab->blocks) {
		slab_leave(slabs, slab);
		slab_enter(slabs, slab, false);
	}
	return block * slab->block_size;
}

bool slab_give(struct slabs *slabs, struct slab *slab, uint32_t offset)
{
	uint32_t block = offset / slab->block_size, word = block / WORD_BITS;

	slab->bitmap[word] |= (uint64_t)1 << block % WORD_BITS;
	slab->words |= (uint64_t)1 << word;
	slab->owners[block] = NULL;
	if (slab->used-- + slab->spent == slab->blocks) {
		slab_leave(slabs, slab);
		slab_enter(slabs, slab, true);
	}
	return slab->used == 0;
}

bool slab_spend(struct slab *slab, uint32_t offset)
{
	slab->owners[offset / slab->block_size] = NULL;
	slab->spent++;
	slab->used--;
	return slab->used == 0;
}

void slab_set_owner(struct slab *slab, uint32_t offset, void *owner)
{
	slab->owners[offset / slab->block_size] = owner;
}

void *slab_owner(const struct slab *slab, uint32_t offset)
{
	uint32_t block = offset / slab->block_size;

	return block < slab->blocks ? slab->owners[block] : NULL;
}
