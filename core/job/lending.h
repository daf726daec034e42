/* SPDX-License-Identifier: MIT */
/*
 * Lending, as this process takes part in it: a thread that looks at the peer records of all
 * devices, says on its own what the process holds, needs and claims, decides by
 * core/sharing/grant.h, and has memory leave and come (core/budget/terms.h, wanted.h). Private to
 * core/job.
 *
 * The thread is started when another process has a peer record on a device of ours, and sleeps
 * while nobody claims anything and nothing has changed. The helper wakes it for that, whom other
 * processes wake by its peer record (peers_ring()); so do the mover, where the device is full, and
 * an idle job's next call. A call that must have memory on the device starts it, too.
 */
#ifndef SPILLWAY_JOB_LENDING_H
#define SPILLWAY_JOB_LENDING_H

#include "core/budget/device.h"

/* Keeps the devices. Called once, before other threads of the shim. */
void lending_start(struct device_set *devices);
/*
 * Starts the thread or wakes it, where there is something to decide or to tell. is_told: others can
 * wake the helper. By the helper, each time it wakes. Returns in how many milliseconds it is to be
 * called again at the latest.
 */
int lending_poll(bool is_told, int at_most_ms);

#endif
