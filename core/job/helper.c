/* SPDX-License-Identifier: MIT */
/*
 * The helper. Rules: a thread in someone else's process: it blocks every signal and makes no driver
 * call.
 */
#include "core/job/helper.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "core/base/bells.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/config/listener.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/module.h"
#include "core/job/pace.h"
#include "core/job/process.h"
#include "core/job/config.h"
#include "core/job/sharing.h"
#include "core/memory/uses/measured.h"
#include "core/pages/page.h"
#include "core/pages/status.h"
#include "core/rings/ring.h"
#include "core/state/directory.h"

#define COUNT_NS 1000000000ull
#define LEAST_NS 5000000ull
/* A process that ends sooner does not pay for our looking at files. */
#define UNWATCHED_NS 200000000ull
/* By then cuInit is over, mostly. */
#define JOINING_NS 2000000ull
#define SOON_NS    300000ull

static struct listener listener; /* the helper's */
static bool files_changed;
static struct status status; /* the known contents of the status file */
static bool is_started;

/*
 * How far the start is, as the starter and the helper tell each other: each state but BEGINS and
 * HAS_SLOT is told by the starter. It asks for a slot where there is one to be had; the job is then
 * joined, or is not for good; and all has started, or cannot go on.
 */
enum {
	HELPER_BEGINS,
	HELPER_TAKES_SLOT,
	HELPER_HAS_SLOT,
	HELPER_JOINED,
	HELPER_GOES_ON,
	HELPER_ENDS
};
static _Atomic uint32_t state;
/* Posted before each new state. A thread sanitizer in the program sees no atomics of ours. */
static sem_t posted;

/* The process slot that the helper takes first, once it is asked. */
static struct {
	int (*take)(void *of);
	void *of;
	int error;
} slot;

static void note_change(void *cookie, const char *path)
{
	(void)cookie;
	(void)path;
	files_changed = true;
}

void helper_reload(void)
{
	files_changed = true;
}

static void watch_files(void)
{
	listener.count = 0; /* a forked child may begin anew */
	listener_add(&listener, CONFIG_SYSTEM_FILE, note_change, NULL);
	if (this_job.config.file)
		listener_add(&listener, this_job.config.file, note_change, NULL);
	if (this_job.config.override_path[0])
		listener_add(&listener, this_job.config.override_path, note_change, NULL);
	if (this_job.config.pause_path[0])
		listener_add(&listener, this_job.config.pause_path, note_change, NULL);
}

/*
 * Collects the words by which we are woken: the job's by the tool, one by the sharing thread, and
 * our peer records' by other processes, until the sharing thread heeds those.
 */
static void gather_bells(struct bells *bells)
{
	_Atomic uint32_t *bell = this_job.segment ? segment_bell(this_job.segment) : NULL;

	bells->count = 0;
	if (bell)
		bells_add(bells, bell, atomic_load(bell));
	bells_add(bells, &sharing_decided, atomic_load(&sharing_decided));
	for (int i = 0; !sharing_is_begun() && i < this_job.devices.count; i++) {
		struct sharing *s = sharing_of(i);

		if (s)
			bells_add(bells, peer_bell(&s->own), 0);
	}
}

/* Writes the status file, for a scheduler that reads it. */
static void push_status(void)
{
	const char *path = config_job(this_job.config.now)->status_file;
	int error = path ? status_push(this_job.segment, path, &status) : 0;

	if (error)
		log_once(LOG_WARNING, "status_file = %s: %s", path, strerror(-error));
}

/*
 * Returns the number of threads of the process, ours too; -1: not known. Opens no file, so that a
 * program that closes descriptors and opens new ones is not disturbed.
 */
static int helper_thread_count(void)
{
	enum { OWN_LINKS = 2 }; /* of any directory */
	struct stat found;

	/* The kernel counts each thread's directory as a link. */
	if (file_status("/proc/self/task", &found) != 0 || found.st_nlink <= OWN_LINKS)
		return -1;
	return (int)(found.st_nlink - OWN_LINKS);
}

