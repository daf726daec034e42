/* SPDX-License-Identifier: MIT */
/*
 * Placement: which memory is to be on the host. A survey tells the memory that the program's
 * kernels use in a step (survey.h), and the placement follows from that (weigh.h).
 * Without a survey it follows from heat.
 *
 * The first spill starts a survey, and so does a large change, or time. Its result is an order in
 * which memory leaves. Where `placement` is auto and the gain would be small, nothing is exchanged
 * any more: all memory that is used in every step is alike. Where memory has moved another survey
 * measures the effect; if kernels take longer than before it goes back, and stays. For example, a
 * step of 100 ms that becomes 110 ms is put back. By the mover alone.
 */
#ifndef SPILLWAY_PLACEMENT_H
#define SPILLWAY_PLACEMENT_H

#include "core/budget/terms.h"
#include "core/memory/move/movable.h"

/*
 * Goes on with the survey of a device. charged: bytes of it on the device, but not those that are
 * kept ready; spare: those; on_host: those that could come back.
 */
void placement_poll(struct device *device, const struct terms *terms, uint64_t charged,
                    uint64_t spare, uint64_t on_host);
/*
 * Notes that the device has no room for memory on the host, though the limit has: other jobs have
 * the rest, and so much stays there.
 */
void placement_note_full(const struct device *device);
/* Returns whether that was so, and something has been on the host ever since. */
bool placement_is_full(const struct device *device);
/*
 * Returns whether a first survey has still to end that may find the best order: until then nothing
 * is exchanged by heat, which knows only the latest fills.
 */
bool placement_is_awaited(const struct device *device);
/* Returns whether it is decided where this piece of memory is to be. */
bool placement_has_decided(const struct device *device, CUdeviceptr address);
/*
 * Notes that there is nothing to exchange any more: now it can be measured whether the decision is
 * worth it.
 */
void placement_note_even(const struct device *device);
/* Returns whether it was decided lately that memory changes places, and it has not yet. */
bool placement_hurries(const struct device *device);
/* Returns whether looking at heat would change nothing on this device. */
bool placement_is_settled(const struct device *device);

/* Ranks memory: less leaves first. The upper half is an enum heat. For the mover alone. */
uint64_t placement_rank(const struct device *device, CUdeviceptr address, uint32_t touched,
                        uint32_t now);

#endif
