/* SPDX-License-Identifier: MIT */
/* The share held. Rules: runs inside the user's process, on the helper thread. */
#include "core/pace/held.h"

#define FULL_SHARE 100000
#define ASKED_NS   UINT64_C(2000000000) /* for so long after it worked last */

/*
 * Returns what of the time since a look some HELD_OVER_NS ago, or the first one, was busy, in
 * thousandths of a percent. busy_ns: ever counted. One that comes too early is not remembered.
 */
static uint32_t held_share(struct held *held, uint64_t now_ns, uint64_t busy_ns)
{
	uint64_t first = held->looks > HELD_LOOKS ? held->looks - HELD_LOOKS : 0, busy, time;
	uint64_t last = held->looks ? held->looks - 1 : 0;

	if (held->looks && (now_ns < held->look[last % HELD_LOOKS].time_ns ||
	                    busy_ns < held->look[last % HELD_LOOKS].busy_ns))
		first = last = held->looks = 0;
	while (first < last &&
	       now_ns - held->look[(first + 1) % HELD_LOOKS].time_ns >= HELD_OVER_NS)
		first++;
	time = held->looks ? now_ns - held->look[first % HELD_LOOKS].time_ns : 0;
	busy = held->looks ? busy_ns - held->look[first % HELD_LOOKS].busy_ns : 0;
	if (!held->looks ||
	    now_ns - held->look[last % HELD_LOOKS].time_ns >= HELD_EVERY_NS - HELD_EVERY_NS / 8) {
		held->look[held->looks % HELD_LOOKS].time_ns = now_ns;
		held->look[held->looks++ % HELD_LOOKS].busy_ns = busy_ns;
	}
	if (!time)
		return 0;
	return busy < time ? (uint32_t)(busy * FULL_SHARE / time) : FULL_SHARE;
}

uint32_t held_look(struct held *held, const struct config_device *device,
                   struct counters *statistics, const struct turns *turns, uint64_t owner,
                   uint64_t now_ns)
{
	struct foreign_look look = {
	    .time_ns = now_ns,
	    .counted_ns = statistics_get(&statistics->busy_ns),
	    .use = {.own = 0},
	};
	struct foreign_verdict verdict = held->foreign.verdict;

	if (held->looks == 0 || look.counted_ns != held->counted_ns)
		held->worked_ns = now_ns;
	held->counted_ns = look.counted_ns;
	statistics_set(&statistics->share_held, held_share(held, now_ns, look.counted_ns));
	/* Looks that follow more closely would be about less time than a verdict needs. */
	if (now_ns - held->worked_ns > ASKED_NS ||
	    (held->asked_ns && now_ns - held->asked_ns < HELD_EVERY_NS - HELD_EVERY_NS / 8))
		return verdict.thousandths;
	held->asked_ns = now_ns;
	if (!foreign_ask || !foreign_ask(device, &look.use))
		look.use = (struct foreign_use){-1, -1, -1};
	foreign_know(&look, turns, owner);
	verdict = foreign_judge(&held->foreign, &look);
	statistics_set(&statistics->share_estimated, verdict.estimated);
	return verdict.thousandths;
}

bool held_rests(const struct held *held, uint64_t now_ns)
{
	return now_ns - held->worked_ns > HELD_OVER_NS + HELD_EVERY_NS;
}

void held_forget(struct held *held, struct counters *statistics)
{
	if (!held->looks)
		return;
	*held = (struct held){0};
	statistics_set(&statistics->share_held, 0);
	statistics_set(&statistics->share_estimated, 0);
}
