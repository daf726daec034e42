/* SPDX-License-Identifier: MIT */
/*
 * Sharing by need. Rules: runs inside the user's process; on the helper thread there is no driver
 * call, on the sharing thread none while a capture is active.
 */
#include "core/job/sharing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/bells.h"
#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/file_status.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/budget/shortage.h"
#include "core/cuda/context.h"
#include "core/job/launch.h"
#include "core/job/module.h"
#include "core/job/pace.h"
#include "core/job/process.h"
#include "core/pages/turns.h"
#include "core/state/directory.h"

/* A process that has no peer record yet looks so often for its first contexts, for so long. */
enum { FIRST_LOOK_MS = 100, FIRST_LOOKS = 50 };

/* A thread that calls more often lists directories once in so long. */
#define LOOK_NS 400000000ull

/*
 * How long the sharing thread sleeps at most. RESTS_NS: nothing is due, and the helper looks in its
 * place. UNHEARD_NS: other processes are there and cannot wake it. RUNG_NS: it sleeps at least this
 * long after a ring, however often other processes ring.
 */
#define RESTS_NS   3600000000000ull
#define UNHEARD_NS 20000000ull
#define RUNG_NS    5000000ull

/* A process that exits waits so long for a thread that makes or writes a peer record. */
#define STOP_NS 50000000ull

_Atomic uint32_t sharing_decided;

static struct {
	char node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
	uint64_t job;
	struct device_set *devices;
	int first_looks;
	struct config_gpu settings[DEVICE_MAX];
	LOCK_OF(SHARING) lock; /* of the thread that makes a peer record, and of settings */
	_Atomic(struct sharing *) of[DEVICE_MAX];
	_Atomic bool is_over;    /* there are to be no more peer records */
	_Atomic bool is_begun;   /* the sharing thread is to run */
	_Atomic bool has_failed; /* it does not */
	_Atomic bool is_looking; /* the helper or the sharing thread is at the peer records */
	_Atomic bool rests;      /* the sharing thread sleeps until it is woken */
} sharing = {.lock = LOCK_FREE};

void sharing_start(struct device_set *devices, const char *job)
{
	directory_of_node(sharing.node, sizeof sharing.node);
	directory_path(sharing.state, sizeof sharing.state);
	sharing.job = hash_text(hash_text(hash_word(HASH_NOTHING, getuid()), sharing.state), job);
	sharing.devices = devices;
	peers_judge(config_may_be_guaranteed, PRIORITY_GUARANTEED);
}

void sharing_sweep(void)
{
	uint64_t now = clock_now();

	peers_sweep(sharing.node, now);
	peers_sweep(sharing.state, now);
}

static void sharing_fill(struct peer_record *record, const struct config_gpu *settings)
{
	record->priority = (uint8_t)settings->priority;
	record->turn = (uint8_t)settings->turn;
	record->limit = settings->memory;
	record->slowdown_ppm = (uint32_t)settings->slowdown * 10;
}

static void job_sharing_apply(struct sharing *s, const struct config_gpu *settings)
{
	s->settings = *settings;
	sharing_fill(peer_edit(&s->own), settings);
	peer_publish(&s->own, clock_now());
}

void sharing_set(int i, const struct config_gpu *settings)
{
	struct sharing *s;

	lock_acquire(
	    &sharing.lock); /* a peer record that is being made takes either these or none */
	sharing.settings[i] = *settings;
	s = atomic_load(&sharing.of[i]);
	if (s)
		job_sharing_apply(s, settings);
	lock_release(&sharing.lock);
}

/* Returns the group to which root gave the device's turn file, where we are of it; 0: none. */
static gid_t sharing_group(const char *uuid)
{
	char path[DIRECTORY_MAX + 100], message[512];
	struct stat file;
	bool is_roots = false;

	if (!turns_find(uuid, path, sizeof path, &is_roots, message, sizeof message) || !is_roots)
		return 0;
	return file_status(path, &file) == 0 ? file.st_gid : 0;
}

