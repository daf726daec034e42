/* SPDX-License-Identifier: MIT */
/*
 * Lending. Rules: a thread in someone else's process: every signal blocked, no driver call while a
 * capture is active.
 */
#include "core/job/lending.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/budget/in_use.h"
#include "core/budget/shortage.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/cuda/gate.h"
#include "core/cuda/idle.h"
#include "core/job/sharing.h"
#include "core/memory/move/copy_window.h"
#include "core/memory/move/plan.h"
#include "core/memory/uses/overhead.h"
#include "core/rings/event.h"
#include "core/sharing/bytes.h"
#include "core/sharing/grant.h"

#define MS     1000000ull
#define SECOND (1000 * MS)

/* How long the thread sleeps where a claim or a bound may change by time alone; else. */
#define WAITS_NS (200 * MS)
#define RESTS_NS (3600 * SECOND)
/* Others whom we have just met tell what they have within this time; at once, mostly. */
#define MEET_NS      SECOND
#define MEET_TICK_NS (2 * MS)
/* A call that must have memory claims it anew for so long, where others were slow to give it. */
#define INSISTS_NS (3 * SECOND)
/* What can move is added up so often. */
#define SUM_NS (50 * MS)
/* Who cannot be woken by others looks so often: they expect an answer within GRANT_SILENCE_NS. */
enum { UNACCOUNTED_MS = 20 };
/* A helper that is awake hears no ring. It is called again so often, by turns of GRANT_TICK_NS. */
enum { RING_AGAIN = 3 };

/* One device on which we have a peer record. */
struct lent {
	struct sharing *shared;
	struct peers others;
	struct grant grant;
	uint64_t summed_ns;
	uint64_t stays[LEDGER_TIERS]; /* of what is charged to us: what cannot move */
	uint64_t movable;             /* on the device, then */
	uint64_t context;             /* what the driver takes for us */
	uint64_t again_ns;            /* the next look is due after so long */
	uint64_t met_ns;              /* since when others have told nothing; 0: all have */
	uint64_t called_ns;           /* when they were called last for that */
	int unheard;                  /* how often they are to be called again */
	uint64_t must_since_ns;       /* since when a call waits; 0: none does */
	_Atomic uint64_t told[LEDGER_TIERS];
};

static struct {
	struct device_set *devices;
	_Atomic bool is_started;
	_Atomic(struct lent *) of[DEVICE_MAX];
	uint64_t seen_idle; /* since when, when it was seen that nothing is in flight */
	_Atomic bool is_idle;
} lending;

static struct lent *lent_of(int i)
{
	struct lent *l = atomic_load(&lending.of[i]);
	struct sharing *s = sharing_of(i);

	if (l || !s || !(l = calloc(1, sizeof *l)))
		return l;
	l->shared = s;
	peers_start(&l->others, s->others.node, s->others.state, s->others.uuid, 0);
	atomic_store(&lending.of[i], l);
	return l;
}

static void look_at_others(struct lent *l, uint64_t now)
{
	l->others.own_token = peer_token(&l->shared->own);
	peers_copy(&l->others, now);
}

/* --- what we are --- */

/*
 * Returns since when the process is idle; 0: it is not. Once nothing was in flight, nothing is
 * until something passes the gate.
 */
static uint64_t idle_since(uint64_t now, const struct terms *terms)
{
	uint64_t since = gate_unused_since(now);

	if (terms->settings.evict) /* who is to be on the host needs nothing here */
		return now;
	if (now - since < terms->settings.idle_yield)
		return 0;
	if (lending.seen_idle != since && idle_is_seen())
		lending.seen_idle = since;
	return lending.seen_idle == since ? since : 0;
}

/* Returns the bytes charged to us that somebody uses. */
static uint64_t in_use(const struct device *device, enum segment_tier tier)
{
	return minus(device_used(device, tier), device_spare(device, tier));
}

