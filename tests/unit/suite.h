/* Running the tests of one program. */
#ifndef SPILLWAY_TEST_SUITE_H
#define SPILLWAY_TEST_SUITE_H

#include <check.h>
#include <stdlib.h>

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
