/* SPDX-License-Identifier: MIT */
/*
 * A symbol that is read in a library's own table is the one that dlsym() answers. dlsym() is asked
 * for all other symbols.
 */
#include "shim/driver_symbols.h"

#include <check.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/state_directory.h"

static struct driver_symbols read_from(const char *library)
{
	const char *build = getenv("BUILD");
	char path[PATH_MAX];
	void *handle;
	struct driver_symbols symbols;

	snprintf(path, sizeof path, "%s/tests/unit/%s", build ? build : "build", library);
	handle = dlopen(strchr(library, '/') || strstr(library, ".so.") ? library : path,
	                RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(handle != NULL, "%s", dlerror());
	driver_symbols_read(&symbols, handle);
	return symbols;
}

static bool is_in(const struct driver_symbols *s, const void *address)
{
	Dl_info found;

	return address && dladdr(address, &found) && (uintptr_t)found.dli_fbase == s->base;
}

/* Looks up every name in the library's texts. Returns how many of them it has itself. */
static int compare_all(const struct driver_symbols *s)
{
	const struct link_map *map;
	size_t size = 0;
	int own = 0;

	ck_assert_int_eq(dlinfo(s->handle, RTLD_DI_LINKMAP, &map), 0);
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRSZ)
			size = d->d_un.d_val;
	for (const char *name = s->names; name < s->names + size; name += strlen(name) + 1) {
		void *expected = dlsym(s->handle, name);

		if (expected && !is_in(s, expected))
			continue; /* of a library that it needs */
		ck_assert_msg(driver_symbol(s, name) == expected, "%s", name);
		own += expected != NULL;
	}
	return own;
}

START_TEST(plain_ones_are_read)
{
	struct driver_symbols symbols = read_from("recorder.so");
	const char *sanitizer = getenv("SANITIZER");

	ck_assert_int_ge(compare_all(&symbols), 100);
	ck_assert_ptr_nonnull(driver_symbol(&symbols, "cuInit"));
	/* What is built with a sanitizer needs its library, too, and is not read. */
	if (sanitizer && *sanitizer && !symbols.buckets)
		return;
	ck_assert_ptr_nonnull(symbols.buckets);
	/* The loader would say that it did not find it. */
	dlerror();
	ck_assert_ptr_null(driver_symbol(&symbols, "cuInit_"));
	ck_assert_ptr_null(driver_symbol(&symbols, ""));
	ck_assert_ptr_null(dlerror());
}
END_TEST

/* glibc's have versions, several of one name, objects, and functions that choose their address. */
START_TEST(the_loader_is_asked_for_others)
{
	struct driver_symbols symbols = read_from("libc.so.6");

	ck_assert_int_ge(compare_all(&symbols), 1000);
	ck_assert_ptr_nonnull(symbols.buckets);
	symbols = read_from("libm.so.6");
	ck_assert_int_ge(compare_all(&symbols), 100);
}
END_TEST

START_TEST(what_others_may_have_is_asked_for)
{
	struct driver_symbols symbols = read_from("needing.so");

	ck_assert_ptr_null(symbols.buckets);
	ck_assert_ptr_nonnull(driver_symbol(&symbols, "cuInit"));
	dlerror();
	ck_assert_ptr_null(driver_symbol(&symbols, "cuInit_"));
	ck_assert_ptr_nonnull(dlerror());
	setenv("LD_AUDIT", "", 1);
	symbols = read_from("recorder.so");
	ck_assert_ptr_null(symbols.buckets);
	ck_assert_ptr_nonnull(driver_symbol(&symbols, "cuInit"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("driver_symbols");
	TCase *tests = tcase_create("driver_symbols");

	tcase_add_test(tests, plain_ones_are_read);
	tcase_add_test(tests, the_loader_is_asked_for_others);
	tcase_add_test(tests, what_others_may_have_is_asked_for);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
