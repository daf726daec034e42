/* SPDX-License-Identifier: MIT */
/* Taking terms. Rules: runs inside the user's process. */
#include "core/budget/terms.h"

#include <stdatomic.h>

#include "core/budget/device.h"
#include "core/budget/host_memory.h"
#include "core/budget/wanted.h"

/* The bytes that the job keeps less than everything for each cause, so that 0 means no bound. */
static _Atomic uint64_t given_up[DEVICE_MAX][YIELD_CAUSES];
/* The most of them, which each call reads. */
static _Atomic uint64_t given_up_most[DEVICE_MAX];
static _Atomic bool is_on_call[DEVICE_MAX];
_Atomic uint64_t yield_beside_owed[DEVICE_MAX];
static _Atomic uint64_t margins[DEVICE_MAX];

static uint64_t yield_most(int ordinal)
{
	uint64_t most = 0;

	for (int why = 0; why < YIELD_CAUSES; why++) {
		uint64_t bytes = atomic_load(&given_up[ordinal][why]);

		most = bytes > most ? bytes : most;
	}
	return most;
}

void yield_set(const struct device *device, enum yield_for why, uint64_t bytes)
{
	int ordinal = device->id.ordinal;
	uint64_t most;

	if (atomic_exchange(&given_up[ordinal][why], UINT64_MAX - bytes) == UINT64_MAX - bytes)
		return;
	/* Another thread may set another cause meanwhile: the last one to store looks again. */
	do {
		most = yield_most(ordinal);
		atomic_store(&given_up_most[ordinal], most);
	} while (yield_most(ordinal) != most);
	wanted_wake(device);
}

void yield_on_call(const struct device *device, bool can_call, uint64_t margin)
{
	atomic_store(&margins[device->id.ordinal], margin);
	atomic_store(&is_on_call[device->id.ordinal], can_call);
}

bool yield_is_on_call(const struct device *device)
{
	return atomic_load(&is_on_call[device->id.ordinal]) &&
	       !atomic_load(&yield_beside_owed[device->id.ordinal]);
}

uint64_t yield_margin(const struct device *device)
{
	return atomic_load(&margins[device->id.ordinal]);
}

uint64_t yield_above(const struct device *device)
{
	return UINT64_MAX -
	       atomic_load_explicit(&given_up_most[device->id.ordinal], memory_order_relaxed);
}

void terms_take(struct terms *terms, struct device *device)
{
	if (!publish_read(&device->settings, &terms->settings, &terms->generation)) {
		lock_acquire(&device->lock); /* no thread publishes meanwhile */
		publish_read(&device->settings, &terms->settings, &terms->generation);
		lock_release(&device->lock);
	}
	terms->limit = device_limit_by(device, &terms->settings);
	terms->yields_above = yield_above(device);
}

struct terms terms_of(struct device *device)
{
	struct terms terms;

	terms_take(&terms, device);
	return terms;
}

bool terms_defer_free(const struct device *device)
{
	const _Atomic uint64_t *words =
	    device->settings.word[publish_version(&device->settings) % 2];

	return atomic_load_explicit(&words[CONFIG_KEY_deferred_free], memory_order_relaxed);
}

uint64_t terms_limit_of_movable(const struct terms *terms)
{
	uint64_t limit = terms->settings.evict ? 0 : terms->limit;

	return limit < terms->yields_above ? limit : terms->yields_above;
}

enum spill_reason terms_host_first(const struct terms *terms, struct device *device, uint64_t bytes)
{
	uint64_t above = terms->yields_above;

	if (terms->settings.evict)
		return SPILL_EVICTED;
	if (above == UINT64_MAX)
		return SPILL_NONE;
	return bytes > above || device_charged(device, SEGMENT_ON_DEVICE) > above - bytes
	           ? SPILL_YIELDED
	           : SPILL_NONE;
}

/*
 * Returns a limit of host memory now. As the limit on the device, a number of bytes is the whole
 * job's, and 0 to a process outside its books; the machine's free memory belongs to no job.
 */
static uint64_t terms_limit_of_host(struct device *device, uint64_t setting, bool at_most_auto)
{
	if (!device->is_in_books && setting < CONFIG_AUTO)
		return 0;
	return host_memory_limit(setting, at_most_auto, device_charged(device, SEGMENT_ON_HOST));
}

uint64_t terms_host_limit(const struct terms *terms, struct device *device)
{
	return terms_limit_of_host(device, terms->settings.host_memory,
	                           terms->settings.host_at_most_auto);
}

uint64_t terms_host_limit_of_moves(const struct terms *terms, struct device *device)
{
	return terms_limit_of_host(device, terms->settings.host_limit_of_moves,
	                           terms->settings.moves_at_most_auto);
}