/* Counts threads and contexts for `stat`, once a second at most. */
static void helper_count(void)
{
	static uint64_t counted_ns; /* the helper's */
	uint64_t now = clock_now();

	if (counted_ns && now - counted_ns < COUNT_NS)
		return;
	counted_ns = now;
	segment_count(this_job.segment, helper_thread_count(), contexts_known());
}

/*
 * Waits until a bell rings, or for so long. A caller that rings all the time, as another user's
 * process may, has us look no more often than every LEAST_NS. The wait for that follows a ring, so
 * that a wait without one is a single wake-up.
 */
static void wait_for_news(const struct bells *bells, int ms)
{
	static uint64_t last_ns;
	uint64_t now;

	bells_wait(bells, clock_now() + (uint64_t)ms * 1000000u);
	now = clock_now();
	if (now < last_ns + LEAST_NS)
		deadline_sleep(last_ns + LEAST_NS - now);
	last_ns = clock_now();
}

static void say_not_joined(const char *why)
{
	bool is_limited = job_settings_hold_alone();

	if (job_settings_must_hold())
		log_error("%s; " JOB_CONFIG_REFUSED, why);
	else if (is_limited)
		log_error("%s; " HELPER_NOT_IN_THE_BOOKS, why);
	else
		log_warning("%s; this process is not in the job's books: no memory is limited, and "
		            "spillway stat does not show it",
		            why);
}

static void helper_tell(uint32_t next)
{
	sem_post(&posted);
	atomic_store(&state, next);
	if (next != HELPER_GOES_ON) /* for which the helper looks by itself */
		bells_ring(&state);
}

/* Takes note of the facts of a state that was seen. This waits for nothing. */
static void helper_heed(void)
{
	while (sem_wait(&posted) != 0 && errno == EINTR)
		;
}

/*
 * Waits for this state or a later one, and returns it. It comes soon, so it is not slept for at
 * first: to be woken takes longer.
 */
static uint32_t helper_await(uint32_t least)
{
	struct deadline until = DEADLINE_IN(SOON_NS);
	uint32_t seen;

	while ((seen = atomic_load(&state)) < least)
		if (deadline_has_passed(&until))
			clock_in_use->wait(&state, seen, clock_now() + COUNT_NS);
		else
			sched_yield();
	helper_heed();
	return seen;
}

/*
 * Takes the slot, and removes leftovers, once cuInit is over. It sleeps until then: where two
 * threads of a process work, each unmapping interrupts the other's processor.
 */
static void helper_join_in(void)
{
	uint32_t seen;

	segment_prepare();
	seen = helper_await(HELPER_TAKES_SLOT);
	if (seen == HELPER_TAKES_SLOT) {
		slot.error = slot.take(slot.of);
		helper_tell(HELPER_HAS_SLOT);
	}
	pthread_setname_np(pthread_self(), "spillway");
	if (seen != HELPER_ENDS)
		deadline_sleep(JOINING_NS);
	if (seen == HELPER_TAKES_SLOT)
		seen = helper_await(HELPER_JOINED);
	if (seen == HELPER_ENDS)
		return;
	if (this_job.segment)
		segment_remove_rings(this_job.segment);
	if (atomic_load(&state) == HELPER_GOES_ON)
		job_pace_meet();
	if (this_job.segment && this_job.config.is_unnamed)
		segment_remove_left(this_job.segment);
	sharing_sweep();
}

/*
 * Waits until all has started, and for as long as a short program lasts. Returns false where it
 * cannot go on.
 */
static bool wait_for_the_rest(void)
{
	struct deadline until;
	uint32_t seen;

	do {
		until = DEADLINE_IN(UNWATCHED_NS);
		while ((seen = atomic_load(&state)) != HELPER_ENDS &&
		       deadline_wait(&until, &state, seen))
			;
	} while (seen < HELPER_GOES_ON);
	if (seen == HELPER_GOES_ON)
		helper_heed();
	return seen == HELPER_GOES_ON;
}

