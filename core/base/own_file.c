/* SPDX-License-Identifier: MIT */
/* Opening and locking what should be our own. */
#include "core/base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/file_status.h"

enum { LOOK_AGAIN_NS = 5000000 };

int own_file_open(int directory, const char *name, int flags, mode_t mode)
{
	/* a pipe is opened at once, a terminal does not become ours */
	int fd =
	    openat(directory, name, flags | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, mode);
	struct stat found;
	int error = 0;

	if (fd < 0)
		return -errno;
	if (file_status_of(fd, &found) != 0)
		error = -errno;
	else if (!S_ISREG(found.st_mode))
		error = -EINVAL;
	else if (found.st_uid != geteuid())
		error = -EPERM;
	if (!error)
		return fd;
	close(fd);
	return error;
}

const char *own_file_error(int error)
{
	switch (-error) {
	case EINVAL:
	case ENXIO: /* a pipe that nobody reads, a socket */
		return "not a regular file";
	case ELOOP:
		return "a link, expected a regular file";
	case EPERM:
		return "belongs to another user";
	case ETIME:
		return "locked by another process all the time";
	default:
		return strerror(-error);
	}
}

int own_file_lock(int fd, int operation, struct deadline *deadline)
{
	while (flock(fd, operation | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (!deadline_nap(deadline, LOOK_AGAIN_NS))
			return -ETIME;
	}
	return 0;
}
