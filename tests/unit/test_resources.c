/* SPDX-License-Identifier: MIT */
/* Listing a registry without holding any of it, and the bounds of the list. */
#include <stdio.h>
#include <string.h>

#include "core/registry/registry.h"
#include "tests/unit/suite.h"

static uint64_t hundred(const struct resource *resource)
{
	(void)resource;
	return 100;
}

static int destroyed;

static void destroy(struct resource *resource)
{
	destroyed++;
	free(resource);
}

static const struct resource_type with = {
    .name = "with", .memory_used = hundred, .destroy = destroy};
static const struct resource_type without = {.name = "without", .destroy = destroy};

static struct resource *new (const struct resource_type *type)
{
	struct resource *resource = malloc(sizeof(*resource));

	ck_assert_ptr_nonnull(resource);
	resource_init(resource, type);
	return resource;
}

START_TEST(lists_as_much_as_there_is_room_for)
{
	struct registry *registry = registry_create("job", 1, 0);
	struct registry_listing listing[12];
	int there = 0;

	ck_assert_uint_eq(registry_list(registry, listing, 12), 0);
	for (uint64_t i = 0; i < 6; i++)
		ck_assert_int_eq(registry_add_object(registry, "ctx1", 0x1000 + i, new (&with)), 0);
	for (int i = 0; i < 4; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		ck_assert_int_eq(registry_add(registry, "", name, new (&without)), 0);
	}
	ck_assert_uint_eq(registry_list(registry, NULL, 0), 10);
	memset(listing, 0, sizeof(listing));
	ck_assert_uint_eq(registry_list(registry, listing, 3), 10);
	ck_assert_ptr_nonnull(listing[2].type);
	ck_assert_ptr_null(listing[3].type);
	ck_assert_uint_eq(registry_list(registry, listing, 12), 10);
	for (int i = 0; i < 10; i++) {
		bool has = listing[i].type == &with;

		ck_assert_str_eq(listing[i].container, has ? "ctx1" : "default");
		ck_assert_uint_eq(listing[i].bytes, has ? 100 : 0);
		ck_assert_uint_gt(listing[i].born_ns, 0);
		if (strcmp(listing[i].name, "0000000000001005") == 0 ||
		    strcmp(listing[i].name, "n3") == 0)
			there++;
	}
	ck_assert_int_eq(there, 2);
	/* nothing of it is held */
	ck_assert_uint_eq(registry_clear(registry), 10);
	ck_assert_int_eq(destroyed, 10);
	registry_destroy(registry);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("resources");

	tcase_add_test(tests, lists_as_much_as_there_is_room_for);
	return suite_run("resources", tests);
}
