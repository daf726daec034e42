/*
 * The job. Rules: runs inside the user's process. The helper thread blocks every signal and makes
 * no driver call. A forked child forwards everything, for good if its parent took part in the job: a
 * driver that is initialised serves no child. pthread_atfork() tells of a fork, and where it is passed
 * by (raw clone) the pages that the kernel wipes do.
 */
#include "core/job.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/gate.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/config/listener.h"
#include "core/job_config.h"
#include "core/memory/graph_memory.h"
#include "core/memory/measured.h"
#include "core/memory/ordered.h"
#include "core/memory/parameters.h"
#include "core/memory/pool.h"
#include "core/memory/quiet.h"
#include "core/memory/residency.h"
#include "core/memory/share.h"
#include "core/memory/share_server.h"
#include "core/memory/vmem.h"
#include "core/pace/capture.h"
#include "core/pace/pacer.h"

static struct statistics uncounted; /* launches outside the job */
struct job_launch job_launch;

static struct {
	pthread_mutex_t lock; /* of starting */
	_Atomic bool started; /* or given up: nothing more to do */
	pid_t process;        /* which started */
	bool forks_are_wiped; /* else a child that passed pthread_atfork() is known by its number */

	struct job_config config; /* after start, what changes in it is the helper's */
	_Atomic bool configured;
	char not_in_effect[128];
	struct segment *segment;
	struct listener *listener;
	struct device_set devices;
	struct pacer *pacer[DEVICE_MAX];
	bool reload; /* the helper's: a file changed */

