/* SPDX-License-Identifier: MIT */
/*
 * Spare physical memory: unused chunks, kept for the next request, because making one costs the
 * driver a hundred times the price of mapping it. Spares stay charged to their tier; a request that
 * takes one takes its charge over. Thread-safe.
 */
#ifndef SPILLWAY_SPARE_H
#define SPILLWAY_SPARE_H

#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/cuda/chunk.h"

/* Returns where the device's chunks come from. */
struct chunk_source spare_source(struct device *device);

/*
 * Takes spares of this size, tier and kind with their charges, so many at most. Returns how many
 * there were.
 */
unsigned int spare_take(struct device *device, const struct chunk *like,
                        CUmemGenericAllocationHandle *handles, unsigned int count);
/* Makes one. The caller has charged it. */
CUresult spare_create(struct device *device, struct chunk *chunk);
/*
 * Gives chunks and their charges away: kept as spares while there are few, else released. They are
 * kept, too, where releasing them would wait for running work.
 */
void spare_give(struct device *device, struct chunk *chunks, unsigned int count,
                const struct terms *terms);
/* Returns how many bytes are kept in any case, of any sizes, where there are none yet. */
uint64_t spare_keeps(const struct device *device, const struct terms *terms);
/* Releases a chunk and its charge. */
void spare_release(struct device *device, const struct chunk *chunk);
/* Returns whether there are any that were not taken for a while. */
bool spare_is_due(struct device *device);
/*
 * Releases spares of this tier: all, or those that were not taken for a while. Returns their bytes.
 */
uint64_t spare_trim(struct device *device, enum segment_tier tier, bool all);
/*
 * Returns how many small spares this tier should have more, because some were missing since this
 * was asked last.
 */
unsigned int spare_missing(struct device *device, enum segment_tier tier);
/* Makes so many small ones, as far as the tier's limit allows. Only the mover calls it. */
void spare_prefill(struct device *device, const struct terms *terms, enum segment_tier tier,
                   unsigned int count);

#endif
