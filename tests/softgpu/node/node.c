/* SPDX-License-Identifier: MIT */
/*
 * A library that `spillway run --softgpu` preloads.
 *
 * The program sees a device node of NVIDIA's. JAX looks for /dev/nvidia0 or /dev/nvidiactl by
 * stat(2) and uses no GPU without them. The answer is that of /dev/null. Opening a node fails as
 * before, and real nodes stay as they are.
 *
 * The first Python of a program has the tool look for its packages, before it begins. A Python
 * alone tells which these are: behind `uv run`, a shell's line or any launcher, the tool cannot
 * know which Python will run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/wheels/wheels.h"

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

/* Returns whether a program is Python: "/usr/bin/python3.11". */
static bool node_is_python(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && strncmp(name, "/python", 7) == 0 &&
	       name[7 + strspn(name + 7, "0123456789.")] == '\0';
}

/* Becomes the tool, which becomes this Python again, without the variable. */
static __attribute__((constructor)) void node_ask_tool(int argc, char **argv)
{
	static char command[] = WHEELS_COMMAND;
	char python[PATH_MAX] = "", *tool = getenv(WHEELS_TOOL), **words;

	if (!tool || readlink("/proc/self/exe", python, sizeof python - 1) <= 0 ||
	    !node_is_python(python))
		return;
	words = calloc((size_t)argc + 4, sizeof *words);
	if (!words)
		return;
	words[0] = tool;
	words[1] = command;
	words[2] = python;
	memcpy(words + 3, argv, (size_t)argc * sizeof *words);
	execv(tool, words);
	free(words);
}
