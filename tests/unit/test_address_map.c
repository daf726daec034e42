/* SPDX-License-Identifier: MIT */
/* The address map, against a list that is searched from one end to the other. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/address_map.h"
#include "suite.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

enum { RANGES = 200, CHANGES = 20000, THREADS = 8, EACH = 64, TURNS = 1500 };

static struct address_range model[RANGES]; /* size 0: none */

static uint64_t seed = 1;

static uint64_t any(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static const struct address_range *in_model(uint64_t first, uint64_t size)
{
	for (int i = 0; i < RANGES; i++) {
		if (model[i].size && first < model[i].first + model[i].size &&
		    model[i].first < first + size)
			return &model[i];
	}
	return NULL;
}

/*
 * Makes a range of few bytes, of some pieces of 2 MiB, or of more than a table has; at their
 * borders, or anywhere.
 */
static struct address_range make(void)
{
	static const uint64_t sizes[] = {1, 512, 4096, 2 * MIB, 7 * MIB, 32 * GIB, 70 * GIB};
	struct address_range range = {.owner = &model[any(RANGES)], .kind = any(4)};

	range.size = sizes[any(any(10) ? 5 : 7)] + (any(3) ? 0 : any(4 * MIB));
	range.first = 8 * GIB + any(40) * 2 * MIB + (any(2) ? any(4 * MIB) : 0);
	if (range.size >= 32 * GIB || !any(8))
		range.first = (1 + any(8)) * 32 * GIB - (any(2) ? 0 : any(6 * MIB));
	return range;
}

static void expect(uint64_t address)
{
	const struct address_range *known = in_model(address, 1);
	struct address_range found;

	ck_assert_int_eq(address_map_find(address, &found), known != NULL);
	if (!known)
		return;
	ck_assert_uint_eq(found.first, known->first);
	ck_assert_uint_eq(found.size, known->size);
	ck_assert_ptr_eq(found.owner, known->owner);
	ck_assert_int_eq(found.kind, known->kind);
}

static bool agree(void *owner, void *cookie)
{
	(void)owner;
	(void)cookie;
	return true;
}

static void expect_held(const struct address_range *range)
{
	bool is_there = false;

	for (int i = 0; i < RANGES; i++)
		is_there |= model[i].size && model[i].kind == range->kind &&
		            range->first < model[i].first + model[i].size &&
		            model[i].first < range->first + range->size;
	ck_assert_int_eq(address_map_hold(range->first, range->size, range->kind, agree, NULL) !=
	                     NULL,
	                 is_there);
}

static void change(void)
{
	struct address_range range = make();
	struct address_range *place = &model[any(RANGES)];

	if (place->size) {
		ck_assert(!address_map_remove(place->first, &seed));
		ck_assert(!address_map_remove(place->first + 1, place->owner));
		ck_assert(address_map_remove(place->first, place->owner));
		ck_assert(!address_map_remove(place->first, place->owner));
		range = *place;
		place->size = 0;
		expect_held(&range);
		return;
	}
	if (in_model(range.first, range.size)) {
		ck_assert_int_eq(address_map_add(&range), -EEXIST);
		return;
	}
	ck_assert_int_eq(address_map_add(&range), 0);
	*place = range;
}

START_TEST(it_says_what_a_list_says)
{
	for (int i = 0; i < CHANGES; i++) {
		const struct address_range *some = &model[any(RANGES)];
		struct address_range probe = make();

		change();
		expect(probe.first);
		if (some->size) {
			expect(some->first);
			expect(some->first - 1);
			expect(some->first + some->size - 1);
			expect(some->first + some->size);
			expect(some->first + some->size / 2);
		}
		if (probe.size < GIB)
			expect_held(&probe);
	}
}
END_TEST

START_TEST(what_is_no_address_is_refused)
{
	const uint64_t end = (uint64_t)1 << 49;
	struct address_range range = {.first = end, .size = 1, .owner = model}, found;

	ck_assert_int_eq(address_map_add(&range), -ERANGE);
	range.first = end - 1;
	range.size = 2;
	ck_assert_int_eq(address_map_add(&range), -ERANGE);
	range.size = UINT64_MAX;
	ck_assert_int_eq(address_map_add(&range), -ERANGE);
	range.size = 0;
	ck_assert_int_eq(address_map_add(&range), -ERANGE);
	range.size = 1;
	ck_assert_int_eq(address_map_add(&range), 0);
	ck_assert(address_map_find(end - 1, &found));
	ck_assert(!address_map_find(end, &found));
	ck_assert(!address_map_find(UINT64_MAX, &found));
	ck_assert(!address_map_remove(UINT64_MAX, model));
	ck_assert_ptr_null(address_map_hold(UINT64_MAX, 1, ADDRESS_OF_ARENA, agree, NULL));
	ck_assert_ptr_null(address_map_hold(end - 1, 2, ADDRESS_OF_ARENA, agree, NULL));
	ck_assert(address_map_remove(end - 1, model));
}
END_TEST

/*
 * Each thread has every eighth place of 1 MiB, so that they share pieces; what it reads of others
 * must be whole.
 */
static const char *work(uint64_t me)
{
	uint64_t random = me + 1;
	bool is_there[EACH] = {false};

	for (int turn = 0; turn < TURNS; turn++) {
		struct address_range range = {.owner = &model[me], .kind = me % 2}, found;
		uint64_t i, other;

		random = random * 6364136223846793005u + 1442695040888963407u;
		i = (random >> 33) % EACH;
		range.first = 100 * GIB + (i * THREADS + me) * MIB;
		range.size = MIB - (random >> 40) % 4096;
		if (is_there[i] && !address_map_remove(range.first, range.owner))
			return "it is not there to be taken out";
		if (!is_there[i] && address_map_add(&range) != 0)
			return "it is refused";
		is_there[i] = !is_there[i];
		if (address_map_find(range.first, &found) != is_there[i] ||
		    (is_there[i] && found.owner != range.owner))
			return "what a thread did itself is not found";
		other = 100 * GIB + (random >> 20) % (EACH * THREADS) * MIB;
		if (address_map_find(other, &found) &&
		    (found.owner != &model[(other - 100 * GIB) / MIB % THREADS] ||
		     found.first != other || found.size > MIB || found.size < MIB - 4096))
			return "of others something is found that never was";
	}
	return NULL;
}

static void *run(void *cookie)
{
	return (void *)(uintptr_t)work((uintptr_t)cookie);
}

START_TEST(eight_threads_read_and_change)
{
	pthread_t threads[THREADS];
	void *wrong;

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		ck_assert_msg(!wrong, "%s", (char *)wrong);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("address map");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, it_says_what_a_list_says);
	tcase_add_test(tests, what_is_no_address_is_refused);
	tcase_add_test(tests, eight_threads_read_and_change);
	return suite_run("address map", tests);
}
