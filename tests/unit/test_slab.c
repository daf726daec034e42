/* SPDX-License-Identifier: MIT */
/* Blocks of slabs: size classes, and random sequences against a list of the taken blocks. */
#include <check.h>
#include <stdlib.h>

#include "core/memory/arena/slab.h"
#include "suite.h"

static struct slabs slabs;

/* The owners of blocks; the addresses alone matter. */
static char owners[SLAB_BYTES / 512];

/* The bytes of a block of this class, as a slab of it has them. */
static uint32_t class_size(unsigned int class)
{
	static uint32_t sizes[SLAB_CLASSES];

	if (!sizes[class]) {
		struct slabs own = {0};
		struct slab *slab = slab_create(&own, class);

		sizes[class] = slab->block_size;
		slab_destroy(&own, slab);
	}
	return sizes[class];
}

/* Returns whether all rules of the slab hold. */
static bool is_valid(const struct slab *slab)
{
	uint32_t free_blocks = 0, spent = 0;

	if (slab->class >= SLAB_CLASSES || slab->block_size != class_size(slab->class) ||
	    slab->blocks != SLAB_BYTES / slab->block_size)
		return false;
	for (uint32_t bit = 0; bit < sizeof(slab->bitmap) * 8; bit++) {
		bool is_free = slab->bitmap[bit / 64] >> bit % 64 & 1;

		if (is_free && (bit >= slab->blocks || slab->owners[bit]))
			return false;
		free_blocks += is_free;
		spent += !is_free && bit < slab->blocks && !slab->owners[bit];
	}
	for (uint32_t word = 0; word < 64; word++)
		if ((slab->words >> word & 1) != (slab->bitmap[word] != 0))
			return false;
	if (spent != slab->spent || slab->used + spent + free_blocks != slab->blocks ||
	    slab->has_room != (free_blocks != 0))
		return false;
	return (!slab->next || slab->next->prev == slab) &&
	       (!slab->prev || slab->prev->next == slab);
}

START_TEST(every_size_has_the_smallest_class_that_holds_it)
{
	unsigned int class = 0;

	for (size_t size = 1; size <= SLAB_BLOCK_MAX; size++) {
		if (size > class_size(class))
			class ++;
		if (class >= SLAB_CLASSES || slab_class(size) != class)
			ck_abort_msg("%zu bytes: class %u, not %u", size, slab_class(size), class);
		if (size > class_size(class))
			ck_abort_msg("%zu bytes do not fit in class %u", size, class);
	}
	ck_assert_uint_eq(class, SLAB_CLASSES - 1);
	ck_assert_uint_eq(class_size(class), SLAB_BLOCK_MAX);
}
END_TEST

/* Requests are whole steps of 512 bytes themselves. */
START_TEST(little_is_wasted)
{
	for (unsigned int class = 0; class < SLAB_CLASSES; class ++) {
		uint32_t size = class_size(class), smaller = class ? class_size(class - 1) : 0;
		double block = (double)(size - smaller - 512) / size;
		double rest = (double)(SLAB_BYTES % size) / SLAB_BYTES;

		ck_assert_uint_eq(size % 512, 0);
		ck_assert_msg(block <= (size <= SLAB_BYTES / 4 ? 0.2 : 0.334), "%u: %.3f", size,
		              block);
		ck_assert_msg(rest <= 0.025, "%u: %.3f of a slab left", size, rest);
	}
}
END_TEST

START_TEST(powers_of_two_fit_exactly)
{
	for (uint32_t size = 512; size <= SLAB_BLOCK_MAX; size *= 2)
		ck_assert_uint_eq(class_size(slab_class(size)), size);
}
END_TEST

