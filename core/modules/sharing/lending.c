/* SPDX-License-Identifier: MIT */
/*
 * Lending, as this process takes part in it, and the module's hooks. Rules: on the sharing thread;
 * no driver call while a capture is active.
 *
 * It writes on the own peer records the memory that the process holds, needs and claims. It decides
 * by grant.h, and has memory leave and come (core/budget/terms.h, wanted.h). It runs when another
 * process claims, something has changed, or a call must have memory on the device.
 */
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/budget/in_use.h"
#include "core/budget/shortage.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/cuda/gate.h"
#include "core/cuda/idle.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/job/sharing.h"
#include "core/memory/move/copy_window.h"
#include "core/memory/move/plan.h"
#include "core/memory/uses/overhead.h"
#include "core/rings/event.h"
#include "core/modules/sharing/bytes.h"
#include "core/modules/sharing/exclusive.h"
#include "core/modules/sharing/grant.h"

#define MS     1000000ull
#define SECOND (1000 * MS)

/* How long it sleeps where a claim or a bound may change by time alone. */
#define WAITS_NS (200 * MS)
/* Newly met processes report their memory within this time; at once, mostly. */
#define MEET_NS      SECOND
#define MEET_TICK_NS (2 * MS)
/*
 * A call that must have memory claims it anew for so long, where other jobs were slow to give it.
 */
#define INSISTS_NS (3 * SECOND)
/* Movable memory is added up so often, and news of our own are published so often. */
#define SUM_NS (50 * MS)
/* A thread that is awake hears no ring. It is called again so often, by turns of GRANT_TICK_NS. */
enum { RING_AGAIN = 3 };

/* One device on which we have a peer record. */
struct lent {
	struct sharing *shared;
	struct grant grant;
	uint64_t summed_ns;
	uint64_t stays[LEDGER_TIERS]; /* part of our charges: memory that cannot move */
	uint64_t movable;             /* on the device, then */
	uint64_t context;             /* the driver's memory for us */
	uint64_t polled_ns;           /* the last look */
	uint64_t due_ns;              /* when the next look is due */
	uint64_t met_ns;        /* since when other processes have reported nothing; 0: all have */
	uint64_t called_ns;     /* when they were called last for that */
	int unheard;            /* how often they are to be called again */
	uint64_t must_since_ns; /* since when a call waits; 0: none does */
	uint64_t told[LEDGER_TIERS];
};

static struct {
	struct device_set *devices;
	struct lent *of[DEVICE_MAX];
	uint64_t seen_idle; /* since when, when it was seen that nothing is in flight */
	bool is_idle;
} lending;

static struct lent *lent_of(int i)
{
	struct lent *l = lending.of[i];
	struct sharing *s = sharing_of(i);

	if (l || !s || !(l = calloc(1, sizeof *l)))
		return l;
	l->shared = s;
	lending.of[i] = l;
	return l;
}

/* --- this process --- */

/*
 * Returns since when the process is idle; 0: it is not. Once nothing was in flight, nothing is
 * until something passes the gate.
 */
static uint64_t idle_since(uint64_t now, const struct terms *terms)
{
	uint64_t since = gate_unused_since(now);

	if (terms->settings.evict) /* an evicted job needs nothing here */
		return now;
	if (now - since < terms->settings.idle_yield)
		return 0;
	if (lending.seen_idle != since && idle_is_seen())
		lending.seen_idle = since;
	return lending.seen_idle == since ? since : 0;
}

/* Returns the bytes charged to us that are in use. */
static uint64_t lending_in_use(const struct device *device, enum segment_tier tier)
{
	return minus(device_used(device, tier), device_spare(device, tier));
}

static void lending_sum_up(struct lent *l, uint64_t now)
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
		l->stays[tier] = minus(lending_in_use(device, tier), movable);
		if (tier == SEGMENT_ON_DEVICE)
			l->movable = movable;
	}
	l->summed_ns = now;
}

