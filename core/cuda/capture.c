/* SPDX-License-Identifier: MIT */
/* Active captures. Rules: runs inside the user's process; makes no driver call. */
#include "core/cuda/capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/gate.h"

enum { FEW = 256, ANNOUNCED_FOR_NS = 100000000, ANNOUNCED_LOOK_NS = 100000 };

_Atomic unsigned int capture_count;

static LOCK_OF(CAPTURES) lock = LOCK_FREE;
/* Those that are active. They are few, else their room grows and stays; guarded by lock. */
static struct capture {
	CUcontext context; /* NULL: it is not known */
	CUstream stream;
} few[FEW], *capturing = few;
static unsigned int room = FEW, known;

static _Atomic unsigned int announced;

bool capture_sync_enter(void)
{
	/*
	 * In the thread's own line: no other thread waits for it. The announcement is read after
	 * it.
	 */
	atomic_fetch_add(&gate_thread_here()->asks, 1);
	if (!atomic_load(&announced) && !atomic_load(&capture_count))
		return true;
	capture_sync_leave();
	return false;
}

void capture_sync_leave(void)
{
	struct gate_thread *thread = gate_thread_here();

	if (thread->number == UINT32_MAX) /* of several threads */
		atomic_fetch_sub(&thread->asks, 1);
	else
		atomic_store_explicit(&thread->asks,
		                      atomic_load_explicit(&thread->asks, memory_order_relaxed) - 1,
		                      memory_order_release);
}

void capture_announce(void)
{
	struct deadline until = DEADLINE_IN(ANNOUNCED_FOR_NS);
	int cancel;

	/* A thread that went here would leave the capture announced for good. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	atomic_fetch_add(&announced, 1);
	while (!gate_nobody_asks() && deadline_nap(&until, ANNOUNCED_LOOK_NS))
		;
	pthread_setcancelstate(cancel, NULL);
}

void capture_announced(void)
{
	atomic_fetch_sub(&announced, 1);
}

/* Makes room for one more; with the lock held. Returns false when there is no memory. */
static bool capture_make_room(void)
{
	struct capture *more;

	if (known < room)
		return true;
	more = malloc(2 * room * sizeof(*more));
	if (!more)
		return false;
	memcpy(more, capturing, known * sizeof(*more));
	if (capturing != few)
		free(capturing);
	capturing = more;
	room *= 2;
	return true;
}

void capture_began_in(CUcontext context, CUstream stream)
{
	int saved = errno;

	lock_acquire(&lock);
	if (capture_make_room())
		capturing[known++] = (struct capture){context, stream};
	else /* its end will never be known: better no memory moves than it is invalidated */
		log_once(LOG_WARNING, "out of host memory: a capture is taken as one that never "
		                      "ends, and no memory moves");
	capture_count++;
	lock_release(&lock);
	errno = saved;
}

/* Takes a capture out; with the lock held. */
static void capture_take_out(unsigned int i)
{
	capturing[i] = capturing[--known];
	capture_count--;
}

void capture_is_over(CUstream stream)
{
	unsigned int i = 0;

	if (!capture_is_active())
		return;
	lock_acquire(&lock);
	while (i < known && capturing[i].stream != stream)
		i++;
	if (i < known)
		capture_take_out(i);
	lock_release(&lock);
}

void capture_context_gone(CUcontext context)
{
	if (!capture_is_active())
		return;
	lock_acquire(&lock);
	for (unsigned int i = 0; i < known;) {
		if (capturing[i].context == context)
			capture_take_out(i);
		else
			i++;
	}
	lock_release(&lock);
}
