/* SPDX-License-Identifier: MIT */
/*
 * Lookup tables: one that is written to against a model, and the view of an arena against the
 * arena's own table.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/memory/arena/arena.h"
#include "suite.h"

enum { KEYS = 500, BULK = 40 };

struct value {
	uint64_t a;
	uint32_t b;
};

START_TEST(as_the_model)
{
	struct lookup_table *table = hash_table_create(sizeof(struct value));
	const struct value fallback = {99, 9};
	struct value model[KEYS] = {{0, 0}}, values[BULK];
	bool has[KEYS] = {false};
	uint64_t keys[BULK];
	size_t count = 0;

	srand((unsigned int)_i + 1);
	ck_assert_uint_eq(table->resource.references, 1);
	for (int round = 0; round < 400; round++) {
		size_t n = (size_t)(rand() % BULK), expected = 0;
		for (size_t i = 0; i < n; i++) {
			keys[i] = (uint64_t)(rand() % KEYS);
			values[i] = (struct value){(uint64_t)rand(), 7};
		}
		if (round % 2) {
			for (size_t i = 0; i < n; i++) {
				count += !has[keys[i]];
				has[keys[i]] = true;
				model[keys[i]] = values[i]; /* the last one of a key stays */
				keys[i] <<= 20;
			}
			ck_assert_int_eq(lookup_table_insert(table, keys, values, n), 0);
		} else {
			for (size_t i = 0; i < n; i++)
				keys[i] <<= 20;
			size_t found = lookup_table_find(table, keys, n, values, &fallback);
			for (size_t i = 0; i < n; i++) {
				const struct value *is =
				    has[keys[i] >> 20] ? &model[keys[i] >> 20] : &fallback;
				expected += has[keys[i] >> 20];
				ck_assert_uint_eq(values[i].a, is->a);
				ck_assert_uint_eq(values[i].b, is->b);
			}
			ck_assert_uint_eq(found, expected);
		}
		ck_assert_uint_eq(lookup_table_count(table), count);
	}
	resource_release(&table->resource);
	ck_assert_ptr_null(hash_table_create(0));
}
END_TEST

START_TEST(what_is_missing_stays_as_it_is_without_a_fallback)
{
	struct lookup_table *table = hash_table_create(sizeof(int));
	uint64_t keys[] = {0, 1, UINT64_MAX};
	int values[] = {10, 11, 12};

	ck_assert_uint_eq(lookup_table_find(table, keys, 3, values, NULL), 0);
	ck_assert_int_eq(lookup_table_insert(table, &keys[2], &values[0], 1), 0);
	ck_assert_int_eq(lookup_table_insert(table, &keys[0], &values[1], 1), 0);
	ck_assert_uint_eq(lookup_table_find(table, keys, 3, values, NULL), 2);
	ck_assert_int_eq(values[0], 11);
	ck_assert_int_eq(values[1], 11);
	ck_assert_int_eq(values[2], 10);
	resource_release(&table->resource);
}
END_TEST

/* Pairs are written, and never seen half. */
static void *write_pairs(void *table)
{
	const uint64_t keys[2] = {1, 2};

	for (int i = 0; i < 20000; i++) {
		const int values[2] = {i, -i};
		lookup_table_insert(table, keys, values, 2);
	}
	return NULL;
}

START_TEST(what_is_inserted_at_once_is_found_at_once)
{
	struct lookup_table *table = hash_table_create(sizeof(int));
	const uint64_t keys[2] = {1, 2};
	int values[2] = {0, 0};
	pthread_t writer;

	pthread_create(&writer, NULL, write_pairs, table);
	for (int i = 0; i < 20000; i++) {
		lookup_table_find(table, keys, 2, values, NULL);
		ck_assert_int_eq(values[0], -values[1]);
	}
	pthread_join(writer, NULL);
	resource_release(&table->resource);
}
END_TEST

enum { UNITS = 64 };

START_TEST(an_arena_is_seen_as_it_is)
{
	static const CUdeviceptr base = (CUdeviceptr)1 << 40;
	static struct unit units[UNITS];
	struct arena arena = {.base = base, .size = UNITS * ARENA_UNIT, .units = units, .top = 32};
	struct chunk_view view[6], none = {.bytes = 77};
	struct lookup_table *table;
	char text[80];

	/* a chunk of four units, of a run; a slab's */
	for (int i = 8; i < 12; i++)
		units[i].kind = UNIT_OF_ALLOCATION;
	units[8].units = 4;
	units[8].side = SEGMENT_ON_HOST;
	units[31] =
	    (struct unit){.kind = UNIT_OF_SLAB, .units = 1, .side = SEGMENT_ON_DEVICE, .pins = 2};
	const uint64_t keys[6] = {base + 8 * ARENA_UNIT,     base + 12 * ARENA_UNIT - 1,
	                          base + 12 * ARENA_UNIT,    base + 31 * ARENA_UNIT + 512,
	                          base + UNITS * ARENA_UNIT, base - 1};

	lock_init(&arena.lock);
	table = arena_view_create(&arena);
	ck_assert_uint_eq(lookup_table_find(table, keys, 6, view, &none), 3);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(view[i].address, base + 8 * ARENA_UNIT);
		ck_assert_uint_eq(view[i].bytes, 4 * ARENA_UNIT);
		ck_assert_int_eq(view[i].kind, UNIT_OF_ALLOCATION);
		ck_assert_int_eq(view[i].side, SEGMENT_ON_HOST);
	}
	ck_assert_uint_eq(view[2].bytes, 77);
	ck_assert_uint_eq(view[3].address, base + 31 * ARENA_UNIT);
	ck_assert_int_eq(view[3].kind, UNIT_OF_SLAB);
	ck_assert_uint_eq(view[3].pins, 2);
	ck_assert_uint_eq(view[4].bytes, 77);
	ck_assert_uint_eq(view[5].bytes, 77);
	ck_assert_uint_eq(lookup_table_count(table), 2);
	table->resource.type->describe(&table->resource, text, sizeof text);
	ck_assert_str_eq(text, "2 chunks in 134217728 bytes of addresses");

	/* it is moved: nothing was copied */
	units[8].side = SEGMENT_ON_DEVICE;
	lookup_table_find(table, keys, 1, view, NULL);
	ck_assert_int_eq(view[0].side, SEGMENT_ON_DEVICE);
	ck_assert_int_eq(lookup_table_insert(table, keys, view, 1), -EROFS);
	resource_release(&table->resource);
	lock_destroy(&arena.lock);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("lookup table");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, as_the_model, 0, 3);
	tcase_add_test(tests, what_is_missing_stays_as_it_is_without_a_fallback);
	tcase_add_test(tests, what_is_inserted_at_once_is_found_at_once);
	tcase_add_test(tests, an_arena_is_seen_as_it_is);
	return suite_run("lookup table", tests);
}
