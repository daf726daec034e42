/* SPDX-License-Identifier: MIT */
/*
 * Taking exclusive turns. Rules: on the sharing thread, launches that wait excepted; no driver call
 * while a capture is active.
 *
 * Publishing and acting have an order: launches are held back before the peer record says that the
 * turn is over, and go on after it says that the turn is ours.
 */
#include "core/modules/sharing/exclusive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/budget/host_memory.h"
#include "core/budget/in_use.h"
#include "core/budget/shortage.h"
#include "core/budget/terms.h"
#include "core/cuda/capture.h"
#include "core/cuda/idle.h"
#include "core/job/config.h"
#include "core/job/launch.h"
#include "core/job/sharing.h"
#include "core/memory/move/plan.h"
#include "core/registry/actions.h"
#include "core/rings/event.h"
#include "core/modules/sharing/gang.h"

#define MS 1000000ull

/* How long the thread sleeps: alone, beside jobs with fine turns, in a turn, around an exchange. */
#define ALONE_NS    (250 * MS)
#define FINE_NS     (100 * MS)
#define TURN_NS     (20 * MS)
#define EXCHANGE_NS (5 * MS)
/* Files are looked for and the machine's memory is asked for so often. */
#define FIND_NS (100 * MS)
#define ASK_NS  (1000 * MS)
/*
 * A process that has launched nothing for so long, or half an exchange, and has nothing in flight,
 * rests.
 */
#define RESTS_LEAST_NS (100 * MS)
#define RESTS_MOST_NS  (2000 * MS)
/* While memory leaves and nothing moves for so long a launch passes; the next after twice that. */
#define PATIENCE_NS      (250 * MS)
#define PATIENCE_MOST_NS (1000 * MS)
/* Memory that has not moved for so long does not come back now. */
#define STANDS_NS (500 * MS)
/* The device memory that returning memory never fills, and the steps of it: parts of all. */
enum { MARGIN_PART = 32, STEP_PART = 16 };

/* --- launches that wait --- */

/*
 * Every wait has an end. While memory leaves, which waits for running work, and nothing moves, one
 * launch at a time may pass, because running work may need it. Where there was no decision for
 * longer than the longest wait, all waiting launches pass.
 */

/* The deciding thread may be late by so much before launches go on without it. */
#define LATE_NS 5000000000ull
/* A launch that waits counts the time so often. */
#define TICK_NS 100000000ull

static struct {
	_Atomic uint32_t changed; /* for waiting threads */
	_Atomic bool holds, lets_go;
	_Atomic uint64_t one_ns; /* since when one launch may pass; 0: none */
	_Atomic uint64_t lease_ns;
	_Atomic uint64_t decided_ns; /* when the holder was last set */
	_Atomic uint32_t waiting;
} hold = {.lease_ns = UINT64_MAX};

/* Returns whether a stream is done with its work, as far as that may be asked. */
static bool exclusive_hold_is_done(CUstream stream)
{
	bool is_idle;

	if (!capture_sync_enter())
		return true;
	is_idle = driver.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY;
	capture_sync_leave();
	return is_idle;
}

/*
 * Returns whether the launch is the one that may pass, because running work may need it
 * (exclusive_hold_pass_one()). Work in a stream never needs a launch behind it in the same stream.
 * So a launch into a stream that is done passes, and after LATE_NS any launch.
 */
static bool is_the_one(CUstream stream, uint64_t now)
{
	uint64_t since = atomic_load(&hold.one_ns);

	if (!since || (now < since + LATE_NS && !exclusive_hold_is_done(stream)))
		return false;
	return atomic_exchange(&hold.one_ns, 0) != 0;
}

static bool passes(CUstream stream, uint64_t since_ns, uint64_t now)
{
	uint64_t lease = atomic_load(&hold.lease_ns), decided = atomic_load(&hold.decided_ns);

	/* Each decision begins the longest wait anew. */
	since_ns = since_ns > decided ? since_ns : decided;
	if (atomic_load(&hold.lets_go) || now > since_ns + GANG_WAIT_NS + LATE_NS)
		return true;
	if (!atomic_load(&hold.holds))
		return now < lease || now - lease > LATE_NS;
	return is_the_one(stream, now);
}

