/* SPDX-License-Identifier: MIT */
/*
 * Exported memory: charged to its owner, then to the job, until no process has it. Processes are
 * killed at any point.
 */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "core/state/layout.h"

#define BYTES ((uint64_t)2 << 20)

static struct segment *join_as(const char *job)
{
	const struct segment_device device = {.uuid = "GPU-0"};
	struct segment *segment = NULL;
	char message[512] = "";

	ck_assert_msg(!segment_join(job, NULL, NULL, &segment, message, sizeof message), "%s",
	              message);
	ck_assert_int_eq(segment_device(segment, &device), 0);
	return segment;
}

static struct segment *join(void)
{
	return join_as("job");
}

static void setup(void)
{
	state_directory_make();
	segment_drain_ns = 20000000;
}

/* Memory, charged and exported. */
static uint64_t export(struct segment *segment)
{
	uint64_t key;

	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, BYTES, UINT64_MAX), 0);
	key = segment_export(segment, 0, BYTES);
	ck_assert_uint_ne(key, 0);
	return key;
}

/* A descriptor of it, marked. */
static int descriptor_of(const struct segment *segment, uint64_t key)
{
	int fd = memfd_create("exported", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	segment_tag(segment, fd, key, BYTES);
	return fd;
}

static void expect(struct segment *segment, uint64_t charged, uint64_t orphaned)
{
	static struct segment_view view;

	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), charged * BYTES);
	ck_assert_uint_eq(segment_orphaned(segment, 0), orphaned * BYTES);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], charged * BYTES);
	ck_assert_uint_eq(view.orphaned[0], orphaned * BYTES);
}

/*
 * While other programs of the machine lock files, a reading of the kernel's list of locks is in
 * doubt, and the memory stays charged until a later one.
 */
static void poll_until(struct segment *segment, uint64_t charged)
{
	for (int i = 0;
	     i < 1000 && segment_charged(segment, 0, SEGMENT_ON_DEVICE) != charged * BYTES; i++) {
		segment_poll(segment);
		pause_ms(1);
	}
}

static void expect_in_time(struct segment *segment, uint64_t charged, uint64_t orphaned)
{
	poll_until(segment, charged);
	expect(segment, charged, orphaned);
}

START_TEST(a_mark_goes_with_the_descriptor)
{
	struct segment *a = join_as("a"), *b = join_as("b");
	uint64_t of_a = export(a), of_b = export(b);
	int fd = descriptor_of(a, of_a), other = descriptor_of(b, of_b);
	int copy = dup(fd), plain = memfd_create("plain", MFD_CLOEXEC);
	struct segment_tag tag;

	close(fd);
	tag = segment_read_tag(copy);
	ck_assert_uint_eq(tag.key, of_a);
	ck_assert_uint_eq(tag.bytes, BYTES);
	ck_assert(segment_import(a, tag.key));
	ck_assert(!segment_import(b, tag.key));
	ck_assert(segment_import(b, segment_read_tag(other).key));
	/* A lock of the program's own is no mark, and hides none. */
	ck_assert_int_eq(fcntl(copy, F_OFD_SETLK,
	                       &(struct flock){.l_type = F_RDLCK, .l_start = 100, .l_len = 5}),
	                 0);
	ck_assert_int_eq(fcntl(plain, F_OFD_SETLK, &(struct flock){.l_type = F_RDLCK}), 0);
	ck_assert_uint_eq(segment_read_tag(copy).key, of_a);
	ck_assert_uint_eq(segment_read_tag(plain).key, 0);
	ck_assert_uint_eq(segment_read_tag(-1).key, 0);
	/* What weighs nothing says so. */
	close(other);
	other = memfd_create("weightless", MFD_CLOEXEC);
	segment_tag(a, other, 0, 0);
	tag = segment_read_tag(other);
	ck_assert(tag.key && !tag.bytes && segment_import(a, tag.key) &&
	          !segment_import(b, tag.key));
	segment_leave(a);
	segment_leave(b);
}
END_TEST

START_TEST(what_nobody_else_has_goes_at_once)
{
	struct segment *segment = join();

	for (int i = 0; i < 3 * SEGMENT_EXPORTS; i++) {
		uint64_t key = export(segment);

		close(descriptor_of(segment, key));
		ck_assert_uint_eq(segment_export_left(segment, key), BYTES);
		ck_assert_uint_eq(segment_export_left(segment, key), 0);
	}
	expect_in_time(segment, 0, 0);
	segment_leave(segment);
}
END_TEST

