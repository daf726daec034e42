/* SPDX-License-Identifier: MIT */
/*
 * Sharing by need, as one process takes part in it: a peer record for each device on which it has a
 * context, and the peer records of other processes there. For core/job and modules.
 *
 * One thread takes all decisions among jobs. It copies the peer records of each device once, and
 * decides whether the process gives way to a guaranteed one. Then modules share memory and turns
 * (the hook `share`). It starts when another process has a peer record on a device of
 * ours, when a call claims memory, or when turns are exclusive. Other processes wake it by our peer
 * record (peers_ring()); the mover, a call that claims and an idle job's next call wake it by
 * shortage_call(). Until it starts the helper looks into two directories a second, and a launch or
 * an allocation costs nothing.
 */
#ifndef SPILLWAY_JOB_SHARING_H
#define SPILLWAY_JOB_SHARING_H

#include "core/budget/device.h"
#include "core/peers/peers.h"

/* One device on which this process has a peer record. */
struct sharing {
	struct device *device;
	struct config_gpu settings; /* as the helper applied them last; under a lock */
	struct peer_own own;
	struct peers others;  /* as of the last look; of the sharing thread, once it runs */
	struct peers watched; /* of the thread that watches paced work */
	uint64_t looked_ns;   /* at the directories */
	/* decided by the sharing thread, done by the helper */
	_Atomic bool is_asked;  /* a job that goes first asks whether we work */
	_Atomic bool gives_way; /* a normal job works in gaps alone, because of a guaranteed one */
};

/* Keeps where peer records are. Called once, before other threads of the shim. */
void sharing_start(struct device_set *devices, const char *job);
/*
 * Removes files of killed processes of this user, so that they stay no longer than their other
 * files. By the helper, when it begins.
 */
void sharing_sweep(void);
/*
 * Makes peer records of devices that have come into use, writes a sign of life, starts the thread
 * where other processes are there, and acts on its decisions. By the helper, each time it wakes.
 * Returns in how many milliseconds it is to be called again at the latest.
 */
int sharing_poll(int at_most_ms);
/* Changes, and is rung, when there is something for sharing_poll() to do. */
extern _Atomic uint32_t sharing_decided;
/* Starts the sharing thread, once. Returns whether it runs. Any thread. */
bool sharing_begin(void);
/* Returns whether the sharing thread heeds the bells of our peer records; else the helper does. */
bool sharing_is_begun(void);
/*
 * Returns the sharing of the i-th device, with its peer record made where the device is in use;
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
