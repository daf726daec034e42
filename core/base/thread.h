/* SPDX-License-Identifier: MIT */
/* Threads of ours in someone else's process: detached, with every signal blocked. */
#ifndef SPILLWAY_THREAD_H
#define SPILLWAY_THREAD_H

/*
 * Starts a thread; function is given NULL. Returns 0, or a negative errno: that of the kernel too
 * where it lets no thread wait for another (futex refused), because glibc ends a process for that.
 * Thread-safe.
 */
int thread_start(void *(*function)(void *cookie));
/* Returns whether threads can wait for each other: 0, or a negative errno. */
int thread_can_wait(void);

#endif