START_TEST(a_descriptor_holds_it_wherever_it_is)
{
	struct segment *segment = join();
	uint64_t key = export(segment);
	int fd = descriptor_of(segment, key), ends[2];
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.align = {.cmsg_level = SOL_SOCKET,
	                       .cmsg_type = SCM_RIGHTS,
	                       .cmsg_len = CMSG_LEN(sizeof(int))}};
	char word = 'x';
	struct iovec part = {&word, 1};
	struct msghdr message = {.msg_iov = &part,
	                         .msg_iovlen = 1,
	                         .msg_control = &control,
	                         .msg_controllen = sizeof control};

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
	ck_assert_int_eq(sendmsg(ends[0], &message, 0), 1);
	close(fd); /* now it is under way alone */
	segment_export_left(segment, key);
	expect(segment, 1, 1);
	ck_assert(!segment_judge_exports(segment));
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, BYTES), -ENOSPC);
	close(ends[0]);
	close(ends[1]);
	expect(segment, 1, 1); /* nobody has looked yet */
	expect_in_time(segment, 0, 0);
	segment_leave(segment);
}
END_TEST

START_TEST(in_doubt_it_stays_charged)
{
	struct segment *segment = join();
	uint64_t key = export(segment);
	int fd = descriptor_of(segment, key);
	struct rlimit before, none;

	/*
	 * The program has no descriptor left, so that the kernel's list cannot be read this time.
	 */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	segment_export_left(segment, key);
	ck_assert(!segment_judge_exports(segment));
	segment_poll(segment);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect(segment, 1, 1);
	close(fd);
	expect_in_time(segment, 0, 0);
	segment_leave(segment);
}
END_TEST

START_TEST(what_others_lock_keeps_no_release_waiting)
{
	enum { FILES = 10, LOCKS = 600 };
	struct segment *segment = join();
	uint64_t key = export(segment);
	int fd[FILES];

	close(descriptor_of(segment, key));
	for (int i = 0; i < FILES; i++) {
		fd[i] = memfd_create("locked", MFD_CLOEXEC);
		ck_assert_int_ge(fd[i], 0);
		for (int j = LOCKS; j > 0; j--)
			ck_assert_int_eq(
			    fcntl(fd[i], F_OFD_SETLK,
			          &(struct flock){.l_type = F_RDLCK, .l_start = 2 * j, .l_len = 1}),
			    0);
	}
	/*
	 * The list is longer than what a release reads: who would be refused, or polls the segment,
	 * reads it.
	 */
	segment_export_left(segment, key);
	expect(segment, 1, 1);
	expect_in_time(segment, 0, 0);
	for (int i = 0; i < FILES; i++)
		close(fd[i]);
	segment_leave(segment);
}
END_TEST

START_TEST(an_importer_holds_it_and_is_not_charged)
{
	struct segment *owner = join(), *a = join(), *b = join();
	uint64_t key = export(owner), kept = export(owner);

	ck_assert(segment_import(a, key) && segment_import(b, key) && segment_import(a, kept));
	expect(owner, 2, 0);
	segment_export_left(owner, key);
	expect(owner, 2, 1);
	segment_import_left(a, key);
	expect(owner, 2, 1);
	segment_import_left(b, key);
	expect_in_time(owner, 1, 0);
	/* The key of what is gone is nothing any more, also when its record has other memory. */
	for (int i = 0; i < SEGMENT_EXPORTS - 2; i++) {
		ck_assert_uint_ne(export(owner), key);
		ck_assert(!segment_import(a, key));
	}
	segment_leave(owner);
	segment_poll(a);
	expect(a, 1, 1); /* what was imported; all else went with its owner */
	segment_leave(a);
	expect_in_time(b, 0, 0);
	segment_leave(b);
}
END_TEST

START_TEST(by_the_name_of_its_handle)
{
	struct segment *segment = join();
	uint64_t a = export(segment), b = export(segment);

	segment_export_name(segment, a, "aaaa", 4);
	segment_export_name(segment, b, "bbbb", 4);
	ck_assert_uint_eq(segment_exported_as(segment, "bbbb", 4), b);
	ck_assert_uint_eq(segment_exported_as(segment, "cccc", 4), 0);
	segment_export_left(segment, b);
	poll_until(segment, 1);
	ck_assert_uint_eq(segment_exported_as(segment, "bbbb", 4), 0);
	segment_leave(segment);
}
END_TEST

START_TEST(more_than_can_be_followed)
{
	struct segment *segment = join();
	uint64_t last = 0;

	for (int i = 1; i < SEGMENT_EXPORTS; i++)
		last = export(segment);
	ck_assert_uint_eq(segment_export(segment, 0, BYTES), 0);
	segment_export_left(segment, last);
	poll_until(segment, SEGMENT_EXPORTS - 2);
	ck_assert_uint_ne(segment_export(segment, 0, BYTES), 0);
	ck_assert_uint_eq(segment_export(segment, SEGMENT_DEVICES, BYTES), 0);
	ck_assert_uint_eq(segment_export(segment, -1, BYTES), 0);
	segment_leave(segment);
}
END_TEST

/* --- killed --- */

static struct shared {
	_Atomic uint64_t key, other_key;
} * shared;

static void export_two(void *cookie)
{
	struct segment *segment = join();

	(void)cookie;
	shared->key = export(segment);
	shared->other_key = export(segment);
}

static void import_one(void *cookie)
{
	(void)cookie;
	ck_assert(segment_import(join(), shared->key));
}

