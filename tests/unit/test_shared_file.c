/* SPDX-License-Identifier: MIT */
/*
 * Shared files: a reader finds a whole file or none, with any refusal of the kernel, and when the
 * maker is killed at any point.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/shared_file.h"
#include "tests/unit/scratch.h"

enum { SIZE = 12288 };

/* The kernel, which refuses what a test says. */
int __real_openat(int directory, const char *name, int flags, ...);
int __wrap_openat(int directory, const char *name, int flags, ...);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at);
int __real_posix_fallocate(int fd, off_t at, off_t size);
int __wrap_posix_fallocate(int fd, off_t at, off_t size);
int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);

static enum refused { NOTHING, INODE, PAGES, BYTES, HALF, MODE, NAME, KINDS } refused;

int __wrap_openat(int directory, const char *name, int flags, ...)
{
	if (refused == INODE && (flags & O_CREAT)) {
		errno = ENOSPC;
		return -1;
	}
	return __real_openat(directory, name, flags, 0600);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at)
{
	if (refused == BYTES) {
		errno = EDQUOT;
		return -1;
	}
	return __real_pwrite(fd, bytes, refused == HALF ? size / 2 : size, at);
}

int __wrap_posix_fallocate(int fd, off_t at, off_t size)
{
	return refused == PAGES ? ENOSPC : __real_posix_fallocate(fd, at, size);
}

int __wrap_renameat(int from, const char *old, int to, const char *new)
{
	if (refused == NAME) {
		errno = EACCES;
		return -1;
	}
	return __real_renameat(from, old, to, new);
}

int __wrap_fchmod(int fd, mode_t mode)
{
	if (refused == MODE) {
		errno = EPERM;
		return -1;
	}
	return __real_fchmod(fd, mode);
}

static int directory;

