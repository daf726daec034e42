/* Entering a pacer. Rules: as launch.c. */
#include "core/base/deadline.h"
#include "core/cuda/capture.h"
#include "core/pace/pacer_private.h"

bool pacer_is_pacing(const struct pacer *p)
{
	return p->paces && !p->lets_go;
}

bool pacer_enter(struct pacer *p)
{
	struct deadline until = DEADLINE_IN(PACER_LOCK_NS);

	if (!pacer_is_pacing(p) || !capture_sync_enter())
		return false;
	if (deadline_lock(&until, &p->lock))
		return true;
	capture_sync_leave();
	return false;
}

void pacer_leave(struct pacer *p)
{
	lock_release(&p->lock);
	capture_sync_leave();
}
