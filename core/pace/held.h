/* SPDX-License-Identifier: MIT */
/*
 * The share of a device that this process has held over the last seconds, by the best of what is
 * known: what events measured, corrected where foreign tenants were in it (foreign.h). In the
 * statistics as share_held, share_estimated.
 *
 * The helper thread looks, every HELD_EVERY_NS or as often as it is called for something else, and
 * only while the device is paced. Not thread-safe.
 */
#ifndef SPILLWAY_HELD_H
#define SPILLWAY_HELD_H

#include "core/config/config.h"
#include "core/pace/foreign.h"
#include "core/ledger/statistics.h"

#define HELD_EVERY_NS UINT64_C(250000000) /* how often it is looked, about */
#define HELD_OVER_NS  UINT64_C(5000000000)

enum { HELD_LOOKS = 24 };

/* Begins zeroed. */
struct held {
	struct {
		uint64_t time_ns, busy_ns;
	} look[HELD_LOOKS];
	uint64_t looks;                 /* ever */
	uint64_t counted_ns, worked_ns; /* busy time as counted last, and when it last grew */
	uint64_t asked_ns;              /* when NVML was asked last */
	struct foreign foreign;
};

/*
 * Looks; asks NVML unless nothing has run for a while. turns: NULL where there are none; owner: our
 * lane's. Returns what pacer_correct() is to be told: so many thousandths of what is measured are
 * our own.
 */
uint32_t held_look(struct held *held, const struct config_device *device,
                   struct counters *statistics, const struct turns *turns, uint64_t owner,
                   uint64_t now_ns);
/* Returns whether nothing has run for so long that looking changes nothing. */
bool held_rests(const struct held *held, uint64_t now_ns);
/* Forgets what was held, because the device is not paced: nothing is known. */
void held_forget(struct held *held, struct counters *statistics);

#endif
