/* SPDX-License-Identifier: MIT */
/*
 * Terms: one consistent copy of a device's settings, for one call. A call takes them once, when it
 * begins, and hands them down; nothing below it reads settings again. Only the limit is compared
 * anew, at each charge (device_charge()), because it may have changed while room was made.
 *
 * There is no other way to the settings; tests/house/test_terms.py finds code that looks for one.
 */
#ifndef SPILLWAY_TERMS_H
#define SPILLWAY_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/ledger/codes.h"

struct device;

struct terms {
	uint64_t generation;        /* another one whenever the settings have changed */
	struct config_gpu settings; /* as they were at one time */
	uint64_t limit;             /* bytes the job might hold on the device then; for plans */
	uint64_t yields_above;      /* it gives other jobs the memory beyond */
};

struct terms terms_of(struct device *device);
/*
 * Takes the terms where they are to be: on the path of each allocation they are not copied once
 * more.
 */
void terms_take(struct terms *terms, struct device *device);
/* Returns deferred_free, the one word that a free asks for: it takes no more. */
bool terms_defer_free(const struct device *device);
/*
 * Returns the bytes above which the mover takes memory away: the limit, 0 while evicted, or the
 * job's rest where it yields.
 */
uint64_t terms_limit_of_movable(const struct terms *terms);
/* Returns why so many bytes more are to be on the host if it has room; SPILL_NONE: they are not. */
enum spill_reason terms_host_first(const struct terms *terms, struct device *device,
                                   uint64_t bytes);
/*
 * Returns the bytes the job may hold on the host: host_memory, or its value just now, which opens
 * files where it is `auto`.
 */
uint64_t terms_host_limit(const struct terms *terms, struct device *device);
/*
 * Returns likewise how far the host may fill with memory that leaves the device. Where the
 * machine's file is enforced the job's own host_memory does not bound that, because memory above a
 * lowered limit must find a place on the host.
 */
uint64_t terms_host_limit_of_moves(const struct terms *terms, struct device *device);

/*
 * Yields: how much of a device the job may hold there for the sake of other jobs, apart from its
 * limit. Above it memory leaves the device as above a limit. New memory goes to the host while that
 * has room for it. When the bound is lifted memory comes back as after `resume`. The limit itself
 * stays the same: reported memory, refusals, and statements about the limit do not change.
 *
 * Each deciding module sets a bound of its own, as bytes of the whole job; the lowest counts.
 * Thread-safe; a bound is one word, which terms carry.
 */
struct device;

/* Why: memory is claimed, kept free, or the device is another job's for an exclusive turn. */
enum yield_for { YIELD_FOR_CLAIM, YIELD_FOR_RESERVE, YIELD_FOR_TURN, YIELD_CAUSES };

/* Sets a bound (UINT64_MAX: none), and wakes the mover where it is another than before. */
void yield_set(const struct device *device, enum yield_for why, uint64_t bytes);
/*
 * Sets whether other jobs can call back the memory they are owed there, so that the job may have it
 * meanwhile (growth.h). Sets also how much of the device is never lent.
 */
void yield_on_call(const struct device *device, bool can_call, uint64_t margin);
bool yield_is_on_call(const struct device *device);
/*
 * Not 0: the job has no memory that other jobs are owed, and so many bytes less, because the driver
 * does not wait for its return. By ordinal.
 */
extern _Atomic uint64_t yield_beside_owed[];
uint64_t yield_margin(const struct device *device);
/* Returns the bytes above which the job yields; UINT64_MAX: it does not. */
uint64_t yield_above(const struct device *device);

#endif
