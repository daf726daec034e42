/* SPDX-License-Identifier: MIT */
/* Free runs of an arena's addresses: examples, and random sequences against one byte per unit. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/memory/arena/address_space.h"
#include "suite.h"

static struct address_space space;

/* Returns the list of runs of so many units: one for each size below 16, then 8 to a doubling. */
static unsigned int list_of(uint32_t units)
{
	unsigned int doublings = 0;

	for (; units >= 2 * ADDRESS_STEPS; units /= 2)
		doublings++;
	return doublings * ADDRESS_STEPS + units;
}

/* Counts the runs in all lists. Returns ADDRESS_NONE if a list or its bits are wrong. */
static uint32_t count_listed(void)
{
	uint32_t runs = 0;

	for (unsigned int list = 0; list < ADDRESS_CLASSES * ADDRESS_STEPS; list++) {
		unsigned int class = list / ADDRESS_STEPS, step = list % ADDRESS_STEPS;
		uint32_t prev = ADDRESS_NONE, run = space.first[class][step];

		if ((space.steps[class] >> step & 1) != (run != ADDRESS_NONE) ||
		    (space.classes >> class & 1) != (space.steps[class] != 0))
			return ADDRESS_NONE;
		for (; run != ADDRESS_NONE; prev = run, run = space.tags[run].next) {
			if (run >= space.units || space.tags[run].prev != prev ||
			    !space.tags[run].units || list_of(space.tags[run].units) != list ||
			    runs++ == space.units)
				return ADDRESS_NONE;
		}
	}
	return runs;
}

/* Returns whether all rules of the space hold: it looks at every unit. */
static bool is_valid(void)
{
	uint32_t runs = 0, free_units = 0, unit = 0;

	while (unit < space.units) {
		uint32_t units = space.tags[unit].units;

		if (!units) { /* taken */
			unit++;
			continue;
		}
		if (units > space.units - unit || space.tags[unit + units - 1].units != units)
			return false;
		for (uint32_t inside = 1; inside + 1 < units; inside++)
			if (space.tags[unit + inside].units)
				return false;
		unit += units;
		if (unit < space.units && space.tags[unit].units) /* not joined */
			return false;
		free_units += units;
		runs++;
	}
	return free_units == space.free_units && count_listed() == runs;
}

static void open_with(uint32_t units)
{
	ck_assert_int_eq(address_space_open(&space, units), 0);
	ck_assert(is_valid());
	ck_assert_uint_eq(space.free_units, units);
}

static void give(uint32_t first, uint32_t units)
{
	address_space_give(&space, first, units);
	ck_assert(is_valid());
}

static uint32_t take(uint32_t units, uint32_t alignment)
{
	uint32_t first = address_space_take(&space, units, alignment);

	ck_assert(is_valid());
	if (first != ADDRESS_NONE)
		ck_assert_uint_eq(first % alignment, 0);
	return first;
}

START_TEST(one_unit_is_taken_and_given)
{
	open_with(1);
	ck_assert_uint_eq(take(2, 1), ADDRESS_NONE);
	ck_assert_uint_eq(take(1, 16), 0);
	ck_assert_uint_eq(take(1, 1), ADDRESS_NONE);
	ck_assert_uint_eq(space.free_units, 0);
	give(0, 1);
	ck_assert_uint_eq(take(1, 1), 0);
	address_space_close(&space);
}
END_TEST

START_TEST(nothing_is_no_run)
{
	open_with(4);
	ck_assert_uint_eq(take(0, 1), ADDRESS_NONE);
	ck_assert_uint_eq(take(UINT32_MAX, 1), ADDRESS_NONE);
	ck_assert_uint_eq(take(UINT32_MAX, 1u << 31), ADDRESS_NONE);
	ck_assert_uint_eq(take(1, 1u << 31), 0);
	ck_assert_uint_eq(take(1, 1u << 31), ADDRESS_NONE);
	address_space_close(&space);
}
END_TEST

/* Whatever its size: no rounding of the lists keeps the last unit back. */
START_TEST(all_of_it_can_be_taken_at_once)
{
	for (uint32_t units = 1; units < 600; units++) {
		open_with(units);
		ck_assert_uint_eq(take(units, 1), 0);
		give(0, units);
		ck_assert_uint_eq(take(units, 1024), 0);
		address_space_close(&space);
	}
}
END_TEST

