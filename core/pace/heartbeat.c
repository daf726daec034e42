/* SPDX-License-Identifier: MIT */
/* The heartbeat. Rules: on the watcher's thread, in relaxed capture mode. */
#include "core/pace/heartbeat.h"

#include "core/cuda/context.h"
#include "core/cuda/events.h"

/* Between two looks: while it works, for longer the longer it does; and likewise in a gap. */
#define WORKS_LEAST_NS 200000u
#define WORKS_MOST_NS  5000000u
#define IDLE_LEAST_NS  100000u
#define IDLE_MOST_NS   1000000u
/* So many looks an event may need on a device that has nothing else to do. */
enum { CONFIRMATIONS_MOST = 4 };

static uint64_t heartbeat_between(uint64_t least, uint64_t value, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Returns the place of a context, taken if it is new; -1: all are taken. */
static int heartbeat_place_of(struct heartbeat *b, CUcontext context)
{
	int free_one = -1;

	for (int i = 0; i < HEARTBEAT_CONTEXTS; i++) {
		if (b->at[i].context == context)
			return i;
		if (!b->at[i].context && free_one < 0)
			free_one = i;
	}
	if (free_one >= 0) {
		b->at[free_one].context = context;
		b->at[free_one].event = NULL;
	}
	return free_one;
}

/* Asks one context, which is current, whether its work is done. */
static enum peer_working heartbeat_ask(struct heartbeat *b, int i, bool records)
{
	CUcontext context = b->at[i].context;
	CUresult result;

	if (!b->at[i].event)
		b->at[i].event = events_take(context);
	if (!b->at[i].event)
		return PEER_UNKNOWN;
	if (records && driver.cuCtxRecordEvent(context, b->at[i].event) != CUDA_SUCCESS)
		return PEER_UNKNOWN;
	result = driver.cuEventQuery(b->at[i].event);
	return result == CUDA_SUCCESS           ? PEER_IDLE
	       : result == CUDA_ERROR_NOT_READY ? PEER_WORKS
	                                        : PEER_UNKNOWN;
}

/* Asks all contexts of the device. */
static enum peer_working heartbeat_ask_all(struct heartbeat *b, int ordinal, bool records)
{
	enum peer_working all = PEER_IDLE, one;
	struct context context;

	for (size_t n = 0; context_at(n, &context); n++) {
		int i;

		if (context.of->ordinal != ordinal)
			continue;
		i = heartbeat_place_of(b, context.handle);
		if (i < 0 || context_push(context.handle) != CUDA_SUCCESS)
			return PEER_UNKNOWN;
		one = heartbeat_ask(b, i, records);
		context_pop(context.handle);
		if (one > all)
			all = one;
	}
	return all;
}

/* Asks again, with events that are recorded now: the work before them was in the driver before. */
static enum peer_working heartbeat_confirm(struct heartbeat *b, int ordinal)
{
	b->recorded = CONFIRMS;
	b->confirmations = 0;
	return heartbeat_ask_all(b, ordinal, true);
}

/* Asks the contexts, of which nothing was launched since the last look. */
static enum peer_working ask_still(struct heartbeat *b, int ordinal)
{
	bool is_first = b->recorded == NOT_RECORDED, was_idle = b->working == PEER_IDLE;
	enum peer_working working = heartbeat_ask_all(b, ordinal, is_first);

	if (is_first)
		b->recorded = working == PEER_IDLE ? CONFIRMS : RECORDED;
	/*
	 * A launch is counted before the driver has it, long before where it waits there for room:
	 * an event that was recorded while other work ran may not come after it.
	 */
	if (working == PEER_IDLE && !was_idle && b->recorded == RECORDED)
		return heartbeat_confirm(b, ordinal);
	/* A device with nothing to do passes an event soon; else there was such a launch. */
	if (working == PEER_WORKS && b->recorded == CONFIRMS &&
	    ++b->confirmations > CONFIRMATIONS_MOST)
		b->recorded = RECORDED;
	return working;
}

static enum peer_working heartbeat_do_look(struct heartbeat *b, int ordinal, bool moved,
                                           bool may_call)
{
	enum peer_working working = PEER_UNKNOWN;

	if (may_call && moved)
		working = PEER_WORKS;
	else if (may_call)
		working = ask_still(b, ordinal);
	if (moved || working == PEER_UNKNOWN)
		b->recorded = NOT_RECORDED;
	return working;
}

static void heartbeat_change(struct heartbeat *b, enum peer_working working, uint64_t now)
{
	if (b->working == PEER_IDLE && b->since_ns && working == PEER_WORKS)
		gaps_note(&b->gaps, now - b->since_ns);
	if (b->working == PEER_WORKS && b->since_ns && working == PEER_IDLE)
		gaps_note(&b->bursts, now - b->since_ns);
	b->working = working;
	b->since_ns = now;
}

uint64_t heartbeat_look(struct heartbeat *b, int ordinal, const struct counters *counters,
                        struct peer_own *own, bool may_call, uint64_t now_ns)
{
	uint64_t launches =
	    counters_get(counters, launches) + counters_get(counters, graph_launches);
	enum peer_working working =
	    heartbeat_do_look(b, ordinal, launches != b->launches, may_call);
	uint64_t ends_ns = 0, again_ns;
	struct feedback_loss loss;
	struct peer_record *record;
	bool is_told;

	b->launches = launches;
	if (working != b->working || !b->since_ns)
		heartbeat_change(b, working, now_ns);
	if (working == PEER_WORKS)
		ends_ns = gaps_expect(&b->bursts, now_ns - b->since_ns);
	ends_ns += ends_ns ? b->since_ns : 0;
	record = peer_edit(own);
	is_told = feedback_look(&b->feedback, now_ns, launches, record->slowdown_ppm, &loss);
	record->working = (uint8_t)working;
	record->launches = launches;
	record->looked_ns = now_ns;
	record->gap_since_ns = working == PEER_IDLE ? b->since_ns : 0;
	record->in_flight = working != PEER_IDLE;
	record->burst_ends_ns = ends_ns;
	record->gap_ns = working == PEER_IDLE ? gaps_expect(&b->gaps, now_ns - b->since_ns) : 0;
	if (is_told) {
		record->loss_number++;
		record->loss_ppm = loss.loss_ppm;
		record->loss_error_ppm = loss.error_ppm;
		record->speed_alone = loss.alone;
		record->speed_now = loss.now;
	}
	peer_publish(own, now_ns);
	if (b->recorded == CONFIRMS && working == PEER_WORKS)
		return IDLE_LEAST_NS;
	if (working == PEER_IDLE)
		return heartbeat_between(IDLE_LEAST_NS, (now_ns - b->since_ns) / 256, IDLE_MOST_NS);
	again_ns = (now_ns - b->since_ns) / 64;
	/*
	 * A look takes time from the program's threads. For example, a step of 8 ms that is like
	 * the last ones is looked at 14 times, not 40 times, and when it should end. One that is
	 * shorter is seen later by a quarter of its length at most.
	 */
	if (ends_ns > now_ns && again_ns < (ends_ns - now_ns) / 2)
		again_ns =
		    heartbeat_between(again_ns, (ends_ns - now_ns) / 2, (now_ns - b->since_ns) / 4);
	again_ns = heartbeat_between(WORKS_LEAST_NS, again_ns, WORKS_MOST_NS);
	return ends_ns > now_ns && again_ns > ends_ns - now_ns
	           ? heartbeat_between(IDLE_LEAST_NS, ends_ns - now_ns, again_ns)
	           : again_ns;
}

void heartbeat_forget_context(struct heartbeat *b, CUcontext context)
{
	for (int i = 0; i < HEARTBEAT_CONTEXTS; i++)
		if (b->at[i].context == context) {
			b->at[i].context = NULL;
			b->at[i].event = NULL;
		}
	b->recorded = NOT_RECORDED;
}
