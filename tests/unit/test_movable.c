/* SPDX-License-Identifier: MIT */
/* Choosing the memory to move: the best of many, in order, against a sort of all. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory/move/movable.h"
#include "suite.h"

struct driver driver; /* is not asked */

enum { MOST = 40000 };

static struct candidate all[MOST];
static bool wants_hottest;

static int by_rank(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->rank != y->rank)
		return (x->rank < y->rank) != wants_hottest ? -1 : 1;
	return x->address < y->address ? -1 : 1; /* in the order in which they are considered */
}

static void choose(size_t count, struct choice *choice)
{
	movable_begin(choice, wants_hottest);
	for (size_t i = 0; i < count; i++)
		movable_consider(choice, &all[i]);
	movable_end(choice);
}

static void ck_assert_is_as_sorted(size_t count)
{
	static struct choice choice;
	size_t kept = count < MOVES_MAX ? count : MOVES_MAX;

	choose(count, &choice);
	ck_assert_uint_eq(choice.count, kept);
	qsort(all, count, sizeof(*all), by_rank);
	for (size_t i = 0; i < kept; i++) {
		ck_assert_uint_eq(choice.of[i].address, all[i].address);
		ck_assert_uint_eq(choice.of[i].rank, all[i].rank);
		ck_assert_uint_eq(choice.of[i].size, all[i].size);
		ck_assert_ptr_eq(choice.of[i].kind, all[i].kind);
	}
}

/* ranks: how many different ones; few have many equals. */
static void fill_at_random(size_t count, unsigned int ranks, unsigned int *seed)
{
	for (size_t i = 0; i < count; i++)
		all[i] =
		    (struct candidate){.kind = rand_r(seed) % 2 ? &movable_chunks : &movable_own,
		                       .address = i + 1,
		                       .size = (uint64_t)rand_r(seed),
		                       .rank = (uint64_t)rand_r(seed) % ranks << 30};
}

START_TEST(it_is_as_of_a_sort)
{
	static const unsigned int ranks[] = {1, 2, 5, 100, 1u << 30};
	unsigned int seed = (unsigned int)_i * 7919u + 1;

	wants_hottest = _i % 2;
	for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
		for (int round = 0; round < 40; round++) {
			size_t count = (size_t)rand_r(&seed) % (round % 2 ? 3 * MOVES_MAX : 20);

			fill_at_random(count, ranks[r], &seed);
			ck_assert_is_as_sorted(count);
		}
	}
}
END_TEST

START_TEST(it_is_as_of_a_sort_in_every_order)
{
	for (int order = 0; order < 4; order++) {
		wants_hottest = order % 2;
		for (size_t i = 0; i < MOST; i++)
			all[i] = (struct candidate){.kind = &movable_chunks,
			                            .address = i + 1,
			                            .rank = (order < 2 ? i : MOST - i) /
			                                    (size_t)(1 + order)};
		ck_assert_is_as_sorted(MOST);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("movable");

	tcase_add_loop_test(tests, it_is_as_of_a_sort, 0, 20);
	tcase_add_test(tests, it_is_as_of_a_sort_in_every_order);
	return suite_run("movable", tests);
}
