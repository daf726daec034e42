/* SPDX-License-Identifier: MIT */
/*
 * Reach: which devices reach a device's memory: itself, and the peers that its program has let
 * reach it. Thread-safe.
 *
 * Devices with access to a device's memory reach what it has spilled, too: enabling peer access,
 * or a right to a pool, opens the mappings.
 */
#ifndef SPILLWAY_REACH_H
#define SPILLWAY_REACH_H

#include "core/budget/device.h"

/* Returns the right of a device to read and write. */
CUmemAccessDesc reach_right(CUdevice device);
/*
 * Fills in the rights of the device itself and of its peers. Returns how many there are, at most
 * DEVICE_MAX.
 */
size_t reach_rights(const struct device *owner, CUmemAccessDesc rights[DEVICE_MAX]);

#endif