/* Leaves the job, in which the process has no part after all. */
static void helper_leave(void)
{
	if (!this_job.segment)
		return;
	segment_exiting(this_job.segment); /* it stays mapped: books may lead there */
	if (this_job.config.is_unnamed)
		segment_remove_own(this_job.segment);
}

static void *helper_help(void *cookie)
{
	int look_ms = LISTENER_POLL_MS;
	struct bells bells = {0};

	(void)cookie;
	helper_join_in();
	if (!wait_for_the_rest()) {
		helper_leave();
		return NULL;
	}
	/* The configuration is ours from here on. Files may have changed unwatched. */
	watch_files();
	job_settings_reload(false);
	look_ms = sharing_poll(look_ms);
	gather_bells(&bells);
	for (;;) {
		wait_for_news(&bells, look_ms);
		gather_bells(&bells); /* before we look: a ring from now on is not lost */
		look_ms = LISTENER_POLL_MS;
		if (this_job.segment) {
			segment_poll(this_job.segment);
			helper_count();
			page_publish(this_job.segment);
			push_status();
		}
		if (overhead_poll(&this_job.devices) && look_ms > OVERHEAD_LOOK_MS)
			look_ms = OVERHEAD_LOOK_MS;
		/*
		 * The job's other processes may have let these rise; their values are read before
		 * we look.
		 */
		uint64_t told[DEVICE_MAX] = {0};
		for (int i = 0; i < this_job.devices.count; i++) {
			device_note_limit(&this_job.devices.device[i]);
			told[i] = device_job_generation(&this_job.devices.device[i]);
		}
		if (job_pace_look() && look_ms > JOB_PACE_LOOK_MS)
			look_ms = JOB_PACE_LOOK_MS;
		look_ms = sharing_poll(look_ms);
		modules_call(tick, &look_ms);
		listener_check(&listener);
		if (listener_is_unsettled(&listener) && look_ms > LISTENER_SETTLE_MS)
			look_ms = LISTENER_SETTLE_MS;
		if (files_changed) {
			files_changed = false;
			ring_begin(); /* a change is worth an event */
			job_settings_reload(true);
		}
		for (int i = 0; i < this_job.devices.count; i++)
			device_agree(&this_job.devices.device[i], told[i]);
	}
	return NULL;
}

/* Has the helper take a slot, and waits until it has. */
static int helper_take_slot(int (*take)(void *of), void *of)
{
	slot.take = take;
	slot.of = of;
	helper_tell(HELPER_TAKES_SLOT);
	helper_await(HELPER_HAS_SLOT);
	return slot.error;
}

static int helper_do_join(char *message, size_t size)
{
	const struct job_config *c = &this_job.config;
	const char *labels = config_job(c->now)->labels;

	if (c->is_unnamed)
		return segment_join_unnamed(c->name, labels, c->run, c->shared_by,
		                            &this_job.segment, message, size);
	return segment_join(c->name, labels, c->run, &this_job.segment, message, size);
}

int helper_start(void)
{
	int error;

	atomic_store(&state, HELPER_BEGINS);
	sem_init(&posted, 0, 0);
	error = thread_start(helper_help);
	is_started = !error;
	return error;
}

/* Ignores the override in the state directory if that directory is not ours. */
static void helper_distrust(struct job_config *c)
{
	int directory = directory_open(0, NULL, 0);

	if (directory >= 0)
		close(directory);
	else
		c->override_path[0] = c->pause_path[0] = '\0';
}

void helper_join(void)
{
	char message[512] = "";
	sigset_t all, before;
	int failed;

	segment_owner(helper_take_slot);
	/* No handler of the program's interrupts work on the job's files. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = helper_do_join(message, sizeof(message));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	helper_tell(HELPER_JOINED);
	if (failed) {
		helper_distrust(&this_job.config);
		say_not_joined(message[0] ? message : strerror(-failed));
	}
}

void helper_go(bool has_started)
{
	if (is_started)
		helper_tell(has_started ? HELPER_GOES_ON : HELPER_ENDS);
}
