/* The history of launches, and the pattern in it. */
#include "core/steps/history.h"

#include <string.h>

enum {
	MIN_RETURNS = 8,
	SURE_LAUNCHES = 3000,
	SURE_UNITS = 32,
};
static const uint64_t sure_ns = 500000000;

void step_history_clear(struct step_history *history)
{
	memset(history, 0, sizeof(*history));
}

uint16_t step_history_function(struct step_history *history, uint64_t key)
{
	uint16_t *slot = step_history_slot(history, key);

	if (!*slot) {
		if (history->function_count == STEP_FUNCTIONS)
			return STEP_NONE;
		history->functions[history->function_count] = (struct step_function){.key = key};
		*slot = (uint16_t)++history->function_count;
	}
	return (uint16_t)(*slot - 1);
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

/* How often each function is in the history: in `total`. Returns the launches in it. */
static uint32_t count_events(struct step_history *history)
{
	uint32_t launches = 0;

	clear_counts(history);
	for (uint32_t i = 0; i < history->event_count; i++) {
		history->functions[history->events[i].function].count.total++;
		launches += history->events[i].launches;
	}
	return launches;
}

struct frequency {
	uint16_t function, launches;
};

/* The more frequent, else the better anchor. */
static bool precedes(const struct step_history *history, uint32_t f, struct frequency other)
{
	const struct step_function *function = &history->functions[f];

	return function->count.total > other.launches ||
	       (function->count.total == other.launches &&
	        step_is_better(function, &history->functions[other.function]));
}

/* After count_events(): the functions that are in the history at least `least` times, the most frequent first. */
static uint32_t by_frequency(const struct step_history *history, uint32_t least,
                             struct frequency *order)
{
	uint32_t found = 0, at;

	for (uint32_t f = 0; f < history->function_count; f++) {
		if (history->functions[f].count.total < least)
			continue;
		for (at = found++; at > 0 && precedes(history, f, order[at - 1]); at--)
			order[at] = order[at - 1];
		order[at] = (struct frequency){(uint16_t)f, history->functions[f].count.total};
	}
	return found;
}

/* Takes the muted functions' events out; their launches are added to the next that stays. */
static void close_ranks(struct step_history *history)
{
	uint32_t kept = 0, launches = 0;

	for (uint32_t i = 0; i < history->event_count; i++) {
		struct step_event event = history->events[i];

		launches += event.launches;
		if (history->functions[event.function].muted)
			continue;
		event.launches = launches < UINT16_MAX ? (uint16_t)launches : UINT16_MAX;
		launches = 0;
		history->events[kept++] = event;
	}
	history->event_count = kept;
	history->unwritten += launches;
}

bool step_history_thin(struct step_history *history)
{
	struct frequency order[STEP_FUNCTIONS];
	uint32_t left = history->event_count, found;

	count_events(history);
	found = by_frequency(history, 2, order);
	/* Where most came once or twice, what is left would show no period. */
	if (found < 4 || order[found / 2].launches < MIN_RETURNS / 2)
		return false;
	for (uint32_t i = 0; i < found - 2 && left > STEP_EVENTS / 2; i++) {
		history->functions[order[i].function].muted = true;
		history->has_muted = true;
		left -= order[i].launches;
	}
	close_ranks(history);
	return left < STEP_EVENTS;
}

void step_history_forget(struct step_history *history)
{
	uint16_t moved[STEP_FUNCTIONS] = {0};
	uint32_t kept = 0;

	count_events(history);
	memset(history->slots, 0, sizeof(history->slots));
	for (uint32_t f = 0; f < history->function_count; f++) {
		const struct step_function *function = &history->functions[f];

		if (!function->count.total && !function->muted)
			continue;
		moved[f] = (uint16_t)kept;
		history->functions[kept] = *function;
		*step_history_slot(history, function->key) = (uint16_t)++kept;
	}
	history->function_count = kept;
	for (uint32_t i = 0; i < history->event_count; i++)
		history->events[i].function = moved[history->events[i].function];
}

/* --- from one return of the anchor to the next --- */

struct interval {
	uint32_t from, to; /* events; the last is the return that closes it */
	uint32_t launches, away;
	bool begun;
};

static bool next_interval(const struct step_history *history, const struct step_pattern *pattern,
                          struct interval *interval)
{
	interval->from = interval->to;
	interval->launches = 0;
	while (interval->to < history->event_count) {
		const struct step_event *event = &history->events[interval->to++];
		uint32_t away;

		interval->launches += event->launches;
		interval->away += event->launches;
		if (event->function != pattern->anchor)
			continue;
		away = interval->away;
		interval->away = 0;
		if (away <= pattern->gap)
			continue;
		if (interval->begun)
			return true;
		interval->begun = true;
		interval->from = interval->to;
		interval->launches = 0;
	}
	return false;
}

/* Counts the interval's launches in `now`; returns how many of the covering functions are among them. */
static uint32_t count_interval(struct step_history *history, const struct interval *interval)
{
	uint32_t covered = 0;

	for (uint32_t i = interval->from; i < interval->to; i++) {
		struct step_function *function = &history->functions[history->events[i].function];

		if (function->count.now++ == 0)
			covered += function->covers;
	}
	return covered;
}

/* The next function of the interval that was not met yet, and how often it is in it: its `now` is 0 then. */
static struct step_function *meet(struct step_history *history, const struct interval *interval,
                                  uint32_t *at, uint16_t *now)
{
	for (; *at < interval->to; ++*at) {
		struct step_function *function = &history->functions[history->events[*at].function];

		*now = function->count.now;
		function->count.now = 0;
		if (*now)
			return function;
	}
	return NULL;
}

/*
 * The anchor's returns. False: they are too few, or not those of a step: what is launched in a loop within it, a layer
 * say, returns quickly, and then not for long.
 */
static bool returns_evenly(const struct step_history *history, struct step_pattern *pattern)
{
	uint32_t intervals[33] = {0}, launches[33] = {0}; /* by length, in powers of 2 */
	uint32_t first = 0, last = 0, below = 0, in_long = 0, usual = 0;
	struct interval interval = {0};

	pattern->returns = pattern->launches = 0;
	while (next_interval(history, pattern, &interval)) {
		uint32_t length = 32 - (uint32_t)__builtin_clz(interval.launches);

		if (!pattern->returns++)
			first = interval.from - 1;
		last = interval.to - 1;
		pattern->launches += interval.launches;
		intervals[length]++;
		launches[length] += interval.launches;
	}
	/* At the end nobody returns; what went on in the beginning need not go on. */
	if (pattern->returns < MIN_RETURNS ||
	    (uint64_t)interval.launches * pattern->returns > pattern->launches * 8ull)
		return false;
	pattern->events = last - first;
	pattern->ns = (uint64_t)(history->events[last].tick - history->events[first].tick) << 16;
	while ((below += intervals[usual]) * 2 < pattern->returns)
		usual++;
	for (uint32_t length = usual + 3; length < 33; length++)
		in_long += launches[length];
	return in_long * 4ull <= pattern->launches;
}

/* Which functions are in most of so many; returns how often they are in the history. */
static uint32_t cover(struct step_history *history, struct step_pattern *pattern, uint32_t count)
{
	uint32_t total = 0;

	pattern->covering = 0;
	for (uint32_t f = 0; f < history->function_count; f++) {
		struct step_function *function = &history->functions[f];

		function->covers = function->count.present * 10u > count * 7;
		pattern->covering += function->covers;
		total += function->covers ? function->count.total : 0;
	}
	return total;
}

/*
 * Whether most of what is launched comes with most returns. A layer's functions do not: the other pass has others.
 * Where it is far from true at first, it is not looked further.
 */
static bool covers_most(struct step_history *history, struct step_pattern *pattern)
{
	struct step_function *function;
	struct interval interval = {0};
	uint32_t at, returns = 0, events = 0;
	uint16_t now;

	clear_counts(history);
	while (next_interval(history, pattern, &interval)) {
		returns++;
		events += interval.to - interval.from;
		count_interval(history, &interval);
		for (at = interval.from; (function = meet(history, &interval, &at, &now));) {
			function->count.total += now;
			function->count.present++;
		}
		if (returns == pattern->returns / 4 && returns >= MIN_RETURNS &&
		    cover(history, pattern, returns) * 2 < events)
			return false;
	}
	return cover(history, pattern, returns) * 4 >= events * 3;
}

static bool next_unit(struct step_history *history, const struct step_pattern *pattern,
                      struct interval *interval)
{
	while (next_interval(history, pattern, interval)) {
		if (step_covers(pattern, count_interval(history, interval)))
			return true;
		for (uint32_t i = interval->from; i < interval->to; i++)
			history->functions[history->events[i].function].count.now = 0;
	}
	return false;
}

/* Over units alone: in how many a function is, and how often it usually is in one, by a vote. */
static void count_units(struct step_history *history, struct step_pattern *pattern)
{
	struct step_function *function;
	struct interval interval = {0};
	uint32_t at, votes = 0;
	uint16_t now;

	clear_counts(history);
	pattern->units = 0;
	while (next_unit(history, pattern, &interval)) {
		pattern->units++;
		if (!votes)
			pattern->length = interval.launches;
		votes += pattern->length == interval.launches ? 1 : -1u;
		for (at = interval.from; (function = meet(history, &interval, &at, &now));) {
			struct step_count *count = &function->count;

			count->total += now;
			count->present++;
			if (!count->votes)
				count->usual = now;
			if (count->usual == now)
				count->votes++;
			else
				count->votes--;
		}
	}
}

/* In how many units functions are as often as usual; how many units are as long as most. */
static void match_units(struct step_history *history, struct step_pattern *pattern)
{
	struct step_function *function;
	struct interval interval = {0};
	uint32_t at;
	uint16_t now;

	pattern->alike = 0;

	while (next_unit(history, pattern, &interval)) {
		pattern->alike += interval.launches == pattern->length;
		for (at = interval.from; (function = meet(history, &interval, &at, &now));)
			function->count.matches += now == function->count.usual;
	}
}

/* Gives the functions their roles. */
static void cast(struct step_history *history, struct step_pattern *pattern)
{
	pattern->steady = pattern->usual = 0;
	pattern->reshaped = true;
	for (uint32_t f = 0; f < history->function_count; f++) {
		struct step_function *function = &history->functions[f];
		const struct step_count *count = &function->count;

		if (function->covers && count->matches * 4u >= pattern->units * 3) {
			function->role = STEP_STEADY;
			function->expected = count->usual;
			pattern->reshaped &= step_is_reshaped(function);
			pattern->steady++;
			pattern->usual += count->usual;
		} else if (count->present * 3u >= pattern->units || function->muted) {
			function->role = STEP_VARYING;
			function->expected = STEP_ANY;
		} else {
			function->role = STEP_FOREIGN;
			function->expected = 0;
		}
	}
}

/* Whether the anchor's returns close units; fills in the rest of the pattern and gives the functions their roles. */
static bool judge(struct step_history *history, struct step_pattern *pattern)
{
	const struct step_function *anchor = &history->functions[pattern->anchor];

	if (!returns_evenly(history, pattern) || !covers_most(history, pattern))
		return false;
	count_units(history, pattern);
	if (pattern->units < MIN_RETURNS)
		return false;
	cover(history, pattern, pattern->units);
	match_units(history, pattern);
	cast(history, pattern);
	/* By chance functions come in any number. */
	if (pattern->length == 1 && pattern->alike * 4 >= pattern->units * 3)
		return !step_is_reshaped(anchor);
	return pattern->steady - (anchor->role == STEP_STEADY) > 0 &&
	       pattern->steady * 3 >= pattern->covering;
}

/* For how many launches a function stays away when it is launched in bursts; 0: it is not. */
static uint32_t burst_gap(const struct step_history *history, uint16_t function)
{
	uint32_t count = 0, longer = 0;
	uint64_t sum = 0, longer_sum = 0;

	for (int pass = 0; pass < 2; pass++) {
		uint32_t away = 0;
		bool begun = false;

		for (uint32_t i = 0; i < history->event_count; i++) {
			away += history->events[i].launches;
			if (history->events[i].function != function)
				continue;
			if (begun && pass == 0) {
				sum += away;
				count++;
			} else if (begun && away * (uint64_t)count > sum) {
				longer_sum += away;
				longer++;
			}
			begun = true;
			away = 0;
		}
	}
	if (longer < MIN_RETURNS || longer_sum * count < 2 * sum * longer)
		return 0;
	return (uint32_t)(longer_sum / longer / 2);
}

static bool is_sure(const struct step_pattern *pattern)
{
	return pattern->launches >= SURE_LAUNCHES ||
	       (pattern->units >= SURE_UNITS &&
	        (pattern->launches >= SURE_LAUNCHES / 3 || pattern->ns >= sure_ns));
}

/* Nearly as many: a few more or less say nothing. */
static bool is_as_fine(uint32_t units, uint32_t others)
{
	return (units + 1) * 100ull >= others * 97ull;
}

static bool is_better_pattern(const struct step_history *history, const struct step_pattern *a,
                              const struct step_pattern *b)
{
	const struct step_function *x = &history->functions[a->anchor];
	const struct step_function *y = &history->functions[b->anchor];

	/* Launched once rather than in bursts, which may lie too close to be told from each other. */
	if (!a->gap != !b->gap)
		return !a->gap;
	return step_is_better(x, y);
}

bool step_history_find(struct step_history *history, struct step_pattern *pattern)
{
	struct step_pattern best = {0}, candidate;
	struct frequency order[STEP_FUNCTIONS];
	uint32_t launches = count_events(history);
	uint32_t candidates = by_frequency(history, MIN_RETURNS + 1, order);

	for (uint32_t i = 0; i < candidates && is_as_fine(order[i].launches, best.units); i++) {
		for (uint32_t bursts = 0; bursts < 2; bursts++) {
			candidate =
			    (struct step_pattern){.anchor = order[i].function, .gap = bursts};
			if (best.units && is_as_fine(best.units, order[i].launches) &&
			    !is_better_pattern(history, &candidate, &best))
				break;
			if (bursts && !(candidate.gap = burst_gap(history, order[i].function)))
				break;
			if (!judge(history, &candidate) || candidate.launches * 4ull < launches)
				continue;
			if (is_as_fine(candidate.units, best.units) &&
			    (!is_as_fine(best.units, candidate.units) || !best.units ||
			     is_better_pattern(history, &candidate, &best)))
				best = candidate;
			break;
		}
	}
	if (!best.units || !is_sure(&best))
		return false;
	*pattern = best;
	return judge(history, pattern);
}