static void begin(void)
{
	scratch_make();
	directory = open(scratch_folder, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(directory, 0);
}

static void end(void)
{
	close(directory);
	scratch_remove();
}

static int put(char letter)
{
	char bytes[SIZE];

	memset(bytes, letter, sizeof bytes);
	return shared_file_put(directory, ".file", "file", 0644, bytes, sizeof bytes);
}

/* Returns the letter that the whole file consists of; 0: there is none. */
static char letter_of_file(void)
{
	char bytes[SIZE + 1];
	int fd = openat(directory, "file", O_RDONLY);
	ssize_t length;

	if (fd < 0)
		return 0;
	length = read(fd, bytes, sizeof bytes);
	close(fd);
	ck_assert_int_eq(length, SIZE);
	ck_assert_int_eq(memcmp(bytes, bytes + 1, SIZE - 1), 0);
	return bytes[0];
}

static bool is_left_unfinished(void)
{
	return faccessat(directory, ".file", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

START_TEST(the_mode_is_the_file_s_whatever_the_umask)
{
	struct stat found;

	umask(0777);
	ck_assert_int_eq(put('a'), 0);
	umask(0);
	ck_assert_int_eq(put('b'), 0);
	ck_assert_int_eq(fstatat(directory, "file", &found, 0), 0);
	ck_assert_uint_eq(found.st_mode & 07777, 0644);
	ck_assert_int_eq(letter_of_file(), 'b');
	ck_assert(!is_left_unfinished());
}
END_TEST

/* Each refusal is the answer, the file stays what it was, and nothing is left. */
START_TEST(what_is_refused_leaves_the_file_before)
{
	static const int answers[KINDS] = {0, -ENOSPC, -ENOSPC, -EDQUOT, -EIO, -EPERM, -EACCES};

	for (int before = 0; before < 2; before++) {
		if (before)
			ck_assert_int_eq(put('a'), 0);
		for (int kind = NOTHING + 1; kind < KINDS; kind++) {
			int error;

			refused = (enum refused)kind;
			error = put('b');
			refused = NOTHING;
			ck_assert_int_eq(error, answers[kind]);
			ck_assert_int_eq(letter_of_file(), before ? 'a' : 0);
			ck_assert(!is_left_unfinished());
		}
	}
	ck_assert_int_eq(put('b'), 0);
	ck_assert_int_eq(letter_of_file(), 'b');
}
END_TEST

/* No signal ends the process that may write no more than 4 KiB. */
START_TEST(beyond_the_limit_of_file_sizes_is_an_answer)
{
	struct rlimit limit, small = {4096, RLIM_INFINITY};

	getrlimit(RLIMIT_FSIZE, &limit);
	small.rlim_max = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	ck_assert_int_eq(put('a'), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &limit);
	ck_assert(!is_left_unfinished());
}
END_TEST

START_TEST(a_killed_maker_leaves_what_the_next_one_replaces)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		int fd = shared_file_begin(directory, ".file");

		if (fd >= 0 && shared_file_reserve(fd, 0, SIZE) == 0)
			raise(SIGKILL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	ck_assert(WIFSIGNALED(status));
	ck_assert(is_left_unfinished());
	ck_assert_int_eq(letter_of_file(), 0);
	ck_assert_int_eq(put('b'), 0);
	ck_assert_int_eq(letter_of_file(), 'b');
	ck_assert(!is_left_unfinished());
}
END_TEST

/* What stands there is no file of ours: it is replaced, not followed; a folder is an error. */
START_TEST(a_link_is_not_followed)
{
	char *text;

	scratch_write("other", "untouched");
	ck_assert_int_eq(symlinkat("other", directory, ".file"), 0);
	ck_assert_int_eq(put('a'), 0);
	ck_assert_int_eq(letter_of_file(), 'a');
	text = scratch_read(scratch_path("other"));
	ck_assert_str_eq(text, "untouched");
	free(text);
	ck_assert_int_eq(mkdirat(directory, ".file", 0700), 0);
	ck_assert_int_eq(put('b'), -EEXIST);
	ck_assert_int_eq(letter_of_file(), 'a');
	ck_assert_int_eq(shared_file_new(directory, "other"), -EEXIST);
}
END_TEST

static _Atomic bool is_over;

static void *replace_all_the_time(void *cookie)
{
	(void)cookie;
	for (int i = 0; !is_over; i++)
		if (put((char)('a' + i % 20)) != 0)
			abort();
	return NULL;
}

START_TEST(a_reader_never_sees_a_part)
{
	pthread_t writer;

	ck_assert_int_eq(put('a'), 0);
	pthread_create(&writer, NULL, replace_all_the_time, NULL);
	for (int i = 0; i < 3000; i++)
		ck_assert_int_ne(letter_of_file(), 0);
	is_over = true;
	pthread_join(writer, NULL);
}
END_TEST

/* Pages that were cut out come back; what is in the others stays, and so does the size. */
START_TEST(holes_are_filled)
{
	struct stat found;
	int fd;

	ck_assert_int_eq(put('a'), 0);
	fd = openat(directory, "file", O_RDWR);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) != 0) {
		close(fd); /* a file system without holes */
		return;
	}
	ck_assert_int_eq(shared_file_refill(fd, 0, SIZE), 0);
	ck_assert_int_eq(fstat(fd, &found), 0);
	ck_assert_int_eq(found.st_size, SIZE);
	ck_assert_int_ge(found.st_blocks * 512, SIZE);
	close(fd);
}
END_TEST

START_TEST(the_head_says_kind_version_and_size)
{
	static const struct shared_format format = {
	    .magic = "TESTFILE", .version = 3, .size = 4096};
	struct {
		struct shared_head head;
		uint32_t size;
	} file = {.size = 4096};

	ck_assert_int_eq(shared_file_fits(&format, &file, file.size), SHARED_OTHER_KIND);
	shared_file_write_head(&format, &file);
	ck_assert_int_eq(memcmp(&file, "TESTFILE\3\0\0", 11), 0);
	ck_assert_int_eq(shared_file_fits(&format, &file, file.size), SHARED_FITS);
	ck_assert_int_eq(shared_file_fits(&format, &file, 4095), SHARED_OTHER_SIZE);
	/* Of another version the size may lie elsewhere. */
	file.head.version = 2;
	ck_assert_int_eq(shared_file_fits(&format, &file, 0), SHARED_OTHER_VERSION);
	file.head.magic[7] = 'X';
	ck_assert_int_eq(shared_file_fits(&format, &file, file.size), SHARED_OTHER_KIND);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shared file");
	TCase *tests = tcase_create("shared file");

	tcase_add_checked_fixture(tests, begin, end);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, the_mode_is_the_file_s_whatever_the_umask);
	tcase_add_test(tests, what_is_refused_leaves_the_file_before);
	tcase_add_test(tests, beyond_the_limit_of_file_sizes_is_an_answer);
	tcase_add_test(tests, a_killed_maker_leaves_what_the_next_one_replaces);
	tcase_add_test(tests, a_link_is_not_followed);
	tcase_add_test(tests, a_reader_never_sees_a_part);
	tcase_add_test(tests, holes_are_filled);
	tcase_add_test(tests, the_head_says_kind_version_and_size);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
