/* SPDX-License-Identifier: MIT */
/*
 * The heartbeat: while another process asks, the watcher writes on the process's peer record
 * whether it works on a device, so that other jobs can use the time that it leaves. A launch pays
 * nothing for that: the count of launches is looked at, and once it stands still one event per
 * context, recorded over all work of the context.
 *
 * Never in a capture; an unknown answer (a capture, a driver before CUDA 12.5, more contexts than
 * are kept) counts as working. A lock of its own guards it.
 */
#ifndef SPILLWAY_HEARTBEAT_H
#define SPILLWAY_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/peers/peer.h"
#include "core/cuda/driver.h"
#include "core/ledger/statistics.h"
#include "core/sharing/best_effort.h"

enum { HEARTBEAT_CONTEXTS = 4 };

/* Begins zeroed. */
struct heartbeat {
	uint64_t launches;
	uint64_t since_ns; /* it works, or is idle, since then; 0: nothing was seen yet */
	enum peer_working working;
	enum heartbeat_recorded {
		NOT_RECORDED,
		RECORDED,
		CONFIRMS
	} recorded;        /* since it stands still */
	int confirmations; /* looks that the confirmation has taken */
	struct {
		CUcontext context;
		CUevent event;
	} at[HEARTBEAT_CONTEXTS];
	struct gaps gaps, bursts; /* how long it was idle, and worked */
	struct feedback feedback;
};

/*
 * Looks, and writes the peer record. Returns after how many nanoseconds it wants to look again.
 * With the lock held, and leave to call the driver unless !may_call.
 */
uint64_t heartbeat_look(struct heartbeat *heartbeat, int ordinal, const struct counters *counters,
                        struct peer_own *record, bool may_call, uint64_t now_ns);
/* Forgets a context that is gone, and its event with it. */
void heartbeat_forget_context(struct heartbeat *heartbeat, CUcontext context);

#endif
