/* SPDX-License-Identifier: MIT */
/*
 * The tool shows those peer records of a job that its processes made, and none that merely claims
 * to be one. A pid is no proof: another user may write any into his peer record, and another pid
 * namespace has the same ones.
 */
#include "tests/unit/state_directory.h"

#include <inttypes.h>

#include "core/base/clock.h"
#include "core/peers/peer.h"
#include "core/state/segment.h"
#include "tests/unit/suite.h"
#include "tools/view/sharing.h"

#define OTHER UINT32_C(12345) /* a user */

static const struct segment_device gpu = {
    .uuid = "GPU-7370696c-6c77-6179-2073-6f6674677000", .name = "Soft GPU", .memory = 1 << 30};
static char node[560], message[1024];
static struct segment *segment;
static struct segment_view view;
static struct peer_own own;
static struct sharing_seen seen;

static void setup(void)
{
	state_directory_make();
	snprintf(node, sizeof node, "%s/node", state_directory);
	ck_assert_int_eq(mkdir(node, 0700), 0);
	ck_assert_int_eq(chmod(node, 01777), 0);
	setenv("SPILLWAY_NODE_DIR", node, 1);
	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, message, sizeof message), 0);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	ck_assert_int_eq(segment_read("job", &view, message, sizeof message), 0);
	ck_assert_int_eq(view.process_count, 1);
}

static void teardown(void)
{
	DIR *directory = opendir(node);

	for (struct dirent *entry; directory && (entry = readdir(directory));)
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	rmdir(node);
	state_directory_remove();
}

/* Makes a peer record of this process that says it is of these books. */
static void make(uint64_t books)
{
	own.now.segment = books;
	own.now.priority = PRIORITY_GUARANTEED;
	own.now.borrowed = 5 << 20;
	own.now.tells_memory = 1;
	ck_assert_msg(peer_make(&own, node, gpu.uuid, message, sizeof message) == 0, "%s", message);
	ck_assert_int_eq(own.now.pid, view.process[0].pid);
	sharing_see(&view, 0, &seen);
}

static void expect_another_s(void)
{
	ck_assert_int_eq(seen.peers, 0);
	ck_assert_int_eq(seen.others, 1);
	ck_assert_int_eq(seen.priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(seen.borrowed, 0);
	ck_assert(!seen.tells_memory);
}

START_TEST(its_own_record_is_shown)
{
	make(view.token);
	ck_assert_int_eq(seen.peers, 1);
	ck_assert_int_eq(seen.others, 0);
	ck_assert_int_eq(seen.priority, PRIORITY_GUARANTEED);
	ck_assert_uint_eq(seen.borrowed, 5 << 20);
}
END_TEST

/* As of another pid namespace. */
START_TEST(another_job_s_process_of_the_same_pid_is_another)
{
	make(view.token + 1);
	expect_another_s();
}
END_TEST

START_TEST(one_in_no_books_is_another)
{
	make(0);
	expect_another_s();
	view.token = 0;
	sharing_see(&view, 0, &seen);
	expect_another_s();
}
END_TEST

/* A job's token is told to everybody, by its page. */
START_TEST(another_user_s_record_is_another_whatever_it_says)
{
	char path[700];

	if (geteuid() != 0)
		return; /* only root can play other users */
	make(view.token);
	own.place.token = 0x1234;
	own.now.is_locked = 0;
	own.now.token = 0x1234;
	own.now.beat_ns = clock_now();
	own.now.check = peer_check(&own.now);
	snprintf(path, sizeof path, "%s/card-%s-%u-%016" PRIx64, node, gpu.uuid, OTHER,
	         own.now.token);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
	ck_assert_int_eq(write(fd, &own.now, sizeof own.now), sizeof own.now);
	ck_assert_int_eq(fchown(fd, OTHER, OTHER), 0);
	close(fd);
	ck_assert_int_eq(unlink(own.place.path), 0);
	pause_ms(150); /* what was seen is kept for 100 ms */
	sharing_see(&view, 0, &seen);
	expect_another_s();
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("sharing seen");

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, its_own_record_is_shown);
	tcase_add_test(tests, another_job_s_process_of_the_same_pid_is_another);
	tcase_add_test(tests, one_in_no_books_is_another);
	tcase_add_test(tests, another_user_s_record_is_another_whatever_it_says);
	return suite_run("sharing seen", tests);
}
