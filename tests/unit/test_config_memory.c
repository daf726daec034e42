/* SPDX-License-Identifier: MIT */
/* Configuration without memory: each allocation fails in turn, and the user's process lives on. */
#include "core/base/deadline.h"
#include "core/config/config.h"
#include "core/config/listener.h"

#include "tests/unit/scratch.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
	puts("the sanitizer has its own malloc");
	return 77;
}

#else

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

#define SEEN_BY_LIBC __attribute__((visibility("default")))

/* 0: never. It counts down to 0; what is left over tells that nothing failed. libc gets by without
 * some of its allocations. */
static long until_failure;

static bool fails(void)
{
	if (until_failure == 0 || --until_failure > 0)
		return false;
	until_failure = 0;
	errno = ENOMEM;
	return true;
}

SEEN_BY_LIBC void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

SEEN_BY_LIBC void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

SEEN_BY_LIBC void *realloc(void *block, size_t size)
{
	return fails() ? NULL : __libc_realloc(block, size);
}

static struct config_error error;

START_TEST(loading)
{
	static const char *const environment[] = {"SPILLWAY_SHARE=70", "SPILLWAY_SHAR=7", NULL};
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nshare = 50\n"),
	    .file = scratch_write("job.ini", "[gpu]\nshare = 70\nspill = off\n[gpu 0]\n"
	                                     "memory = 8G\nmemory_max = 9G\n"
	                                     "share_window = 1s\n"),
	    .override_file = scratch_write("over.ini", "[gpu]\nspill_after = 2\n"),
	    .environment = (char *const *)environment,
	};
	struct config *config = NULL;
	bool failed = true;
	int failures = 0;

	for (long n = 1; failed; n++) {
		int status;

		until_failure = n;
		status = config_load(&sources, &config, &error);
		failed = until_failure == 0;
		until_failure = 0;
		if (status != 0) {
			ck_assert_int_eq(status, -ENOMEM);
			ck_assert_ptr_null(config);
			ck_assert_ptr_nonnull(strstr(error.message, "memory"));
			failures++;
		}
		config_release(config);
		config = NULL;
	}
	ck_assert_int_gt(failures, 20);
}
END_TEST

START_TEST(overriding)
{
	static const char *const keys[] = {"share", "spill", NULL};
	static const char *const values[] = {"50", "off", NULL};
	static const char old[] = "[gpu]\nshare = 70\n[gpu 0]\nspill_after = 2\n";
	const char *path = scratch_write("over.ini", old);
	bool failed = true;
	int failures = 0;
	char *text;

	for (long n = 1; failed; n++) {
		int status;

		scratch_write("over.ini", old);
		until_failure = n;
		status = config_override_write(
		    path, "", keys, values, &(struct deadline){.patience_ns = 20000000000}, &error);
		failed = until_failure == 0;
		until_failure = 0;
		text = scratch_read(path);
		if (status != 0) {
			ck_assert_int_eq(status, -ENOMEM);
			ck_assert_str_eq(text, old);
			failures++;
		} else {
			ck_assert_ptr_nonnull(strstr(text, "share = 50\nspill = off\n"));
		}
		free(text);
	}
	ck_assert_int_gt(failures, 10);
}
END_TEST

static void count(void *cookie, const char *path)
{
	(void)path;
	++*(int *)cookie;
}

/* A file that cannot be looked at for want of memory has neither changed nor gone. */
START_TEST(listening)
{
	struct listener listener = {.count = 0};
	int calls = 0;

	ck_assert_int_eq(listener_add(&listener, scratch_path("a.ini"), count, &calls), 0);
	for (long n = 1; n < 8; n++) {
		int called;

		listener.files[0].unread = LISTENER_READ;
		until_failure = n;
		called = listener_check(&listener);
		until_failure = 0;
		ck_assert_int_eq(called, 0);
	}
	ck_assert_int_eq(calls, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config without memory");
	TCase *tests = tcase_create("config without memory");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, loading);
	tcase_add_test(tests, overriding);
	tcase_add_test(tests, listening);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}

#endif
