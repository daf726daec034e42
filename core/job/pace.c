/* SPDX-License-Identifier: MIT */
/*
 * The pacers. Rules: runs inside the user's process; nothing is opened in cuInit, and no
 * thread is started before something paced is launched.
 */
#include "core/job/pace.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/job/process.h"
#include "core/pace/foreign.h"
#include "core/pace/watch.h"
#include "core/state/directory.h"

static struct {
	int count;
	struct device_set *devices;
	struct pacer
	    *pacer[DEVICE_MAX]; /* made once one is needed, by the thread that applies settings */
	_Atomic bool met[DEVICE_MAX]; /* or meets just now */
	struct pacer_peers peers[DEVICE_MAX];
	_Atomic bool has_peers[DEVICE_MAX], lets_go;
	_Atomic(struct turns *) turns[DEVICE_MAX];
	struct held held[DEVICE_MAX];
	struct pacer_settings settings[DEVICE_MAX];
	uint32_t own[DEVICE_MAX]; /* as the pacer was told last; thousandths */
	uint64_t owner, job;
} pace;

static uint64_t pace_mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return x ? x : 1;
}

/* Numbers that no other process, and no other job of the machine, has by chance. */
static void choose_numbers(const char *job)
{
	char directory[DIRECTORY_MAX + 1];

	directory_path(directory, sizeof(directory));
	pace.owner = pace_mixed(((uint64_t)getpid() << 32) ^ clock_of_day() ^ (uintptr_t)directory);
	pace.job = pace_mixed(hash_text(hash_text(getuid(), directory), job));
}

void job_pace_start(struct device_set *devices, const char *job)
{
	pace.devices = devices;
	choose_numbers(job);
	pace.count = devices->count;
	watch_prepare(pace.pacer, pace.count);
}

struct pacer *job_pacer(int ordinal)
{
	return __atomic_load_n(&pace.pacer[ordinal], __ATOMIC_ACQUIRE);
}

/*
 * Lets a pacer meet those of other processes: before the first launch that it paces, or when the
 * helper has time. A thread that launches meanwhile is paced alone.
 */
static __attribute__((noinline)) void meet(int i)
{
	const struct device *device = &pace.devices->device[i];
	struct pacer_place place = {.device = device->index, .owner = pace.owner, .job = pace.job};
	int saved = errno, cancel;
	char message[256] = "";

	if (atomic_exchange(&pace.met[i], true))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	place.turns = turns_open(device->id.uuid, message, sizeof(message));
	if (!place.turns)
		log_once(LOG_WARNING, "jobs on one device do not take turns: %s", message);
	atomic_store(&pace.turns[i], place.turns);
	if (device->is_in_books)
		place.lanes = segment_lanes(device->segment, &place.lane);
	pacer_meet(pace.pacer[i], &place);
	/*
	 * Registered late, so that it comes before the program's own handlers, which may wait for
	 * its threads.
	 */
	(void)atexit(job_pace_let_go);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

struct pacer *job_pacer_to_launch(int ordinal)
{
	struct pacer *pacer = job_pacer(ordinal);

	if (pacer && !atomic_load_explicit(&pace.met[ordinal], memory_order_relaxed) &&
	    pacer_is_pacing(pacer))
		meet(ordinal);
	return pacer;
}

void job_pace_meet(void)
{
	for (int i = 0; i < pace.count; i++)
		job_pacer_to_launch(i);
}

/* Returns whether there is a pacer, made where there is none; false: there is no memory. */
static bool has_pacer(int i)
{
	struct pacer *pacer = pace.pacer[i];

	if (pacer)
		return true;
	pacer = pacer_create(i, pace.devices->device[i].statistics);
	if (!pacer)
		return false;
	pacer_set(pacer, &pace.settings[i]);
	/* A thread that changes something meanwhile sees the pacer, or its change is seen here. */
	__atomic_store_n(&pace.pacer[i], pacer, __ATOMIC_SEQ_CST);
	if (atomic_load(&pace.has_peers[i]))
		pacer_share(pacer, &pace.peers[i]);
	if (atomic_load(&pace.lets_go))
		pacer_let_go(pacer);
	return true;
}

/* Says whether something was paced: until then no burst is in any stream. */
static _Atomic bool has_paced;

static bool pace_apply(int i)
{
	bool is_paced = pacer_would_pace(&pace.settings[i]);

	if (is_paced && has_pacer(i))
		atomic_store(&has_paced, true);
	if (pace.pacer[i])
		pacer_set(pace.pacer[i], &pace.settings[i]);
	else if (is_paced)
		log_once(LOG_ERROR, "out of memory: launches are not paced");
	return is_paced;
}

bool job_pace_holds(void)
{
	bool holds = true;

	for (int i = 0; i < pace.count; i++)
		holds &= pace.pacer[i] || !pacer_would_pace(&pace.settings[i]);
	return holds;
}

bool job_pace_set(int i, const struct config_gpu *settings)
{
	struct pacer_settings *s = &pace.settings[i];

	s->share = (uint32_t)settings->share;
	s->window_ns = settings->share_window;
	s->policy = (int)settings->share_policy;
	s->priority = (int)settings->priority;
	return pace_apply(i);
}

void job_pace_share(int i, const struct pacer_peers *peers)
{
	struct pacer *pacer;

	pace.peers[i] = *peers;
	atomic_store(&pace.has_peers[i], true);
	pacer = job_pacer(i);
	if (pacer)
		pacer_share(pacer, peers);
}

bool job_pace_heed(int i, bool is_asked, bool gives_way)
{
	/* Where there is no pacer no process has asked before. */
	if (is_asked ? has_pacer(i) : pace.pacer[i] != NULL)
		pacer_heed(pace.pacer[i], is_asked);
	if (pace.settings[i].gives_way == gives_way)
		return false;
	pace.settings[i].gives_way = gives_way;
	pace_apply(i);
	return true;
}

bool job_pace_look(void)
{
	uint64_t now = clock_now();
	bool again = false;
	uint32_t own;

	job_pace_meet();
	for (int i = 0; i < pace.count; i++) {
		struct device *device = &pace.devices->device[i];

		if (!pace.pacer[i] || !pacer_is_pacing(pace.pacer[i])) {
			held_forget(&pace.held[i], device->statistics);
			continue;
		}
		own = held_look(&pace.held[i], &device->id, device->statistics,
		                atomic_load(&pace.turns[i]), pace.owner, now);
		if (own != pace.own[i])
			pacer_correct(pace.pacer[i], own);
		pace.own[i] = own;
		again |= !held_rests(&pace.held[i], now);
	}
	return again;
}

void job_pace_end_context(CUcontext context, enum context_end end)
{
	for (int i = 0; i < pace.count; i++)
		if (job_pacer(i))
			pacer_end_context(job_pacer(i), context, end);
}

void job_pace_leave_stream(CUstream stream)
{
	if (!atomic_load_explicit(&has_paced, memory_order_relaxed) || !job_is_active())
		return;
	for (int i = 0; i < pace.count; i++)
		if (job_pacer(i))
			pacer_forget_stream(job_pacer(i), stream);
}

void job_pace_let_go(void)
{
	/* A forked child has neither the waiting threads nor the memory they wait in. */
	if (!job_is_active())
		return;
	atomic_store(&pace.lets_go, true);
	for (int i = 0; i < pace.count; i++)
		if (job_pacer(i))
			pacer_let_go(job_pacer(i));
}
