/* SPDX-License-Identifier: MIT */
/* Yields. Rules: runs inside the user's process; set by the helper thread. */
#include "core/budget/yield.h"

#include <stdatomic.h>

#include "core/budget/device.h"
#include "core/budget/wanted.h"

/* What the job keeps less than everything for each cause, so that 0 says that there is no bound. */
static _Atomic uint64_t given_up[DEVICE_MAX][YIELD_CAUSES];
static _Atomic bool is_on_call[DEVICE_MAX];
static _Atomic uint64_t margins[DEVICE_MAX];

void yield_set(const struct device *device, enum yield_for why, uint64_t bytes)
{
	if (atomic_exchange(&given_up[device->id.ordinal][why], UINT64_MAX - bytes) !=
	    UINT64_MAX - bytes)
		wanted_wake(device);
}

void yield_on_call(const struct device *device, bool can_call, uint64_t margin)
{
	atomic_store(&margins[device->id.ordinal], margin);
	atomic_store(&is_on_call[device->id.ordinal], can_call);
}

bool yield_is_on_call(const struct device *device)
{
	return atomic_load(&is_on_call[device->id.ordinal]);
}

uint64_t yield_margin(const struct device *device)
{
	return atomic_load(&margins[device->id.ordinal]);
}

uint64_t yield_above(const struct device *device)
{
	uint64_t most = 0;

	for (int why = 0; why < YIELD_CAUSES; why++) {
		uint64_t bytes =
		    atomic_load_explicit(&given_up[device->id.ordinal][why], memory_order_relaxed);

		most = bytes > most ? bytes : most;
	}
	return UINT64_MAX - most;
}
