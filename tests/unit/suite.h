/* SPDX-License-Identifier: MIT */
/* Running the tests of one program. */
#ifndef SPILLWAY_TEST_SUITE_H
#define SPILLWAY_TEST_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Adds a test of so many worlds of one thread. The thread sanitizer sees nothing in them and makes
 * each ten times slower: there it is one of ten.
 */
#ifdef __SANITIZE_THREAD__
#define suite_add_worlds(tests, test, count)        \
	for (int at_ = 0; at_ < (count); at_ += 10) \
	tcase_add_loop_test(tests, test, at_, at_ + 1)
#else
#define suite_add_worlds(tests, test, count) tcase_add_loop_test(tests, test, 0, count)
#endif

/* Returns whether it is check-all that asks, for more worlds. */
static inline bool suite_is_long(void)
{
	const char *form = getenv("FORM");

	return form && strcmp(form, "long") == 0;
}

/* The program's exit status. */
static inline int suite_run(const char *name, TCase *tests)
{
	Suite *suite = suite_create(name);
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, tests);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
