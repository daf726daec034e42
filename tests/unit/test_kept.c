/* SPDX-License-Identifier: MIT */
/* Kept objects: one for each thread, until it ends. */
#include <check.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/kept.h"
#include "suite.h"

enum { THREADS = 100 };
#define LARGE ((size_t)1 << 20) /* is mapped, and counted apart */

START_TEST(one_is_kept)
{
	void *a = malloc(16), *b = malloc(16);

	ck_assert_ptr_null(kept_take());
	kept_give(a);
	kept_give(b);
	ck_assert_ptr_eq(kept_take(), a);
	ck_assert_ptr_null(kept_take());
	free(a);
}
END_TEST

static void *keep(void *unused)
{
	void *object;

	kept_give(malloc(LARGE));
	object = kept_take();
	if (!object)
		abort();
	kept_give(object);
	return unused;
}

static size_t mapped(void)
{
	return mallinfo2().hblkhd;
}

START_TEST(it_goes_with_its_thread)
{
	size_t before;

	mallopt(M_MMAP_THRESHOLD, (int)LARGE / 2); /* else freeing one raises it */
	kept_give(malloc(LARGE));
	before = mapped();
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		ck_assert_int_eq(pthread_create(&thread, NULL, keep, NULL), 0);
		pthread_join(thread, NULL);
	}
	ck_assert_uint_eq(mapped(), before);
	free(kept_take());
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("kept");

	tcase_add_test(tests, one_is_kept);
	tcase_add_test(tests, it_goes_with_its_thread);
	return suite_run("kept", tests);
}
