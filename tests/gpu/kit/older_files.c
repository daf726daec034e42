/* SPDX-License-Identifier: MIT */
/* Functions that glibc 2.31 has as macros alone, for programs of the GPU kit; see old-glibc. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fstatat(int folder, const char *restrict path, struct stat *restrict status, int flags)
{
	return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}

int stat(const char *restrict path, struct stat *restrict status)
{
	return fstatat(AT_FDCWD, path, status, 0);
}

int lstat(const char *restrict path, struct stat *restrict status)
{
	return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstat(int descriptor, struct stat *status)
{
	return fstatat(descriptor, "", status, AT_EMPTY_PATH);
}
