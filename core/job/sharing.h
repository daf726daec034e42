/* SPDX-License-Identifier: MIT */
/*
 * Sharing by need, as one process takes part in it: a peer record for each device on which it has a
 * context, and the peer records of the others there. Private to core/job.
 *
 * The helper thread polls all of it. A job that shares with nobody costs it a look into two
 * directories a second, and a launch or an allocation nothing.
 */
#ifndef SPILLWAY_JOB_SHARING_H
#define SPILLWAY_JOB_SHARING_H

#include "core/budget/device.h"
#include "core/peers/peers.h"

/* One device on which this process has a peer record. */
struct sharing {
	struct device *device;
	struct config_gpu settings; /* as the helper applied them last */
	struct peer_own own;
	struct peers others, watched; /* watched: of the thread that watches what is paced */
	uint64_t looked_ns;           /* at the directories */
};

/* Keeps where peer records are. Called once, before other threads of the shim. */
void sharing_start(struct device_set *devices, const char *job);
/*
 * Removes what killed processes of this user left, so that it stays no longer than their other
 * files. By the helper, when it begins.
 */
void sharing_sweep(void);
/*
 * Makes peer records of devices that have come into use, says a sign of life, looks at the others'
 * and has the parts act on them. By the helper, each time it wakes. Returns in how many
 * milliseconds it is to be called again at the latest.
 */
int sharing_poll(int at_most_ms);
/*
 * Returns what there is of the i-th device, with its peer record made where the device is in use;
 * NULL: it is not, or there can be none. Any thread.
 */
struct sharing *sharing_of(int i);
/* Returns the same with the peer record made whether the device is in use or not. Any thread. */
struct sharing *sharing_join(int i);
/* Takes new settings for the i-th device. By the helper, or before it runs. */
void sharing_set(int i, const struct config_gpu *settings);
/* Removes the peer records: the process exits. */
void sharing_stop(void);
/* Forgets them, in a forked child. */
void sharing_forked(void);

#endif
