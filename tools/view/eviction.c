/* SPDX-License-Identifier: MIT */
/* Verdicts on evictions. */
#include "tools/view/eviction.h"

static bool holds(const struct segment_process *process, int device)
{
	return process->state == SLOT_LIVE && process->charged[device][SEGMENT_ON_DEVICE];
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

static uint64_t eviction_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Returns the bytes charged on a tier, without those of spare chunks. */
static uint64_t eviction_in_use(const struct segment_view *view, int device, enum segment_tier tier)
{
	const struct statistics *total = &view->job_total[device];

	return eviction_less(view->charged[device][tier],
	                     tier == SEGMENT_ON_DEVICE ? total->device_pool : total->host_pool);
}

uint64_t eviction_bytes(const struct segment_view *view, int device)
{
	return eviction_in_use(view, device, SEGMENT_ON_DEVICE) +
	       eviction_in_use(view, device, SEGMENT_ON_HOST);
}

uint64_t eviction_coming_back(const struct segment_view *view, int device, uint64_t bytes)
{
	const struct statistics *total = &view->job_total[device];
	uint64_t on_host = eviction_in_use(view, device, SEGMENT_ON_HOST);
	uint64_t on_both = eviction_less(eviction_bytes(view, device), bytes);
	uint64_t used = eviction_less(eviction_in_use(view, device, SEGMENT_ON_DEVICE), on_both);
	uint64_t room = eviction_less(total->limit_set, used);

	if (total->elastic != ELASTIC_YES)
		return 0;
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].device[device].move_pending == MOVE_DEVICE_FULL)
			return 0;
	return on_host < room ? on_host : room;
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
