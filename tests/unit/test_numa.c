/* SPDX-License-Identifier: MIT */
/* NUMA nodes of machines, each a tree of files in a scratch folder. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/numa.h"
#include "tests/unit/scratch.h"

/* A machine: which nodes there are, have memory, have processors, and are the process's. */
static void machine(const char *online, const char *memory, const char *cpus, const char *mine)
{
	char status[256];

	scratch_put("sys/devices/system/node/online", online);
	scratch_put("sys/devices/system/node/has_normal_memory", memory);
	scratch_put("sys/devices/system/node/has_cpu", cpus);
	snprintf(status, sizeof status,
	         "Name:\tx\nMems_allowed:\tff\nMems_allowed_list:\t%s\nx:\t1\n", mine);
	scratch_put("proc/self/status", status);
}

static const char *nodes(int from)
{
	static char text[128];
	int found[NUMA_NODES_MAX], count = numa_nodes(scratch_folder, from, found);

	text[0] = '\0';
	for (int i = 0; i < count; i++)
		sprintf(text + strlen(text), "%s%d", i ? " " : "", found[i]);
	return text;
}

START_TEST(the_nearest_comes_first)
{
	machine("0-3\n", "0-3\n", "0-3\n", "0-3");
	ck_assert_str_eq(nodes(2), "2 0 1 3"); /* nobody says how far they are */
	scratch_put("sys/devices/system/node/node2/distance", "32 20 10 12\n");
	ck_assert_str_eq(nodes(2), "2 3 1 0");
	/* The file has a number for each that is online, and for no other. */
	machine("0,2-3,63\n", "0,2-3,63\n", "0,2-3,63\n", "0-63");
	scratch_put("sys/devices/system/node/node2/distance", "21 10 31 17\n");
	ck_assert_str_eq(nodes(2), "2 63 0 3");
}
END_TEST

START_TEST(nodes_that_give_nothing_are_left_out)
{
	machine("0-5\n", "0-2,5\n", "1,3,5\n", "0-5");
	ck_assert_str_eq(nodes(0), "1 5"); /* memory alone, no memory, processors alone */
	machine("0-1\n", "0-1\n", "0-1\n", "1");
	ck_assert_str_eq(nodes(0), "1"); /* the other one is not this process's */
	machine("0-1\n", "0-1\n", "0-1\n", "");
	ck_assert_str_eq(nodes(0), "");
}
END_TEST

START_TEST(a_machine_that_does_not_say)
{
	ck_assert_str_eq(nodes(0), "");
	machine("", "", "", "0");
	ck_assert_str_eq(nodes(0), "");
	machine("0\n", "garbage\n", "0-\n", "0");
	ck_assert_str_eq(nodes(-1), "");
	machine("0-99999999999\n", "0-99999999999\n", "0-15,17-99\n", "0-99");
	ck_assert_str_eq(nodes(1), "1 0 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("numa");
	TCase *tests = tcase_create("numa");

	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, the_nearest_comes_first);
	tcase_add_test(tests, nodes_that_give_nothing_are_left_out);
	tcase_add_test(tests, a_machine_that_does_not_say);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
