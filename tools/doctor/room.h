/* SPDX-License-Identifier: MIT */
/*
 * Trying whether a job can have its state: without it each of its processes would have limits of
 * its own.
 */
#ifndef SPILLWAY_ROOM_H
#define SPILLWAY_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the state directory and tries the needs of a segment. False, with the reason in message. */
bool room_for_job(char *message, size_t size);

#endif
