/* SPDX-License-Identifier: MIT */
/*
 * Launches that are not plain ones: counted where the process has several devices, and paced.
 * Rules: runs inside the user's process, on its launch path.
 */
#include "core/job/launch.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/pace.h"
#include "core/job/process.h"

static struct counters uncounted; /* launches outside the job */

struct counters *job_current_statistics(void)
{
	/* The counters of the context of this thread's last launch: it is rarely changed. */
	static __thread struct {
		CUcontext context;
		unsigned int generation;
		struct counters *statistics;
	} last __attribute__((tls_model("initial-exec")));
	unsigned int generation = context_generation();
	struct context context;
	CUcontext handle = NULL;

	if (!job_is_active() || driver.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
		return &uncounted;
	if (handle != last.context || generation != last.generation) {
		if (!context_current(&context))
			return &uncounted;
		last.context = handle;
		last.generation = generation;
		last.statistics = context.device->statistics;
	}
	return last.statistics;
}

/*
 * Returns a key that is the same for launches of a function that differ little in size: their cost
 * is learnt together.
 */
static uint64_t job_launch_key(const struct job_launch *launch)
{
	uint64_t threads = launch->threads;
	unsigned int octave = threads ? 63 - (unsigned int)__builtin_clzll(threads) : 0;
	uint64_t quarter = octave > 2 ? threads >> (octave - 2) & 3 : 0;

	return (launch->function * 0x9e3779b97f4a7c15ull) ^ ((octave * 4 + quarter + 1) << 48);
}

/* --- actions on launches --- */

static void job_launch_count(struct job_launch *launch)
{
	if (!launch->is_counted)
		job_count_launch(launch->device->statistics, launch->kind);
	launch->is_counted = true;
}

static int job_launch_count_launch(void *cookie, void *subject)
{
	(void)cookie;
	job_launch_count(subject);
	return CUDA_SUCCESS;
}

static int hold_back(void *cookie, void *subject)
{
	struct job_launch *launch = subject;

	(void)cookie;
	launch->pacer = job_pacer_to_launch(launch->device->id.ordinal);
	if (!launch->pacer)
		return CUDA_SUCCESS;
	launch->at.context = launch->context;
	launch->at.stream = launch->stream;
	pacer_before(launch->pacer, &launch->at);
	return CUDA_SUCCESS;
}

static int job_launch_measure(void *cookie, void *subject)
{
	struct job_launch *launch = subject;

	(void)cookie;
	if (launch->pacer)
		pacer_after(launch->pacer, &launch->at);
	return CUDA_SUCCESS;
}

static const struct action counting = {ACTION_STATISTICS, "statistics", job_launch_count_launch,
                                       NULL},
                           holding = {ACTION_RESOURCES, "pacing", hold_back, NULL},
                           measuring = {ACTION_RESOURCES, "pacing", job_launch_measure, NULL};

bool job_launches_start(void)
{
	/* It stays: a launch that began also ends, after any removal meanwhile. */
	return action_add(ACTION_POST_LAUNCH, &measuring) == 0;
}

/* Lets the action act or not. Returns false without memory for it. */
static bool job_launch_put(enum action_group group, const struct action *action, bool acts)
{
	if (action_find(group, action->phase, action->name, NULL) == acts)
		return true;
	return acts ? action_add(group, action) == 0
	            : action_remove(group, action->phase, action->name) == 0;
}

static struct {
	LOCK_OF(LAUNCHES) lock;
	struct job_watch *watches;
} wanted = {.lock = LOCK_FREE};

/* Has those actions act that are wanted, and no others; with the lock held. */
static bool put_all(void)
{
	bool is_watched = false, is_put = true;

	/* Nothing acts after a launch where nothing does before it. */
	for (const struct job_watch *watch = wanted.watches; watch; watch = watch->next) {
		is_watched |= watch->reasons != 0;
		if (watch->after)
			is_put &= job_launch_put(ACTION_POST_LAUNCH, watch->after, watch->reasons);
	}
	is_put &= job_launch_put(ACTION_PRE_LAUNCH, &counting, is_watched);
	for (const struct job_watch *watch = wanted.watches; watch; watch = watch->next)
		if (watch->before)
			is_put &= job_launch_put(ACTION_PRE_LAUNCH, watch->before, watch->reasons);
	return is_put;
}

bool job_launches_watch(struct job_watch *watch, uint64_t reason, bool is_wanted)
{
	bool is_put;

	lock_acquire(&wanted.lock);
	if (!watch->is_known) {
		watch->next = wanted.watches;
		wanted.watches = watch;
		watch->is_known = true;
	}
	watch->reasons = is_wanted ? watch->reasons | reason : watch->reasons & ~reason;
	is_put = put_all();
	lock_release(&wanted.lock);
	return is_put;
}

/* The reasons for which launches are held back: a share, or a device on which they give way. */
static struct job_watch held_back = {.before = &holding};

bool job_launches_hold(uint64_t reason, bool is_held)
{
	return job_launches_watch(&held_back, reason, is_held);
}

/* --- launches on which something acts --- */

CUresult job_begin_launch(struct job_launch *launch)
{
	const struct context *context = job_is_active() ? context_here() : NULL;
	CUresult result;

	launch->device = NULL;
	launch->is_counted = false;
	launch->pacer = NULL;
	launch->survey = 0;
	launch->at.key = job_launch_key(launch);
	if (!context)
		return CUDA_SUCCESS;
	launch->device = context->device;
	launch->context = context->handle;
	result = actions_run(ACTION_PRE_LAUNCH, launch);
	/* Further actions may stand on launches, too; or none does any more. */
	job_launch_count(launch);
	return result;
}

static void tell_pacer(void (*tell)(struct pacer *pacer, CUcontext context))
{
	struct context context;
	struct pacer *pacer = NULL;
	int saved = errno, cancel;

	if (job_is_active() && context_current(&context))
		pacer = job_pacer(context.device->id.ordinal);
	if (!pacer || !pacer_is_pacing(pacer))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	tell(pacer, context.handle);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

void job_break_paced(void)
{
	tell_pacer(pacer_break);
}

void job_before_timing_paced(void)
{
	tell_pacer(pacer_before_timing);
}
