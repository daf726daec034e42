/* SPDX-License-Identifier: MIT */
/*
 * Memory of graphs. Rules: runs inside the user's process, within its calls; makes no call that
 * waits for work.
 */
#include "core/memory/uses/graph_memory.h"

#include "core/base/lock.h"
#include "core/cuda/capture.h"

_Atomic bool graph_memory_expected;

static struct device_set *devices;
static LOCK_OF(GRAPH_MEMORY) lock = LOCK_FREE;
static uint64_t charged[DEVICE_MAX];

void graph_memory_start(struct device_set *set)
{
	devices = set;
}

/* Settles the charge with the reserved bytes that the driver reports, with the lock held. */
static void graph_memory_do_settle(struct device *device)
{
	uint64_t *mine = &charged[device->id.ordinal];
	cuuint64_t reserved;

	if (driver.cuDeviceGetGraphMemAttribute(
	        device->handle, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS)
		return;
	if (reserved < *mine)
		device_uncharge(device, SEGMENT_ON_DEVICE, *mine - reserved);
	else if (reserved > *mine && device_charge_taken(device, reserved - *mine) != 0)
		return;
	*mine = reserved;
}

void graph_memory_settle_all(void)
{
	lock_acquire(&lock);
	for (int i = 0; devices && i < devices->count; i++)
		graph_memory_do_settle(&devices->device[i]);
	lock_release(&lock);
}

bool graph_memory_make_room(struct device *device)
{
	uint64_t *mine = &charged[device->id.ordinal], before;
	bool came;

	if (!atomic_load(&graph_memory_expected) || capture_is_active())
		return false;
	lock_acquire(&lock);
	before = *mine;
	if (before)
		driver.cuDeviceGraphMemTrim(device->handle);
	graph_memory_do_settle(device);
	came = *mine < before;
	lock_release(&lock);
	return came;
}