static void sum_up(struct lent *l, uint64_t now)
{
	struct device *device = l->shared->device;
	uint64_t movable;

	/* During a claim each look adds up anew: memory that is on its way has not come. */
	if (now - l->summed_ns < SUM_NS && !l->grant.since_ns)
		return;
	l->context = overhead_bytes(device);
	/* A job that waited for its own moves would be silent meanwhile, and passed by. */
	for (int tier = 0; tier < LEDGER_TIERS; tier++) {
		if (!plan_movable_now(device, tier, &movable))
			return;
		l->stays[tier] = minus(in_use(device, tier), movable);
		if (tier == SEGMENT_ON_DEVICE)
			l->movable = movable;
	}
	l->summed_ns = now;
}

/* Says on the own peer record what the process has. */
static void fill(struct lent *l, struct peer_record *record)
{
	const struct device *device = l->shared->device;
	uint64_t on_host = device_used(device, SEGMENT_ON_HOST);

	record->held = device_used(device, SEGMENT_ON_DEVICE);
	/* Memory that is made for what is to come has not come, whenever it was added up. */
	record->movable = l->grant.since_ns ? least(record->held, l->movable)
	                                    : minus(record->held, l->stays[SEGMENT_ON_DEVICE]);
	record->on_host = minus(in_use(device, SEGMENT_ON_HOST), l->stays[SEGMENT_ON_HOST]);
	record->context = l->context;
	record->link = link_bytes(device, SEGMENT_ON_HOST, SECOND);
	atomic_store(&l->told[SEGMENT_ON_DEVICE], record->held);
	atomic_store(&l->told[SEGMENT_ON_HOST], on_host);
}

/* Returns whether what is on the host finds no room on the device, for other jobs' sake. */
static bool is_blocked(struct device *device, const struct terms *terms)
{
	return !terms->settings.evict && device_blocker(device) == MOVE_DEVICE_FULL;
}

/*
 * Returns whether others have not told yet what they have: who meets them first waits for it, for a
 * while.
 */
static bool is_meeting(struct lent *l, uint64_t now)
{
	bool is_first = !l->met_ns;

	for (int i = 0; i < l->others.count; i++) {
		if (l->others.other[i].record.tells_memory || l->others.other[i].is_silent)
			continue;
		l->met_ns = is_first ? now : l->met_ns;
		/* Others may have looked for peer records just before ours was there. */
		if (is_first || now - l->called_ns >= GRANT_TICK_NS) {
			peers_ring(&l->others);
			l->called_ns = now;
		}
		return now - l->met_ns <= MEET_NS;
	}
	l->met_ns = 0;
	return false;
}

/* Returns whether there are others, all of whom could claim what they are owed. */
static bool all_tell(const struct lent *l)
{
	for (int i = 0; i < l->others.count; i++)
		if (!l->others.other[i].record.tells_memory)
			return false;
	return l->others.count != 0;
}

/* --- what is done --- */

/* Tells whoever reads the ring of a change of hands, so far as there was one. */
static void note(enum event_kind kind, const struct lent *l, const struct peer_record *record,
                 uint64_t bytes)
{
	if (bytes)
		event_note(.kind = kind, .device = l->shared->device->id.ordinal, .a = bytes,
		           .b = record->held, .c = record->on_host);
}

/* Rings where there is news, and again where that was not heard. */
static void tell(struct lent *l, bool is_news)
{
	if (!is_news && !l->unheard)
		return;
	l->unheard = is_news ? RING_AGAIN : l->unheard - 1;
	if (peers_ring(&l->others))
		l->unheard = 0;
}