/* Waits, and counts the time as idle; of threads that wait together the first one does. */
static void wait(const struct device *device, CUstream stream)
{
	uint64_t began = clock_now(), told = began, now = began;
	bool counts = atomic_fetch_add(&hold.waiting, 1) == 0;

	if (counts)
		statistics_add(&device->statistics->idle_slots, 1);
	shortage_call(); /* the sharing thread decides now */
	for (;;) {
		uint32_t seen = atomic_load(&hold.changed);

		if (passes(stream, began, now))
			break;
		clock_in_use->wait(&hold.changed, seen, now + TICK_NS);
		now = clock_now();
		if (counts)
			statistics_add(&device->statistics->idle_ns, now - told);
		told = now;
	}
	atomic_fetch_sub(&hold.waiting, 1);
	if (counts)
		event_note(.kind = EVENT_slot, .device = device->id.ordinal, .begin_ns = began,
		           .duration_ns = now - began, .a = IDLE_TURN);
}

/*
 * Waits before a launch on the device into this stream, with no lock held, while launches are held
 * back.
 */
static void exclusive_hold(const struct device *device, CUstream stream)
{
	uint64_t lease = atomic_load_explicit(&hold.lease_ns, memory_order_acquire);
	int cancel;

	if (!atomic_load_explicit(&hold.holds, memory_order_acquire) &&
	    (lease == UINT64_MAX || clock_now() < lease))
		return;
	/* Captured work does not run, and other threads may wait for the end of the capture. */
	if (capture_is_active())
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	wait(device, stream);
	pthread_setcancelstate(cancel, NULL);
}

/* Returns whether a launch waits. */
static bool exclusive_hold_is_wanted(void)
{
	return atomic_load(&hold.waiting) != 0;
}

/*
 * Holds launches back from now on, or lets them go on until lease_ns, unless that is renewed.
 * UINT64_MAX is for good. A process that was stopped meanwhile first looks which job has the turn.
 */
static void exclusive_hold_set(bool holds, uint64_t lease_ns)
{
	bool held = atomic_exchange(&hold.holds, holds);
	uint64_t before = atomic_exchange(&hold.lease_ns, lease_ns);

	atomic_store(&hold.decided_ns, clock_now());
	if (!holds && (held || before != lease_ns) && exclusive_hold_is_wanted())
		clock_in_use->wake(&hold.changed);
}

/* Lets one launch pass, into a stream that is done with its work if there is one. */
static void exclusive_hold_pass_one(void)
{
	uint64_t none = 0;

	atomic_compare_exchange_strong(&hold.one_ns, &none, clock_now());
	clock_in_use->wake(&hold.changed);
}

void exclusive_hold_let_go(void)
{
	atomic_store(&hold.lets_go, true);
	clock_in_use->wake(&hold.changed);
}

/* --- deciding --- */

/* A sum of bytes that changes, for a thread that waits for it. */
struct watched {
	uint64_t bytes, since_ns;
};

static struct {
	struct device_set *devices;
	bool has_begun;                /* it was tried; the helper's */
	_Atomic bool is_started;       /* the sharing thread is to take part */
	_Atomic uint32_t is_exclusive; /* a bit for each device */
	_Atomic uint64_t length_ns;
	bool has_other_nodes;
	/* the thread's */
	struct gang gang;
	uint64_t number;                    /* of this process, on its peer records */
	struct peers *elsewhere;            /* peer records on devices that are not in use here */
	struct sharing *shared[DEVICE_MAX]; /* NULL: not in use */
	struct gang_facts facts;
	uint64_t now_ns, found_ns, asked_ns;
	uint64_t launches, launched_ns;
	struct watched on_device, on_host;
	uint64_t settled_on_host; /* when the last turn ended */
	uint64_t patience_ns, passed_ns;
	bool is_held;  /* launches go by exclusive_hold() */
	uint32_t said; /* reasons, a bit each */
} exclusive;

