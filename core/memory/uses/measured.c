/* SPDX-License-Identifier: MIT */
/* Measured costs. Rules: runs inside the user's process, within its calls; leaves its current
 * context as it was. */
#include "core/memory/uses/measured.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/own_file.h"
#include "core/budget/applied.h"
#include "core/budget/device.h"
#include "core/budget/in_use.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

/*
 * Alone: of a user's processes one at a time makes a context on a device, where the context is
 * measured. If two did so at once, each would be charged both contexts.
 *
 * alone-UUID  a file in the state directory, locked as long as the call takes. The lock is that of
 *             the open file, which a mapping holds open: no descriptor is kept, and a process that
 *             dies has given it back
 */

struct device;

/* A process that was stopped within its call holds other processes up no longer than this. */
#define PATIENCE_NS 1000000000ull

enum { SIZE = 4096 }; /* of the mapping; nothing in it is ever touched */

static int measured_open_file(const struct device *device)
{
	char path[DIRECTORY_MAX + sizeof device->id.uuid + 8];
	int length =
	    snprintf(path, sizeof path, "%s/alone-%s", device->segment->directory, device->id.uuid);

	return length < (int)sizeof path ? own_file_open(AT_FDCWD, path, O_RDWR | O_CREAT, 0600)
	                                 : -ENAMETOOLONG;
}

