/* SPDX-License-Identifier: MIT */
/*
 * The resources of this process, listed for whoever of its user asks (core/wire/wire.h).
 *
 * The helper thread looks for requests when it is awake; segment_ring() wakes it. So a process has
 * no socket, thread or descriptor for this, and a program that closes all descriptors breaks
 * nothing. No thread waits for a slow reader.
 *
 * The list is made under the registry's lock without taking references, so the helper destroys
 * nothing.
 */
#ifndef SPILLWAY_RESOURCES_H
#define SPILLWAY_RESOURCES_H

#include <stdbool.h>

#include "core/budget/device.h"

enum { RESOURCES_LOOK_MS = 10 };

/*
 * Prepares for those who ask this process, once it has joined. Only the helper thread calls it; it
 * may read the environment.
 */
void resources_start(const struct segment *segment);
/*
 * Answers who asks, if anybody does: one system call if not. Makes no driver call. Returns whether
 * somebody is about to listen, to be looked for again in RESOURCES_LOOK_MS.
 */
bool resources_answer(struct device_set *devices);

#endif