static void exclusive_do_watch(struct watched *w, uint64_t bytes)
{
	if (w->bytes != bytes || !w->since_ns)
		*w = (struct watched){bytes, exclusive.now_ns};
}

/* --- other processes --- */

/* Adds a member; of a process that has several peer records once. */
static int exclusive_add(struct gang_member *members, int count, const struct gang_member *m)
{
	for (int i = 0; i < count; i++)
		if (members[i].process == m->process && members[i].job == m->job)
			return count;
	members[count] = *m;
	return count + 1;
}

/* Returns whether the process may share a turn file with us. */
static bool is_trusted(const struct peers_other *other)
{
	if (other->owner == geteuid())
		return true;
	for (int i = 0; i < exclusive.devices->count; i++)
		if (exclusive.shared[i] && exclusive.shared[i]->own.group &&
		    exclusive.shared[i]->own.group == other->group)
			return true;
	return false;
}

static int add_of(const struct peers *peers, struct gang_member *members, int count)
{
	for (int i = 0; i < peers->count && count < GANG_MEMBERS; i++) {
		const struct peers_other *other = &peers->other[i];
		struct gang_member m = member_of(other, is_trusted(other), exclusive.now_ns);

		count = exclusive_add(members, count, &m);
	}
	return count;
}

/*
 * Collects the members, first those on our devices. A job beside us may use a device more, and wait
 * there for a job that uses no device of ours.
 */
static int collect_others(struct gang_member *members)
{
	uint64_t now = exclusive.now_ns;
	int count = 0;

	for (int i = 0; i < exclusive.devices->count; i++)
		if (exclusive.shared[i])
			count = add_of(&exclusive.shared[i]->others, members, count);
	if (now - exclusive.found_ns >= FIND_NS || !exclusive.gang.own.since_ns) {
		peers_look(exclusive.elsewhere, now);
		exclusive.found_ns = now;
	} else {
		peers_copy(exclusive.elsewhere, now);
	}
	return add_of(exclusive.elsewhere, members, count);
}

/* --- this process --- */

/* Finds the devices that we use. Returns whether there are any. */
static bool find_devices(void)
{
	struct gang_member *own = &exclusive.gang.own;
	int count = 0;

	memset(own->device, 0, sizeof own->device);
	for (int i = 0; i < exclusive.devices->count && count < GANG_DEVICES; i++) {
		struct sharing *s = sharing_of(i);

		exclusive.shared[i] = s;
		if (!s)
			continue;
		own->device[count++] = member_device(&s->own.now);
		if (!own->process) {
			exclusive.number = peer_token(&s->own);
			own->process = member_number(geteuid(), exclusive.number);
			own->job = member_number(geteuid(), s->own.now.job);
			exclusive.elsewhere->node = s->others.node;
			exclusive.elsewhere->state = s->others.state;
		}
	}
	own->is_exclusive = atomic_load(&exclusive.is_exclusive) != 0;
	own->length_ns = atomic_load(&exclusive.length_ns);
	return count > 0;
}

static uint64_t sum_launches(void)
{
	uint64_t all = 0;

	for (int i = 0; i < exclusive.devices->count; i++) {
		const struct counters *s = exclusive.devices->device[i].statistics;

		all += counters_get(s, launches) + counters_get(s, graph_launches);
	}
	return all;
}

