/*
 * The job. Rules: runs inside the user's process. The helper thread blocks every signal and makes
 * no driver call. A forked child forwards everything, for good if its parent took part in the job: a
 * driver that is initialised serves no child. pthread_atfork() tells of a fork, and where it is passed
 * by (raw clone) the pages that the kernel wipes do.
 */
#include "core/job/job.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/cuda/gate.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/config/listener.h"
#include "core/job/config.h"
#include "core/job/pace.h"
#include "core/job/step_record.h"
#include "core/job/steps.h"
#include "core/memory/uses/graph_memory.h"
#include "core/budget/growth.h"
#include "core/budget/wanted.h"
#include "core/memory/uses/measured.h"
#include "core/memory/move/lull.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/heat/parameters.h"
#include "core/memory/uses/pool.h"
#include "core/cuda/idle.h"
#include "core/memory/move/movable_chunks.h"
#include "core/memory/move/movable_own.h"
#include "core/memory/move/mover.h"
#include "core/memory/ipc/ipc.h"
#include "core/memory/ipc/server.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/free.h"
#include "core/cuda/capture.h"
#include "core/base/clock.h"
#include "core/job/resources.h"
#include "core/state/directory.h"
#include "core/state/page.h"
#include "core/state/ring.h"
#include "core/state/status.h"

#define COUNT_NS 1000000000ull
#define NOT_IN_THE_BOOKS                                                                    \
	"this process is not in the job's books: where memory is limited it holds none on " \
	"the GPU"

static struct {
	LOCK_OF(START) lock;  /* of starting */
	_Atomic bool started; /* or given up: nothing more to do */
	pid_t process;        /* which started */
	bool forks_are_wiped; /* else a child that passed pthread_atfork() is known by its number */

	_Atomic bool tells_nvml;
	struct job_config config; /* after start, what changes in it is the helper's */
	_Atomic bool configured;
	struct segment *segment;
	struct listener *listener; /* NULL: nobody listens */
	struct device_set devices;
	bool reload;          /* the helper's: a file changed */
	struct status status; /* the helper's: what it knows to stand in the status file */
	bool is_recorded;     /* a ring was made, or could not be */
	bool is_given_up;     /* what started cannot go on */

	sem_t joined, ready;
} job = {.lock = LOCK_FREE};

bool job_is_active(void)
{
	return atomic_load_explicit(&wiped.is_active, memory_order_acquire) &&
	       (job.forks_are_wiped || getpid() == job.process);
}

const struct job_config *job_configuration(void)
{
	return atomic_load_explicit(&job.configured, memory_order_acquire) ? &job.config : NULL;
}

bool job_tells_nvml(void)
{
	return atomic_load_explicit(&job.tells_nvml, memory_order_relaxed);
}

struct device_set *job_devices(void)
{
	return &job.devices;
}

/* --- configuration --- */

/* The job has a name, a file or a limit: its memory is to be seen and steered. */
static bool somebody_cares(void)
{
	bool is_limited = false;

	for (int i = 0; i < job.devices.count; i++)
		is_limited |=
		    device_setting(&job.devices.device[i], memory_limit) != CONFIG_UNLIMITED;
	return !job.config.is_unnamed || job.config.file || is_limited;
}

/* From now on events are kept. */
static void record(void)
{
	char message[512] = "";
	struct ring *ring;

	if (job.is_recorded || !job.segment)
		return;
	job.is_recorded = true;
	if (ring_create(job.segment, &ring, message, sizeof(message)) != 0) {
		log_warning("%s; no events are kept", message);
		return;
	}
	for (int i = 0; i < job.devices.count; i++)
		ring_name_device(ring, job.devices.device[i].id.ordinal,
		                 job.devices.device[i].index);
	atomic_store(&event_ring, ring);
	for (int i = 0; i < job.devices.count; i++)
		device_note_settings(&job.devices.device[i]);
}

static int change_devices(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct device *device = &change->devices->device[i];
		struct config_gpu settings;

		config_for_device(change->config, &device->id, &settings);
		if (device_apply(device, &settings))
			wanted_wake(device);
	}
	return CUDA_SUCCESS;
}

static bool finds_steps(int ordinal, const struct config_gpu *settings, bool is_paced)
{
	bool wanted = settings->steps == STEPS_ON ||
	              (settings->steps == STEPS_AUTO && (is_paced || settings->memory_limit_max));

	if (!job_steps_want(ordinal, wanted))
		log_once(LOG_WARNING, "out of memory: steps of the program are not found");
	return wanted;
}

