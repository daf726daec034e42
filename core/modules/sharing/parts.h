/* SPDX-License-Identifier: MIT */
/* The two parts of the module, which its hooks call (sharing.c). */
#ifndef SPILLWAY_PARTS_H
#define SPILLWAY_PARTS_H

#include <stdint.h>

#include "core/budget/device.h"

/* --- lending --- */

/*
 * Lending, as this process takes part in it. It writes on the own peer records the memory that the
 * process holds, needs and claims. It decides by grant.h, and has memory leave and come
 * (core/budget/terms.h, wanted.h).
 *
 * It runs on the sharing thread (core/job/sharing.h) when another process claims, something has
 * changed, or a call must have memory on the device.
 */

/* Keeps the devices. Called once, before other threads of the shim. */
void lending_start(struct device_set *devices);
/* Goes one step on. Returns after how long the next is due. By the sharing thread. */
uint64_t lending_step(uint64_t now_ns);
/* Returns whether our peer record is no longer true, or another claims. See core/job/sharing.h. */
bool lending_has_news(uint64_t now_ns);

/* --- exclusive turns --- */

/*
 * Exclusive turns, as this process takes part in them: decides by gang.h, holds launches back
 * (exclusive_hold.h) and has memory leave and come (core/budget/terms.h).
 *
 * It runs on the sharing thread (core/job/sharing.h) once turns are to be exclusive. A job without
 * a neighbour looks four times a second; its launches and allocations pay nothing.
 */

/*
 * Keeps the environment's ranks on other machines: threads of ours do not read variables that the
 * program may change. Called once, by the thread that starts the job.
 */
void exclusive_keep_environment(void);
/* Takes new settings for the i-th device. By the helper, or before it runs. */
void exclusive_set(struct device_set *devices, int i, const struct config_gpu *settings);
/*
 * Goes one step on. Returns after how long the next is due; UINT64_MAX: there are no such turns. By
 * the sharing thread.
 */
uint64_t exclusive_step(uint64_t now_ns);

#endif