/* Returns whether the process works: it launched lately, waits to, or has work in flight. */
static bool works(void)
{
	uint64_t launches = sum_launches(), rest_ns = exclusive.gang.own.exchange_ns / 2;

	rest_ns = rest_ns < RESTS_LEAST_NS ? RESTS_LEAST_NS : rest_ns;
	rest_ns = rest_ns > RESTS_MOST_NS ? RESTS_MOST_NS : rest_ns;
	if (launches != exclusive.launches || !exclusive.launched_ns)
		exclusive.launched_ns = exclusive.now_ns;
	exclusive.launches = launches;
	if (exclusive_hold_is_wanted() || exclusive.now_ns - exclusive.launched_ns < rest_ns)
		return true;
	/* A process without a turn has nothing in flight that would need one. */
	return exclusive.gang.own.state == GANG_HAS && !idle_is_seen();
}

/*
 * Watches the bytes of all our devices that can move and are on this tier. Where something moves by
 * now they are on their way: the thread waits for nothing, because a claim may wait for it.
 */
static void watch_movable(struct watched *w, enum segment_tier tier)
{
	uint64_t bytes = 0, of_device;

	for (int i = 0; i < exclusive.devices->count; i++) {
		if (!exclusive.shared[i])
			continue;
		if (!plan_movable_now(exclusive.shared[i]->device, tier, &of_device)) {
			w->since_ns = exclusive.now_ns;
			return;
		}
		bytes += of_device;
	}
	exclusive_do_watch(w, bytes);
}

static enum gang_why find_why(void)
{
	if (exclusive.has_other_nodes)
		return GANG_OTHER_NODES;
	for (int i = 0; i < exclusive.devices->count; i++) {
		struct device *device;
		struct terms terms;

		if (!exclusive.shared[i])
			continue;
		device = exclusive.shared[i]->device;
		if (device_elastic(device) > ELASTIC_YES)
			return GANG_UNMOVABLE;
		terms = terms_of(device);
		if (device_charged(device, SEGMENT_ON_HOST) +
		        device_used(device, SEGMENT_ON_DEVICE) >
		    terms_host_limit_of_moves(&terms, device))
			return GANG_HOST_FULL;
	}
	return GANG_NOTHING;
}

/* Asks the slow questions once in a while. */
static void exclusive_ask(void)
{
	if (exclusive.asked_ns && exclusive.now_ns - exclusive.asked_ns < ASK_NS)
		return;
	exclusive.asked_ns = exclusive.now_ns;
	exclusive.facts.host_room = host_memory_limit(CONFIG_AUTO, false, 0);
	exclusive.facts.why = find_why();
	watch_movable(&exclusive.on_device, SEGMENT_ON_DEVICE);
	watch_movable(&exclusive.on_host, SEGMENT_ON_HOST);
	exclusive.gang.own.bytes = exclusive.on_device.bytes + exclusive.on_host.bytes;
	exclusive.gang.own.on_host = exclusive.on_host.bytes;
}

static void look_at_ourselves(void)
{
	struct gang_facts *facts = &exclusive.facts;
	uint32_t state = exclusive.gang.own.state;

	exclusive_ask();
	facts->wants = works();
	if (state == GANG_LEAVES)
		watch_movable(&exclusive.on_device, SEGMENT_ON_DEVICE);
	if (state == GANG_TAKES)
		watch_movable(&exclusive.on_host, SEGMENT_ON_HOST);
	facts->has_left = exclusive.on_device.bytes == 0;
	facts->is_back = exclusive.on_host.bytes <= exclusive.settled_on_host ||
	                 exclusive.now_ns - exclusive.on_host.since_ns > STANDS_NS;
}

/* --- actions --- */

static void exclusive_tell(void)
{
	const struct gang_member *own = &exclusive.gang.own;

	for (int i = 0; i < exclusive.devices->count; i++) {
		struct peer_record *record;

		if (!exclusive.shared[i])
			continue;
		record = peer_edit(&exclusive.shared[i]->own);
		member_tell(own, exclusive.number, record);
		if (own->is_exclusive && record->asked_ns < exclusive.now_ns + PEER_ASKS_NS)
			record->asked_ns = exclusive.now_ns + PEER_ASKS_NS;
		peer_publish(&exclusive.shared[i]->own, exclusive.now_ns);
	}
}

