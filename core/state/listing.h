/* SPDX-License-Identifier: MIT */
/*
 * Lists a directory that other users may fill. All of ours that are listed are listed by this. A
 * thread that lists again and again bounds what it costs (struct listing of core/peers/peers.h).
 */
#ifndef SPILLWAY_LISTING_H
#define SPILLWAY_LISTING_H

#include <stdbool.h>

enum { LISTING_CROWD = 4096 };

/*
 * Calls each() with every name in a directory, until it returns false. Allocates nothing: a process
 * may exit in a signal handler, with malloc's lock held. Returns the number of names, or a negative
 * errno.
 */
int listing_read(int directory, bool (*each)(void *cookie, int directory, const char *name),
                 void *cookie);
/* Does so for a path. A crowd is logged once: how many names, their owner, and the remedy. */
int listing_read_path(const char *path, bool (*each)(void *cookie, int directory, const char *name),
                      void *cookie);

#endif
