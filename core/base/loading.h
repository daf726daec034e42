/* SPDX-License-Identifier: MIT */
/*
 * Loading: while a thread of the process opens libraries for us, other threads do not fork. A child
 * that is forked in the middle of a dlopen() finds half a library in the loader's list, and dies
 * when it loads or binds something itself. A program that is linked to the driver opens it before
 * it has threads, so it does not expect that of its first call.
 *
 * A fork that has waited goes before the thread that loaded goes on. In the child glibc does not
 * run handlers that were registered during the wait, and the driver's are among them. The driver
 * has not begun to initialise itself by then, so the child may do it.
 *
 * Each waits a second at most, because the thread that loads may be waiting for the one that forks.
 * Past pthread_atfork() (raw clone) nothing waits.
 */
#ifndef SPILLWAY_LOADING_H
#define SPILLWAY_LOADING_H

/* Surrounds a call that opens libraries. May be nested; the same thread may fork meanwhile. */
void loading_begin(void);
void loading_end(void);

#endif