/* Every class: filled, asked about at both ends of each block, and emptied. */
START_TEST(a_slab_fills_and_empties)
{
	for (unsigned int class = 0; class < SLAB_CLASSES; class ++) {
		struct slab *slab = slab_create(&slabs, class);
		uint32_t size = class_size(class), blocks = SLAB_BYTES / size;

		ck_assert_ptr_nonnull(slab);
		ck_assert(is_valid(slab));
		ck_assert_uint_eq(slab->blocks, blocks);
		for (uint32_t i = 0; i < blocks; i++) {
			ck_assert_ptr_eq(slab_with_room(&slabs, class), slab);
			ck_assert_uint_eq(slab_take(&slabs, slab, &owners[i]), i * size);
		}
		ck_assert(is_valid(slab));
		ck_assert_ptr_null(slab_with_room(&slabs, class));
		for (uint32_t i = 0; i < blocks; i++) {
			if (slab_owner(slab, i * size) != &owners[i] ||
			    slab_owner(slab, i * size + size / 2) != &owners[i] ||
			    slab_owner(slab, i * size + size - 1) != &owners[i])
				ck_abort_msg("class %u: block %u has another owner", class, i);
		}
		if (SLAB_BYTES % size) {
			ck_assert_ptr_null(slab_owner(slab, blocks * size));
			ck_assert_ptr_null(slab_owner(slab, SLAB_BYTES - 1));
		}
		for (uint32_t i = 0; i < blocks; i++) {
			ck_assert_int_eq(slab_give(&slabs, slab, i * size), i == blocks - 1);
			ck_assert_ptr_null(slab_owner(slab, i * size));
			ck_assert_ptr_eq(slab_with_room(&slabs, class), slab);
		}
		ck_assert(is_valid(slab));
		slab_destroy(&slabs, slab);
		ck_assert_ptr_null(slab_with_room(&slabs, class));
	}
}
END_TEST

START_TEST(slabs_leave_the_list_from_any_place)
{
	enum { CLASS = 5, COUNT = 3 };

	for (int from = 0; from < COUNT; from++) {
		struct slab *all[COUNT];
		int listed = 0;

		for (int i = 0; i < COUNT; i++)
			ck_assert_ptr_nonnull(all[i] = slab_create(&slabs, CLASS));
		slab_destroy(&slabs, all[from]);
		for (struct slab *s = slab_with_room(&slabs, CLASS); s; s = s->next) {
			ck_assert(is_valid(s));
			listed++;
		}
		ck_assert_int_eq(listed, COUNT - 1);
		for (int i = 0; i < COUNT; i++)
			if (i != from)
				slab_destroy(&slabs, all[i]);
		ck_assert_ptr_null(slab_with_room(&slabs, CLASS));
	}
}
END_TEST

START_TEST(a_spent_block_is_never_taken_again)
{
	for (unsigned int class = 0; class < SLAB_CLASSES; class ++) {
		struct slab *slab = slab_create(&slabs, class);
		uint32_t size = class_size(class), blocks = SLAB_BYTES / size;

		ck_assert_ptr_nonnull(slab);
		/* One after the other, another beside it, until the slab has no room left. */
		ck_assert_uint_eq(slab_take(&slabs, slab, &owners[0]), 0);
		for (uint32_t i = 1; i < blocks; i++) {
			ck_assert_ptr_eq(slab_with_room(&slabs, class), slab);
			ck_assert_uint_eq(slab_take(&slabs, slab, &owners[1]), i * size);
			ck_assert(!slab_spend(slab, i * size));
			ck_assert_ptr_null(slab_owner(slab, i * size));
			ck_assert(is_valid(slab));
		}
		ck_assert_ptr_null(slab_with_room(&slabs, class));
		/* The only block that others may have. */
		ck_assert(slab_give(&slabs, slab, 0));
		ck_assert_ptr_eq(slab_with_room(&slabs, class), slab);
		ck_assert_uint_eq(slab_take(&slabs, slab, &owners[2]), 0);
		ck_assert(slab_spend(slab, 0));
		ck_assert(is_valid(slab));
		slab_destroy(&slabs, slab);
		ck_assert_ptr_null(slab_with_room(&slabs, class));
	}
}
END_TEST

/* --- random sequences --- */

enum { SLABS_MOST = 64, LIVE_MOST = 3000, STEPS = 4000 };