static void poll_device(struct lent *l, uint64_t now)
{
	struct device *device = l->shared->device;
	const struct terms terms = terms_of(device);
	struct grant_needs needs = {.now_ns = now, .memory = device->id.memory, .free = UINT64_MAX};
	uint64_t idle = idle_since(now, &terms);
	struct grant_answer answer;
	struct peer_record *record;
	uint64_t claimed;
	bool meets;

	atomic_store(&lending.is_idle, idle != 0);
	look_at_others(l, now);
	meets = is_meeting(l, now);
	/* No claim is raised before all have told: who has not would be taken to hold nothing. */
	if (!meets || l->grant.since_ns) {
		needs.must = shortage_claimed(device);
		needs.tries = !needs.must && (needs.must = shortage_being_tried(device));
		needs.is_blocked = is_blocked(device, &terms);
	}
	if (needs.must && !capture_is_active())
		in_use_free(device, &needs.free);
	l->must_since_ns = !needs.must ? 0 : l->must_since_ns ? l->must_since_ns : now;
	sum_up(l, now);
	record = peer_edit(&l->shared->own);
	record->idle_since_ns = idle;
	record->tells_memory = 1;
	fill(l, record);
	claimed = record->claim;
	grant_decide(&l->grant, &needs, record, geteuid(), &l->others, &answer);
	record->yielded = least(record->yielded, record->on_host);
	record->waits = answer.why;
	note(EVENT_claim, l, record, claimed ? 0 : record->claim);
	note(EVENT_yield, l, record, answer.gave);
	note(EVENT_grant, l, record, answer.took);
	peer_publish(&l->shared->own, now);
	tell(l, answer.tells);
	yield_set(device, YIELD_FOR_CLAIM, answer.bound);
	yield_on_call(device, all_tell(l), answer.margin);
	if (needs.must && answer.must_is_decided &&
	    (!answer.was_short || now - l->must_since_ns > INSISTS_NS))
		shortage_decide(device);
	else if (answer.has_room)
		wanted_fill(device);
	l->again_ns = meets                                              ? MEET_TICK_NS
	              : answer.is_busy || l->must_since_ns || l->unheard ? GRANT_TICK_NS
	              : answer.bound != UINT64_MAX || needs.is_blocked   ? WAITS_NS
	                                                                 : RESTS_NS;
}

/* Looks at all devices once. Returns after how long the next look is due. */
static uint64_t step(void)
{
	uint64_t now = clock_now(), again_ns = RESTS_NS;

	for (int i = 0; i < lending.devices->count; i++) {
		struct lent *l = lent_of(i);

		if (!l)
			continue;
		poll_device(l, now);
		again_ns = least(again_ns, l->again_ns);
	}
	return again_ns;
}

static void *lend(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-lend");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		uint32_t called = atomic_load(&shortage_called);
		uint64_t again_ns = step();

		gate_tell(atomic_load(&lending.is_idle) ? &shortage_called : NULL);
		clock_in_use->wait(&shortage_called, called, clock_now() + again_ns);
	}
	return NULL;
}

/* Starts the thread, once. Returns whether it runs. */
static bool start(void)
{
	static _Atomic bool failed;

	if (!atomic_exchange(&lending.is_started, true) && thread_start(lend) != 0) {
		atomic_store(&failed, true);
		log_warning("memory is not lent to other jobs: no thread for it could be started");
	}
	return !atomic_load(&failed);
}

/* Begins to decide the claims of a call, which may come before we have looked for others. */
static bool begin(const struct device *device)
{
	return sharing_join(device->id.ordinal) && start();
}

void lending_start(struct device_set *devices)
{
	lending.devices = devices;
	shortage_serve(begin);
}

/* Returns whether the own peer record is no longer true, or another peer record claims. */
static bool has_news(int i, const struct sharing *s, bool is_idle)
{
	const struct lent *l = atomic_load(&lending.of[i]);

	for (int k = 0; k < s->others.count; k++)
		if (s->others.other[k].record.claim)
			return true;
	return !l || atomic_load(&lending.is_idle) != (is_idle || s->settings.evict) ||
	       atomic_load(&l->told[SEGMENT_ON_DEVICE]) !=
	           device_used(s->device, SEGMENT_ON_DEVICE) ||
	       atomic_load(&l->told[SEGMENT_ON_HOST]) != device_used(s->device, SEGMENT_ON_HOST);
}

int lending_poll(bool is_told, int at_most_ms)
{
	const struct device_set *devices = lending.devices;
	bool is_beside = false, is_news = false;
	uint64_t now = clock_now();

	for (int i = 0; i < devices->count; i++) {
		const struct sharing *s = sharing_of(i);

		if (!s)
			continue;
		/* So that it is known since when we are idle, as soon as somebody asks. */
		is_news |= has_news(i, s, now - gate_unused_since(now) >= s->settings.idle_yield);
		is_beside |= s->others.count != 0;
	}
	if (is_beside && !atomic_load(&lending.is_started))
		start();
	else if (is_news && atomic_load(&lending.is_started))
		shortage_call();
	return is_beside && !is_told && at_most_ms > UNACCOUNTED_MS ? UNACCOUNTED_MS : at_most_ms;
}