/* Returns how much the job may hold on a device while its memory comes and another's leaves. */
static uint64_t room_on(struct device *device)
{
	uint64_t held = device_charged(device, SEGMENT_ON_DEVICE), free_bytes;
	bool is_known;

	if (exclusive.gang.cleared_ns)
		return UINT64_MAX;
	if (!idle_ask())
		return yield_above(device);
	is_known = in_use_free(device, &free_bytes);
	idle_asked();
	if (!is_known)
		return yield_above(device);
	return gang_room(held + free_bytes, 0, device->id.memory / MARGIN_PART, held,
	                 device->id.memory / STEP_PART);
}

static void move(void)
{
	uint32_t state = exclusive.gang.own.state;

	for (int i = 0; i < exclusive.devices->count; i++) {
		struct device *device = exclusive.shared[i] ? exclusive.shared[i]->device : NULL;

		if (device)
			yield_set(device, YIELD_FOR_TURN,
			          gang_yields(state)    ? 0
			          : state == GANG_TAKES ? room_on(device)
			                                : UINT64_MAX);
	}
}

/*
 * Returns whether work of another process of the job keeps its memory from leaving: the work may
 * wait for a launch that we have not made yet.
 */
static bool is_waited_for(const struct gang_member *others, int count)
{
	const struct gang_member *own = &exclusive.gang.own;

	for (int i = 0; i < count; i++)
		if (others[i].job == own->job && others[i].state == GANG_LEAVES &&
		    member_lives(&others[i], own, exclusive.now_ns))
			return gang_yields(own->state);
	return false;
}

/*
 * Lets a launch pass where memory does not leave, ours or that of our job's, although nothing else
 * is launched: running work may need it.
 */
static void be_patient(const struct gang_member *others, int count)
{
	uint64_t since = exclusive.on_device.since_ns;
	bool leaves = exclusive.gang.own.state == GANG_LEAVES;

	if (!leaves)
		exclusive.patience_ns = PATIENCE_NS;
	if (!leaves && !is_waited_for(others, count))
		return;
	since = since > exclusive.passed_ns ? since : exclusive.passed_ns;
	since = since > exclusive.gang.own.since_ns ? since : exclusive.gang.own.since_ns;
	if (exclusive.now_ns - since < exclusive.patience_ns)
		return;
	exclusive.passed_ns = exclusive.now_ns;
	exclusive.patience_ns = exclusive.patience_ns < PATIENCE_MOST_NS / 2
	                            ? 2 * exclusive.patience_ns
	                            : PATIENCE_MOST_NS;
	exclusive_hold_pass_one();
}

static void exclusive_say(uint32_t before, uint64_t since_ns)
{
	const struct gang_member *own = &exclusive.gang.own;

	if (before == GANG_HAS && own->state != GANG_HAS) {
		exclusive.settled_on_host = exclusive.on_host.bytes;
		for (int i = 0; i < exclusive.devices->count; i++)
			if (exclusive.shared[i])
				event_note(.kind = EVENT_turn, .device = i, .begin_ns = since_ns,
				           .duration_ns = exclusive.now_ns - since_ns);
	}
	if (own->state != before)
		log_debug("turn = exclusive: %s, then %s", gang_state_name(before),
		          gang_state_name(own->state));
	if (own->why && own->is_exclusive && !(exclusive.said >> own->why & 1)) {
		exclusive.said |= 1U << own->why;
		log_warning("turn = exclusive: turns are fine, because %s",
		            gang_why_text(own->why));
	}
}

static int exclusive_before_launch(void *cookie, void *subject)
{
	const struct job_launch *launch = subject;

	(void)cookie;
	exclusive_hold(launch->device, launch->stream);
	return CUDA_SUCCESS;
}

static const struct action waiting = {ACTION_RESOURCES, "turn", exclusive_before_launch, NULL};
static struct job_watch exclusive_watch = {.before = &waiting};

