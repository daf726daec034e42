/* SPDX-License-Identifier: MIT */
/* Reaching a device's memory. Rules: runs inside the user's process; asks nobody. */
#include "core/memory/arena/reach.h"

CUmemAccessDesc reach_right(CUdevice device)
{
	CUmemAccessDesc right = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	right.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	right.location.id = device;
	return right;
}

size_t reach_rights(const struct device *owner, CUmemAccessDesc rights[DEVICE_MAX])
{
	uint32_t peers = atomic_load(&owner->reached_by);
	size_t count = 0;

	rights[count++] = reach_right(owner->handle);
	/* The set lies in one array, by ordinal. */
	for (int i = 0; i < DEVICE_MAX; i++) {
		if (peers & 1u << i)
			rights[count++] = reach_right((owner - owner->id.ordinal + i)->handle);
	}
	return count;
}
