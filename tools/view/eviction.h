/* SPDX-License-Identifier: MIT */
/* The fate of an eviction: one verdict on one GPU of a job, from one copy of its segment. */
#ifndef SPILLWAY_TOOLS_EVICTION_H
#define SPILLWAY_TOOLS_EVICTION_H

#include "core/state/segment.h"

/* In order of weight, where several processes of the job hold memory there. */
enum eviction {
	EVICTION_DONE,      /* nothing is on the GPU */
	EVICTION_DRAINS,    /* memory of processes that have ended */
	EVICTION_FOREIGN,   /* it can never move, */
	EVICTION_PINNED,    /* or must not */
	EVICTION_INELASTIC, /* it cannot in this process */
	EVICTION_HOST_FULL,
	EVICTION_GOES_ON,
	EVICTION_REVOKED, /* the job is not evicted any more */
};

/*
 * Returns the verdict. *who is the process that it is about; NULL where it is about none. Of a
 * process that holds nothing there no reason counts: it may be one from before its memory left.
 */
enum eviction eviction_of(const struct segment_view *view, int device,
                          const struct segment_process **who);
/* Returns whether memory of the process beyond a limit, or of an evicted job, is on its way. */
bool eviction_moves(const struct segment_process *process, int device);

/* Returns the bytes of the job on both tiers, without memory that is kept ready for new chunks. */
uint64_t eviction_bytes(const struct segment_view *view, int device);
/*
 * Returns the bytes on the host that have room on the device. bytes: eviction_bytes() while nothing
 * moved. A chunk on its way is charged on both tiers: with a limit of 128 MiB, 128 MiB charged on
 * the device and 80 MiB on the host, a job of 128 MiB has 80 MiB to bring back.
 */
uint64_t eviction_coming_back(const struct segment_view *view, int device, uint64_t bytes);

#endif