/* Makes the peer record of the i-th device, once. */
static void job_sharing_make(int i)
{
	struct device *device = &sharing.devices->device[i];
	struct sharing *s = calloc(1, sizeof *s);
	char message[512] = "";
	uint64_t started_ns;

	if (!s)
		return;
	s->device = device;
	s->own.now.job = sharing.job;
	/*
	 * The peer record's first writing has the settings: the other jobs act on it at once. By a
	 * peer record with turn = fine they would give up exclusive turns.
	 */
	s->settings = sharing.settings[i];
	sharing_fill(&s->own.now, &s->settings);
	s->own.group = sharing_group(device->id.uuid);
	if (this_job.segment)
		segment_identity(this_job.segment, &s->own.now.segment, &started_ns);
	if (peer_make(&s->own, sharing.node, device->id.uuid, message, sizeof message) != 0) {
		/* A process outside the job's books has logged the reason. */
		if (this_job.segment)
			log_once(LOG_WARNING, "%s; other jobs do not see what this one needs",
			         message);
		free(s);
		return;
	}
	peers_start(&s->others, sharing.node, sharing.state, s->own.uuid, s->own.place.token);
	s->watched = s->others;
	atomic_store(&sharing.of[i], s);
	job_pace_share(
	    i, &(struct pacer_peers){
	           .own = &s->own, .others = &s->watched, .look = peers_look, .copy = peers_copy});
}

/*
 * Returns whether this peer record asks us: one of exclusive turns asks all others, else one of
 * higher rank.
 */
static bool asks(const struct peer_record *record, const struct config_gpu *own)
{
	if (record->priority < own->priority)
		return true;
	return record->turn == TURN_EXCLUSIVE && own->turn != TURN_EXCLUSIVE;
}

static bool is_asked(const struct peers *others, const struct config_gpu *own, uint64_t now)
{
	for (int i = 0; i < others->count; i++) {
		const struct peers_other *other = &others->other[i];

		if (!other->is_silent && other->record.asked_ns > now && asks(&other->record, own))
			return true;
	}
	return false;
}

/* Returns whether a normal job is to give way, because a guaranteed one is there. */
static bool job_sharing_gives_way(const struct peers *others, const struct config_gpu *own)
{
	for (int i = 0; i < others->count && own->priority == PRIORITY_NORMAL; i++)
		if (!others->other[i].is_silent &&
		    others->other[i].record.priority == PRIORITY_GUARANTEED)
			return true;
	return false;
}

struct sharing *sharing_join(int i)
{
	lock_acquire(&sharing.lock);
	if (!atomic_load(&sharing.of[i]) && !atomic_load(&sharing.is_over))
		job_sharing_make(i);
	lock_release(&sharing.lock);
	return atomic_load(&sharing.of[i]);
}

struct sharing *sharing_of(int i)
{
	struct sharing *s = atomic_load(&sharing.of[i]);
	struct context context;

	return s || !context_of_device(&sharing.devices->device[i], &context) ? s : sharing_join(i);
}

/* Takes the one copy of the peer records of a device. Returns whether there are any. */
static bool job_sharing_look(struct sharing *s, uint64_t now)
{
	struct config_gpu own;
	bool asked, way, is_new;

	s->others.own_token = peer_token(&s->own);
	if (now - s->looked_ns < LOOK_NS) {
		peers_copy(&s->others, now);
	} else {
		peers_look(&s->others, now);
		s->looked_ns = now;
	}
	lock_acquire(&sharing.lock);
	own = s->settings;
	lock_release(&sharing.lock);
	asked = is_asked(&s->others, &own, now);
	is_new = atomic_exchange(&s->is_asked, asked) != asked;
	way = job_sharing_gives_way(&s->others, &own);
	is_new |= atomic_exchange(&s->gives_way, way) != way;
	if (is_new) {
		atomic_fetch_add(&sharing_decided, 1);
		bells_ring(&sharing_decided);
	}
	return s->others.count != 0;
}

/* --- the sharing thread --- */

/*
 * Looks at all devices, and collects the bells that wake us. Returns whether other processes are
 * there.
 */
static bool job_sharing_look_at_all(struct bells *bells, uint64_t now)
{
	bool is_beside = false;

	for (int i = 0; i < sharing.devices->count; i++) {
		struct sharing *s = sharing_of(i);

		if (!s)
			continue;
		bells_add(bells, peer_bell(&s->own), 0);
		is_beside |= job_sharing_look(s, now);
	}
	return is_beside;
}

