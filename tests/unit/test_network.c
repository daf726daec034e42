/* SPDX-License-Identifier: MIT */
/* Registration of memory behind the driver's back: descriptors, and callers. */
#include "core/budget/network.h"

#include <errno.h>

#include "tests/unit/scratch.h"

static int open_in(const char *path)
{
	int fd;

	scratch_put(path, "");
	fd = open(scratch_path(path), O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(descriptors)
{
	char many[64];

	ck_assert(!network_is_open(scratch_folder));
	open_in("dev/infiniband/issm0");
	open_in("dev/infiniband/rdma_cm");
	open_in("dev/nvidia-uvm");
	open_in("elsewhere/dev/infiniband/uverbs0");
	ck_assert(!network_is_open(scratch_folder));
	/* More than one reading of the folder holds. */
	for (int i = 0; i < 300; i++) {
		snprintf(many, sizeof many, "file%d", i);
		open_in(many);
	}
	ck_assert(!network_is_open(scratch_folder));
	close(open_in("dev/infiniband/uverbs1"));
	ck_assert(!network_is_open(scratch_folder));
	int fd = open_in("dev/infiniband/uverbs1");

	errno = 42;
	ck_assert(network_is_open(scratch_folder));
	ck_assert_int_eq(errno, 42);
	/* What was registered by it stays registered. */
	close(fd);
	ck_assert(network_is_open(scratch_folder));
}
END_TEST

START_TEST(storage)
{
	open_in("dev/nvidia-fs12");
	ck_assert(network_is_open(scratch_folder));
}
END_TEST

/* A program's own code, another library's, and what is in no file: none of it is a network's. */
START_TEST(strangers)
{
	static char nowhere[4096];

	for (int i = 0; i < 3; i++) {
		ck_assert(!network_keeps((const void *)(uintptr_t)open_in));
		ck_assert(!network_keeps((const void *)(uintptr_t)memcpy));
		ck_assert(!network_keeps(nowhere));
		ck_assert(!network_keeps(NULL));
		for (uintptr_t page = 1; page < 40; page++)
			ck_assert(!network_keeps((const void *)(page << 40)));
		ck_assert(!network_keeps((const void *)UINTPTR_MAX));
	}
	/* Who came first is known by one load. */
	ck_assert(network_is_in(network_stranger, (const void *)(uintptr_t)open_in));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("network");
	TCase *tests = tcase_create("network");

	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, descriptors);
	tcase_add_test(tests, storage);
	tcase_add_test(tests, strangers);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