	sem_t joined, ready;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool job_is_active(void)
{
	return atomic_load_explicit(&job_launch.active, memory_order_acquire) &&
	       (job.forks_are_wiped || getpid() == job.process);
}

const struct job_config *job_configuration(void)
{
	return atomic_load_explicit(&job.configured, memory_order_acquire) ? &job.config : NULL;
}

struct device_set *job_devices(void)
{
	return &job.devices;
}

/* --- configuration --- */

/* Settings that are read and checked, but not yet acted upon: said, not swallowed. */
static void note_what_is_not_in_effect(const struct config_gpu *settings, int ordinal)
{
	if (settings->share_policy != POLICY_WEIGHT)
		return;
	snprintf(job.not_in_effect, sizeof(job.not_in_effect),
	         "gpu %d: share_policy = weight is not in effect in this version", ordinal);
	log_once(LOG_WARNING, "%s", job.not_in_effect);
}

/* Settings to devices and pacers; the launch path learns whether it is paced. */
static void apply(void)
{
	bool paced = false;

	job.not_in_effect[0] = '\0';
	for (int i = 0; i < job.devices.count; i++) {
		struct device *device = &job.devices.device[i];
		struct config_gpu settings;

		config_for_device(job.config.now, &device->id, &settings);
		if (device_apply(device, &settings))
			residency_wake(device);
		note_what_is_not_in_effect(&settings, device->id.ordinal);
		pacer_set(job.pacer[i], (uint32_t)settings.share, settings.share_window);
		paced |= pacer_is_pacing(job.pacer[i]);
	}
	atomic_store(&job_launch.paced, paced);
}

/* For stat, and for those who wait until every process follows. */
static void tell(void)
{
	const char *complaint = job.config.complaint;

	if (!job.segment)
		return;
	if (!*complaint)
		complaint = config_warnings(job.config.now);
	if (!*complaint)
		complaint = job.not_in_effect;
	segment_complain(job.segment, complaint);
	segment_follow(job.segment, config_override_hash(job.config.now));
}

/* Reads the layers again; a bad one changes nothing. */
static void reload(void)
{
	if (job_config_reload(&job.config, &job.devices))
		apply();
	tell();
}

static void note_change(void *cookie, const char *path)
{
	(void)cookie;
	(void)path;
	job.reload = true;
}

static void watch_files(void)
{
	job.listener = listener_create();
	if (!job.listener) {
		log_warning("out of memory: configuration changes will not be noticed");
		return;
	}
	listener_add(job.listener, "system", CONFIG_SYSTEM_FILE, note_change, NULL);
	if (job.config.file)
		listener_add(job.listener, "file", job.config.file, note_change, NULL);
	if (job.config.override_path[0])
		listener_add(job.listener, "override", job.config.override_path, note_change, NULL);
}

/* --- the helper --- */

static void *help(void *cookie)
{
	char message[512] = "";
	int error;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway");
	error = segment_join(job.config.name, config_labels(job.config.now), job.config.run,
	                     &job.segment, message, sizeof(message));
	if (error) {
		log_error("%s; limits hold for this process alone",
		          message[0] ? message : strerror(-error));
		job_config_distrust(&job.config);
	} else if (job.config.is_unnamed) {
		segment_mark_unnamed(job.segment);
	}
	sem_post(&job.joined);
	while (sem_wait(&job.ready) != 0 && errno == EINTR)
		;
	/* From here on the configuration is ours. Files may have changed before they were watched. */
	watch_files();
	reload();
	for (;;) {
		struct pollfd fd = {.fd = job.listener ? listener_fd(job.listener) : -1,
		                    .events = POLLIN};

		poll(&fd, 1, LISTENER_POLL_MS);
		if (job.segment)
			segment_tend(job.segment);
		/* Which the job's other processes may have let rise. */
		for (int i = 0; i < job.devices.count; i++)
			device_note_limit(&job.devices.device[i]);
		if (!job.listener)
			continue;
		listener_check(job.listener);
		if (job.reload) {
			job.reload = false;
			reload();
		}
	}
	return NULL;
}

static int start_helper(void)
{
	int error;

	sem_init(&job.joined, 0, 0);
	sem_init(&job.ready, 0, 0);
	error = thread_start(help);
	if (!error) {
		while (sem_wait(&job.joined) != 0 && errno == EINTR)
			;
	}
	return error;
}

/* --- start, fork, exit --- */

/*
 * In the child. Locks may be held by threads that do not exist here, malloc's too: nothing is taken or
 * freed.
 */
static void forked(void)
{
	int saved = errno;

	atomic_store(&job_launch.active, false);
	atomic_store(&job_launch.paced, false);
	atomic_store(&job_launch.statistics, NULL);
	gate_forked();
	share_forked();
	pthread_mutex_init(&job.lock, NULL);
	if (job.listener)
		listener_abandon(job.listener);
	if (job.segment)
		segment_abandon(job.segment);
	job.listener = NULL;
	job.segment = NULL;
	errno = saved;
}

static void watch_for_forks(void)
{
	job.process = getpid();
	pthread_atfork(NULL, NULL, forked);
	/* Linux 4.14 and later. */
	job.forks_are_wiped = madvise(&job_launch, sizeof(job_launch), MADV_WIPEONFORK) == 0;
}

/* A child that shares our memory (vfork) may come here too. */
__attribute__((destructor)) static void leave_nothing_behind(void)
{
	if (!job_is_active() || !job.segment || getpid() != job.process)
		return;
	residency_stop();
	share_stop();
	segment_exiting(job.segment);
	if (job.config.is_unnamed)
		segment_remove_own(job.segment);
}

static bool make_pacers(void)
{
	for (int i = 0; i < job.devices.count; i++) {
		job.pacer[i] = pacer_create(&job.devices.device[i]);
		if (!job.pacer[i])
			return false;
	}
	return true;
}

/* The job has a name, a file or a limit: its memory is to be seen and steered. */
static bool somebody_cares(void)
{
	bool is_limited = false;

	for (int i = 0; i < job.devices.count; i++)
		is_limited |=
		    device_settings(&job.devices.device[i]).memory_limit != CONFIG_UNLIMITED;
	return !job.config.is_unnamed || job.config.file || is_limited;
}

/* With the lock held; whatever fails leaves a process that runs as without us, and a log line. */
static void start(void)
{
	int failed;

	if (!job_config_start(&job.config))
		return;
	atomic_store(&job.configured, true);
	if (config_disabled(job.config.now))
		return;
	watch_for_forks();
	failed = start_helper();
	if (failed) {
		log_error("no helper thread (%s): Spillway is off in this process",
		          strerror(-failed));
		return;
	}
	failed = device_set_fill(&job.devices, job.segment, job.config.name);
	if (failed || !make_pacers()) {
		log_error("devices cannot be read (%s): Spillway is off in this process",
		          strerror(failed ? -failed : ENOMEM));
		return;
	}
	/* With the override, whose place is known now: it holds from the first allocation on. */
	job_config_reload(&job.config, &job.devices);
	apply();
	tell();
	atomic_store(&job_launch.statistics,
	             job.devices.count == 1 ? job.devices.device[0].statistics : NULL);
	context_start(&job.devices);
	graph_memory_start(&job.devices);
	vmem_start(somebody_cares());
	if (!job.config.is_unnamed) { /* one nobody limits need not wait for NVML */
		context_met = measured_first_met;
		measured_start(&job.devices);
	}
	gate_start();
	(void)at_quick_exit(leave_nothing_behind);
	atomic_store(&job_launch.active, true);
	sem_post(&job.ready);
}

void job_start(void)
{
	int saved = errno, cancel;

	if (atomic_load(&job.started))
		return;
	/* Files are opened here: a thread cancelled half way would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&job.lock);
	if (!atomic_load(&job.started)) {
		start();
		atomic_store(&job.started, true);
	}
	pthread_mutex_unlock(&job.lock);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

/* --- launches --- */

struct statistics *job_current_statistics(void)
{
	/* Of the context this thread launched in last; a context is rarely changed between launches. */
	static __thread struct {
		CUcontext context;
		unsigned int generation;
		struct statistics *statistics;
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

void job_begin_launch(struct job_paced_launch *launch, enum job_launch_kind kind, CUstream stream)
{
	struct context context;
	int cancel;

	launch->pacer = NULL;
	if (!job_is_active() || !context_current(&context))
		return;
	statistics_add(kind == LAUNCH_GRAPH ? &context.device->statistics->graph_launches
	                                    : &context.device->statistics->launches,
	               1);
	launch->pacer = job.pacer[context.device->id.ordinal];
	if (!pacer_is_pacing(launch->pacer)) {
		launch->pacer = NULL;
		return;
	}
	launch->context = context.handle;
	launch->stream = stream;
	/* It may sleep, and a launch is no place where a thread expects to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pacer_before(launch->pacer, context.handle, stream);
	pthread_setcancelstate(cancel, NULL);
}

void job_end_launch(const struct job_paced_launch *launch)
{
	int cancel;

	if (!launch->pacer)
		return;
	/* The driver is called with the pacer's lock held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pacer_after(launch->pacer, launch->context, launch->stream);
	pthread_setcancelstate(cancel, NULL);
}

void job_leave_context(CUcontext context, bool alive)
{
	if (!job_is_active())
		return;
	for (int i = 0; i < job.devices.count; i++)
		pacer_forget_context(job.pacer[i], context, alive);
	parameters_forget();
	vmem_leave_context(context, alive);
	share_leave_context(context, alive);
}

void job_left_context(CUcontext context)
{
	if (!job_is_active())
		return;
	context_forget(context);
	quiet_forget_context(context);
	vmem_left_context(&job.devices);
	pools_settle();
	graph_memory_settle();
}

void job_leave_stream(CUstream stream)
{
	if (!job_is_active())
		return;
	capture_is_over(stream);
	quiet_stream_gone(stream);
	ordered_stream_gone(stream);
	for (int i = 0; i < job.devices.count; i++)
		pacer_forget_stream(job.pacer[i], stream);
}
