/* SPDX-License-Identifier: MIT */
/* Shortage. Rules: runs inside the user's process, within its calls; errno is kept. */
#include "core/budget/shortage.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"

_Atomic uint32_t shortage_called;

static bool (*_Atomic begin)(const struct device *device);

static struct {
	_Atomic uint64_t bytes;   /* that calls wait for */
	_Atomic uint64_t tried;   /* that calls try to have, once they were decided */
	_Atomic uint32_t decided; /* changes when they are to try again */
} claims[DEVICE_MAX];

void shortage_call(void)
{
	clock_in_use->wake(&shortage_called);
}

void shortage_say(const struct device *device)
{
	bool (*now)(const struct device *) = atomic_load(&begin);

	if (now && now(device))
		shortage_call();
}

static bool wait_for_decision(int ordinal, uint64_t bytes, struct deadline *until)
{
	uint32_t before = atomic_load(&claims[ordinal].decided);
	bool is_decided;

	atomic_fetch_add(&claims[ordinal].bytes, bytes);
	shortage_call();
	while (!(is_decided = atomic_load(&claims[ordinal].decided) != before) &&
	       !deadline_has_passed(until))
		clock_in_use->wait(&claims[ordinal].decided, before, deadline_ends(until));
	if (is_decided)
		atomic_fetch_add(&claims[ordinal].tried, bytes);
	atomic_fetch_sub(&claims[ordinal].bytes, bytes);
	return is_decided;
}

void shortage_tried(const struct device *device, uint64_t bytes)
{
	atomic_fetch_sub(&claims[device->id.ordinal].tried, bytes);
}

bool shortage_claim(const struct device *device, uint64_t bytes, bool will_tell,
                    struct deadline *until)
{
	bool (*now)(const struct device *) = atomic_load(&begin);
	int saved = errno, cancel;
	bool is_decided = false;

	if (!bytes || !now || capture_is_active())
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (now(device))
		is_decided = wait_for_decision(device->id.ordinal, bytes, until);
	if (is_decided && !will_tell)
		shortage_tried(device, bytes);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return is_decided;
}

void shortage_serve(bool (*function)(const struct device *device))
{
	atomic_store(&begin, function);
}

uint64_t shortage_claimed(const struct device *device, bool *is_tried)
{
	uint64_t bytes = atomic_load(&claims[device->id.ordinal].bytes);

	*is_tried = !bytes && (bytes = atomic_load(&claims[device->id.ordinal].tried));
	return bytes;
}

void shortage_decide(const struct device *device)
{
	clock_in_use->wake(&claims[device->id.ordinal].decided);
}
