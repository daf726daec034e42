/* SPDX-License-Identifier: MIT */
/* Small files, read whole: a half-read or endless one is an error, not a configuration. */
#include "core/config/snapshot.h"

#include "core/base/file_status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20 };

static int read_all(int fd, char *text, size_t size, size_t *length)
{
	size_t used = 0;

	for (;;) {
		ssize_t got = read(fd, text + used, size - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
		if (used == size)
			return -EAGAIN; /* it grows */
	}
	text[used] = '\0';
	*length = used;
	return 0;
}

int config_file_load(const char *path, bool follow_symlink, char **text, size_t *length)
{
	/*
	 * O_NONBLOCK: opening a FIFO must not hang the user's process. By number: a library that
	 * is preloaded and puts other files in the place of some (fakechroot) is not asked.
	 */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
	                      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
	                          (follow_symlink ? 0 : O_NOFOLLOW));
	struct stat status;
	char *buffer = NULL;
	int result;

	if (fd < 0)
		return -errno;
	if (file_status_of(fd, &status) != 0)
		result = -errno;
	else if (S_ISDIR(status.st_mode))
		result = -EISDIR;
	else if (!S_ISREG(status.st_mode))
		result = -EINVAL;
	else if (status.st_size > FILE_MAX)
		result = -EFBIG;
	else if (!(buffer = malloc((size_t)status.st_size + 1)))
		result = -ENOMEM;
	else
		result = read_all(fd, buffer, (size_t)status.st_size + 1, length);
	close(fd);
	if (result == 0)
		*text = buffer;
	else
		free(buffer);
	return result;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, text, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		text += written;
		length -= (size_t)written;
	}
	return 0;
}

int config_file_replace(const char *path, const char *text, size_t length)
{
	char *temporary;
	int fd, status;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	status = fd < 0 ? -errno : 0;
	if (fd >= 0) {
		status = fchmod(fd, 0600) != 0 ? -errno : write_all(fd, text, length);
		if (close(fd) != 0 && status == 0)
			status = -errno;
		if (status == 0 && rename(temporary, path) != 0)
			status = -errno;
		if (status != 0)
			unlink(temporary);
	}
	free(temporary);
	return status;
}
