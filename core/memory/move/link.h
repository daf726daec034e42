/* SPDX-License-Identifier: MIT */
/*
 * The link: how fast memory of a device goes to the host, and comes from there, all that an
 * exchange takes included, as far as it was measured. By the mover alone, but for link_bytes().
 */
#ifndef SPILLWAY_LINK_H
#define SPILLWAY_LINK_H

#include "core/budget/device.h"

/* Notes what was measured: how long an exchange took with which so many bytes came to this side. */
void link_note(const struct device *device, enum segment_side to, uint64_t bytes, uint64_t copy_ns,
               uint64_t all_ns);
/* Returns the bytes that come to this side in so long; 0: nothing was measured yet. */
uint64_t link_bytes(const struct device *device, enum segment_side to, uint64_t ns);
/* Returns how long so many bytes are copied at the least; 0: nothing was measured yet. */
uint64_t link_copies_ns(const struct device *device, enum segment_side to, uint64_t bytes);

#endif
