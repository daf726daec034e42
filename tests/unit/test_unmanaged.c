/* SPDX-License-Identifier: MIT */
/* Programs without a process slot: which process is judged how, and when it is named. */
#include "tools/view/unmanaged.h"

#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000ull

START_TEST(a_process_is_judged_by_what_is_known)
{
	const struct slot_of slots[] = {{.owner = 7, .pid = 100}, {.owner = 8, .pid = 200}};
	const uid_t unread[] = {9};
	const struct slots_known root = {.slot = slots,
	                                 .count = 2,
	                                 .unread = unread,
	                                 .unread_count = 1,
	                                 .reaches_all = true,
	                                 .own = 0};
	struct slots_known user = root;

	user.reaches_all = false;
	user.own = 7;
	ck_assert_int_eq(unmanaged_check(&root, 7, 100), SLOT_HELD);
	/* of the same number, another user's, or another number of the same user's */
	ck_assert_int_eq(unmanaged_check(&root, 8, 100), SLOT_MISSING);
	ck_assert_int_eq(unmanaged_check(&root, 7, 200), SLOT_MISSING);
	ck_assert_int_eq(unmanaged_check(&root, 10, 100), SLOT_MISSING);
	/* jobs of user 9 are out of reach: none of the user's processes is accused */
	ck_assert_int_eq(unmanaged_check(&root, 9, 300), SLOT_NOT_KNOWN);
	ck_assert_int_eq(unmanaged_check(&root, 7, 0), SLOT_NOT_KNOWN);
	ck_assert_int_eq(unmanaged_check(&user, 7, 100), SLOT_HELD);
	ck_assert_int_eq(unmanaged_check(&user, 7, 101), SLOT_MISSING);
	ck_assert_int_eq(unmanaged_check(&user, 10, 100), SLOT_NOT_KNOWN);
}
END_TEST

/* Has a look find these processes; 0 ends them. */
static void look(struct unmanaged *unmanaged, const pid_t *pids, uint64_t started, uint64_t now_ns)
{
	struct unmanaged_process *found = calloc(8, sizeof *found);
	int count = 0;

	for (; pids[count]; count++)
		found[count] = (struct unmanaged_process){
		    .pid = pids[count], .started = started, .uuid = "GPU-1"};
	unmanaged_settle(unmanaged, found, count, now_ns);
}

START_TEST(two_looks_name_a_process)
{
	static const pid_t both[] = {5, 6, 0}, one[] = {6, 0}, none[] = {0};
	struct unmanaged unmanaged = {0};

	look(&unmanaged, both, 1, 10 * SECOND_NS);
	ck_assert_int_eq(unmanaged.count, 0);
	/* too soon after the first */
	look(&unmanaged, both, 1, 10 * SECOND_NS + SECOND_NS / 2);
	ck_assert_int_eq(unmanaged.count, 0);
	/* 5 has got a slot, or has ended; of 6 the first look counts */
	look(&unmanaged, one, 1, 11 * SECOND_NS);
	ck_assert_int_eq(unmanaged.count, 1);
	ck_assert_int_eq(unmanaged.process[0].pid, 6);
	/* another process of the same number begins anew */
	look(&unmanaged, one, 2, 12 * SECOND_NS);
	ck_assert_int_eq(unmanaged.count, 0);
	look(&unmanaged, one, 2, 13 * SECOND_NS);
	ck_assert_int_eq(unmanaged.count, 1);
	look(&unmanaged, none, 2, 14 * SECOND_NS);
	ck_assert_int_eq(unmanaged.count, 0);
	look(&unmanaged, one, 2, 15 * SECOND_NS);
	ck_assert_int_eq(unmanaged.count, 0);
	unmanaged_free(&unmanaged);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("unmanaged");

	tcase_add_test(tests, a_process_is_judged_by_what_is_known);
	tcase_add_test(tests, two_looks_name_a_process);
	return suite_run("unmanaged", tests);
}
