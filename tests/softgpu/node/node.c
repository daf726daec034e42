/* SPDX-License-Identifier: MIT */
/*
 * A library that `spillway run --softgpu` preloads: the program sees a device node of NVIDIA's.
 * JAX looks for /dev/nvidia0 or /dev/nvidiactl by stat(2) and uses no GPU without them. The answer
 * is that of /dev/null. Opening a node fails as before, and real nodes stay as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int __xstat(int version, const char *path, struct stat *status);
EXPORT int __xstat64(int version, const char *path, struct stat64 *status);

static long node_ask(const char *path, void *status)
{
	long answer = syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);

	if (answer == 0 || errno != ENOENT ||
	    (strcmp(path, "/dev/nvidia0") != 0 && strcmp(path, "/dev/nvidiactl") != 0))
		return answer;
	return syscall(SYS_newfstatat, AT_FDCWD, "/dev/null", status, 0);
}

EXPORT int stat(const char *path, struct stat *status)
{
	return (int)node_ask(path, status);
}

EXPORT int stat64(const char *path, struct stat64 *status)
{
	return (int)node_ask(path, status);
}

/* As programs call them that were built with glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *status)
{
	(void)version;
	return (int)node_ask(path, status);
}

int __xstat64(int version, const char *path, struct stat64 *status)
{
	(void)version;
	return (int)node_ask(path, status);
}
