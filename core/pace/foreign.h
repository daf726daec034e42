/* SPDX-License-Identifier: MIT */
/*
 * Foreign tenants: programs that use a device without taking turns with us. While both have work
 * the device runs them by time slices, and events around our work contain their slices. Our part of
 * it is estimated here, from NVML's figures of the last second or so.
 *
 * look     the figures of one time
 * verdict  the conclusion: of measured busy time so many thousandths were our own
 *
 * By process: NVML reports how long our kernels ran; measured time is compared with it. By totals,
 * where it does not (a container in which processes have other numbers, old GPUs): the work of the
 * tenants while we are idle shows how much they want. One that always wants the device has as much
 * of it as we while we do, or half as much where our rounds fit into a slice: taken as three
 * quarters, five points from the truth on average, and fifteen at worst.
 *
 * Nothing is corrected unless a foreign program is seen to work: NVML's figures are whole percents
 * of whole samples, worse than events on a device without other users. Not thread-safe.
 *
 * A job at 30 % beside one busy program would hold 15 by events alone. By process NVML's figure is
 * right to a few points; where it does not know the process by a number of ours, the device's total
 * must do: five points off on average.
 */
#ifndef SPILLWAY_FOREIGN_H
#define SPILLWAY_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"
#include "core/ledger/statistics.h"
#include "core/pages/turns.h"

enum { FOREIGN_LOOKS = 16, FOREIGN_WHOLE = 1000 };

/* The use of a device lately, as NVML says. */
struct foreign_use {
	int own;    /* percent of the time in which kernels of this process ran; -1: not told */
	int device; /* of any process; -1: not told */
	int others; /* how many other processes had kernels that ran; -1: not told */
};

struct foreign_look {
	uint64_t time_ns;    /* CLOCK_MONOTONIC */
	uint64_t counted_ns; /* busy time ever counted, corrected by the verdicts so far */
	struct foreign_use use;
	int known; /* how many processes take turns with us and worked lately */
	uint32_t
	    known_share; /* the most that these can have had together, thousandths of a percent */
};

struct foreign_verdict {
	uint32_t thousandths; /* FOREIGN_WHOLE: all was ours */
	bool estimated;
};

/* Begins zeroed. */
struct foreign {
	struct {
		uint64_t time_ns, measured_ns; /* busy time without corrections */
		struct foreign_use use;
		int known;
		uint32_t known_share;
	} look[FOREIGN_LOOKS];
	uint64_t looks; /* ever; the last is at (looks - 1) % FOREIGN_LOOKS */
	uint64_t counted_ns;
	struct foreign_verdict verdict;
};

/*
 * Asks NVML. Returns false if nothing is known. It is NULL where NVML is not to be had. It loads
 * NVML, which stays, into the process, and is called only while something is paced, by one thread.
 */
extern bool (*foreign_ask)(const struct config_device *device, struct foreign_use *use);

/*
 * The share of a device that this process has held over the last seconds, by the best figures: by
 * events, corrected where foreign tenants were in it. In the statistics as share_held,
 * share_estimated.
 *
 * The helper thread looks, every HELD_EVERY_NS or as often as it is called for something else, and
 * only while the device is paced. Not thread-safe.
 */
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
 * lane's. Returns the argument for pacer_correct(): so many thousandths of the measured time are
 * our own.
 */
uint32_t held_look(struct held *held, const struct config_device *device,
                   struct counters *statistics, const struct turns *turns, uint64_t owner,
                   uint64_t now_ns);
/* Returns whether nothing has run for so long that looking changes nothing. */
static inline bool held_rests(const struct held *held, uint64_t now_ns)
{
	return now_ns - held->worked_ns > HELD_OVER_NS + HELD_EVERY_NS;
}
/* Forgets the held share, because the device is not paced: nothing is known. */
static inline void held_forget(struct held *held, struct counters *statistics)
{
	if (!held->looks)
		return;
	*held = (struct held){0};
	statistics_set(&statistics->share_held, 0);
	statistics_set(&statistics->share_estimated, 0);
}

#endif
