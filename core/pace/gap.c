/* SPDX-License-Identifier: MIT */
/*
 * Time that other jobs leave. The watcher reads the peer records and decides
 * (sharing/best_effort.h); a launching thread looks at two words. For a job that is asked it writes
 * the peer record (heartbeat.h). Rules: as watch.c; launches do not come here.
 */
#include "core/config/config.h"
#include "core/cuda/capture.h"
#include "core/pace/pacer_private.h"
#include "core/pace/watch.h"

/* For so long after its last launch a job asks the others whether they work. */
#define ASKS_NS 1000000000ull
/* Between two looks for new peer records. */
#define LOOK_NS 500000000ull

void pacer_share(struct pacer *p, const struct pacer_peers *peers)
{
	if (p->has_peers)
		return;
	p->peers = *peers;
	atomic_store(&p->has_peers, true);
	if (pacer_is_pacing(p))
		watch_call();
}

/* Writes on the peer record that no process looks any more whether we work. */
static void hush(struct pacer *p)
{
	struct peer_record *record;

	lock_acquire(&p->heartbeat_lock);
	record = peer_edit(p->peers.own);
	record->working = PEER_UNKNOWN;
	record->gap_since_ns = record->gap_ns = record->burst_ends_ns = 0;
	record->in_flight = 1;
	peer_publish(p->peers.own, clock_now());
	lock_release(&p->heartbeat_lock);
}

void pacer_heed(struct pacer *p, bool is_asked)
{
	if (atomic_exchange(&p->tells, is_asked) == is_asked)
		return;
	if (is_asked)
		watch_call();
	else
		hush(p);
}

/* Says on the peer record, for a while, that we ask. Notes which peer record is ours. */
static void say_that_we_ask(struct pacer *p, uint64_t now)
{
	struct peer_record *record = peer_edit(p->peers.own);

	record->asked_ns = now + PEER_ASKS_NS;
	record->takes_ppm = p->best_effort.takes_ppm;
	p->peers.others->own_token = p->peers.own->place.token;
	peer_publish(p->peers.own, now);
}

static uint64_t watch_gaps(struct pacer *p, uint64_t now)
{
	uint64_t wanted = p->gap_wanted;
	struct best_effort_go go;
	bool was_open;

	if (!wanted || (now > wanted && now - wanted > ASKS_NS))
		return 0;
	if (!p->peers_ns || now - p->peers_ns > LOOK_NS) {
		/* A process whose peer record is opened looks at ours (peers_ring()). */
		say_that_we_ask(p, now);
		p->peers.look(p->peers.others, now);
		p->peers_ns = now;
	} else {
		p->peers.copy(p->peers.others, now);
	}
	/* The holder of the lock may be in the driver: the last figures serve as well. */
	if (lock_try(&p->lock)) {
		p->own.longest_ns = p->longest_ns;
		p->own.in_flight = !p->landed_ns;
		lock_release(&p->lock);
	}
	p->own.priority = p->priority;
	go = best_effort_decide(&p->best_effort, p->peers.others, &p->own, now);
	was_open = now < p->gap_until;
	p->gap_round_ns = go.round_ns;
	p->gap_is_sure = go.is_sure;
	p->gap_until = go.until_ns;
	if (!was_open && now < go.until_ns)
		clock_in_use->wake(&p->changed);
	return go.again_ns;
}

static uint64_t watch_heartbeat(struct pacer *p, uint64_t now)
{
	uint64_t again = 0;
	bool may_call;

	lock_acquire(&p->heartbeat_lock);
	if (p->tells) {
		may_call = capture_sync_enter();
		again = heartbeat_look(&p->heartbeat, p->ordinal, p->statistics, p->peers.own,
		                       may_call, now);
		if (may_call)
			capture_sync_leave();
	}
	lock_release(&p->heartbeat_lock);
	return again;
}

uint64_t gap_watch(struct pacer *p)
{
	uint64_t gaps = 0, heartbeat = 0;

	if (!p->has_peers || p->lets_go)
		return 0;
	if (gap_binds(p))
		gaps = watch_gaps(p, clock_now());
	if (p->tells)
		heartbeat = watch_heartbeat(p, clock_now());
	return !gaps || (heartbeat && heartbeat < gaps) ? heartbeat : gaps;
}