/* Writes the process's memory on the own peer record. */
static void lending_fill(struct lent *l, struct peer_record *record)
{
	const struct device *device = l->shared->device;
	uint64_t on_host = device_used(device, SEGMENT_ON_HOST);

	record->held = device_used(device, SEGMENT_ON_DEVICE);
	/* Memory that is made for a move to come has not come, whenever it was added up. */
	record->movable = l->grant.since_ns ? least(record->held, l->movable)
	                                    : minus(record->held, l->stays[SEGMENT_ON_DEVICE]);
	record->on_host = minus(lending_in_use(device, SEGMENT_ON_HOST), l->stays[SEGMENT_ON_HOST]);
	record->context = l->context;
	record->link = link_bytes(device, SEGMENT_ON_HOST, SECOND);
	l->told[SEGMENT_ON_DEVICE] = record->held;
	l->told[SEGMENT_ON_HOST] = on_host;
}

/* Returns whether memory on the host finds no room on the device, for other jobs' sake. */
static bool is_blocked(struct device *device, const struct terms *terms)
{
	uint32_t blocker;

	lock_acquire(&device->lock);
	blocker = device->facts.blocker;
	lock_release(&device->lock);
	return !terms->settings.evict && blocker == MOVE_DEVICE_FULL;
}

/*
 * Returns whether other processes have not reported their memory yet: a process that meets them
 * first waits for it, for a while.
 */
static bool is_meeting(struct lent *l, uint64_t now)
{
	bool is_first = !l->met_ns;

	for (int i = 0; i < l->shared->others.count; i++) {
		if (l->shared->others.other[i].record.tells_memory ||
		    l->shared->others.other[i].is_silent)
			continue;
		l->met_ns = is_first ? now : l->met_ns;
		/* Other processes may have looked for peer records just before ours was there. */
		if (is_first || now - l->called_ns >= GRANT_TICK_NS) {
			peers_ring(&l->shared->others);
			l->called_ns = now;
		}
		return now - l->met_ns <= MEET_NS;
	}
	l->met_ns = 0;
	return false;
}

/* Returns whether there are other jobs, all of which could claim the memory they are owed. */
static bool all_tell(const struct lent *l)
{
	for (int i = 0; i < l->shared->others.count; i++)
		if (!l->shared->others.other[i].record.tells_memory)
			return false;
	return l->shared->others.count != 0;
}

/* --- actions --- */

/* Writes a change of hands into the ring, so far as there was one. */
static void lending_note(enum event_kind kind, const struct lent *l,
                         const struct peer_record *record, uint64_t bytes)
{
	if (bytes)
		event_note(.kind = kind, .device = l->shared->device->id.ordinal, .a = bytes,
		           .b = record->held, .c = record->on_host);
}

/* Rings where there is news, and again where that was not heard. */
static void lending_tell(struct lent *l, bool is_news)
{
	if (!is_news && !l->unheard)
		return;
	l->unheard = is_news ? RING_AGAIN : l->unheard - 1;
	if (peers_ring(&l->shared->others))
		l->unheard = 0;
}

static void lending_poll_device(struct lent *l, uint64_t now)
{
	struct device *device = l->shared->device;
	const struct terms terms = terms_of(device);
	struct grant_needs needs = {.now_ns = now, .memory = device->id.memory, .free = UINT64_MAX};
	uint64_t idle = idle_since(now, &terms);
	struct grant_answer answer;
	struct peer_record *record;
	uint64_t claimed;
	bool meets;

	lending.is_idle = idle != 0;
	l->polled_ns = now;
	meets = is_meeting(l, now);
	/*
	 * No claim is raised before all have reported: a job that has not would count as holding
	 * nothing.
	 */
	if (!meets || l->grant.since_ns) {
		needs.must = shortage_claimed(device, &needs.tries);
		needs.is_blocked = is_blocked(device, &terms);
	}
	if (needs.must && !capture_is_active())
		in_use_free(device, &needs.free);
	l->must_since_ns = !needs.must ? 0 : l->must_since_ns ? l->must_since_ns : now;
	lending_sum_up(l, now);
	record = peer_edit(&l->shared->own);
	record->idle_since_ns = idle;
	record->tells_memory = 1;
	lending_fill(l, record);
	claimed = record->claim;
	grant_decide(&l->grant, &needs, record, geteuid(), &l->shared->others, &answer);
	record->yielded = least(record->yielded, record->on_host);
	record->waits = answer.why;
	lending_note(EVENT_claim, l, record, claimed ? 0 : record->claim);
	lending_note(EVENT_yield, l, record, answer.gave);
	lending_note(EVENT_grant, l, record, answer.took);
	peer_publish(&l->shared->own, now);
	lending_tell(l, answer.tells);
	yield_set(device, YIELD_FOR_CLAIM, answer.bound);
	yield_on_call(device, all_tell(l), answer.margin);
	if (needs.must && answer.must_is_decided &&
	    (!answer.was_short || now - l->must_since_ns > INSISTS_NS))
		shortage_decide(device);
	else if (answer.has_room)
		wanted_fill(device);
	l->due_ns = meets                                              ? now + MEET_TICK_NS
	            : answer.is_busy || l->must_since_ns || l->unheard ? now + GRANT_TICK_NS
	            : answer.bound != UINT64_MAX || needs.is_blocked   ? now + WAITS_NS
	                                                               : UINT64_MAX;
}