START_TEST(a_killed_owner_leaves_what_others_have)
{
	struct segment *segment = join();
	pid_t owner, importer;

	shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	owner = child_start(export_two, NULL);
	importer = child_start(import_one, NULL);
	ck_assert(segment_import(segment, shared->key));
	expect(segment, 2, 0);
	child_kill(owner);
	expect(segment, 2, 0); /* it drains */
	poll_until(segment, 1);
	expect(segment, 1, 1);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, BYTES, 2 * BYTES - 1),
	                 -ENOSPC);
	segment_import_left(segment, shared->key);
	expect(segment, 1, 1);
	child_kill(importer);
	poll_until(segment, 0);
	expect(segment, 0, 0);
	segment_leave(segment);
}
END_TEST

START_TEST(with_the_last_process_all_is_forgotten)
{
	struct segment *owner = join(), *importer = join();
	uint64_t key = export(owner);
	int fd = descriptor_of(owner, key);

	segment_import(importer, key);
	segment_export_left(owner, key);
	segment_leave(owner);
	expect(importer, 1, 1);
	segment_leave(importer);
	importer = join();
	expect(importer, 0, 0);
	segment_leave(importer);
	close(fd);
}
END_TEST

/* Returns the key of new exported memory and its descriptor; 0 where a step failed. */
static uint64_t export_quietly(struct segment *segment, int *fd)
{
	uint64_t key;

	if (segment_reserve(segment, 0, SEGMENT_ON_DEVICE, BYTES, UINT64_MAX) != 0)
		return 0;
	key = segment_export(segment, 0, BYTES);
	*fd = memfd_create("exported", MFD_CLOEXEC);
	if (!key || *fd < 0)
		return 0;
	segment_tag(segment, *fd, key, BYTES);
	return key;
}

/*
 * Exports, imports and lets go at random, until it is killed. A step that fails ends it, which its
 * parent sees. It makes no assertion of check's: each one writes to a file that it shares with its
 * parent, and a process that is killed there leaves half a message.
 */
static void be_busy(struct segment *segment, unsigned int seed)
{
	uint64_t mine[8] = {0}, imported[8] = {0};
	int descriptor[8];

	srand(seed);
	for (;;) {
		int i = rand() % 8, j = rand() % 8;
		uint64_t key = shared->key;

		if (mine[i]) {
			close(descriptor[i]);
			segment_export_left(segment, mine[i]);
			mine[i] = 0;
		} else {
			mine[i] = export_quietly(segment, &descriptor[i]);
			if (!mine[i])
				_exit(1);
			shared->key = mine[i];
		}
		if (imported[j]) {
			segment_import_left(segment, imported[j]);
			imported[j] = 0;
		} else if (segment_import(segment, key)) {
			imported[j] = key;
		}
	}
}

static void join_and_be_busy(unsigned int seed)
{
	const struct segment_device device = {.uuid = "GPU-0"};
	struct segment *segment = NULL;
	char message[512] = "";

	if (!segment_join("job", NULL, NULL, &segment, message, sizeof message) &&
	    segment_device(segment, &device) == 0)
		be_busy(segment, seed);
	_exit(1);
}

START_TEST(killed_at_any_point_nothing_is_left)
{
	enum { ROUNDS = 20, PROCESSES = 4 };
	struct segment *segment = join();
	pid_t pid[PROCESSES];

	shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < PROCESSES; i++) {
			pid[i] = fork();
			if (pid[i] == 0)
				join_and_be_busy((unsigned int)(round * PROCESSES + i));
		}
		pause_ms(3 + round);
		for (int i = 0; i < PROCESSES; i++) {
			int status;

			ck_assert_int_eq(kill(pid[i], SIGKILL), 0);
			ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
			ck_assert_msg(WIFSIGNALED(status), "a step of child %d failed", i);
		}
		segment_poll(segment);
	}
	poll_until(segment, 0);
	expect(segment, 0, 0);
	segment_leave(segment);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("exports");
	TCase *tests = tcase_create("all");

	tcase_add_checked_fixture(tests, setup, state_directory_remove);
	tcase_set_timeout(tests, 30);
	tcase_add_test(tests, a_mark_goes_with_the_descriptor);
	tcase_add_test(tests, what_nobody_else_has_goes_at_once);
	tcase_add_test(tests, a_descriptor_holds_it_wherever_it_is);
	tcase_add_test(tests, in_doubt_it_stays_charged);
	tcase_add_test(tests, what_others_lock_keeps_no_release_waiting);
	tcase_add_test(tests, an_importer_holds_it_and_is_not_charged);
	tcase_add_test(tests, by_the_name_of_its_handle);
	tcase_add_test(tests, more_than_can_be_followed);
	tcase_add_test(tests, a_killed_owner_leaves_what_others_have);
	tcase_add_test(tests, with_the_last_process_all_is_forgotten);
	tcase_add_test(tests, killed_at_any_point_nothing_is_left);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
