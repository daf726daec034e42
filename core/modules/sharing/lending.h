/* SPDX-License-Identifier: MIT */
/*
 * Lending, as this process takes part in it. It writes on the own peer records the memory that the
 * process holds, needs and claims. It decides by grant.h, and has memory leave and come
 * (core/budget/terms.h, wanted.h).
 *
 * It runs on the sharing thread (core/job/sharing.h) when another process claims, something has
 * changed, or a call must have memory on the device.
 */
#ifndef SPILLWAY_LENDING_H
#define SPILLWAY_LENDING_H

#include <stdint.h>

#include "core/budget/device.h"

/* Keeps the devices. Called once, before other threads of the shim. */
void lending_start(struct device_set *devices);
/* Goes one step on. Returns after how long the next is due. By the sharing thread. */
uint64_t lending_step(uint64_t now_ns);
/* Returns whether our peer record is no longer true, or another claims. See core/job/sharing.h. */
bool lending_has_news(uint64_t now_ns);

#endif
