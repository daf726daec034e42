/* SPDX-License-Identifier: MIT */
/*
 * The probe of the driver: its abilities with memory on the host, asked by a program of its own
 * (shim/probe/driver_probe.c) and kept in a cache that the processes of jobs read
 * (core/state/probe_cache.h). One probe of a user runs at a time, in no job.
 */
#ifndef SPILLWAY_PROBE_H
#define SPILLWAY_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/state/probe_cache.h"

enum probe_outcome { PROBE_MADE, PROBE_WAS_THERE, PROBE_FAILED };

/* Fills path with the program that asks the driver, which lies beside the shim. */
void probe_program(const char *shim, char *path, size_t size);
/*
 * Makes the probe of a driver, for each kind of device that is visible, unless the cache has it.
 * Waits for another probe of this user, at most for 60 s. Root's goes into the node's directory if
 * that is there, or is made if makes_node is set. message says where it is, or why there is none.
 */
enum probe_outcome probe_make(const char *shim, const char *driver, bool makes_node, char *message,
                              size_t size);
/* Forgets the requests of an earlier run's processes. */
void probe_forget(const char *job);
/*
 * Looks whether a process of the job asks for a probe, and then makes it beside the program, in a
 * process that may outlive us. Returns whether it has begun.
 */
bool probe_serve(const char *shim, const char *job);

#endif