START_TEST(neighbours_join_in_any_order)
{
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
	                                {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	static const uint32_t sizes[] = {5, 1, 26};

	for (size_t o = 0; o < sizeof(orders) / sizeof(*orders); o++) {
		uint32_t first[3];

		open_with(32);
		for (int i = 0; i < 3; i++)
			first[i] = take(sizes[i], 1);
		ck_assert_uint_eq(space.free_units, 0);
		for (int i = 0; i < 3; i++)
			give(first[orders[o][i]], sizes[orders[o][i]]);
		ck_assert_uint_eq(take(32, 1), 0);
		address_space_close(&space);
	}
}
END_TEST

START_TEST(what_alignment_skips_stays_free)
{
	open_with(48);
	ck_assert_uint_eq(take(1, 1), 0);
	ck_assert_uint_eq(take(16, 16), 16);
	ck_assert_uint_eq(take(15, 1), 1);
	ck_assert_uint_eq(take(17, 1), ADDRESS_NONE);
	ck_assert_uint_eq(take(16, 16), 32);
	ck_assert_uint_eq(space.free_units, 0);
	address_space_close(&space);
}
END_TEST

/*
 * The hole that an aligned run leaves is used again for the next of its kind, though it has nothing
 * to spare.
 */
START_TEST(an_aligned_hole_is_filled_before_more_is_cut)
{
	uint32_t hole;

	open_with(500000);
	ck_assert_uint_eq(take(16, 16), 0);
	hole = take(16, 16);
	ck_assert_uint_eq(take(16, 16), hole + 16);
	give(hole, 16);
	ck_assert_uint_eq(take(16, 16), hole);
	address_space_close(&space);
}
END_TEST

/* Among many free runs of its list, all but the first misaligned, the one that fits is found. */
START_TEST(the_one_that_fits_is_found_behind_many)
{
	enum { RUNS = 40, APART = 32 };

	open_with(RUNS * APART);
	ck_assert_uint_eq(take(RUNS * APART, 1), 0);
	give(0, 16);
	for (uint32_t i = 1; i < RUNS; i++)
		give(i * APART + 1, 16);
	ck_assert_uint_eq(take(16, 16), 0);
	ck_assert_uint_eq(take(16, 16), ADDRESS_NONE);
	address_space_close(&space);
}
END_TEST

/* A very large one, for huge pages: it costs only the pages of what is used of it. */
START_TEST(untouched_units_cost_nothing)
{
	enum { UNITS = 2000000 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes, resident = 0;
	unsigned char *pages;

	ck_assert_int_eq(address_space_open(&space, UNITS), 0);
	for (int i = 0; i < 100; i++)
		ck_assert_uint_ne(address_space_take(&space, 64, 16), ADDRESS_NONE);
	bytes = (size_t)UNITS * 8; /* of tags there are at least so many */
	pages = calloc(bytes / page + 1, 1);
	ck_assert_ptr_nonnull(pages);
	ck_assert_int_eq(mincore(space.tags, bytes, pages), 0);
	for (size_t i = 0; i < bytes / page; i++)
		resident += pages[i] & 1;
	free(pages);
	ck_assert_uint_lt(resident, bytes / page / 2);
	address_space_close(&space);
}
END_TEST

START_TEST(no_memory_is_said_and_undone)
{
	struct rlimit before, none;
	int answer;

	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 1 << 20;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
	answer = address_space_open(&space, 500000);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
	ck_assert_int_eq(answer, -ENOMEM);
	ck_assert_uint_eq(address_space_take(&space, 1, 1), ADDRESS_NONE);
	address_space_close(&space);
	open_with(3);
	address_space_close(&space);
	address_space_close(&space);
}
END_TEST

/* --- random sequences --- */

enum { MODEL_UNITS = 700, STEPS = 1500 };

static unsigned char taken[MODEL_UNITS];
static struct run {
	uint32_t first, units;
} live[MODEL_UNITS];
static uint32_t live_count;

static bool fits(uint32_t first, uint32_t units)
{
	if (first + units > space.units)
		return false;
	for (uint32_t i = 0; i < units; i++)
		if (taken[first + i])
			return false;
	return true;
}

static void mark(uint32_t first, uint32_t units, unsigned char value)
{
	for (uint32_t i = 0; i < units; i++)
		taken[first + i] = value;
}

static void take_some(unsigned int *seed)
{
	uint32_t most = rand_r(seed) % 4 ? 20 : space.units;
	uint32_t units = (uint32_t)rand_r(seed) % most + 1;
	uint32_t alignment = 1u << rand_r(seed) % 6;
	uint32_t first = take(units, alignment);

	if (first == ADDRESS_NONE) {
		for (first = 0; first < space.units; first += alignment)
			if (fits(first, units))
				ck_abort_msg("%u units fit at %u", units, first);
		return;
	}
	ck_assert_msg(fits(first, units), "%u units at %u overlap", units, first);
	mark(first, units, 1);
	live[live_count++] = (struct run){first, units};
}

static void give_some(unsigned int *seed)
{
	uint32_t which;

	if (!live_count)
		return;
	which = (uint32_t)rand_r(seed) % live_count;
	mark(live[which].first, live[which].units, 0);
	give(live[which].first, live[which].units);
	live[which] = live[--live_count];
}

START_TEST(random_sequences_agree_with_the_model)
{
	static const uint32_t sizes[] = {1, 2, 7, 8, 9, 31, 64, 127, 256, MODEL_UNITS};

	for (unsigned int seed = 0; seed < 60; seed++) {
		unsigned int state = seed;
		uint32_t units = sizes[seed % (sizeof(sizes) / sizeof(*sizes))];
		uint32_t held;

		open_with(units);
		for (int step = 0; step < STEPS; step++) {
			/* Filling and emptying by turns, so that both ends are met. */
			int takes = step / 200 % 2 ? 3 : 7;

			if (rand_r(&state) % 10 < takes)
				take_some(&state);
			else
				give_some(&state);
			held = 0;
			for (uint32_t i = 0; i < live_count; i++)
				held += live[i].units;
			ck_assert_uint_eq(space.free_units, units - held);
		}
		while (live_count)
			give_some(&state);
		ck_assert_uint_eq(take(units, 1), 0);
		address_space_close(&space);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("address_space");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, one_unit_is_taken_and_given);
	tcase_add_test(tests, nothing_is_no_run);
	tcase_add_test(tests, all_of_it_can_be_taken_at_once);
	tcase_add_test(tests, neighbours_join_in_any_order);
	tcase_add_test(tests, what_alignment_skips_stays_free);
	tcase_add_test(tests, an_aligned_hole_is_filled_before_more_is_cut);
	tcase_add_test(tests, the_one_that_fits_is_found_behind_many);
	tcase_add_test(tests, untouched_units_cost_nothing);
	tcase_add_test(tests, no_memory_is_said_and_undone);
	tcase_add_test(tests, random_sequences_agree_with_the_model);
	return suite_run("address_space", tests);
}
