/* SPDX-License-Identifier: MIT */
/*
 * Time that others leave. The watcher reads the others' cards and decides (sharing/best_effort.h);
 * who launches looks at two words. Of a job that others ask for it writes the card (heartbeat.h).
 * Rules: as watch.c; launches call gap_binds() and gap_is_open() alone.
 */
#include "core/config/config.h"
#include "core/cuda/capture.h"
#include "core/pace/pacer_private.h"
#include "core/pace/watch.h"

/* For so long after its last launch a job asks the others whether they work. */
#define ASKS_NS 1000000000ull
/* Between two looks for new cards. */
#define LOOK_NS 500000000ull

void pacer_share(struct pacer *p, const struct pacer_cards *cards)
{
	if (p->has_cards)
		return;
	p->cards = *cards;
	atomic_store(&p->has_cards, true);
	if (pacer_is_pacing(p))
		watch_call();
}

/* Says on the card that nobody looks any more whether we work. */
static void hush(struct pacer *p)
{
	struct card *card;

	lock_acquire(&p->heartbeat_lock);
	card = card_edit(p->cards.own);
	card->working = CARD_UNKNOWN;
	card->gap_since_ns = card->gap_ns = card->burst_ends_ns = 0;
	card->in_flight = 1;
	card_publish(p->cards.own, clock_now());
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

bool gap_binds(const struct pacer *p)
{
	return p->has_cards && p->gives_way && !watch_is_missing;
}

bool gap_is_open(struct pacer *p, uint64_t now)
{
	if (!gap_binds(p))
		return true;
	atomic_store(&p->gap_wanted, now);
	if (now < p->gap_until)
		return true;
	watch_call();
	return false;
}

/* Says on the card, for a while, that we ask. Notes which card is ours. */
static void say_that_we_ask(struct pacer *p, uint64_t now)
{
	struct card *card = card_edit(p->cards.own);

	card->asked_ns = now + CARD_ASKS_NS;
	card->takes_ppm = p->best_effort.takes_ppm;
	p->cards.others->own_token = p->cards.own->place.token;
	card_publish(p->cards.own, now);
}

static uint64_t watch_gaps(struct pacer *p, uint64_t now)
{
	uint64_t wanted = p->gap_wanted;
	struct best_effort_go go;
	bool was_open;

	if (!wanted || (now > wanted && now - wanted > ASKS_NS))
		return 0;
	if (!p->cards_ns || now - p->cards_ns > LOOK_NS) {
		/* Whose card is opened looks at ours (cards_ring()). */
		say_that_we_ask(p, now);
		p->cards.look(p->cards.others, now);
		p->cards_ns = now;
	} else {
		p->cards.copy(p->cards.others, now);
	}
	/* Who has the lock may be in the driver: what was known last serves as well. */
	if (lock_try(&p->lock)) {
		p->own.longest_ns = p->longest_ns;
		p->own.in_flight = !p->landed_ns;
		lock_release(&p->lock);
	}
	p->own.priority = p->priority;
	go = best_effort_decide(&p->best_effort, p->cards.others, &p->own, now);
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
		again = heartbeat_look(&p->heartbeat, p->ordinal, p->statistics, p->cards.own,
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

	if (!p->has_cards || p->lets_go)
		return 0;
	if (gap_binds(p))
		gaps = watch_gaps(p, clock_now());
	if (p->tells)
		heartbeat = watch_heartbeat(p, clock_now());
	return !gaps || (heartbeat && heartbeat < gaps) ? heartbeat : gaps;
}
