/* The beacon. Rules: on the watcher's thread, in relaxed capture mode. */
#include "core/pace/beacon.h"

#include "core/cuda/context.h"
#include "core/cuda/events.h"

/* Between two looks: while it works, for longer the longer it does; and likewise in a gap. */
#define WORKS_LEAST_NS 200000u
#define WORKS_MOST_NS  5000000u
#define IDLE_LEAST_NS  100000u
#define IDLE_MOST_NS   1000000u

static uint64_t between(uint64_t least, uint64_t value, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Returns the place of a context, taken if it is new; -1: all are taken. */
static int place_of(struct beacon *b, CUcontext context)
{
	int free_one = -1;

	for (int i = 0; i < BEACON_CONTEXTS; i++) {
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

/* Asks one context, which is current, whether what it was given is done. */
static enum card_working ask(struct beacon *b, int i, bool records)
{
	CUcontext context = b->at[i].context;
	CUresult result;

	if (!b->at[i].event)
		b->at[i].event = events_take(context);
	if (!b->at[i].event)
		return CARD_UNKNOWN;
	if (records && driver.cuCtxRecordEvent(context, b->at[i].event) != CUDA_SUCCESS)
		return CARD_UNKNOWN;
	result = driver.cuEventQuery(b->at[i].event);
	return result == CUDA_SUCCESS           ? CARD_IDLE
	       : result == CUDA_ERROR_NOT_READY ? CARD_WORKS
	                                        : CARD_UNKNOWN;
}

/* Asks all contexts of the device. */
static enum card_working ask_all(struct beacon *b, int ordinal, bool records)
{
	enum card_working all = CARD_IDLE, one;
	struct context context;

	for (size_t n = 0; context_at(n, &context); n++) {
		int i;

		if (context.of->ordinal != ordinal)
			continue;
		i = place_of(b, context.handle);
		if (i < 0 || context_push(context.handle) != CUDA_SUCCESS)
			return CARD_UNKNOWN;
		one = ask(b, i, records);
		context_pop(context.handle);
		if (one > all)
			all = one;
	}
	return all;
}

static enum card_working look(struct beacon *b, int ordinal, bool moved, bool may_call)
{
	enum card_working working;

	if (!may_call) {
		b->is_ahead = false;
		return CARD_UNKNOWN;
	}
	if (moved) {
		b->is_ahead = false;
		return CARD_WORKS;
	}
	/* A launch is counted before the driver has it: recorded is what came a look before. */
	working = ask_all(b, ordinal, !b->is_ahead);
	/* One that waited in the driver for room came after that. */
	if (working == CARD_IDLE && b->working != CARD_IDLE && b->is_ahead)
		working = ask_all(b, ordinal, true);
	b->is_ahead = working != CARD_UNKNOWN;
	return working;
}

static void change(struct beacon *b, enum card_working working, uint64_t now)
{
	if (b->working == CARD_IDLE && b->since_ns && working == CARD_WORKS)
		gaps_note(&b->gaps, now - b->since_ns);
	b->working = working;
	b->since_ns = now;
}

uint64_t beacon_look(struct beacon *b, int ordinal, const struct counters *counters,
                     struct card_own *own, bool may_call, uint64_t now_ns)
{
	uint64_t launches =
	    counters_get(counters, launches) + counters_get(counters, graph_launches);
	enum card_working working = look(b, ordinal, launches != b->launches, may_call);
	struct feedback_loss loss;
	struct card *card;
	bool is_told;

	b->launches = launches;
	if (working != b->working || !b->since_ns)
		change(b, working, now_ns);
	card = card_edit(own);
	is_told = feedback_look(&b->feedback, now_ns, launches, card->slowdown_ppm, &loss);
	card->working = (uint8_t)working;
	card->launches = launches;
	card->looked_ns = now_ns;
	card->idle_since_ns = working == CARD_IDLE ? b->since_ns : 0;
	card->in_flight = working != CARD_IDLE;
	card->gap_ns = working == CARD_IDLE ? gaps_expect(&b->gaps, now_ns - b->since_ns) : 0;
	if (is_told) {
		card->loss_number++;
		card->loss_ppm = loss.loss_ppm;
		card->loss_error_ppm = loss.error_ppm;
		card->speed_alone = loss.alone;
		card->speed_now = loss.now;
	}
	card_publish(own, now_ns);
	if (working == CARD_IDLE)
		return between(IDLE_LEAST_NS, (now_ns - b->since_ns) / 256, IDLE_MOST_NS);
	return between(WORKS_LEAST_NS, (now_ns - b->since_ns) / 64, WORKS_MOST_NS);
}

void beacon_forget_context(struct beacon *b, CUcontext context)
{
	for (int i = 0; i < BEACON_CONTEXTS; i++)
		if (b->at[i].context == context) {
			b->at[i].context = NULL;
			b->at[i].event = NULL;
		}
	b->is_ahead = false;
}
