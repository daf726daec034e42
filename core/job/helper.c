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

#include "core/base/bells.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/config/listener.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/module.h"
#include "core/job/pace.h"
#include "core/job/process.h"
#include "core/job/settings.h"
#include "core/job/sharing.h"
#include "core/memory/uses/measured.h"
#include "core/pages/page.h"
#include "core/pages/status.h"
#include "core/rings/ring.h"

#define COUNT_NS 1000000000ull
#define LEAST_NS 5000000ull
/* A process that ends sooner does not pay for our looking at files. */
#define UNWATCHED_NS 200000000ull
/* By then cuInit is over, mostly. */
#define JOINING_NS 2000000ull
#define SOON_NS    300000ull

static struct listener listener; /* the helper's */
static bool files_changed;
static struct status status; /* what is known to stand in the status file */
static bool is_started;
static sem_t ready;                  /* all has started, or cannot go on */
static _Atomic bool goes_on;         /* the one */
static _Atomic uint32_t is_given_up; /* or the other */

/* The process slot that the helper takes first, once it is asked. */
static struct {
	int (*take)(void *of); /* NULL: there is no slot to be had */
	void *of;
	int error;
	sem_t is_asked, is_taken, has_joined; /* or has not, for good */
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

/* Counts threads and contexts for `stat`, once a second at most. */
static void count(void)
{
	static uint64_t counted_ns; /* the helper's */
	uint64_t now = clock_now();

	if (counted_ns && now - counted_ns < COUNT_NS)
		return;
	counted_ns = now;
	segment_count(this_job.segment, thread_count(), contexts_known());
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

/* Waits for what comes soon. It is not slept for at first: to be woken takes longer. */
static void wait_soon(sem_t *what)
{
	struct deadline until = DEADLINE_IN(SOON_NS);

	do {
		if (sem_trywait(what) == 0)
			return;
		sched_yield();
	} while (!deadline_has_passed(&until));
	while (sem_wait(what) != 0 && errno == EINTR)
		;
}

/*
 * Takes the slot, and away what others left, once cuInit is over. It sleeps until then: of
 * a process of which two threads work each mapping that goes interrupts the other's processor.
 */
static void join_in(void)
{
	segment_prepare();
	wait_soon(&slot.is_asked);
	if (slot.take)
		slot.error = slot.take(slot.of);
	sem_post(&slot.is_taken);
	pthread_setname_np(pthread_self(), "spillway");
	deadline_sleep(JOINING_NS);
	wait_soon(&slot.has_joined);
	if (atomic_load(&is_given_up))
		return;
	if (this_job.segment)
		segment_remove_rings(this_job.segment);
	if (atomic_load(&goes_on))
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

	do {
		until = DEADLINE_IN(UNWATCHED_NS);
		while (!atomic_load(&is_given_up) && deadline_wait(&until, &is_given_up, 0))
			;
	} while (!atomic_load(&is_given_up) && !atomic_load(&goes_on));
	/* No wait, but a thread sanitizer in the program sees no atomics of ours. */
	while (sem_wait(&ready) != 0 && errno == EINTR)
		;
	return !atomic_load(&is_given_up);
}

static void *help(void *cookie)
{
	int look_ms = LISTENER_POLL_MS;
	struct bells bells = {0};

	(void)cookie;
	join_in();
	if (!wait_for_the_rest()) {
		if (this_job.segment) /* which stays mapped: books may lead there */
			segment_exiting(this_job.segment);
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
			count();
			page_publish(this_job.segment);
			push_status();
		}
		if (overhead_poll(&this_job.devices) && look_ms > OVERHEAD_LOOK_MS)
			look_ms = OVERHEAD_LOOK_MS;
		/*
		 * The job's other processes may have let these rise; what they were told is read
		 * before we look.
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
			ring_begin(); /* what has changed is worth telling */
			job_settings_reload(true);
		}
		for (int i = 0; i < this_job.devices.count; i++)
			device_agree(&this_job.devices.device[i], told[i]);
	}
	return NULL;
}

/* Has the helper take a slot, and waits until it has. */
static int take_slot(int (*take)(void *of), void *of)
{
	slot.take = take;
	slot.of = of;
	sem_post(&slot.is_asked);
	wait_soon(&slot.is_taken);
	return slot.error;
}

static int join(char *message, size_t size)
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

	slot.take = NULL;
	sem_init(&slot.is_asked, 0, 0);
	sem_init(&slot.is_taken, 0, 0);
	sem_init(&slot.has_joined, 0, 0);
	sem_init(&ready, 0, 0);
	error = thread_start(help);
	is_started = !error;
	return error;
}

/* Has the helper go on, with its slot or without one. */
static void tell_joined(void)
{
	if (!slot.take)
		sem_post(&slot.is_asked);
	sem_post(&slot.has_joined);
}

void helper_join(void)
{
	char message[512] = "";
	sigset_t all, before;
	int failed;

	segment_owner(take_slot);
	/* No handler of the program's interrupts what is done to the job's files. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = join(message, sizeof(message));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	tell_joined();
	if (failed) {
		job_config_distrust(&this_job.config);
		say_not_joined(message[0] ? message : strerror(-failed));
	}
}

void helper_go(bool has_started)
{
	if (!is_started)
		return;
	if (!has_started)
		tell_joined();
	sem_post(&ready);
	if (has_started)
		atomic_store(&goes_on, true);
	else
		clock_in_use->wake(&is_given_up);
}
