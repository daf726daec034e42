/* SPDX-License-Identifier: MIT */
/* Overhead. Rules: runs inside the user's process; NVML may be slow, so no thread waits for another
 * that asks it. */
#include "core/memory/uses/overhead.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/budget/in_use.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"

#define ASKED_EVERY_NS (OVERHEAD_LOOK_MS * 1000000ull)

_Atomic bool overhead_is_told[DEVICE_MAX], overhead_is_noted;

/* The figure of a device, while it has contexts. */
struct figure {
	struct resource resource;
	struct device *device;
	struct overhead overhead; /* under the device's lock below */
	_Atomic uint64_t charged; /* overhead.bytes, for listings */
};

static struct asking {
	LOCK_OF(OVERHEAD) lock; /* of the asking thread */
	_Atomic uint64_t asked_ns;
	bool is_open;   /* the last look changed the figure, or could not be had */
	uint64_t ahead; /* charged for memory that the figure is about to include */
} asking[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = {.lock = LOCK_FREE}};

/* --- the rule --- */

static uint64_t overhead_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * Takes a look into the figure. Returns whether it may stay unless something changes it: a look
 * that changed it is not the last.
 */
static bool overhead_follow(struct overhead *overhead, const struct overhead_look *look)
{
	bool grew = look->charged[1] > look->charged[0];
	uint64_t more = look->charged[grew], fewer = look->charged[!grew];
	uint64_t least = overhead_less(look->held, more + look->uncharged);
	uint64_t most = overhead_less(look->held, overhead_less(fewer, look->elsewhere));
	uint64_t before = overhead->bytes;
	uint64_t allowed = overhead->most > most ? overhead->most : most;

	if (before < least)
		overhead->bytes = least;
	else if (before > allowed)
		overhead->bytes = allowed;
	overhead->most = most;
	return overhead->bytes == before && before <= most;
}

/* --- the resource --- */

static uint64_t memory_used(const struct resource *resource)
{
	return ((const struct figure *)resource)->charged;
}

static void overhead_destroy(struct resource *resource)
{
	struct figure *f = (struct figure *)resource;

	if (f->charged)
		device_uncharge_driver(f->device, f->charged);
	free(f);
}

const struct resource_type overhead_type = {
    .name = "overhead", .memory_used = memory_used, .destroy = overhead_destroy};

static struct resource *overhead_create(void *device)
{
	struct figure *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	resource_init(&f->resource, &overhead_type);
	f->device = device;
	f->overhead.most = UINT64_MAX;
	return &f->resource;
}

/* --- asking --- */

static void overhead_charge(struct figure *f, uint64_t bytes)
{
	if (bytes > f->charged && device_charge_driver(f->device, bytes - f->charged) != 0)
		f->overhead.bytes = bytes = f->charged;
	if (bytes < f->charged)
		device_uncharge_driver(f->device, f->charged - bytes);
	f->charged = bytes;
}

/* Returns whether the figure may stay. */
static bool overhead_do_follow(struct figure *f, struct overhead_look *look)
{
	bool is_settled;

	look->charged[0] = overhead_less(look->charged[0], f->charged);
	look->charged[1] = overhead_less(look->charged[1], f->charged);
	is_settled = overhead_follow(&f->overhead, look);
	overhead_charge(f, f->overhead.bytes);
	return is_settled;
}

static void leave_open(struct asking *asked, bool is_open)
{
	asked->is_open = is_open;
	if (is_open)
		overhead_note();
}

/* Gives back the bytes charged ahead, with the lock held. */
static void overhead_give_back(struct device *device)
{
	struct asking *asked = &asking[device->id.ordinal];

	if (asked->ahead)
		device_uncharge(device, SEGMENT_ON_DEVICE, asked->ahead);
	asked->ahead = 0;
}

/*
 * Asks NVML for the memory of this process, with the lock held. Returns whether it knows the
 * process.
 */
static bool overhead_do_ask(struct device *device)
{
	struct overhead_look look = {.charged[0] = device_used(device, SEGMENT_ON_DEVICE),
	                             .uncharged = device_uncharged(device)};
	uint64_t uncharged;
	struct asking *asked = &asking[device->id.ordinal];
	struct resource *figure;
	bool told;

	if (capture_is_active()) {
		leave_open(asked, true);
		return overhead_is_known(device);
	}
	told = in_use_by_process && in_use_by_process(&device->id, &look.held);
	atomic_store(&asked->asked_ns, clock_now());
	if (!told) {
		overhead_give_back(device);
		return false;
	}
	look.charged[0] = overhead_less(look.charged[0], asked->ahead);
	look.charged[1] = overhead_less(device_used(device, SEGMENT_ON_DEVICE), asked->ahead);
	look.elsewhere = device_elsewhere(device);
	uncharged = device_uncharged(device);
	if (look.uncharged < uncharged)
		look.uncharged = uncharged;
	figure = registry_lookup_or_create(device->registry, NULL, &overhead_type, "overhead",
	                                   overhead_create, device);
	leave_open(asked, figure && !overhead_do_follow((struct figure *)figure, &look));
	resource_release(figure);
	overhead_give_back(device);
	atomic_store(&overhead_is_told[device->id.ordinal], true);
	return true;
}

bool overhead_ask(struct device *device)
{
	struct asking *asked = &asking[device->id.ordinal];
	bool told;

	lock_acquire(&asked->lock);
	told = overhead_do_ask(device);
	lock_release(&asked->lock);
	return told;
}

void overhead_settle(struct device *device, uint64_t ahead)
{
	struct asking *asked = &asking[device->id.ordinal];

	lock_acquire(&asked->lock);
	asked->ahead += ahead;
	overhead_do_ask(device);
	lock_release(&asked->lock);
}

void overhead_changed(struct device *device)
{
	struct asking *asked = &asking[device->id.ordinal];
	uint64_t asked_ns = atomic_load(&asked->asked_ns);

	overhead_note();
	if (clock_now() - asked_ns < ASKED_EVERY_NS || !lock_try(&asked->lock))
		return;
	if (overhead_is_known(device)) /* its last context may have gone meanwhile */
		overhead_do_ask(device);
	lock_release(&asked->lock);
}

uint64_t overhead_bytes(const struct device *device)
{
	struct resource *figure =
	    registry_lookup(device->registry, NULL, &overhead_type, "overhead");
	uint64_t bytes = figure ? memory_used(figure) : 0;

	resource_release(figure);
	return bytes;
}

void overhead_end(struct device *device)
{
	struct asking *asked = &asking[device->id.ordinal];

	lock_acquire(&asked->lock);
	atomic_store(&overhead_is_told[device->id.ordinal], false);
	registry_delete(device->registry, NULL, &overhead_type, "overhead");
	overhead_give_back(device);
	lock_release(&asked->lock);
}

/* Unless its last context has gone meanwhile. Returns whether a look is wanted soon. */
static bool ask_again(struct device *device)
{
	struct asking *asked = &asking[device->id.ordinal];
	bool is_open = false;

	lock_acquire(&asked->lock);
	if (overhead_is_known(device)) {
		overhead_do_ask(device);
		is_open = asked->is_open;
	}
	lock_release(&asked->lock);
	return is_open;
}

bool overhead_poll(struct device_set *set)
{
	bool is_noted, is_open = false;

	if (capture_is_active())
		return false;
	is_noted = atomic_exchange(&overhead_is_noted, false);
	for (int i = 0; i < set->count; i++) {
		/* A look while memory came or went took the memory on its way for the driver's. */
		if (device_take_new_charges(&set->device[i]) || is_noted)
			is_open |= ask_again(&set->device[i]);
	}
	return is_open;
}
