/*
 * After the override file changed: waiting until every process of the job obeys it, and saying what
 * holds then.
 */
#ifndef SPILLWAY_FOLLOW_H
#define SPILLWAY_FOLLOW_H

#include <stdint.h>

#define FOLLOW_TIMEOUT_NS 10000000000ull

/* --timeout of the commands that wait, as argp option and value. */
enum { OPTION_TIMEOUT = 0x300 };
#define FOLLOW_OPTION                                                  \
	{                                                              \
		"timeout", OPTION_TIMEOUT, "SECONDS", 0,               \
		    "How long to wait for the job's processes (10)", 0 \
	}

/* Says so and returns NULL when the job has no live process to obey. The path is the caller's. */
char *follow_override_path(const char *job);

/* Waits, then prints limits and shares per GPU. An exit status; what is wrong has been said. */
int follow(const char *job, uint64_t timeout_ns);

#endif
