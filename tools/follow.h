/*
 * After the override file changed: waiting until every process of the job obeys it, and saying what
 * holds then.
 */
#ifndef SPILLWAY_FOLLOW_H
#define SPILLWAY_FOLLOW_H

#include <argp.h>
#include <stdint.h>

/* --timeout; its input is the time in ns, a uint64_t that it sets to 10 s first. */
extern const struct argp follow_argp;

/* Says so and returns NULL when the job has no live process to obey. The path is the caller's. */
char *follow_override_path(const char *job);

/* Waits, then prints limits and shares per GPU. An exit status; what is wrong has been said. */
int follow(const char *job, uint64_t timeout_ns);

#endif
