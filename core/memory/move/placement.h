/* SPDX-License-Identifier: MIT */
/*
 * Placement: which memory is to be on the host, by what the program's kernels use in a step
 * (heat/weigh.h), where that is known by a survey (heat/survey.h); elsewhere by heat.
 *
 * A survey is made when something is spilled, and again when much has changed or time has passed.
 * What it finds is an order in which memory leaves. Where `placement` is auto and little would be
 * gained, nothing is exchanged any more: whatever is used in every step is as good as any other.
 * Where memory has moved another survey measures what came of it; if kernels take longer than
 * before it goes back, and stays. By the mover alone.
 */
#ifndef SPILLWAY_PLACEMENT_H
#define SPILLWAY_PLACEMENT_H

#include "core/budget/terms.h"
#include "core/memory/move/movable.h"

/*
 * Goes on with what is to be found out of a device. charged: bytes of it on the device, but not
 * those that are kept ready; spare: those; on_host: those that could come back.
 */
void placement_poll(struct device *device, const struct terms *terms, uint64_t charged,
                    uint64_t spare, uint64_t on_host);
/*
 * Notes that the device has no room for what is on the host, though the limit has: other jobs have
 * the rest, and so much stays there.
 */
void placement_note_full(const struct device *device);
/* Returns whether that was so, and something has been on the host ever since. */
bool placement_is_full(const struct device *device);
/*
 * Returns whether a first survey has still to end that may say what is best: until then nothing is
 * exchanged by heat, which knows only what was filled last.
 */
bool placement_is_awaited(const struct device *device);
/* Returns whether it is decided where this piece of memory is to be. */
bool placement_has_decided(const struct device *device, CUdeviceptr address);
/*
 * Notes that there is nothing to exchange any more: now it can be measured whether what was decided
 * is worth it.
 */
void placement_note_even(const struct device *device);
/* Returns whether it was decided lately that memory changes places, and it has not yet. */
bool placement_hurries(const struct device *device);
/* Returns whether looking at heat would change nothing on this device. */
bool placement_is_settled(const struct device *device);

/* Ranks memory: what leaves first is less. The upper half is an enum heat. For the mover alone. */
uint64_t placement_rank(const struct device *device, CUdeviceptr address, uint32_t touched,
                        uint32_t now);

#endif