static struct slab *made[SLABS_MOST];
static uint32_t made_count;
static struct block {
	struct slab *slab;
	uint32_t offset;
	void *owner;
} live[LIVE_MOST];
static uint32_t live_count, taken;

/* In the class's list are exactly the slabs of the class with room. */
static void check_list(unsigned int class)
{
	uint32_t listed = 0, with_room = 0;

	for (struct slab *s = slab_with_room(&slabs, class); s; s = s->next) {
		if (s->class != class || s->used + s->spent == s->blocks || listed++ == made_count)
			ck_abort_msg("class %u: the list is wrong", class);
	}
	for (uint32_t i = 0; i < made_count; i++)
		with_room +=
		    made[i]->class == class && made[i]->used + made[i]->spent < made[i]->blocks;
	ck_assert_uint_eq(listed, with_room);
}

static void take_one(unsigned int class)
{
	struct slab *slab = slab_with_room(&slabs, class);
	struct block *block;

	if (live_count == LIVE_MOST || (!slab && made_count == SLABS_MOST))
		return;
	if (!slab) {
		slab = slab_create(&slabs, class);
		ck_assert_ptr_nonnull(slab);
		made[made_count++] = slab;
	}
	block = &live[live_count++];
	block->slab = slab;
	block->owner = &owners[taken++ % sizeof(owners)];
	block->offset = slab_take(&slabs, slab, block->owner);
	ck_assert_uint_eq(block->offset % slab->block_size, 0);
	ck_assert_uint_le(block->offset + slab->block_size, SLAB_BYTES);
	for (const struct block *other = live; other < block; other++)
		if (other->slab == slab && other->offset == block->offset)
			ck_abort_msg("the block at %u is taken twice", block->offset);
	ck_assert(is_valid(slab));
	check_list(class);
}

static void give_one(unsigned int *seed)
{
	struct block *block;
	struct slab *slab;
	unsigned int class;
	uint32_t inside;
	bool is_empty;

	if (!live_count)
		return;
	block = &live[(uint32_t)rand_r(seed) % live_count];
	slab = block->slab;
	class = slab->class;
	inside = block->offset + (uint32_t)rand_r(seed) % slab->block_size;
	ck_assert_ptr_eq(slab_owner(slab, inside), block->owner);
	is_empty = rand_r(seed) % 4 ? slab_give(&slabs, slab, block->offset)
	                            : slab_spend(slab, block->offset);
	ck_assert_int_eq(is_empty, slab->used == 0);
	ck_assert_ptr_null(slab_owner(slab, inside));
	*block = live[--live_count];
	ck_assert(is_valid(slab));
	if (slab->used == 0) {
		uint32_t which = 0;

		while (made[which] != slab)
			which++;
		made[which] = made[--made_count];
		slab_destroy(&slabs, slab);
	}
	check_list(class);
}

START_TEST(random_sequences_agree_with_the_model)
{
	for (unsigned int seed = 0; seed < 20; seed++) {
		unsigned int state = seed;

		for (int step = 0; step < STEPS; step++) {
			int takes = step / 500 % 2 ? 3 : 7;

			if (rand_r(&state) % 10 >= takes)
				give_one(&state);
			else /* few classes at a time, so that their slabs fill */
				take_one(((unsigned int)rand_r(&state) % 3 * 18 + seed) %
				         SLAB_CLASSES);
		}
		while (live_count)
			give_one(&state);
		ck_assert_uint_eq(made_count, 0);
		for (unsigned int class = 0; class < SLAB_CLASSES; class ++)
			ck_assert_ptr_null(slab_with_room(&slabs, class));
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("slab");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, every_size_has_the_smallest_class_that_holds_it);
	tcase_add_test(tests, little_is_wasted);
	tcase_add_test(tests, powers_of_two_fit_exactly);
	tcase_add_test(tests, a_slab_fills_and_empties);
	tcase_add_test(tests, slabs_leave_the_list_from_any_place);
	tcase_add_test(tests, a_spent_block_is_never_taken_again);
	tcase_add_test(tests, random_sequences_agree_with_the_model);
	return suite_run("slab", tests);
}
