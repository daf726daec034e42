/* SPDX-License-Identifier: MIT */
/*
 * What is remembered of the launches, and the pattern in it.
 *
 * A function is known by a key: its own, or its own and its grid's. Where a step is long the most
 * frequent functions are muted, so that the history of a fixed size reaches further back.
 */
#include "core/steps/detector.h"

#include <string.h>

enum {
	SURE_LAUNCHES = 3000,
	SURE_UNITS = 32,
};
static const uint64_t sure_ns = 500000000;

uint16_t step_history_function(struct step_history *history, uint64_t key)
{
	uint64_t hash = key * 0x9e3779b97f4a7c15u;
	uint32_t slot = (uint32_t)(hash >> 53);

	for (; history->slots[slot]; slot = (slot + 1) % STEP_SLOTS)
		if (history->functions[history->slots[slot] - 1].key == key)
			return history->slots[slot] - 1;
	if (history->function_count == STEP_FUNCTIONS)
		return (uint16_t)(hash >> 32 & (STEP_FUNCTIONS - 1));
	history->functions[history->function_count].key = key;
	history->slots[slot] = (uint16_t)++history->function_count;
	return history->slots[slot] - 1;
}

static void append(struct step_history *history, struct step_event event, uint32_t launches)
{
	event.launches = launches < UINT16_MAX ? (uint16_t)launches : UINT16_MAX;
	history->events[history->event_count++] = event;
}

void step_history_write(struct step_history *history, uint16_t function, uint64_t now_ns)
{
	history->unwritten++;
	if (history->functions[function].muted)
		return;
	append(history, (struct step_event){.function = function, .tick = (uint32_t)(now_ns >> 16)},
	       history->unwritten);
	history->unwritten = 0;
}

void step_history_halve(struct step_history *history)
{
	uint32_t gone = history->event_count / 2;

	history->event_count -= gone;
	memmove(history->events, history->events + gone,
	        sizeof(*history->events) * history->event_count);
}

static void clear_counts(struct step_history *history)
{
	for (uint32_t f = 0; f < history->function_count; f++)
		history->functions[f].count = (struct step_count){0};
}

static bool is_reshaped(const struct step_function *function)
{
	return function->reshaped > function->launches / 4;
}

bool step_is_better(const struct step_function *a, const struct step_function *b)
{
	return (uint64_t)a->idle_us * b->launches > (uint64_t)b->idle_us * a->launches;
}

struct frequency {
	uint16_t function, launches;
};

/*
 * Orders the functions that are in the history at least `least` times: the most frequent first,
 * else the better anchor.
 */
static uint32_t by_frequency(struct step_history *history, uint32_t least, struct frequency *order)
{
	uint32_t found = 0;

	clear_counts(history);
	for (uint32_t i = 0; i < history->event_count; i++)
		history->functions[history->events[i].function].count.total++;
	for (uint32_t f = 0; f < history->function_count; f++) {
		const struct step_function *function = &history->functions[f];
		uint16_t total = function->count.total;
		uint32_t at;

		if (total < least)
			continue;
		for (at = found++; at > 0 && total >= order[at - 1].launches; at--) {
			if (total == order[at - 1].launches &&
			    !step_is_better(function, &history->functions[order[at - 1].function]))
				break;
			order[at] = order[at - 1];
		}
		order[at] = (struct frequency){(uint16_t)f, total};
	}
	return found;
}

/* Takes the muted functions' events out; their launches are added to the next that stays. */
static void close_ranks(struct step_history *history)
{
	uint32_t count = history->event_count, launches = 0;

	history->event_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct step_event event = history->events[i];

		launches += event.launches;
		if (history->functions[event.function].muted)
			continue;
		append(history, event, launches);
		launches = 0;
	}
	history->unwritten += launches;
}

bool step_history_thin(struct step_history *history)
{
	struct frequency order[STEP_FUNCTIONS];
	uint32_t left = history->event_count, found = by_frequency(history, 2, order);

	if (found < 4)
		return false;
	for (uint32_t i = 0; i < found - 2 && left > STEP_EVENTS / 2; i++) {
		history->functions[order[i].function].muted = true;
		left -= order[i].launches;
	}
	close_ranks(history);
	return left < STEP_EVENTS;
}

/* --- whether a function is an anchor --- */

/* From one return of the anchor to the next. */
struct interval {
	uint32_t from, to; /* events; the last is the return that closes it */
	uint32_t launches;
	bool begun;
};

static bool next_interval(const struct step_history *history, uint16_t anchor,
                          struct interval *interval)
{
	interval->from = interval->to;
	interval->launches = 0;
	while (interval->to < history->event_count) {
		const struct step_event *event = &history->events[interval->to++];

		interval->launches += event->launches;
		if (event->function != anchor)
			continue;
		if (interval->begun)
			return true;
		interval->begun = true;
		interval->from = interval->to;
		interval->launches = 0;
	}
	return false;
}

/*
 * Looks at the anchor's returns. Returns false if they are too few, or not those of a step: what is
 * launched in a loop within it, a layer say, returns quickly, and then not for long.
 */