/* Has launches go by exclusive_hold() where they may have to wait. */
static void exclusive_do_hold(bool is_held)
{
	if (is_held != exclusive.is_held && job_launches_watch(&exclusive_watch, 1, is_held))
		exclusive.is_held = is_held;
}

/* Goes one step on. Returns after how long the next is due. */
static uint64_t exclusive_do_step(void)
{
	struct gang_member others[GANG_MEMBERS], *own = &exclusive.gang.own;
	bool is_first = !own->since_ns, is_alone;
	uint64_t since_ns = own->since_ns;
	uint32_t before = own->state;
	int count;

	if (!find_devices()) {
		/* A process that launches and can have no peer record meets no other process. */
		if (exclusive_hold_is_wanted())
			exclusive_hold_set(false, UINT64_MAX);
		return ALONE_NS;
	}
	count = collect_others(others);
	look_at_ourselves();
	gang_step(&exclusive.gang, exclusive.now_ns, &exclusive.facts, others, count);
	is_alone = own->state == GANG_FREE;
	if (!is_alone)
		exclusive_do_hold(true);
	if (gang_holds(own->state))
		exclusive_hold_set(true, UINT64_MAX);
	exclusive_tell();
	if (!gang_holds(own->state))
		exclusive_hold_set(false, is_alone ? UINT64_MAX : own->beat_ns + GANG_LEASE_NS);
	if (is_alone)
		exclusive_do_hold(false);
	move();
	be_patient(others, count);
	exclusive_say(before, since_ns);
	if (is_first)
		return 0;
	if (is_alone)
		return own->why ? FINE_NS : ALONE_NS;
	return own->state == GANG_HAS || own->state == GANG_RESTS ? TURN_NS : EXCHANGE_NS;
}

uint64_t exclusive_step(uint64_t now_ns)
{
	exclusive.now_ns = now_ns;
	return atomic_load(&exclusive.is_started) ? exclusive_do_step() : UINT64_MAX;
}

/* Begins, with the first launch held until the peer records were seen. */
static bool exclusive_start(struct device_set *devices)
{
	exclusive.devices = devices;
	exclusive.elsewhere = calloc(1, sizeof *exclusive.elsewhere);
	if (!exclusive.elsewhere)
		return false;
	exclusive.is_held = job_launches_watch(&exclusive_watch, 1, true);
	exclusive_hold_set(true, UINT64_MAX);
	/* Before the program's own handlers, which may wait for its threads. */
	(void)atexit(exclusive_hold_let_go);
	atomic_store(&exclusive.is_started, true);
	if (sharing_begin())
		return true;
	job_launches_watch(&exclusive_watch, 1, false);
	exclusive_hold_set(false, UINT64_MAX);
	return false;
}

/* Takes new settings for the i-th device. By the helper, or before it runs. */
static void exclusive_set(struct device_set *devices, int i, const struct config_gpu *settings)
{
	if (settings->turn == TURN_EXCLUSIVE) {
		atomic_store(&exclusive.length_ns, settings->turn_length);
		atomic_fetch_or(&exclusive.is_exclusive, 1U << i);
	} else {
		atomic_fetch_and(&exclusive.is_exclusive, ~(1U << i));
	}
	if (!atomic_load(&exclusive.is_exclusive) && !exclusive.has_begun)
		return;
	if (exclusive.has_begun)
		shortage_call();
	else if (!exclusive_start(devices))
		log_warning("turn = exclusive: turns are fine, because no thread or no memory is "
		            "left for exclusive ones");
	exclusive.has_begun = true;
}

static int exclusive_change(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		struct config_gpu settings;

		config_for_device(change->config, &change->devices->device[i].id, &settings);
		exclusive_set(change->devices, i, &settings);
	}
	return CUDA_SUCCESS;
}

bool exclusive_begin(void)
{
	static const struct action change = {ACTION_RESOURCES, "sharing", exclusive_change, NULL};

	exclusive.has_other_nodes = gang_other_nodes(getenv) != NULL;
	return action_add(ACTION_CONFIG_CHANGED, &change) == 0;
}
