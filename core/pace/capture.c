/* Active captures. Rules: runs inside the user's process; makes no driver call. */
#include "core/pace/capture.h"

#include <pthread.h>

#include "core/base/deadline.h"
#include "core/base/log.h"

enum { CAPTURES_MAX = 256, ANNOUNCED_FOR_NS = 100000000, ANNOUNCED_LOOK_NS = 100000 };

_Atomic unsigned int capture_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream capturing[CAPTURES_MAX];

static _Atomic unsigned int waiting, announced;

bool capture_sync_enter(void)
{
	atomic_fetch_add(&waiting, 1);
	if (!atomic_load(&announced) && !atomic_load(&capture_count))
		return true;
	atomic_fetch_sub(&waiting, 1);
	return false;
}

void capture_sync_leave(void)
{
	atomic_fetch_sub(&waiting, 1);
}

void capture_announce(void)
{
	struct deadline until = DEADLINE_IN(ANNOUNCED_FOR_NS);
	int cancel;

	/* A thread that went here would leave the capture announced for good. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	atomic_fetch_add(&announced, 1);
	while (atomic_load(&waiting) && deadline_nap(&until, ANNOUNCED_LOOK_NS))
		;
	pthread_setcancelstate(cancel, NULL);
}

void capture_announced(void)
{
	atomic_fetch_sub(&announced, 1);
}

void capture_began(CUstream stream)
{
	unsigned int count;

	pthread_mutex_lock(&lock);
	count = capture_count;
	if (count < CAPTURES_MAX) {
		capturing[count] = stream;
		capture_count = count + 1;
	} else {
		log_once(LOG_WARNING, "more than %d captures at once: pacing may disturb them",
		         CAPTURES_MAX);
	}
	pthread_mutex_unlock(&lock);
}

void capture_is_over(CUstream stream)
{
	if (!capture_is_active())
		return;
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < capture_count; i++) {
		if (capturing[i] == stream) {
			capturing[i] = capturing[capture_count - 1];
			capture_count--;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}
