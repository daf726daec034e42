/* SPDX-License-Identifier: MIT */
/*
 * Preloaded: kills the process where a file gets its name: DIE_AT=before or after, at the first
 * renameat() to a name that ends with DIE_NAME.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_meant(const char *moment, const char *name)
{
	const char *at = getenv("DIE_AT"), *ending = getenv("DIE_NAME");
	size_t length = strlen(name), tail = ending ? strlen(ending) : 0;

	return at && strcmp(at, moment) == 0 && tail && length >= tail &&
	       strcmp(name + length - tail, ending) == 0;
}

int renameat(int from, const char *old, int to, const char *name)
{
	int (*next)(int, const char *, int, const char *);
	int result;

	*(void **)&next = dlsym(RTLD_NEXT, "renameat");
	if (is_meant("before", name))
		kill(getpid(), SIGKILL);
	result = next(from, old, to, name);
	if (is_meant("after", name))
		kill(getpid(), SIGKILL);
	return result;
}
