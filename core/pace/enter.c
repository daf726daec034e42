/* SPDX-License-Identifier: MIT */
/* Entering a pacer. Rules: as launch.c. */
#include "core/base/deadline.h"
#include "core/cuda/capture.h"
#include "core/pace/pacer_private.h"
#include "core/pace/watch.h"

_Atomic uint32_t watch_sleeps, watch_called;
_Atomic bool watch_is_missing;
void (*watch_start)(void);

void watch_wake(void)
{
	if (atomic_exchange(&watch_sleeps, WATCH_LOOKS) == WATCH_IS_NOT_THERE)
		watch_start();
	else
		clock_in_use->wake(&watch_called);
}

bool pacer_is_pacing(const struct pacer *p)
{
	return p->paces && !p->lets_go;
}

bool pacer_enter(struct pacer *p, bool is_locked)
{
	struct deadline until = DEADLINE_IN(PACER_LOCK_NS);

	if (!is_locked && (!pacer_is_pacing(p) || !deadline_lock(&until, &p->lock)))
		return false;
	if (capture_sync_enter())
		return true;
	lock_release(&p->lock);
	return false;
}

void pacer_leave(struct pacer *p)
{
	lock_release(&p->lock);
	capture_sync_leave();
}
