/* Active captures. Rules: runs inside the user's process; makes no driver call. */
#include "core/pace/capture.h"

#include <pthread.h>

#include "core/base/log.h"

enum { CAPTURES_MAX = 256 };

_Atomic unsigned int capture_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream capturing[CAPTURES_MAX];

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
