/* SPDX-License-Identifier: MIT */
/* For unit tests: a folder that goes with the test, random numbers that repeat, and main(). */
#ifndef SPILLWAY_TESTS_SCRATCH_H
#define SPILLWAY_TESTS_SCRATCH_H

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_folder[PATH_MAX];

static inline void scratch_make(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(scratch_folder, sizeof(scratch_folder), "%s/scratch.XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(scratch_folder));
}

static inline int scratch_remove_entry(const char *path, const struct stat *status, int type,
                                       struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

static inline void scratch_remove(void)
{
	nftw(scratch_folder, scratch_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of a file in the folder; valid for the next seven calls. */
static inline const char *scratch_path(const char *name)
{
	static char paths[8][PATH_MAX + 128];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", scratch_folder, name);
	return path;
}

static inline const char *scratch_write(const char *name, const char *text);

/* Writes a file of a tree, with the folders above it. */
static inline void scratch_put(const char *path, const char *text)
{
	char folder[128];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
		mkdir(scratch_path(folder), 0700);
	}
	scratch_write(path, text);
}

static inline const char *scratch_write_bytes(const char *name, const void *bytes, size_t length)
{
	const char *path = scratch_path(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
	close(fd);
	return path;
}

static inline const char *scratch_write(const char *name, const char *text)
{
	return scratch_write_bytes(name, text, strlen(text));
}

/* All of a file, NUL-terminated; free it. */
static inline char *scratch_read(const char *path)
{
	char *text = calloc(1, 1 << 20);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "%s: %m", path);
	ck_assert_int_ge(read(fd, text, (1 << 20) - 1), 0);
	close(fd);
	return text;
}

/* xorshift: the same numbers in every run. */
static inline uint64_t scratch_random(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static inline int scratch_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed > 0;
}

#endif
