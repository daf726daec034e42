/* SPDX-License-Identifier: MIT */
/* Which of the two shims a version of the C library takes, and by which names they are known. */
#include <check.h>

#include "tools/doctor/paths.h"

#include "suite.h"

START_TEST(the_other_shim_is_for_2_34_and_newer)
{
	static const struct {
		const char *version;
		bool is_2_34;
	} versions[] = {
	    {"2.34", true},  {"2.35", true},  {"2.41.9000", true}, {"2.100", true},
	    {"3.0", true},   {"2.33", false}, {"2.28", false},     {"2.4", false},
	    {"1.99", false}, {"2", false},    {"", false},         {"stable", false},
	};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
		ck_assert_msg(paths_is_2_34(versions[i].version) == versions[i].is_2_34, "%s",
		              versions[i].version);
}
END_TEST

START_TEST(both_are_known_by_name)
{
	ck_assert(paths_is_shim("/usr/lib/spillway/libspillway.so"));
	ck_assert(paths_is_shim("libspillway-2.34.so"));
	ck_assert(!paths_is_shim("/usr/lib/spillway/libspillway-alias.so"));
	ck_assert(!paths_is_shim("/libspillway.so/libm.so.6"));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("paths");

	tcase_add_test(tests, the_other_shim_is_for_2_34_and_newer);
	tcase_add_test(tests, both_are_known_by_name);
	return suite_run("paths", tests);
}
