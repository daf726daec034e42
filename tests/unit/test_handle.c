/* SPDX-License-Identifier: MIT */
/*
 * Handles: there and back, by resource, and texts that are none (more of them:
 * tests/fuzz/handle.c).
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry/registry.h"
#include "suite.h"

static int destroyed;

static void count_destroy(struct resource *resource)
{
	(void)resource;
	destroyed++;
}

static const struct resource_type allocation = {.name = "allocation", .destroy = count_destroy};
static const struct resource_type stream = {.name = "stream", .destroy = count_destroy};

static void expect_same(const struct handle *a, const struct handle *b)
{
	ck_assert_str_eq(a->job, b->job);
	ck_assert_int_eq(a->process, b->process);
	ck_assert_int_eq(a->gpu, b->gpu);
	ck_assert_str_eq(a->container, b->container);
	ck_assert_str_eq(a->type_name, b->type_name);
	ck_assert_str_eq(a->name, b->name);
	ck_assert_uint_eq(a->type_hash, b->type_hash);
}

START_TEST(names_a_resource)
{
	char text[REGISTRY_HANDLE_MAX];
	struct resource resource, *found = NULL;
	struct handle handle, read;
	struct registry *here = registry_create("bert", 4711, 0);
	struct registry *elsewhere = registry_create("bert", 4711, 1);
	resource_init(&resource, &allocation);

	ck_assert_int_eq(handle_make(here, "ctx1", &allocation, "17", &handle), 0);
	ck_assert_str_eq(handle_format(&handle, text, sizeof text),
	                 "/job:bert/process:4711/gpu:0/ctx1/allocation/17");
	ck_assert_int_eq(handle_parse(text, &read), 0);
	expect_same(&handle, &read);

	/* to ask creates nothing, not even a container */
	ck_assert(!handle_is_initialized(here, &handle));
	ck_assert_uint_eq(registry_cleanup(here, "ctx1"), 0);
	ck_assert_ptr_null(registry_type_name(here, handle.type_hash));
	ck_assert_int_eq(registry_add(here, "ctx1", "17", &resource), 0);
	ck_assert(handle_is_initialized(here, &read));
	ck_assert_str_eq(registry_type_name(here, read.type_hash), "allocation");
	ck_assert_int_eq(registry_lookup_handle(here, &read, &found), 0);
	ck_assert_ptr_eq(found, &resource);
	ck_assert_uint_eq(resource.references, 2);
	ck_assert_int_eq(registry_lookup_handle(elsewhere, &read, &found), -EXDEV);
	ck_assert_int_eq(registry_delete_handle(elsewhere, &read), -EXDEV);
	ck_assert_int_eq(registry_delete_handle(here, &read), 0);
	ck_assert_int_eq(registry_delete_handle(here, &read), -ENOENT);
	ck_assert_int_eq(destroyed, 0);
	resource_release(found);
	ck_assert_int_eq(destroyed, 1);

	ck_assert_int_eq(handle_make(here, NULL, &stream, "0000000000001000", &handle), 0);
	ck_assert_str_eq(handle.container, "default");
	ck_assert_int_eq(registry_lookup_handle(here, &handle, &found), -ENOENT);
	ck_assert_int_eq(handle_make(here, "a/b", &stream, "x", &handle), -EINVAL);
	ck_assert_int_eq(handle_make(here, NULL, &stream, "", &handle), -EINVAL);
	registry_destroy(here);
	registry_destroy(elsewhere);
}
END_TEST

static const char *const bad[] = {
    "",
    "/",
    "job:a/process:1/gpu:0/c/t/n",
    "/job:a/process:1/gpu:0/c/t",
    "/job:a/process:1/gpu:0/c/t/",
    "/job:a/process:1/gpu:0/c//n",
    "/job:a/process:1/gpu:0//t/n",
    "/job:a/process:1/gpu:0/c/t/n/",
    "/job:a/process:1/gpu:0/c/t/n/x",
    "/job:a/process:/gpu:0/c/t/n",
    "/job:a/process:-1/gpu:0/c/t/n",
    "/job:a/process:01/gpu:0/c/t/n",
    "/job:a/process: 1/gpu:0/c/t/n",
    "/job:a/process:1x/gpu:0/c/t/n",
    "/job:a/process:2147483648/gpu:0/c/t/n",
    "/job:a/process:99999999999999999999/gpu:0/c/t/n",
    "/job:a/gpu:0/process:1/c/t/n",
    "/job:a/process:1/gpu:0/c/t/n\n",
    "/job:a/process:1/gpu:0/c/t/12345678901234567890123456789012",
};

START_TEST(refuses)
{
	struct handle handle = {.process = 99};
	ck_assert_int_eq(handle_parse(bad[_i], &handle), -EINVAL);
	ck_assert_int_eq(handle.process, 99);
}
END_TEST

START_TEST(the_longest_fits)
{
	char job[64], part[REGISTRY_NAME_MAX], text[512];
	memset(job, 'j', sizeof job - 1);
	job[sizeof job - 1] = '\0';
	memset(part, 'p', sizeof part - 1);
	part[sizeof part - 1] = '\0';
	struct handle handle;
	snprintf(text, sizeof text, "/job:%s/process:2147483647/gpu:2147483647/%s/%s/%s", job, part,
	         part, part);
	ck_assert_int_eq(handle_parse(text, &handle), 0);
	char again[REGISTRY_HANDLE_MAX];
	ck_assert_str_eq(handle_format(&handle, again, sizeof again), text);
	ck_assert_uint_lt(strlen(text), REGISTRY_HANDLE_MAX);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("handle");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, names_a_resource);
	tcase_add_loop_test(tests, refuses, 0, sizeof bad / sizeof bad[0]);
	tcase_add_test(tests, the_longest_fits);
	return suite_run("handle", tests);
}
