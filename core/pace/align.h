/* SPDX-License-Identifier: MIT */
/*
 * Slots in common: a job that works on several devices puts its slots into the same time.
 *
 * Kernels of one job may wait for each other on different devices (an all-reduce spins until all
 * take part). If one device stood still alone, the other devices would spin for it and be charged
 * for that. So a slot on one device is a slot on all, until all accounts are even, and before it
 * all come to rest together:
 *
 * level  devices count their launches since the last slot; while another one has work in flight, a
 *        device that has launched less launches on, one at a time, until it is level. Programs that
 *        do the same on all devices so rest at the same point.
 * help   a resting device launches on, one at a time, while another device is stuck: its work is
 *        overdue, so it may wait for ours. For programs that do not do the same everywhere.
 *
 * Pure except for wake-ups: time is given, the table is memory of the job's segment. The table may
 * be used by any thread; struct align is guarded by the pacer's lock.
 *
 * Rounds are 16 ms there (6 above 80 %): stopping several devices costs up to half a millisecond.
 * In simulation eight ranks keep 94 to 98 % of share times unpaced; without getting level they fell
 * to nothing at 25 %.
 */
#ifndef SPILLWAY_ALIGN_H
#define SPILLWAY_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/state/layout.h"

#define ALIGN_ACTIVE_NS 100000000ull /* without a word for longer: not active */
#define ALIGN_SLOT_NS \
	1000000000ull /* a slot in common lasts no longer; the rest is each device's own */
#define ALIGN_LEVEL_NS \
	16000000ull /* to get level costs no more GPU time, but for the last launch */

struct align {
	struct lanes *lanes; /* NULL: the process paces alone, and no other device is known of */
	int lane, device;
	uint32_t window;   /* the slot since whose end launches are counted */
	uint32_t launches; /* since then */
	uint64_t level_ns; /* the expected cost of launches that were to get level */
	bool helps;        /* the next launch does not count */
};

/* Says that work is launched, or about to be. */
void align_fly(struct align *align, uint64_t now_ns);
/* Counts one launch, which should cost so much; 0: not known. */
void align_count(struct align *align, uint64_t cost_ns, bool to_get_level);
/* Notes that the work in flight should have been done a while ago. */
void align_stuck(struct align *align, uint64_t now_ns);
/* Says that nothing is in flight. */
void align_land(struct align *align);
/* Returns whether the job works on another device too. */
bool align_has_others(const struct align *align, uint64_t now_ns);
/* Returns whether this device has launched less than another that has work in flight. */
bool align_is_behind(const struct align *align, uint64_t now_ns);
/* Makes the slot last at least until then. Returns its end; at or before now there is none. */
uint64_t align_slot(struct align *align, uint64_t now_ns, uint64_t until_ns);
/* Returns whether another device is stuck; the next launch is to help it. */
bool align_helps(struct align *align, uint64_t now_ns);
/* Begins a round: after a slot the count begins, too. */
void align_go(struct align *align);

#endif