static int change_pacers(void *cookie, void *subject)
{
	struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct config_gpu settings;
		bool is_paced;

		config_for_device(change->config, &change->devices->device[i].id, &settings);
		is_paced = job_pace_set(i, &settings);
		change->is_paced |= is_paced;
		change->has_steps |= finds_steps(i, &settings, is_paced);
	}
	return CUDA_SUCCESS;
}

/* Memory moves best where nothing of a step is in flight yet. */
static int end_step(void *cookie, void *subject)
{
	(void)cookie;
	moment_has_come();
	if (growth_step_ended(subject, clock_now()))
		wanted_wake(subject);
	return CUDA_SUCCESS;
}

/* False: no memory. */
static bool add_actions(void)
{
	static const struct {
		enum action_group group;
		struct action action;
	} ours[] = {
	    {ACTION_CONFIG_CHANGED, {ACTION_RESOURCES, "devices", change_devices, NULL}},
	    {ACTION_CONFIG_CHANGED, {ACTION_RESOURCES, "pacing", change_pacers, NULL}},
	    {ACTION_STEP_END, {ACTION_RESOURCES, "memory", end_step, NULL}},
	};

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (action_add(ours[i].group, &ours[i].action) != 0)
			return false;
	return job_step_record_start() && job_launches_start();
}

/* New settings take effect. */
static void apply(void)
{
	struct job_change change = {.config = job.config.now, .devices = &job.devices};

	atomic_store(&job.tells_nvml, config_nvml(job.config.now));
	actions_run(ACTION_CONFIG_CHANGED, &change);
	if (change.is_paced || somebody_cares())
		record();
	if (!job_launches_act(change.is_paced, change.has_steps))
		log_error("out of memory: launches are %s",
		          change.is_paced ? "not paced" : "paced as before");
}

/* For stat, and for those who wait until every process follows. */
static void tell(void)
{
	const char *complaint = job.config.complaint;

	if (!job.segment)
		return;
	if (!*complaint)
		complaint = config_warnings(job.config.now);
	segment_complain(job.segment, complaint);
	segment_follow(job.segment, config_override_hash(job.config.now));
}

/*
 * The tool takes back what was set by writing the file anew, never by removing it under living processes. So one that is gone
 * went with the state directory, file by file, as logind's RemoveIPC has it, and nobody took anything back.
 */
static bool has_lost_override(void)
{
	if (!job.segment || !job_config_lost_override(&job.config))
		return false;
	log_once(
	    LOG_WARNING,
	    "job %s: %s was removed while it runs (by RemoveIPC of logind?); what was set stays "
	    "until it is there again",
	    job.config.name, job.config.override_path);
	return true;
}

/* Reads the layers again; a bad one changes nothing. */
static void reload(void)
{
	bool accepted = !has_lost_override() && job_config_reload(&job.config, &job.devices);

	if (accepted)
		apply();
	event_note(.kind = EVENT_configuration, .device = EVENT_NO_DEVICE, .a = accepted);
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
	static struct listener listener;

	listener_start(&listener);
	job.listener = &listener;
	listener_add(job.listener, CONFIG_SYSTEM_FILE, note_change, NULL);
	if (job.config.file)
		listener_add(job.listener, job.config.file, note_change, NULL);
	if (job.config.override_path[0])
		listener_add(job.listener, job.config.override_path, note_change, NULL);
}

/* For a scheduler that reads it. */
static void push_status(void)
{
	const char *path = config_status_file(job.config.now);
	int error = path ? status_push(job.segment, path, &job.status) : 0;

	if (error)
		log_once(LOG_WARNING, "status_file = %s: %s", path, strerror(-error));
}

/* For stat; every second at most. */
static void count(void)
{
	static uint64_t counted_ns; /* the helper's */
	uint64_t now = clock_now();

	if (counted_ns && now - counted_ns < COUNT_NS)
		return;
	counted_ns = now;
	segment_count(job.segment, thread_count(), contexts_known());
}

/* --- the helper --- */

static int join(char *message, size_t size)
{
	const struct job_config *c = &job.config;
	const char *labels = config_labels(c->now);

	if (c->is_unnamed)
		return segment_join_unnamed(c->name, labels, c->run, c->shared_by, &job.segment,
		                            message, size);
	return segment_join(c->name, labels, c->run, &job.segment, message, size);
}

