/* SPDX-License-Identifier: MIT */
/*
 * Another library that is preloaded, as fakechroot's is: some files of the machine are those below
 * the folder REDIRECT_TO.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *redirected(const char *path, char other[PATH_MAX])
{
	const char *root = getenv("REDIRECT_TO");

	if (!root ||
	    (strncmp(path, "/etc/spillway/", 14) != 0 && strncmp(path, "/dev/shm/", 9) != 0))
		return path;
	snprintf(other, PATH_MAX, "%s%s", root, path);
	return other;
}

/* Call the next function of a name with the redirected path. */
static int open_next(const char *name, const char *path, int flags, mode_t mode)
{
	int (*next)(const char *, int, ...);
	char other[PATH_MAX];

	*(void **)&next = dlsym(RTLD_NEXT, name);
	return next(redirected(path, other), flags, mode);
}

static int openat_next(const char *name, int directory, const char *path, int flags, mode_t mode)
{
	int (*next)(int, const char *, int, ...);
	char other[PATH_MAX];

	*(void **)&next = dlsym(RTLD_NEXT, name);
	return next(directory, redirected(path, other), flags, mode);
}

#define TAKE_MODE                    \
	va_list list;                \
	mode_t mode;                 \
                                     \
	va_start(list, flags);       \
	mode = va_arg(list, mode_t); \
	va_end(list)

int open(const char *path, int flags, ...)
{
	TAKE_MODE;
	return open_next("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	TAKE_MODE;
	return open_next("open64", path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
	TAKE_MODE;
	return openat_next("openat", directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
	TAKE_MODE;
	return openat_next("openat64", directory, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
	int (*next)(const char *, mode_t);
	char other[PATH_MAX];

	*(void **)&next = dlsym(RTLD_NEXT, "mkdir");
	return next(redirected(path, other), mode);
}
