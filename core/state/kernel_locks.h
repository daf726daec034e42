/* SPDX-License-Identifier: MIT */
/*
 * The kernel's list of file locks, read so that no lock is missed. Thread-safe; keeps errno, and no
 * thread is cancelled within.
 *
 * The kernel hands out /proc/locks a page at a time, about 70 locks, and finds the next page by
 * counting locks from the start. A lock that ends between two reads moves the locks behind it one
 * place up, and the first of them is in neither page. For example, a lock that was held all the
 * while was missed 24 times in 1,500 readings beside a process that locks and unlocks 24 files.
 */
#ifndef SPILLWAY_KERNEL_LOCKS_H
#define SPILLWAY_KERNEL_LOCKS_H

#include <stdint.h>

/* Receives where a lock begins and ends, in bytes of its file. May see a lock more than once. */
typedef void kernel_locks_found(void *cookie, uint64_t start, uint64_t end);

/* Reports the locks of one open descriptor of this process. */
void kernel_locks_of(int descriptor, kernel_locks_found *found, void *cookie);

enum kernel_locks_read {
	KERNEL_LOCKS_WHOLE,      /* each lock that was held all the while was found */
	KERNEL_LOCKS_IN_DOUBT,   /* a lock may have been missed */
	KERNEL_LOCKS_TOO_MANY,   /* there are more pages */
	KERNEL_LOCKS_UNREADABLE, /* this process can never read the list */
};

/* Reports all locks of the machine, from at most `pages` pages. */
enum kernel_locks_read kernel_locks_all(int pages, kernel_locks_found *found, void *cookie);

#endif