/* Returns whether the own peer record is no longer true, or another peer record claims. */
static bool has_news(const struct lent *l, uint64_t now)
{
	const struct sharing *s = l->shared;
	const struct terms terms = terms_of(s->device);
	bool is_idle = now - gate_unused_since(now) >= terms.settings.idle_yield;

	for (int i = 0; i < s->others.count; i++)
		if (s->others.other[i].record.claim)
			return true;
	if (now - l->polled_ns < SUM_NS)
		return false;
	return lending.is_idle != (is_idle || terms.settings.evict) ||
	       l->told[SEGMENT_ON_DEVICE] != device_used(s->device, SEGMENT_ON_DEVICE) ||
	       l->told[SEGMENT_ON_HOST] != device_used(s->device, SEGMENT_ON_HOST);
}

/* Goes one step on. Returns after how long the next is due. By the sharing thread. */
static uint64_t lending_step(uint64_t now)
{
	static uint32_t called; /* the sharing thread's */
	uint32_t calls = atomic_load(&shortage_called);
	uint64_t due_ns = UINT64_MAX;

	for (int i = 0; i < lending.devices->count; i++) {
		struct lent *l = lent_of(i);

		if (!l)
			continue;
		if (calls != called || now >= l->due_ns || has_news(l, now))
			lending_poll_device(l, now);
		due_ns = least(due_ns, l->due_ns);
	}
	called = calls;
	gate_tell(lending.is_idle ? &shortage_called : NULL);
	return due_ns == UINT64_MAX ? due_ns : minus(due_ns, now);
}

/* Returns whether our peer record is no longer true, or another claims. */
static bool lending_has_news(uint64_t now)
{
	for (int i = 0; i < lending.devices->count; i++)
		if (sharing_of(i) && (!lending.of[i] || has_news(lending.of[i], now)))
			return true;
	return false;
}

/*
 * Begins to decide the claims of a call, which may come before we have looked for other processes.
 */
static bool lending_begin(const struct device *device)
{
	return sharing_join(device->id.ordinal) && sharing_begin();
}

/* Keeps the devices. Called once, before other threads of the shim. */
static void lending_start(struct device_set *devices)
{
	lending.devices = devices;
	shortage_serve(lending_begin);
}

/* --- the module's hooks --- */

static void sharing_module_start(bool *has_started)
{
	lending_start(&this_job.devices);
	*has_started &= exclusive_begin();
}

static void sharing_share(uint64_t now_ns, uint64_t *again_ns)
{
	uint64_t lending_ns = lending_step(now_ns), exclusive_ns = exclusive_step(now_ns);

	if (*again_ns > lending_ns)
		*again_ns = lending_ns;
	if (*again_ns > exclusive_ns)
		*again_ns = exclusive_ns;
}

static void sharing_look(uint64_t now_ns, bool *has_news)
{
	*has_news |= lending_has_news(now_ns);
}

const struct module module_sharing = {.name = "sharing",
                                      .start = sharing_module_start,
                                      .share = sharing_share,
                                      .look = sharing_look,
                                      .let_go = exclusive_hold_let_go};