static bool returns_evenly(const struct step_history *history, struct step_pattern *pattern)
{
	uint32_t intervals[33] = {0}, launches[33] = {0}; /* by length, in powers of 2 */
	uint32_t first = 0, last = 0, below = 0, in_long = 0, usual = 0;
	struct interval interval = {0};

	pattern->returns = pattern->launches = 0;
	while (next_interval(history, pattern->anchor, &interval)) {
		uint32_t length = 32 - (uint32_t)__builtin_clz(interval.launches);

		if (!pattern->returns++)
			first = interval.from - 1;
		last = interval.to - 1;
		pattern->launches += interval.launches;
		intervals[length]++;
		launches[length] += interval.launches;
	}
	if (pattern->returns < STEP_MIN_RETURNS)
		return false;
	pattern->events = last - first;
	pattern->ns = (uint64_t)(history->events[last].tick - history->events[first].tick) << 16;
	while ((below += intervals[usual]) * 2 < pattern->returns)
		usual++;
	for (uint32_t length = usual + 3; length < 33; length++)
		in_long += launches[length];
	return in_long * 4ull <= pattern->launches;
}

/* Counts what is in an interval, if it is a unit. */
static bool count_interval(struct step_history *history, const struct step_pattern *pattern,
                           const struct interval *interval)
{
	uint32_t covered = 0;
	bool is_unit;

	for (uint32_t i = interval->from; i < interval->to; i++) {
		struct step_function *function = &history->functions[history->events[i].function];

		if (function->count.now++ == 0)
			covered += function->covers;
	}
	is_unit = step_covers(pattern, covered);
	for (uint32_t i = interval->from; i < interval->to; i++) {
		struct step_count *count = &history->functions[history->events[i].function].count;

		if (is_unit && count->now) {
			if (!count->votes)
				count->usual = count->now;
			count->votes += count->usual == count->now ? 1 : UINT16_MAX;
			count->total += count->now;
			count->present++;
		}
		count->now = 0;
	}
	return is_unit;
}

/* Counts the units; while nothing is known to cover them, that is every interval. */
static void count_units(struct step_history *history, struct step_pattern *pattern)
{
	struct interval interval = {0};

	clear_counts(history);
	pattern->units = 0;
	while (next_interval(history, pattern->anchor, &interval))
		pattern->units += count_interval(history, pattern, &interval);
}

/* Finds out which functions are in most units. Returns how often these are in the history. */
static uint32_t cover(struct step_history *history, struct step_pattern *pattern)
{
	uint32_t total = 0;

	pattern->covering = 0;
	for (uint32_t f = 0; f < history->function_count; f++) {
		struct step_function *function = &history->functions[f];

		function->covers = function->count.present * 10u > pattern->units * 7;
		pattern->covering += function->covers;
		total += function->covers ? function->count.total : 0;
	}
	return total;
}

/* Writes down with the functions what they are to the pattern. */
static void cast(struct step_history *history, struct step_pattern *pattern)
{
	pattern->steady = 0;
	for (uint32_t f = 0; f < history->function_count; f++) {
		struct step_function *function = &history->functions[f];
		const struct step_count *count = &function->count;

		function->steady = function->covers && count->votes * 2u >= pattern->units;
		function->expected = function->steady ? count->usual : STEP_ANY;
		if (function->steady) {
			pattern->steady++;
		} else if (count->present * 3u < pattern->units && !function->muted) {
			function->expected = 0;
		}
	}
}

/*
 * Judges whether the anchor's returns close units: most of what is launched comes with most
 * returns, which is not true of a layer's functions, because the other pass has others; and a part
 * of it is always as often in a unit.
 */
static bool judge(struct step_history *history, struct step_pattern *pattern)
{
	pattern->covering = 0;
	if (!returns_evenly(history, pattern))
		return false;
	count_units(history, pattern);
	if (cover(history, pattern) * 4 < pattern->events * 3)
		return false;
	count_units(history, pattern);
	if (pattern->units < STEP_MIN_RETURNS)
		return false;
	cover(history, pattern);
	cast(history, pattern);
	/* By chance functions come in any number; and of what does everything, grids tell more. */
	if (pattern->covering == 1)
		return !is_reshaped(&history->functions[pattern->anchor]);
	return pattern->steady * 3 >= pattern->covering;
}

static bool is_sure(const struct step_pattern *pattern)
{
	return pattern->launches >= SURE_LAUNCHES ||
	       (pattern->units >= SURE_UNITS && pattern->ns >= sure_ns);
}

/* Returns whether units are nearly as many: a few more or less say nothing. */
static bool is_as_fine(uint32_t units, uint32_t others)
{
	return (units + 1) * 100ull >= others * 97ull;
}

bool step_history_find(struct step_history *history, struct step_pattern *pattern)
{
	struct step_pattern best = {0}, candidate;
	struct frequency order[STEP_FUNCTIONS];
	uint32_t candidates = by_frequency(history, STEP_MIN_RETURNS + 1, order);

	for (uint32_t i = 0; i < candidates && is_as_fine(order[i].launches, best.units); i++) {
		const struct step_function *function = &history->functions[order[i].function];

		candidate = (struct step_pattern){.anchor = order[i].function};
		if (best.units && is_as_fine(best.units, order[i].launches) &&
		    !step_is_better(function, &history->functions[best.anchor]))
			continue;
		if (judge(history, &candidate) && is_as_fine(candidate.units, best.units))
			best = candidate;
	}
	if (!best.units || !is_sure(&best))
		return false;
	*pattern = best;
	return judge(history, pattern);
}
