/* SPDX-License-Identifier: MIT */
/* Making and replacing files that other processes read. */
#include "core/base/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

void shared_file_write_head(const struct shared_format *format, void *file)
{
	struct shared_head *head = file;

	memcpy(head->magic, format->magic, sizeof(head->magic));
	head->version = format->version;
}

enum shared_fit shared_file_fits(const struct shared_format *format, const void *file,
                                 uint64_t size)
{
	const struct shared_head *head = file;

	if (memcmp(head->magic, format->magic, sizeof(head->magic)) != 0)
		return SHARED_OTHER_KIND;
	if (head->version != format->version)
		return SHARED_OTHER_VERSION;
	return size == format->size ? SHARED_FITS : SHARED_OTHER_SIZE;
}

int shared_file_new(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int shared_file_begin(int directory, const char *unfinished)
{
	(void)unlinkat(directory, unfinished, 0);
	return shared_file_new(directory, unfinished);
}

int shared_file_complete(int fd, int directory, const char *unfinished, const char *name,
                         mode_t mode)
{
	int error = 0;

	/* The umask may have taken even our own rights away. */
	if (fchmod(fd, mode) != 0 || renameat(directory, unfinished, directory, name) != 0)
		error = -errno;
	if (error)
		(void)unlinkat(directory, unfinished, 0);
	return error;
}

/* Fills an empty file. Its pages come first: a full disk leaves the rest of it untouched. */
static int shared_file_fill(int fd, const void *bytes, size_t size)
{
	int error = shared_file_reserve(fd, 0, size);
	ssize_t written = error ? 0 : pwrite(fd, bytes, size, 0);

	if (!error && written != (ssize_t)size)
		error = written < 0 ? -errno : -EIO;
	return error;
}

int shared_file_put(int directory, const char *unfinished, const char *name, mode_t mode,
                    const void *bytes, size_t size)
{
	int fd = shared_file_begin(directory, unfinished), error;

	if (fd < 0)
		return fd;
	error = shared_file_fill(fd, bytes, size);
	if (error)
		(void)unlinkat(directory, unfinished, 0);
	else
		error = shared_file_complete(fd, directory, unfinished, name, mode);
	close(fd);
	return error;
}

int shared_file_reserve(int fd, size_t at, size_t size)
{
	struct rlimit limit;

	/* A file beyond the limit would be SIGXFSZ, which ends the process. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < at + size)
		return -EFBIG;
	return -posix_fallocate(fd, (off_t)at, (off_t)size);
}

int shared_file_refill(int fd, size_t at, size_t size)
{
	/* Not posix_fallocate(): its substitute writes. */
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)size) == 0)
		return 0;
	return errno == ENOSPC || errno == EDQUOT || errno == ENOMEM ? -errno : 0;
}