static void wait_for_news(struct pollfd *fd, int ms)
{
	/* Refused, by a container's profile: files are looked at when the time is over, as where nothing tells of them. */
	if (poll(fd, 1, ms) < 0 && errno != EINTR)
		deadline_sleep((uint64_t)ms * 1000000u);
}

/* Without the helper, or a seat, nothing is known of the job. Returns whether there is a limit, which holds all the same, as 0. */
static bool goes_on_alone(void)
{
	job_config_reload(&job.config, &job.devices);
	return job_config_is_limited(&job.config, &job.devices);
}

static void say_not_joined(const char *why)
{
	if (goes_on_alone())
		log_error("%s; " NOT_IN_THE_BOOKS, why);
	else
		log_warning("%s; this process is not in the job's books: no memory is limited, and "
		            "spillway stat does not show it",
		            why);
}

static void *help(void *cookie)
{
	char message[512] = "";
	int look_ms = LISTENER_POLL_MS;
	int error;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway");
	error = join(message, sizeof(message));
	if (error) {
		job_config_distrust(&job.config);
		say_not_joined(message[0] ? message : strerror(-error));
	} else {
		resources_start(job.segment);
	}
	sem_post(&job.joined);
	while (sem_wait(&job.ready) != 0 && errno == EINTR)
		;
	if (job.is_given_up) {
		if (job.segment) /* which stays mapped: books may lead there */
			segment_exiting(job.segment);
		return NULL;
	}
	/* From here on the configuration is ours. Files may have changed before they were watched. */
	watch_files();
	reload();
	for (;;) {
		struct pollfd fd = {.fd = job.listener->fd, .events = POLLIN};

		wait_for_news(&fd, look_ms);
		look_ms = LISTENER_POLL_MS;
		if (job.segment) {
			segment_tend(job.segment);
			count();
			page_publish(job.segment);
			push_status();
			if (resources_answer(&job.devices))
				look_ms = RESOURCES_LOOK_MS;
		}
		if (overhead_tend(&job.devices) && look_ms > OVERHEAD_LOOK_MS)
			look_ms = OVERHEAD_LOOK_MS;
		/* Which the job's other processes may have let rise; and what they were told, before we look. */
		uint64_t told[DEVICE_MAX];
		for (int i = 0; i < job.devices.count; i++) {
			device_note_limit(&job.devices.device[i]);
			told[i] = device_job_generation(&job.devices.device[i]);
		}
		if (job_pace_look() && look_ms > JOB_PACE_LOOK_MS)
			look_ms = JOB_PACE_LOOK_MS;
		listener_check(job.listener);
		if (job.reload) {
			job.reload = false;
			reload();
		}
		for (int i = 0; i < job.devices.count; i++)
			device_agree(&job.devices.device[i], told[i]);
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

	wiped_clear();
	actions_forked();
	atomic_store(&event_ring, NULL);
	gate_forked();
	ipc_forked();
	lock_init(&job.lock);
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
	job.forks_are_wiped = wiped_start();
}

/* Not zero at first, so that it is on a page that the loader writes: who knows no CUDA touches no other at his end. */
static _Atomic bool is_idle = true;

/* A child that shares our memory (vfork) may come here too. */
__attribute__((destructor)) static void leave_nothing_behind(void)
{
	if (atomic_load(&is_idle) || !job_is_active() || !job.segment || getpid() != job.process)
		return;
	job_pace_let_go();
	mover_stop();
	ipc_stop();
	segment_exiting(job.segment);
	page_withdraw(job.segment);
	if (job.config.is_unnamed)
		segment_remove_own(job.segment);
}

static void keep_directory(void)
{
	char message[2 * DIRECTORY_MAX] = "";

	directory_keep();
	if (directory_passed_over(message, sizeof(message)))
		log_warning("%s", message);
}

/* The limits of the devices, as they stand in an INI. */
static const char *limits_text(char *text, size_t size)
{
	char limit[DEVICE_MAX][32];
	struct config_gpu settings = {.memory_limit = CONFIG_UNLIMITED};
	bool are_same = true;
	size_t length = 0;

	for (int i = 0; i < job.devices.count; i++) {
		config_for_device(job.config.now, &job.devices.device[i].id, &settings);
		config_format(CONFIG_KEY_memory_limit, settings.memory_limit, limit[i],
		              sizeof(limit[i]));
		are_same &= strcmp(limit[i], limit[0]) == 0;
	}
	if (are_same) {
		if (settings.memory_limit == CONFIG_UNLIMITED)
			return "host_limit";
		snprintf(text, size, "limit of %s", limit[0]);
		return text;
	}
	length = (size_t)snprintf(text, size, "limit of ");
	for (int i = 0; i < job.devices.count && length < size; i++)
		length += (size_t)snprintf(text + length, size - length, "%s%s on gpu %d",
		                           i ? ", " : "", limit[i], i);
	return text;
}

/* Says who shares the limit, where nobody named a job: the first line that is said of it. */
static void say_who_shares(void)
{
	char limits[DEVICE_MAX * 48];

	if (job.config.shared_by[0])
		log_info("job %s: %s is shared by all processes of %s", job.config.name,
		         limits_text(limits, sizeof(limits)), job.config.shared_by);
}

/* For a line about a thread that was not started. */
static const char *refused_call(void)
{
	return thread_can_wait() != 0 ? "futex: " : "";
}

static const struct movable_kind *const what_moves[] = {&movable_chunks, &movable_own, NULL};

/* With the lock held; whatever fails leaves a process that runs as without us, and a log line. */
static void start(void)
{
	bool entered;
	int failed;

	if (!job_config_start(&job.config))
		return;
	if (config_disabled(job.config.now)) {
		atomic_store(&job.configured, true);
		return;
	}
	watch_for_forks();
	keep_directory();
	failed = device_set_identify(&job.devices);
	if (failed) {
		device_set_clear(&job.devices);
		atomic_store(&job.configured, true);
		log_error("devices cannot be read (%s): Spillway is off in this process",
		          strerror(-failed));
		return;
	}
	job_config_settle(&job.config, &job.devices);
	atomic_store(&job.configured, true);
	say_who_shares();
	failed = start_helper();
	if (failed && !goes_on_alone()) {
		log_error("no helper thread (%s%s): Spillway is off in this process",
		          refused_call(), strerror(-failed));
		return;
	}
	entered = device_set_enter(&job.devices, job.segment, job.config.name) == 0;
	if (!entered)
		device_set_clear(&job.devices);
	if (!entered || !job_pace_start(&job.devices, job.segment, job.config.name) ||
	    !add_actions()) {
		log_error("out of memory: Spillway is off in this process");
		job.is_given_up = true;
		sem_post(&job.ready);
		return;
	}
	if (failed)
		log_error("no helper thread (%s%s); " NOT_IN_THE_BOOKS, refused_call(),
		          strerror(-failed));
	/* With the override, whose place is known now: it holds from the first allocation on. */
	job_config_reload(&job.config, &job.devices);
	apply();
	tell();
	atomic_store(&wiped.statistics,
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
	atomic_store(&is_idle, false);
	mover_begin(what_moves);
	atomic_store(&wiped.is_active, true);
	sem_post(&job.ready);
}

void job_start(void)
{
	int saved = errno, cancel;

	if (atomic_load(&job.started))
		return;
	/* Files are opened here: a thread cancelled half way would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	lock_acquire(&job.lock);
	if (!atomic_load(&job.started)) {
		start();
		atomic_store(&job.started, true);
	}
	lock_release(&job.lock);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

/* --- what goes --- */

void job_leave_context(const struct context *context)
{
	job_pace_leave_context(context->handle, true);
	parameters_forget();
}

void job_stay_context(const struct context *context)
{
	if (context_stay(context))
		job_pace_leave_context(context->handle, false);
}

void job_left_context(const struct context *context)
{
	capture_context_gone(context->handle);
	job_pace_forget_context(context->handle);
	parameters_forget();
	vmem_forget_context(context);
	ipc_forget_context(context->handle);
	context_forget(context->handle);
	vmem_left_context(&job.devices);
	pools_settle();
	graph_memory_settle();
}

void job_leave_stream(CUstream stream)
{
	if (job_is_active())
		job_pace_leave_stream(stream);
}

bool job_keeps_of_streams(void)
{
	return capture_is_active() || freed_keeps_for_streams();
}

void job_left_stream(CUstream stream)
{
	capture_is_over(stream);
	freed_stream_gone(stream);
}
