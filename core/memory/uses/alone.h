/* SPDX-License-Identifier: MIT */
/*
 * Alone: of a user's processes one at a time makes a context on a device, where what it takes is
 * measured (measured.h): of two that do so at once each would be charged what the other's takes.
 *
 * alone-UUID  a file in the state directory, locked as long as the call takes. The lock is that of
 *             the open file, which a mapping holds open: no descriptor is kept, and a process that
 *             dies has given it back
 */
#ifndef SPILLWAY_ALONE_H
#define SPILLWAY_ALONE_H

#include <stdbool.h>

struct device;

/*
 * Waits until nobody else makes a context there, for a second at most. Returns what alone_end()
 * gives back; NULL: there is nothing to give back, and others may be at it. *waited: somebody was.
 */
void *alone_begin(const struct device *device, bool *waited);
/* Lets the others go on. NULL is fine. */
void alone_end(void *held);

#endif
