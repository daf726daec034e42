/* SPDX-License-Identifier: MIT */
/* Waiting for an exclusive turn. Rules: runs inside the user's process, on its launch path. */
#include "core/modules/sharing/exclusive_hold.h"

#include <pthread.h>

#include "core/base/clock.h"
#include "core/budget/shortage.h"
#include "core/cuda/capture.h"
#include "core/rings/event.h"
#include "core/modules/sharing/gang.h"

/* The deciding thread may be late by so much before launches go on without it. */
#define LATE_NS 5000000000ull
/* A launch that waits counts the time so often. */
#define TICK_NS 100000000ull

static struct {
	_Atomic uint32_t changed; /* for waiting threads */
	_Atomic bool holds, lets_go;
	_Atomic uint64_t one_ns; /* since when one launch may pass; 0: none */
	_Atomic uint64_t lease_ns;
	_Atomic uint64_t decided_ns; /* when the holder was last set */
	_Atomic uint32_t waiting;
} hold = {.lease_ns = UINT64_MAX};

/* Returns whether a stream is done with its work, as far as that may be asked. */
static bool exclusive_hold_is_done(CUstream stream)
{
	bool is_idle;

	if (!capture_sync_enter())
		return true;
	is_idle = driver.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
	capture_sync_leave();
	return is_idle;
}

/*
 * Returns whether the launch is the one that may pass, because running work may need it
 * (exclusive_hold_pass_one()). Work in a stream never needs a launch behind it in the same stream.
 * So a launch into a stream that is done passes, and after LATE_NS any launch.
 */
static bool is_the_one(CUstream stream, uint64_t now)
{
	uint64_t since = atomic_load(&hold.one_ns);

	if (!since || (now < since + LATE_NS && !exclusive_hold_is_done(stream)))
		return false;
	return atomic_exchange(&hold.one_ns, 0) != 0;
}

static bool passes(CUstream stream, uint64_t since_ns, uint64_t now)
{
	uint64_t lease = atomic_load(&hold.lease_ns), decided = atomic_load(&hold.decided_ns);

	/* Each decision begins the longest wait anew. */
	since_ns = since_ns > decided ? since_ns : decided;
	if (atomic_load(&hold.lets_go) || now > since_ns + GANG_WAIT_NS + LATE_NS)
		return true;
	if (!atomic_load(&hold.holds))
		return now < lease || now - lease > LATE_NS;
	return is_the_one(stream, now);
}

/* Waits, and counts the time as idle; of threads that wait together the first one does. */
static void wait(const struct device *device, CUstream stream)
{
	uint64_t began = clock_now(), told = began, now = began;
	bool counts = atomic_fetch_add(&hold.waiting, 1) == 0;

	if (counts)
		statistics_add(&device->statistics->idle_slots, 1);
	shortage_call(); /* the sharing thread decides now */
	for (;;) {
		uint32_t seen = atomic_load(&hold.changed);

		if (passes(stream, began, now))
			break;
		clock_in_use->wait(&hold.changed, seen, now + TICK_NS);
		now = clock_now();
		if (counts)
			statistics_add(&device->statistics->idle_ns, now - told);
		told = now;
	}
	atomic_fetch_sub(&hold.waiting, 1);
	if (counts)
		event_note(.kind = EVENT_slot, .device = device->id.ordinal, .begin_ns = began,
		           .duration_ns = now - began, .a = IDLE_TURN);
}

void exclusive_hold(const struct device *device, CUstream stream)
{
	uint64_t lease = atomic_load_explicit(&hold.lease_ns, memory_order_acquire);
	int cancel;

	if (!atomic_load_explicit(&hold.holds, memory_order_acquire) &&
	    (lease == UINT64_MAX || clock_now() < lease))
		return;
	/* Captured work does not run, and other threads may wait for the end of the capture. */
	if (capture_is_active())
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	wait(device, stream);
	pthread_setcancelstate(cancel, NULL);
}

void exclusive_hold_set(bool holds, uint64_t lease_ns)
{
	bool held = atomic_exchange(&hold.holds, holds);
	uint64_t before = atomic_exchange(&hold.lease_ns, lease_ns);

	atomic_store(&hold.decided_ns, clock_now());
	if (!holds && (held || before != lease_ns) && exclusive_hold_is_wanted())
		clock_in_use->wake(&hold.changed);
}

void exclusive_hold_pass_one(void)
{
	uint64_t none = 0;

	atomic_compare_exchange_strong(&hold.one_ns, &none, clock_now());
	clock_in_use->wake(&hold.changed);
}

bool exclusive_hold_is_wanted(void)
{
	return atomic_load(&hold.waiting) != 0;
}

void exclusive_hold_let_go(void)
{
	atomic_store(&hold.lets_go, true);
	clock_in_use->wake(&hold.changed);
}
