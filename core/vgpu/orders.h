/* SPDX-License-Identifier: MIT */
/*
 * The process's part in its container's shared region: what it tells there once a second, and the
 * orders it finds, as a layer of its configuration.
 */
#ifndef SPILLWAY_ORDERS_H
#define SPILLWAY_ORDERS_H

#include <stdbool.h>

#include "core/budget/device.h"

/*
 * Begins, where the process stands in and its environment names a cache: the orders that stand in
 * its region hold from the first allocation on.
 */
void orders_begin(char *const *environment);
/* Adds the orders to what a configuration is made from. Any thread may call it. */
void orders_take(struct config_sources *sources);
/*
 * Tells, if it is time, and reads the orders. Returns whether they have changed, so that the
 * configuration is to be read again. Opens a file; called by the thread that starts the job, then
 * by its helper.
 */
bool orders_tend(struct device_set *devices, const struct config *config);
/* Says that the process holds nothing any more, as it exits. */
void orders_stop(void);

#endif
