/* SPDX-License-Identifier: MIT */
/* stat(2) by number. Rules: runs inside the user's process. */
#include "core/base/file_status.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* On 64-bit machines glibc's struct stat is the kernel's. */
_Static_assert(sizeof(long) == 8, "a machine of 64 bits");

int file_status(const char *path, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

int file_status_itself(const char *path, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int file_status_of(int fd, struct stat *status)
{
	/* A profile that knows newer programs alone may have left the older call out. */
	if (syscall(SYS_fstat, fd, status) == 0)
		return 0;
	return (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}

int file_status_at(int directory, const char *name, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, directory, name, status, AT_SYMLINK_NOFOLLOW);
}

uint64_t file_status_age(const struct stat *status)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)(now.tv_sec > status->st_mtime ? now.tv_sec - status->st_mtime
	                                                : status->st_mtime - now.tv_sec);
}