static void *share(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-share");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		uint32_t called = atomic_load(&shortage_called);
		uint64_t now, again_ns = RESTS_NS;
		struct bells bells = {0};
		bool is_beside;

		while (atomic_exchange(&sharing.is_looking, true))
			deadline_sleep(LOOK_NS / 1000);
		now = clock_now();
		bells_add(&bells, &shortage_called, called);
		is_beside = job_sharing_look_at_all(&bells, now);
		if (is_beside && !bells_are_all_heard(&bells))
			again_ns = UNHEARD_NS;
		modules_call(share, now, &again_ns);
		atomic_store(&sharing.rests, again_ns == RESTS_NS);
		atomic_store(&sharing.is_looking, false);
		if (!again_ns || !bells_wait(&bells, clock_now() + again_ns))
			continue;
		/* One that rings all the time, as another user's process may, has us look no more
		 * often than that. A call of ours is decided at once. */
		clock_in_use->wait(&shortage_called, called, now + RUNG_NS);
	}
	return NULL;
}

bool sharing_begin(void)
{
	if (!atomic_exchange(&sharing.is_begun, true) && thread_start(share) != 0) {
		atomic_store(&sharing.has_failed, true);
		log_warning(
		    "memory is not lent to other jobs, and no turn is exclusive: no thread for "
		    "it could be started");
	}
	return !atomic_load(&sharing.has_failed);
}

bool sharing_is_begun(void)
{
	return atomic_load(&sharing.is_begun) && !atomic_load(&sharing.has_failed);
}

/* --- the helper --- */

/* Looks for others and for news, while the sharing thread does not. */
static void job_sharing_look_for_others(void)
{
	uint64_t now = clock_now();
	struct bells bells = {0};
	bool is_beside, has_news = false;

	if (sharing_is_begun() && !atomic_load(&sharing.rests))
		return;
	if (atomic_exchange(&sharing.is_looking, true))
		return;
	is_beside = job_sharing_look_at_all(&bells, now);
	modules_call(look, now, &has_news);
	atomic_store(&sharing.is_looking, false);
	if (is_beside && !sharing_is_begun())
		sharing_begin();
	else if (has_news && sharing_is_begun())
		shortage_call();
}

int sharing_poll(int at_most_ms)
{
	bool is_any = false;

	if (!sharing.devices)
		return at_most_ms;
	job_sharing_look_for_others();
	for (int i = 0; i < sharing.devices->count; i++) {
		struct sharing *s = sharing_of(i);
		bool way;

		if (!s)
			continue;
		is_any = true;
		peer_poll(&s->own, clock_now());
		way = atomic_load(&s->gives_way);
		if (job_pace_heed(i, atomic_load(&s->is_asked), way) &&
		    !job_launches_hold(HELD_TO_GIVE_WAY(i), way))
			log_once(LOG_WARNING,
			         "out of memory: launches do not give way to guaranteed jobs");
	}
	if (!is_any && sharing.first_looks++ < FIRST_LOOKS && at_most_ms > FIRST_LOOK_MS)
		return FIRST_LOOK_MS;
	return at_most_ms;
}

/*
 * On any thread that exits, in a signal handler perhaps: locks are waited for no longer than it
 * takes to make a peer record. This one is taken although atomics are enough, because a thread
 * sanitizer in the program sees locks of ours and no atomics.
 */
void sharing_stop(void)
{
	struct deadline until = DEADLINE_IN(STOP_NS);
	bool is_locked;

	atomic_store(&sharing.is_over, true);
	is_locked = deadline_lock(&until, &sharing.lock);
	for (int i = 0; i < DEVICE_MAX; i++)
		if (atomic_load(&sharing.of[i]))
			peer_remove(&atomic_load(&sharing.of[i])->own, &until);
	if (is_locked)
		lock_release(&sharing.lock);
}

void sharing_forked(void)
{
	for (int i = 0; i < DEVICE_MAX; i++)
		if (atomic_load(&sharing.of[i]))
			peer_forked(&atomic_load(&sharing.of[i])->own);
}
