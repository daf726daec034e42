/* SPDX-License-Identifier: MIT */
/*
 * Once: a function that is called one time in a process, by the first that wants it; others wait
 * until it has returned.
 *
 * pthread_once() wakes those who wait whether there are any or not, and where the kernel refuses a
 * futex (a container's profile) glibc ends the process for it. Here nothing is asked of the kernel
 * unless somebody has to wait.
 */
#ifndef SPILLWAY_ONCE_H
#define SPILLWAY_ONCE_H

#include <stdatomic.h>
#include <sys/types.h>

/* All zero: not called yet. */
struct once {
	_Atomic pid_t caller; /* -1: it has returned */
};

/*
 * Calls the function once. In a forked child it is called anew where the parent's call had not
 * returned. The function is not cancelled half way, and must not come here again with the same
 * `once`. Keeps errno.
 */
void once_call(struct once *once, void (*function)(void));

#endif
