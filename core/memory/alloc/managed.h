/* SPDX-License-Identifier: MIT */
/*
 * Managed memory of the program.
 *
 * Its pages come to the device when a kernel touches them there, which no call shows. So it is
 * charged when it is allocated, as if all of it were on the device, but never more than is left
 * below the limit. A larger allocation succeeds, as with the driver's own over-subscription. For
 * example, 3 GiB below a limit of 2 GiB are charged 2 GiB. Its tail, which is not charged, is
 * advised to stay on the host and be used from there, which holds the limit. A prefetch or an
 * advice of the program that would bring it over is followed as far as the limit allows by then.
 * Thread-safe.
 */
#ifndef SPILLWAY_MANAGED_H
#define SPILLWAY_MANAGED_H

#include "core/memory/uses/pool.h"

/* Enters managed memory that the driver made in the current context. */
void managed_made(CUdeviceptr address, size_t size);
/*
 * Does the same for memory of a pool, which prefers that location; it counts on the device that it
 * prefers, if that is one.
 */
void managed_made_by_pool(struct pool *pool, CUdeviceptr address, size_t size,
                          CUmemLocation preferred);
/*
 * Charges the uncharged part of [address, address + size), which the program wants on the device,
 * as far as the limit allows. Returns how many bytes from address on may come; size where not all
 * of the memory is known, which the driver judges.
 */
size_t managed_may_come(CUdeviceptr address, size_t size);

/* Returns a mark of this moment, for managed_advised(). */
uint64_t managed_mark(void);
/* Notes an advice of the program that the driver took since the mark, perhaps in another form. */
void managed_advised(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location,
                     uint64_t mark);
/* Notes a prefetch of the program's that the driver took, perhaps of a part or to the host. */
void managed_prefetched(CUdeviceptr address, size_t size, CUmemLocation location);
/* Returns the location that a number means where there is but a number for it. */
static inline CUmemLocation managed_location(int ordinal)
{
	if (ordinal == CU_DEVICE_INVALID)
		return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID, .id = ordinal};
	if (ordinal == CU_DEVICE_CPU)
		return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
}
/* Puts the program's advice in place of ours in the driver's answer. */
void managed_answer(void *data, size_t data_size, CUmem_range_attribute attribute,
                    CUdeviceptr address, size_t size);

#endif
