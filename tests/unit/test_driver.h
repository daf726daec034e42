/* SPDX-License-Identifier: MIT */
/* Opening a test driver beside the test program, for itself and for the shim. */
#ifndef SPILLWAY_TEST_DRIVER_H
#define SPILLWAY_TEST_DRIVER_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The driver tests/unit/NAME.so, in a job of this name: the shim will find it. Its exported symbol
 * NAME; NULL after saying why not.
 */
static inline void *test_driver_open(const char *driver_name, const char *job)
{
	const char *build = getenv("BUILD");
	char name[256], path[PATH_MAX];
	void *library, *book;

	snprintf(name, sizeof(name), "%s/tests/unit/%s.so", build ? build : "build", driver_name);
	if (!realpath(name, path)) {
		perror(name);
		return NULL;
	}
	setenv("SPILLWAY_DRIVER", path, 1);
	setenv("SPILLWAY_JOB", job, 1);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	book = library ? dlsym(library, driver_name) : NULL;
	if (!book)
		printf("%s: %s\n", path, dlerror());
	return book;
}

#endif
