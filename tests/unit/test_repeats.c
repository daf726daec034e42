/* SPDX-License-Identifier: MIT */
/* Repeats: programs of random shapes, and the period found of each against its true one. */
#include "core/modules/placement/survey.c" /* struct repeats, too */

#include <check.h>
#include <stdlib.h>

#include "suite.h"

static struct repeats *repeats;
static uint32_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static void set_up(void)
{
	repeats = calloc(1, sizeof(*repeats));
	ck_assert_ptr_nonnull(repeats);
	seed = 1;
}

static void tear_down(void)
{
	free(repeats);
}

static size_t period(void)
{
	uint64_t since;

	return repeats_period(repeats, &since);
}

/* It is known with the last launch of the second step, and whatever came before may come again. */
START_TEST(a_step_is_known_when_it_has_come_twice)
{
	enum { LAUNCHES = 200, BEFORE = 100 };

	for (uint64_t i = 0; i < BEFORE; i++)
		repeats_take(repeats, 1000 + (i < BEFORE / 2 ? i : draw(LAUNCHES)));
	for (int i = 0; i < 4 * LAUNCHES; i++) {
		repeats_take(repeats, 1000 + (uint64_t)(i % LAUNCHES));
		if (i < 2 * LAUNCHES - 1)
			ck_assert_uint_eq(period(), 0);
		else
			ck_assert_uint_eq(period(), LAUNCHES);
	}
	repeats_take(repeats, 1);
	ck_assert_uint_eq(period(), 0);
}
END_TEST

/* What a step has several times does not hide it; it may take a few steps more. */
START_TEST(steps_of_any_shape_are_found)
{
	enum { MOST = 300 };

	for (int round = 0; round < 200; round++) {
		uint64_t step[MOST], unique = 1 + draw(40);
		uint32_t launches = 2 + draw(MOST - 2), until = 0, since = 0;
		uint32_t before = draw(100);
		struct repeats *r = calloc(1, sizeof(*repeats));
		uint64_t number, begins = 0;

		for (uint32_t i = 0; i < launches; i++)
			step[i] = draw(3) ? draw((uint32_t)unique) : 1000 + i;
		step[launches - 1] = 999; /* once in a step, as what optimises */
		for (uint32_t i = 0; i < before; i++)
			repeats_take(r, 5000 + i);
		for (; !until && since < 12 * launches; since++) {
			repeats_take(r, step[since % launches]);
			begins = repeats_period(r, &number);
			until = begins == launches ? since : 0;
		}
		ck_assert_msg(until, "round %d: %u launches: none is found", round, launches);
		for (uint32_t i = 0; i < 3 * launches; i++) {
			uint64_t still;

			repeats_take(r, step[(since + i) % launches]);
			ck_assert_uint_eq(repeats_period(r, &still), launches);
			ck_assert_uint_eq(still, number);
		}
		free(r);
	}
}
END_TEST

/* A loop within the first step is less than what came before it. */
START_TEST(a_loop_within_a_step_is_none)
{
	for (uint64_t i = 0; i < 100; i++)
		repeats_take(repeats, 1000 + i);
	for (int i = 0; i < 99; i++) {
		repeats_take(repeats, 1);
		ck_assert_uint_eq(period(), 0);
	}
}
END_TEST

START_TEST(memory_that_differs_each_time_has_no_period)
{
	bool goes_on = true;

	for (uint64_t i = 0; i <= REPEATS_PATIENCE + 100; i++) {
		ck_assert(goes_on || i >= REPEATS_PATIENCE);
		goes_on = repeats_take(repeats, i % 100 ? i % 100 : 1000 + i);
		ck_assert_uint_eq(period(), 0);
	}
	ck_assert(!goes_on);
}
END_TEST

/* A period as long as can be; one launch more is too long. */
START_TEST(the_longest_period)
{
	for (int round = 0; round < 2; round++) {
		struct repeats *r = calloc(1, sizeof(*repeats));
		uint64_t since;

		for (int i = 0; i < 3 * (REPEATS_LONGEST + 1); i++)
			repeats_take(r, (uint64_t)(i % (REPEATS_LONGEST + round)) << 32);
		ck_assert_uint_eq(repeats_period(r, &since), round ? 0 : REPEATS_LONGEST);
		free(r);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("repeats");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_step_is_known_when_it_has_come_twice);
	tcase_add_test(tests, steps_of_any_shape_are_found);
	tcase_add_test(tests, a_loop_within_a_step_is_none);
	tcase_add_test(tests, memory_that_differs_each_time_has_no_period);
	tcase_add_test(tests, the_longest_period);
	return suite_run("repeats", tests);
}