/* Locks the file. Returns a mapping, which keeps it locked; NULL: it cannot be had. */
static void *measured_hold(int fd, bool *waited)
{
	void *held;

	*waited = own_file_lock(fd, LOCK_EX, &DEADLINE_IN(0)) != 0;
	if (*waited && own_file_lock(fd, LOCK_EX, &DEADLINE_IN(PATIENCE_NS)) != 0)
		return NULL;
	held = mmap(NULL, SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	if (held == MAP_FAILED)
		return NULL;
	/* A child that kept it would keep the lock; where that cannot be had there is none. */
	if (madvise(held, SIZE, MADV_DONTFORK) == 0)
		return held;
	munmap(held, SIZE);
	return NULL;
}

/*
 * Waits until no other process makes a context there, for a second at most. Returns the argument of
 * alone_end(); NULL: there is nothing to give back, and another process may be at it. *waited: one
 * was.
 */
static void *alone_begin(const struct device *device, bool *waited)
{
	int saved = errno, cancel, fd;
	void *held = NULL;

	*waited = false;
	if (!device->is_in_books)
		return NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = measured_open_file(device);
	if (fd >= 0) {
		held = measured_hold(fd, waited);
		close(fd);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return held;
}

/* Lets other processes go on. NULL is fine. */
static void alone_end(void *held)
{
	int saved = errno;

	if (held)
		munmap(held, SIZE);
	errno = saved;
}

/* The ways to learn the memory in use; both ends of a measurement use the same way. */
enum way { BY_CONTEXT, WITHOUT_CONTEXT, WAYS };

enum { READ_TRIES = 4 };

/* Something that a call may have taken and that was not measured. */
struct left_out {
	uint64_t most; /* 0: nothing was left out since the last reading */
	struct context context;
	const void *owner;
};

/* The bytes in use, and those charged of them: to this process, and to each other of the user. */
struct taken {
	uint64_t used, charged;
	struct charges others;
};

/* The bytes in use when a measurement began or ended last, per device and way. */
static struct reading {
	LOCK_OF(OVERHEAD) lock;
	unsigned int running;
	bool waits_for_first;     /* context of the device */
	struct taken then, now;   /* now: of the look under way */
	struct charges before;    /* likewise: just before it */
	_Atomic uint64_t read_ns; /* CLOCK_MONOTONIC_COARSE */
	struct left_out left_out;
} readings[DEVICE_MAX][WAYS] = {[0 ... DEVICE_MAX - 1] = {[0 ... WAYS - 1] = {.lock = LOCK_FREE}}};

uint64_t measured_every_ns = 50000000;
_Atomic bool measured_is_behind[DEVICE_MAX];
static bool started;

static struct reading *reading_of(const struct device *device, enum way way)
{
	return &readings[device->id.ordinal][way];
}

/* Reads the charges of the user's other processes on the device. Returns whether they are known. */
static bool read_others(const struct device *device, struct charges *others)
{
	others->count = 0;
	return !device->is_in_books || segment_charges(device->segment, device->index, others);
}

/* Reads both, with the reading's lock held. Returns whether it is known. */
static bool measured_read_once(struct reading *r, struct device *device, enum way way)
{
	if (way == BY_CONTEXT ? !in_use_by_context(device, &r->now.used)
	                      : !in_use_without_context(device, &r->now.used))
		return false;
	r->now.charged = device_used(device, SEGMENT_ON_DEVICE);
	return read_others(device, &r->now.others);
}

/*
 * Reads both, likewise, until no other process was charged between. Memory that they have under way
 * is charged by then, and may not be there yet.
 */
static bool read_taken(struct reading *r, struct device *device, enum way way)
{
	int tries = READ_TRIES;
	struct charges before;

	if (!read_others(device, &r->before))
		return false;
	while (measured_read_once(r, device, way)) {
		if (!--tries || charges_are_same(&r->before, &r->now.others))
			return true;
		before = r->before;
		r->before = r->now.others;
		r->now.others = before;
	}
	return false;
}

/* Notes the look under way, with the reading's lock held. */
static void note_reading(struct reading *r, struct device *device)
{
	struct taken then = r->then;

	r->then = r->now;
	r->now = then;
	r->then.charged = device_used(device, SEGMENT_ON_DEVICE);
	atomic_store_explicit(&r->read_ns, clock_coarse(), memory_order_relaxed);
}

/* Returns for how long nothing need be measured, because another call was a moment ago. */
static uint64_t rest_ns(const struct reading *r)
{
	uint64_t read_ns = atomic_load_explicit(&r->read_ns, memory_order_relaxed);
	uint64_t passed_ns = clock_coarse() - read_ns;

	return read_ns && passed_ns < measured_every_ns ? measured_every_ns - passed_ns : 0;
}

/* Returns the growth since the last reading that no process was charged with. */
static uint64_t uncharged_growth(const struct taken *then, const struct taken *now)
{
	struct charges_change others = charges_change(&then->others, &now->others);
	/* In this order no term falls below zero by itself. */
	uint64_t after = now->used + then->charged + others.fallen;
	uint64_t before = then->used + now->charged + others.grown;

	return after > before ? after - before : 0;
}

/* Charges the growth until now, with the reading's lock held. Returns how much of it. */
static uint64_t charge_growth(const struct reading *r, struct device *device, uint64_t most)
{
	uint64_t bytes = uncharged_growth(&r->then, &r->now);

	bytes = bytes < most ? bytes : most;
	return bytes && device_charge_driver(device, bytes) == 0 ? bytes : 0;
}

/* Returns whether this very context is known still. */
static bool measured_is_there(const struct context *context)
{
	struct context now;

	return context_find(context->handle, &now) && now.number == context->number;
}

/*
 * Charges the bytes that were left out, with the reading's lock held. Returns them, to be entered
 * without the lock.
 */
static struct left_out charge_left_out(struct reading *r, struct device *device)
{
	struct left_out out = r->left_out;

	r->left_out = (struct left_out){0};
	atomic_store_explicit(&measured_is_behind[device->id.ordinal], false, memory_order_relaxed);
	if (out.most && !measured_is_there(&out.context))
		out.most = 0;
	if (out.most)
		out.most = charge_growth(r, device, out.most);
	return out;
}

static void measured_enter(const struct context *context, const void *owner, uint64_t bytes)
{
	if (bytes)
		counted_enter(&counted_type_measured, context, (uintptr_t)owner, bytes, bytes);
}

static bool measured_do_begin(struct device *device, enum way way)
{
	struct reading *r = reading_of(device, way);
	struct left_out out = {0};
	bool known = true;

	lock_acquire(&r->lock);
	if (r->running == 0) {
		known = read_taken(r, device, way);
		if (known) {
			out = charge_left_out(r, device);
			note_reading(r, device);
		}
	}
	r->running += known;
	lock_release(&r->lock);
	measured_enter(&out.context, out.owner, out.most);
	return known;
}

/* ahead: bytes charged before the call for its growth. */
static uint64_t end_ahead(struct device *device, enum way way, const struct context *context,
                          const void *owner, uint64_t most, uint64_t ahead)
{
	struct reading *r = reading_of(device, way);
	uint64_t bytes = 0;
	bool known;

	lock_acquire(&r->lock);
	r->running--;
	known = owner && read_taken(r, device, way);
	if (known) {
		r->now.charged -= ahead < r->now.charged ? ahead : r->now.charged;
		bytes = charge_growth(r, device, most);
	}
	if (ahead)
		device_uncharge(device, SEGMENT_ON_DEVICE, ahead);
	if (known)
		note_reading(r, device);
	lock_release(&r->lock);
	measured_enter(context, owner, bytes);
	return bytes;
}

static uint64_t measured_do_end(struct device *device, enum way way, const struct context *context,
                                const void *owner, uint64_t most)
{
	return end_ahead(device, way, context, owner, most, 0);
}

void measured_catch_up_now(struct device *device)
{
	if (!capture_is_active() && measured_do_begin(device, BY_CONTEXT))
		measured_do_end(device, BY_CONTEXT, NULL, NULL, 0);
}

/* Returns the context where there is something to measure in, or NULL where nothing is measured. */
static const struct context *can_measure(struct measuring *measuring)
{
	measuring->device = NULL;
	return capture_is_active() ? NULL : context_here();
}

static void measure_in(struct measuring *measuring, const struct context *context)
{
	measuring->is_told = measuring->is_left_out = false;
	measuring->context = *context;
	measuring->device = context->device;
}

uint64_t measured_rest_ns(const struct device *device)
{
	return atomic_load_explicit(&measured_is_behind[device->id.ordinal], memory_order_relaxed)
	           ? rest_ns(reading_of(device, BY_CONTEXT))
	           : 0;
}

static void measured_begin_seldom(struct measuring *measuring, const struct context *context)
{
	const struct reading *r = reading_of(context->device, BY_CONTEXT);

	if (overhead_is_known(context->device)) {
		overhead_note();
	} else if (!rest_ns(r)) {
		measure_in(measuring, context);
		if (!measured_do_begin(measuring->device, BY_CONTEXT))
			measuring->device = NULL;
	} else if (!atomic_load_explicit(&measured_is_behind[context->device->id.ordinal],
	                                 memory_order_relaxed)) {
		measure_in(measuring, context);
		measuring->is_left_out = true;
	}
}

void measured_begin(struct measuring *measuring, bool seldom)
{
	const struct context *context = can_measure(measuring);

	if (!context)
		return;
	if (seldom) {
		measured_begin_seldom(measuring, context);
		return;
	}
	measure_in(measuring, context);
	measuring->is_told = overhead_is_known(measuring->device);
	if (!measuring->is_told && !measured_do_begin(measuring->device, BY_CONTEXT))
		measuring->device = NULL;
}

static void measured_leave_out(const struct measuring *measuring, const void *owner, uint64_t most)
{
	struct reading *r = reading_of(measuring->device, BY_CONTEXT);
	bool is_first;

	lock_acquire(&r->lock);
	is_first = !r->left_out.most && owner && most;
	if (is_first) {
		r->left_out = (struct left_out){most, measuring->context, owner};
		atomic_store_explicit(&measured_is_behind[measuring->device->id.ordinal], true,
		                      memory_order_relaxed);
	}
	lock_release(&r->lock);
	if (is_first) /* the difference grows by memory of other processes */
		wanted_wake(measuring->device);
}

uint64_t measured_end(const struct measuring *measuring, const void *owner, uint64_t most)
{
	if (!measuring->device)
		return 0;
	if (measuring->is_told)
		overhead_changed(measuring->device);
	else if (measuring->is_left_out)
		measured_leave_out(measuring, owner, most);
	else
		return measured_do_end(measuring->device, BY_CONTEXT, &measuring->context, owner,
		                       most);
	return 0;
}

bool measured_end_ahead(const struct measuring *measuring, const void *owner, uint64_t most,
                        uint64_t ahead)
{
	if (!measuring->device)
		return false;
	if (measuring->is_told)
		overhead_settle(measuring->device, ahead);
	else
		end_ahead(measuring->device, BY_CONTEXT, &measuring->context, owner, most, ahead);
	return true;
}

/* Returns whether the reading of a moment ago for the first context need not be repeated. */
static bool is_fresh(struct reading *r, const struct device *device, bool waited)
{
	return r->waits_for_first && !waited && rest_ns(r) && read_others(device, &r->now.others) &&
	       charges_are_same(&r->then.others, &r->now.others);
}

/*
 * Begins to measure the first context of a device, or the first after all have gone. Memory that
 * other processes took until now is theirs. waited: another process has just made one.
 */
static void begin_first(struct device *device, bool waited)
{
	struct reading *r = reading_of(device, WITHOUT_CONTEXT);

	lock_acquire(&r->lock);
	if (started && !is_fresh(r, device, waited) &&
	    (r->waits_for_first ? read_taken(r, device, WITHOUT_CONTEXT)
	                        : measured_read_once(r, device, WITHOUT_CONTEXT))) {
		note_reading(r, device);
		r->running += !r->waits_for_first;
		r->waits_for_first = true;
	}
	lock_release(&r->lock);
}

void measured_start(struct device_set *set)
{
	started = true;
	for (int i = 0; i < set->count; i++)
		begin_first(&set->device[i], false);
}

static bool has_contexts(const struct device *device)
{
	struct context context;

	return context_of_device(device, &context);
}

void measured_begin_context(struct measuring *measuring, struct device *device)
{
	bool waited = false;

	measuring->device = NULL;
	measuring->alone = NULL;
	measuring->is_told = measuring->is_left_out = false;
	if (capture_is_active() || !device)
		return;
	measuring->is_told = has_contexts(device) && overhead_is_known(device);
	if (measuring->is_told)
		return;
	if (started)
		measuring->alone = alone_begin(device, &waited);
	if (!has_contexts(device))
		begin_first(device, waited);
	else if (measured_do_begin(device, BY_CONTEXT))
		measuring->device = device;
}

uint64_t measured_end_context(const struct measuring *measuring, CUcontext made)
{
	struct context context;
	bool known = made && context_find(made, &context);
	uint64_t bytes = 0;

	if (measuring->device)
		bytes = measured_do_end(measuring->device, BY_CONTEXT, &context,
		                        known ? made : NULL, MEASURED_MOST_CONTEXT);
	else if (known && measuring->is_told)
		overhead_ask(context.device);
	else if (known)
		measured_first_met(&context);
	alone_end(measuring->alone);
	return bytes;
}

/*
 * Leaves the bytes that were left out for an object that is gone to its context: they were the
 * context's at most.
 */
static void forget_left_out(const void *owner)
{
	for (int i = 0; i < DEVICE_MAX; i++) {
		struct reading *r = &readings[i][BY_CONTEXT];

		if (!atomic_load_explicit(&measured_is_behind[i], memory_order_relaxed))
			continue;
		lock_acquire(&r->lock);
		if (r->left_out.owner == owner)
			r->left_out.owner = r->left_out.context.handle;
		lock_release(&r->lock);
	}
}

struct leaving measured_leave(const void *owner)
{
	return context_leave_object(&counted_type_measured, (uintptr_t)owner);
}

void measured_left(struct leaving *leaving, bool gone)
{
	registry_left(leaving, gone); /* however often it grew */
	resource_release(leaving->resource);
	leaving->resource = NULL;
	if (!gone)
		return;
	overhead_note();
	forget_left_out((const void *)(uintptr_t)leaving->object);
}

void measured_left_context(struct leaving *leaving, struct device *device, bool gone)
{
	measured_left(leaving, gone);
	if (!gone || !overhead_is_known(device))
		return;
	if (has_contexts(device))
		overhead_ask(device);
	else
		overhead_end(device);
}

void measured_first_met(const struct context *context)
{
	struct reading *r = reading_of(context->device, WITHOUT_CONTEXT);
	bool waited, is_told;

	lock_acquire(&r->lock);
	waited = r->waits_for_first;
	r->waits_for_first = false;
	lock_release(&r->lock);
	if (!waited)
		return;
	is_told = !capture_is_active() && overhead_ask(context->device);
	measured_do_end(context->device, WITHOUT_CONTEXT, context,
	                capture_is_active() || is_told ? NULL : context->handle,
	                MEASURED_MOST_CONTEXT);
}
