/* SPDX-License-Identifier: MIT */
/* Verdicts on evictions. */
#include "tools/view/eviction.h"

static bool holds(const struct segment_process *process, int device)
{
	return process->state == SEAT_LIVE && process->charged[device][SEGMENT_ON_DEVICE];
}

bool eviction_moves(const struct segment_process *process, int device)
{
	const struct statistics *s = &process->device[device];

	return holds(process, device) &&
	       (s->elastic == ELASTIC_YES || s->held_reason == HELD_CHANGING) &&
	       (s->held_reason == HELD_PENDING || s->held_reason == HELD_CHANGING);
}

static enum eviction of_process(const struct segment_process *process, int device)
{
	const struct statistics *s = &process->device[device];

	if (eviction_moves(process, device))
		return EVICTION_GOES_ON;
	if (s->held_reason == HELD_HOST_FULL)
		return EVICTION_HOST_FULL;
	if (s->elastic != ELASTIC_YES && s->allocations)
		return EVICTION_INELASTIC;
	return s->held_reason == HELD_PINNED ? EVICTION_PINNED : EVICTION_FOREIGN;
}

enum eviction eviction_of(const struct segment_view *view, int device,
                          const struct segment_process **who)
{
	enum eviction verdict = EVICTION_DRAINS;

	*who = NULL;
	if (!view->job_total[device].evicted)
		return EVICTION_REVOKED;
	if (!view->charged[device][SEGMENT_ON_DEVICE])
		return EVICTION_DONE;
	for (int i = 0; i < view->process_count; i++) {
		const struct segment_process *process = &view->process[i];
		enum eviction of_this;

		if (!holds(process, device))
			continue;
		of_this = of_process(process, device);
		if (*who && of_this <= verdict)
			continue;
		verdict = of_this;
		*who = process;
	}
	return verdict;
}
