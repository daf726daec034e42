/* SPDX-License-Identifier: MIT */
/* Events. Rules: runs inside the user's process; never waits. */
#include "core/cuda/events.h"

#include <stdbool.h>
#include <stddef.h>

#include "core/base/lock.h"

enum { KEPT_MAX = 256 };

static LOCK_OF(LEAF) lock = LOCK_FREE;
static struct {
	CUcontext context;
	CUevent event;
} kept[KEPT_MAX];
static size_t count;

/* Takes a kept event of the context; with the lock held. Returns NULL when none is kept. */
static CUevent take_kept(CUcontext context)
{
	for (size_t i = count; i-- > 0;) {
		if (kept[i].context == context) {
			CUevent event = kept[i].event;

			kept[i] = kept[--count];
			return event;
		}
	}
	return NULL;
}

CUevent events_take(CUcontext context)
{
	CUevent event;

	lock_acquire(&lock);
	event = take_kept(context);
	lock_release(&lock);
	if (!event && driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return NULL;
	return event;
}

void events_give(CUcontext context, CUevent event)
{
	bool is_kept;

	if (!event)
		return;
	lock_acquire(&lock);
	is_kept = count < KEPT_MAX;
	if (is_kept) {
		kept[count].context = context;
		kept[count++].event = event;
	}
	lock_release(&lock);
	if (!is_kept)
		driver.cuEventDestroy_v2(event);
}

void events_forget_context(CUcontext context)
{
	lock_acquire(&lock);
	while (take_kept(context))
		;
	lock_release(&lock);
}
