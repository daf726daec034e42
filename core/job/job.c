/* SPDX-License-Identifier: MIT */
/*
 * The job. Rules: runs inside the user's process. A forked child forwards everything, for good if
 * its parent took part in the job, because a driver that is initialised serves no child.
 * pthread_atfork() tells of a fork. Where it is passed by (raw clone), the pages that the kernel
 * wipes tell.
 */
#include "core/job/job.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/loading.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/budget/device.h"
#include "core/budget/in_use.h"
#include "core/cuda/capture.h"
#include "core/cuda/gate.h"
#include "core/cuda/idle.h"
#include "core/job/helper.h"
#include "core/job/module.h"
#include "core/job/pace.h"
#include "core/job/config.h"
#include "core/job/sharing.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/move/movable.h"
#include "core/memory/move/mover.h"
#include "core/memory/uses/graph_memory.h"
#include "core/memory/uses/measured.h"
#include "core/memory/uses/pool.h"
#include "core/pages/page.h"
#include "core/rings/ring.h"
#include "core/state/directory.h"

static LOCK_OF(START) starting = LOCK_FREE;
static _Atomic bool is_started; /* or given up: nothing more to do */
static _Atomic bool is_refused;

/*
 * Forgets the job, in a forked child. Locks may be held by threads that do not exist here, malloc's
 * too: nothing is taken or freed.
 */
static void forked(void)
{
	int saved = errno;

	wiped_clear();
	actions_forked();
	atomic_store(&event_ring, NULL);
	gate_forked();
	modules_call(forked);
	lock_init(&starting);
	sharing_forked();
	if (this_job.segment)
		segment_abandon(this_job.segment);
	this_job.segment = NULL;
	errno = saved;
}

static void watch_for_forks(void)
{
	this_job.process = getpid();
	pthread_atfork(NULL, NULL, forked);
	/* Linux 4.14 and later. */
	this_job.forks_are_wiped = wiped_start();
}

/*
 * Not zero at first, so that it is on a page that the loader writes: a process without CUDA touches
 * no other at its end.
 */
static _Atomic bool is_idle = true;

/* Ends this process's part. A child that shares our memory (vfork) may come here too. */
__attribute__((destructor)) static void leave_nothing_behind(void)
{
	if (atomic_load(&is_idle) || !job_is_active() || getpid() != this_job.process)
		return;
	job_pace_let_go();
	modules_call(let_go);
	idle_streams_leave(); /* for good: of the driver nothing more is asked beside the program */
	mover_stop();
	if (this_job.segment) { /* else it is not in the books, and still has peer records */
		segment_exiting(this_job.segment);
		page_withdraw(this_job.segment);
	}
	sharing_stop();
	modules_call(stop);
	if (this_job.segment && this_job.config.is_unnamed)
		segment_remove_own(this_job.segment);
}

static void keep_directory(void)
{
	char message[2 * DIRECTORY_MAX] = "";

	directory_keep();
	if (directory_passed_over(message, sizeof(message)))
		log_warning("%s", message);
}

/* Writes the limits of the devices as they stand in an INI. */
static const char *limits_text(char *text, size_t size)
{
	char limit[DEVICE_MAX][32];
	struct config_gpu settings = {.memory = CONFIG_UNLIMITED};
	bool are_same = true;
	size_t length = 0;

	for (int i = 0; i < this_job.devices.count; i++) {
		config_for_device(this_job.config.now, &this_job.devices.device[i].id, &settings);
		config_format(CONFIG_KEY_memory, settings.memory, limit[i], sizeof(limit[i]));
		are_same &= strcmp(limit[i], limit[0]) == 0;
	}
	if (are_same) {
		if (settings.memory == CONFIG_UNLIMITED)
			return "limit on host memory";
		snprintf(text, size, "limit of %s", limit[0]);
		return text;
	}
	length = (size_t)snprintf(text, size, "limit of ");
	for (int i = 0; i < this_job.devices.count && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s on gpu %d",
		                           i ? ", " : "", limit[i], i);
	return text;
}

/* Logs which processes share the limit, where the job has no name: its first line. */
static void say_who_shares(void)
{
	char limits[DEVICE_MAX * 48];

	if (this_job.config.shared_by[0])
		log_info("job %s: %s is shared by all processes of %s", this_job.config.name,
		         limits_text(limits, sizeof(limits)), this_job.config.shared_by);
}

/* Returns which call was refused, for a line about a thread that was not started. */
static const char *job_refused_call(void)
{
	return thread_can_wait() != 0 ? "futex: " : "";
}

/*
 * Returns whether there is memory for the books of memory on the host. A process that could not
 * join its job has all of its memory there, and without them would get none.
 */
static bool has_room(void)
{
	void *volatile room = this_job.segment ? NULL : malloc(256 << 10);
	bool is_there = this_job.segment || room;

	free(room);
	return is_there;
}

/* --- the start, step by step --- */

/* How a step ends: the next one follows; the process runs as without us; or it is refused. */
enum outcome { GOES_ON, IS_OFF, IS_REFUSED };

/* Says why the process has no part in its job, and how it goes on. */
static enum outcome say_off(const char *why, bool is_bound)
{
	if (is_bound)
		log_error("%s; " JOB_CONFIG_REFUSED, why);
	else
		log_error("%s: Spillway is off in this process", why);
	return is_bound ? IS_REFUSED : IS_OFF;
}

/* Why there is no helper, or "". */
static char no_helper[128];

