/* The watcher. Rules: a thread in someone else's process: every signal blocked, in relaxed capture mode. */
#include "core/pace/watch.h"

#include <pthread.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/cuda/driver.h"
#include "core/pace/pacer.h"

/* How long it sleeps uncalled. */
#define LONG_NS 1000000000ull

_Atomic uint32_t watch_sleeps, watch_called;

static struct pacer *const *watched;
static int watched_count;

static uint64_t look_at_all(void)
{
	uint64_t again = 0;

	for (int i = 0; i < watched_count; i++) {
		uint64_t wanted = pacer_watch(watched[i]);

		if (wanted && (!again || wanted < again))
			again = wanted;
	}
	return again;
}

static void *watch(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-pace");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		uint32_t called = atomic_load(&watch_called);
		uint64_t again = look_at_all();

		/* What is launched from then on calls; what was a moment before is seen now. */
		if (!again) {
			atomic_store(&watch_sleeps, 1);
			again = look_at_all();
			if (again)
				atomic_store(&watch_sleeps, 0);
		}
		clock_in_use->wait(&watch_called, called, clock_now() + (again ? again : LONG_NS));
	}
	return NULL;
}

void watch_start(struct pacer *const *pacers, int count)
{
	static _Atomic int started;
	int error;

	if (atomic_exchange(&started, 1))
		return;
	watched = pacers;
	watched_count = count;
	error = thread_start(watch);
	if (error)
		log_once(LOG_WARNING, "no thread to watch paced work (%s): turns end late",
		         strerror(-error));
}