static enum outcome start_configuration(void)
{
	if (!job_config_start(&this_job.config))
		return job_config_binds() ? IS_REFUSED : IS_OFF;
	if (!config_job(this_job.config.now)->is_disabled)
		return GOES_ON;
	atomic_store(&this_job.configured, true);
	return IS_OFF;
}

static enum outcome start_helper(void)
{
	int error;

	watch_for_forks();
	error = helper_start();
	if (error)
		snprintf(no_helper, sizeof(no_helper), "no helper thread (%s%s)",
		         job_refused_call(), strerror(-error));
	keep_directory();
	return GOES_ON;
}

static void end_helper(void)
{
	helper_go(false);
}

static enum outcome start_devices(void)
{
	int error = device_set_identify(&this_job.devices);
	char why[128];

	if (!error)
		return GOES_ON;
	device_set_clear(&this_job.devices);
	atomic_store(&this_job.configured, true);
	snprintf(why, sizeof(why), "devices cannot be read (%s)", strerror(-error));
	return say_off(why, job_config_binds());
}

static void forget_devices(void)
{
	for (int i = 0; i < this_job.devices.count; i++)
		if (job_pacer(i)) /* and a thread that counts in the device's books */
			return;
	device_set_clear(&this_job.devices);
}

static enum outcome start_job(void)
{
	job_config_settle(&this_job.config, &this_job.devices);
	atomic_store(&this_job.configured, true);
	say_who_shares();
	sharing_start(&this_job.devices, this_job.config.name);
	if (!*no_helper)
		helper_join();
	else if (!job_settings_hold_alone() || job_settings_must_hold())
		return say_off(no_helper, job_settings_must_hold());
	/* The helper has said why. */
	return !this_job.segment && job_settings_must_hold() ? IS_REFUSED : GOES_ON;
}

static enum outcome start_books(void)
{
	/* While the helper sleeps. A job without a name need not wait for it. */
	if (!this_job.config.is_unnamed && in_use_open_nvml) {
		loading_begin();
		in_use_open_nvml(&this_job.devices.device[0].id);
		loading_end();
	}
	if (device_set_enter(&this_job.devices, this_job.segment, this_job.config.name) != 0 ||
	    !has_room())
		return say_off("out of memory", job_settings_must_hold());
	job_pace_start(&this_job.devices, this_job.config.name);
	return GOES_ON;
}

static enum outcome start_settings(void)
{
	if (!job_settings_start())
		return say_off("out of memory", job_settings_must_hold());
	if (*no_helper)
		log_error("%s; " HELPER_NOT_IN_THE_BOOKS, no_helper);
	job_settings_begin();
	return job_pace_holds() || !job_settings_must_hold() ? GOES_ON
	                                                     : say_off("out of memory", true);
}

static const struct movable_kind *const what_moves[] = {&movable_chunks, &movable_own, NULL};

static enum outcome start_parts(void)
{
	modules_call(started);
	atomic_store(&wiped.statistics,
	             this_job.devices.count == 1 ? this_job.devices.device[0].statistics : NULL);
	if (this_job.config.is_run)
		host_probe_look(&this_job.devices, this_job.config.name);
	device_set_start_contexts(&this_job.devices);
	graph_memory_start(&this_job.devices);
	vmem_start(&this_job.devices, job_settings_are_any());
	if (!this_job.config.is_unnamed) {
		context_met = measured_first_met;
		measured_start(&this_job.devices);
	}
	(void)at_quick_exit(leave_nothing_behind);
	atomic_store(&is_idle, false);
	mover_begin(what_moves);
	atomic_store(&wiped.is_active, true);
	helper_go(true);
	return GOES_ON;
}

/* The steps, and how each is undone where a later one does not go on. */
static const struct {
	enum outcome (*take)(void);
	void (*undo)(void);
} steps[] = {
    {start_configuration, NULL}, {start_helper, end_helper}, {start_devices, forget_devices},
    {start_job, NULL},           {start_books, NULL},        {start_settings, NULL},
    {start_parts, NULL},
};

/*
 * Starts the process's part in the job, with the lock held. A failure leaves a process that runs as
 * without us, and a log line; or one that is refused, where the machine's file has it so: then it
 * returns false.
 */
static bool job_do_start(void)
{
	enum outcome outcome = GOES_ON;
	size_t taken = 0;

	while (taken < sizeof(steps) / sizeof(*steps) && outcome == GOES_ON)
		outcome = steps[taken++].take();
	for (taken--; outcome != GOES_ON && taken > 0; taken--)
		if (steps[taken - 1].undo)
			steps[taken - 1].undo();
	return outcome != IS_REFUSED;
}

bool job_start(void)
{
	int saved = errno, cancel;

	if (atomic_load(&is_started))
		return !atomic_load(&is_refused);
	/* Files are opened here: a thread cancelled half way would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_acquire(&starting);
	if (!atomic_load(&is_started)) {
		atomic_store(&is_refused, !job_do_start());
		atomic_store(&is_started, true);
	}
	lock_release(&starting);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return !atomic_load(&is_refused);
}

/* --- ends --- */

void job_leave_context(const struct context *context)
{
	job_pace_end_context(context->handle, CONTEXT_LEAVES);
	modules_call(leave_context, context->handle);
}

void job_stay_context(const struct context *context)
{
	if (context_stay(context))
		job_pace_end_context(context->handle, CONTEXT_STAYS);
}

void job_left_context(const struct context *context)
{
	capture_context_gone(context->handle);
	job_pace_end_context(context->handle, CONTEXT_IS_GONE);
	vmem_forget_context(context);
	modules_call(left_context, context->handle);
	context_forget(context->handle);
	vmem_left_context(&this_job.devices);
	pools_settle();
	graph_memory_settle();
}
