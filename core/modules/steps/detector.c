/* SPDX-License-Identifier: MIT */
/*
 * Step detection: remembers launches, seeks a pattern in that history, then follows the pattern
 * launch by launch. Memory of a fixed size; no clock, no lock, no allocation.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/modules/steps/step.h"

enum {
	STEP_FUNCTIONS = 1024, /* where there are more, several are taken for one */
	STEP_SLOTS = 2048,
	STEP_EVENTS = 4096,
	STEP_VISITORS = 64,
	STEP_MIN_RETURNS = 8,
	STEP_ANY = UINT16_MAX, /* of `expected`: any number */
	STEP_NONE = UINT16_MAX,
};

enum step_phase {
	STEP_SEEKING,
	STEP_TRYING, /* steps are counted, but not told: it may be a loop within a step */
	STEP_TRUSTING,
};

/* Counts of a function while a pattern is sought, over units. */
struct step_count {
	uint16_t now, total, present;
	uint16_t usual, votes; /* the number in most units, found by a vote: pro less contra */
};

/*
 * For a function that is not in every unit, while a pattern is followed: after how many units it
 * comes again.
 */
struct step_rhythm {
	uint32_t last;  /* the unit it was in last; 0: none */
	uint16_t every; /* units from one to the next */
	uint8_t votes;  /* for this number */
	uint8_t groups; /* since it is this number: units that the function was in */
	uint8_t exact;  /* of these, just so many after the one before */
	uint8_t spoilt; /* of these, together with other work */
	uint8_t run;    /* times in a row that it was away for a few units at most */
	uint8_t runs;   /* that were long, and after which it was long away */
};

struct step_function {
	uint64_t key;
	uint32_t launches; /* this and the next three: while a pattern is sought or tried */
	uint32_t idle_us;  /* after its launches until the next launch */
	uint32_t shape;    /* of its newest launch */
	uint32_t reshaped; /* launches with another shape than the one before */
	union {
		struct step_count count;
		struct step_rhythm rhythm;
	};
	uint32_t unit;    /* number of the unit it was launched in last */
	uint16_t in_unit; /* launches in that unit */
	uint16_t
	    expected; /* launches in a unit: a number, STEP_ANY, 0 where it belongs to few units */
	bool steady : 1; /* it is in most units, as often in nearly all of them */
	bool covers : 1; /* it is in most units */
	bool closes : 1; /* it comes with every k-th */
	bool muted : 1;  /* its launches stay out of the history, which so reaches further back */
};

/* A launch. */
struct step_event {
	uint16_t function;
	uint16_t launches; /* since the event before it, this one included; at most UINT16_MAX */
	uint32_t tick;     /* time, in 2^16 ns */
};

struct step_history {
	struct step_function functions[STEP_FUNCTIONS];
	uint16_t slots[STEP_SLOTS]; /* index of a function + 1 */
	uint32_t function_count, event_count;
	uint32_t unwritten; /* launches since the newest event */
	struct step_event events[STEP_EVENTS];
};

/*
 * A pattern: the anchor's returns close units. The counts are those of the history it was found in.
 */
struct step_pattern {
	uint16_t anchor;
	uint32_t covering; /* functions that are in most units */
	uint32_t steady;   /* functions that keep their number */
	uint32_t returns, units;
	uint32_t events,
	    launches;  /* from the first return to the last; launches: those not written included */
	uint64_t ns;   /* likewise */
	uint32_t late; /* launches after which the anchor should have come long ago */
};

struct step_detector {
	struct step_history history;
	struct step_pattern pattern;
	enum step_phase phase;
	uint32_t position; /* launches so far */

	/* --- seeking --- */
	bool by_shape;            /* functions are told apart by their grids, too */
	uint32_t next_look;       /* events */
	uint32_t failed;          /* times that the history was full in vain */
	uint32_t rest, next_rest; /* launches that are not looked at */
	uint32_t regular;         /* position since which a pattern was seen; 0: it was not */
	uint64_t regular_ns;      /* when that was */
	uint64_t newest_ns;
	uint16_t newest_function;

	/* --- trying --- */
	bool is_loop;   /* many units are of one kind, then many of another: a step has both */
	uint32_t stray; /* launches that belong to no unit, since the pattern was found */
	uint32_t tried_position; /* where the attempt began */
	uint64_t tried_since_ns; /* when it began */

	/* --- the unit --- */
	uint32_t unit;      /* its number, of all that the anchor closed */
	uint32_t true_unit; /* likewise, of those that are units */
	uint32_t late_position;
	uint32_t true_position;           /* where the newest that is a unit ended */
	uint64_t true_ns;                 /* when it did */
	uint32_t covered;                 /* of the functions that most units have */
	uint32_t odd;                     /* launches that do not belong to it */
	uint32_t excess;                  /* steady functions that came too often */
	uint32_t excess_launches;         /* of these, that many too many */
	uint32_t excess_usual;            /* of these, as many as usual */
	uint32_t closers_seen;            /* of the functions that close steps */
	uint16_t visitors[STEP_VISITORS]; /* functions in it that are not in every one */
	uint32_t visitor_count;

	/* --- units lately --- */
	uint32_t odd_units; /* in a row */
	uint32_t bare;      /* in a row, with some of the functions that most units have */

	/* --- the step --- */
	uint32_t closing; /* units in it */
	uint32_t closers; /* functions that close it */
	uint32_t units;   /* so far */
	bool is_mixed;    /* other work came in it */
	bool closed;
	uint64_t before;   /* steps of patterns that came to their end */
	uint64_t since_ns; /* the launch of the first step, or of the earliest counted one */
	uint32_t owed;     /* steps that ended and are to be told */
	struct step newest;
};
_Static_assert(sizeof(struct step_detector) <= 98304, "the public header promises this");

/* Returns whether so many of the covering functions make a unit. */
static inline bool step_covers(const struct step_pattern *pattern, uint32_t covered)
{
	return covered * 5 >= pattern->covering * 3;
}

/*
 * The remembered launches, and the pattern in them.
 *
 * A function is known by a key: its own, or its own and its grid's. Where a step is long the most
 * frequent functions are muted, so that the history of a fixed size reaches further back.
 */

enum {
	SURE_LAUNCHES = 3000,
	SURE_UNITS = 32,
};
static const uint64_t sure_ns = 500000000;

/* --- the history --- */

/* Returns the function with this key, which is made if there is room; else one that it shares. */
static uint16_t step_history_function(struct step_history *history, uint64_t key)
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

static void detector_append(struct step_history *history, struct step_event event,
                            uint32_t launches)
{
	event.launches = launches < UINT16_MAX ? (uint16_t)launches : UINT16_MAX;
	history->events[history->event_count++] = event;
}

static void step_history_write(struct step_history *history, uint16_t function, uint64_t now_ns)
{
	history->unwritten++;
	if (history->functions[function].muted)
		return;
	detector_append(history,
	                (struct step_event){.function = function, .tick = (uint32_t)(now_ns >> 16)},
	                history->unwritten);
	history->unwritten = 0;
}

/* Forgets the oldest half. */
static void step_history_halve(struct step_history *history)
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

/*
 * Returns whether `a` is the better anchor: more time passes after it, because there steps end.
 */
static bool step_is_better(const struct step_function *a, const struct step_function *b)
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
		detector_append(history, event, launches);
		launches = 0;
	}
	history->unwritten += launches;
}

/*
 * Mutes the most frequent functions, so that half of the history becomes free. Returns false if too
 * few would remain.
 */
static bool step_history_thin(struct step_history *history)
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
 * Looks at the anchor's returns. Returns false if they are too few, or not those of a step: a
 * function in a loop within it, a layer for example, returns quickly, and then not for long.
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

/* Counts an interval, if it is a unit. */
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
static void history_count_units(struct step_history *history, struct step_pattern *pattern)
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

/* Writes down with the functions their part in the pattern. */
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
 * Judges whether the anchor's returns close units. Most launches must come with most returns, which
 * is not true of a layer's functions, because the other pass has different ones. Part of the
 * launches must always be as often in a unit.
 */
static bool detector_judge(struct step_history *history, struct step_pattern *pattern)
{
	pattern->covering = 0;
	if (!returns_evenly(history, pattern))
		return false;
	history_count_units(history, pattern);
	if (cover(history, pattern) * 4 < pattern->events * 3)
		return false;
	history_count_units(history, pattern);
	if (pattern->units < STEP_MIN_RETURNS)
		return false;
	cover(history, pattern);
	cast(history, pattern);
	/*
	 * By chance functions come in any number; and for functions that do everything, grids tell
	 * more.
	 */
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

/*
 * Finds the pattern with the shortest units, and writes down with the functions their part in it.
 * Returns false if none is certain enough.
 */
static bool step_history_find(struct step_history *history, struct step_pattern *pattern)
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
		if (detector_judge(history, &candidate) && is_as_fine(candidate.units, best.units))
			best = candidate;
	}
	if (!best.units || !is_sure(&best))
		return false;
	*pattern = best;
	return detector_judge(history, pattern);
}

/* --- following: units and steps by the anchor's returns --- */

enum {
	LATE_UNITS = 16, /* that the anchor is away */
	ODD_UNITS = 16,  /* in a row: they are so now */
	MIN_GROUPS = 5,  /* of functions that close steps */
	NEAR = 4,        /* units */
	FAR = 32,        /* likewise */
	LONG_RUN = 8,    /* units */
	MIN_RUNS = 3,
	MIN_COVERS = 16, /* units in a row */
};

static void detector_begin_step(struct step_detector *d)
{
	d->units = 0;
	d->is_mixed = d->closed = false;
}

static void begin_unit(struct step_detector *d)
{
	d->unit++;
	d->covered = d->odd = d->excess = d->excess_launches = d->excess_usual = d->visitor_count =
	    d->closers_seen = 0;
	d->late_position = d->position + d->pattern.late;
}

/* --- steps --- */

static void end_steps(struct step_detector *d, uint32_t steps)
{
	d->newest.number += steps;
	d->owed += steps;
	d->newest.is_whole = !d->is_mixed;
	detector_begin_step(d);
}

/* --- functions that come with every k-th unit --- */

/*
 * Returns whether k is one. A function of every 10th step is a validation that was compiled on its
 * own.
 */
static bool is_accumulation(uint32_t units)
{
	return (units >= 2 && units <= 8) || units == 16 || units == 32 || units == 64;
}

static bool is_closer(const struct step_function *function, uint32_t groups)
{
	const struct step_rhythm *rhythm = &function->rhythm;
	uint32_t others = rhythm->groups - rhythm->exact;

	/* By chance some function comes after the same number of units a few times in a row. */
	return !function->covers && is_accumulation(rhythm->every) && rhythm->groups >= groups &&
	       others * 4 <= (rhythm->groups > 4 ? rhythm->groups - 4u : 0) &&
	       rhythm->spoilt * 5 <= rhythm->groups;
}

/* Returns whether some function closes steps, or so it seems as yet. */
static bool step_may_have_closer(const struct step_detector *d)
{
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		const struct step_function *function = &d->history.functions[f];

		if (is_closer(function, 2))
			return true;
	}
	return false;
}

/* Notes that the function was in a unit again, `away` units after the one before. */
static void keep_rhythm(struct step_rhythm *rhythm, uint32_t away, bool spoilt)
{
	if (away > NEAR) {
		rhythm->runs += rhythm->run >= LONG_RUN && away >= FAR && rhythm->runs < UINT8_MAX;
		rhythm->run = 0;
	} else if (rhythm->run < UINT8_MAX) {
		rhythm->run++;
	}
	if (!rhythm->votes) {
		rhythm->every = away < UINT16_MAX ? (uint16_t)away : 0;
		rhythm->groups = rhythm->exact = rhythm->spoilt = 0;
	}
	if (rhythm->every == away && rhythm->votes < 64)
		rhythm->votes++;
	else if (rhythm->every != away)
		rhythm->votes--;
	rhythm->exact += rhythm->every == away;
	rhythm->spoilt += spoilt;
	if (++rhythm->groups == UINT8_MAX) {
		rhythm->groups /= 2;
		rhythm->exact /= 2;
		rhythm->spoilt /= 2;
	}
}

/* Takes units for the parts of steps that they turn out to be. */
static void join_units(struct step_detector *d, uint32_t closing)
{
	d->closing = closing;
	d->closers = 0;
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		struct step_function *function = &d->history.functions[f];

		function->closes = is_closer(function, 2) && function->rhythm.every == closing;
		d->closers += function->closes;
		if (function->closes)
			function->expected = STEP_ANY;
	}
	d->newest.number = d->before + (d->newest.number - d->before) / closing;
	d->newest.is_first = true;
	d->owed = 0;
	detector_begin_step(d);
	d->closed = true;
}

/*
 * Looks, at the end of a unit or of another interval, at the functions in it that are not in every
 * one.
 */
static void look_at_visitors(struct step_detector *d, bool spoilt)
{
	uint32_t closing = 0;

	for (uint32_t i = 0; i < d->visitor_count; i++) {
		struct step_function *function = &d->history.functions[d->visitors[i]];
		struct step_rhythm *rhythm = &function->rhythm;

		if (rhythm->last == d->true_unit)
			continue;
		if (rhythm->last)
			keep_rhythm(rhythm, d->true_unit - rhythm->last, spoilt);
		rhythm->last = d->true_unit;
		if (is_closer(function, MIN_GROUPS) && (!closing || rhythm->every < closing))
			closing = rhythm->every;
		if (function->muted && rhythm->every == 1 && rhythm->votes >= MIN_COVERS) {
			function->covers = true;
			d->pattern.covering++;
		}
		d->is_loop |= rhythm->runs >= MIN_RUNS;
	}
	if (closing && d->closing == 1)
		join_units(d, closing);
}

/*
 * Returns whether most of the muted functions are in each unit; random ones are not, however alike
 * the rest may be.
 */
static bool step_has_muted(const struct step_detector *d)
{
	uint64_t all = 0, regular = 0;

	for (uint32_t f = 0; f < d->history.function_count; f++) {
		const struct step_function *function = &d->history.functions[f];
		const struct step_rhythm *rhythm = &function->rhythm;

		if (!function->muted || (!function->covers && !rhythm->last))
			continue;
		all += function->launches;
		if (function->covers ||
		    (rhythm->every == 1 && rhythm->groups >= 5 && rhythm->exact == rhythm->groups))
			regular += function->launches;
	}
	return regular * 5 >= all * 2;
}

/* --- units that are not as usual --- */

/*
 * Finds out whether a return did not come: of functions that are launched once in a unit nearly all
 * came several times. Another of them is the anchor from now on. Returns how often it came; 1:
 * nothing of the kind.
 */
static uint32_t hidden_units(struct step_detector *d)
{
	const struct step_function *best = NULL, *functions = d->history.functions;
	bool doubled;

	if (!d->excess)
		return 1;
	/* Functions that came too often came twice as often as usual. */
	doubled = d->excess_launches * 4 >= d->excess_usual * 3 &&
	          d->excess_launches * 4 <= d->excess_usual * 5;
	/*
	 * The bound lies between a validation, which leaves out the backward pass, and a step in
	 * which nearly all functions come too often.
	 */
	if (d->excess * 20 < (d->pattern.steady - 1) * (doubled ? 9 : 11))
		return 1;
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		const struct step_function *function = &functions[f];

		if (function->steady && function->expected == 1 && function->unit == d->unit &&
		    function->in_unit > 1 && (!best || step_is_better(function, best)))
			best = function;
	}
	if (!best)
		return 1;
	d->pattern.anchor = (uint16_t)(best - functions);
	return best->in_unit;
}

/* Takes the new length of most units for the usual one. */
static void get_used_to(struct step_detector *d)
{
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		struct step_function *function = &d->history.functions[f];

		if (function->unit == d->unit && function->in_unit > function->expected) {
			function->steady = false;
			function->expected = STEP_ANY;
		}
	}
	d->odd_units = 0;
}

/* --- the ends of units --- */

/*
 * Counts units that are over, the last with so many of the functions that close steps, and perhaps
 * a step with them.
 */
static void count_units(struct step_detector *d, uint32_t units, uint32_t closers)
{
	d->true_unit += units;
	d->true_position = d->position;
	d->true_ns = d->newest_ns;
	d->units += units;
	if (d->closed && d->units == 1 && d->closing > 1 && closers < d->closers) {
		/* The closing function came late, or it lies on both sides of the anchor. */
		detector_begin_step(d);
		return;
	}
	if (d->closed || d->units >= d->closing)
		end_steps(d, d->closing == 1 ? units : 1);
}

/* Ends a unit, or another interval: the anchor returned. */
static void end_unit(struct step_detector *d)
{
	const struct step_pattern *pattern = &d->pattern;
	uint32_t closers = d->closers_seen, units;
	bool odd = d->odd * 4ull * pattern->returns >= pattern->events;
	bool covered = step_covers(pattern, d->covered);
	/* Alone, it is a unit that left something out; several in a row are a validation. */
	bool bare = d->covered * 5 >= pattern->covering * 2;

	/* Other work that uses the same functions may lie in it, such as a validation. */
	look_at_visitors(d, !covered || d->excess * 5 > pattern->steady);
	units = hidden_units(d);
	d->odd_units = covered && odd && units == 1 ? d->odd_units + 1 : 0;
	if (d->odd_units == ODD_UNITS)
		get_used_to(d);
	begin_unit(d);
	if (!covered && bare && !d->bare++)
		return;
	d->is_mixed |= !covered || odd;
	if (!covered)
		return;
	units += d->bare == 1;
	d->bare = 0;
	count_units(d, units, closers);
}

/* Takes one launch. Steps that ended with it are counted in `owed`. */
static void step_follow(struct step_detector *d, uint16_t f)
{
	struct step_function *function = &d->history.functions[f];

	if (function->unit != d->unit) {
		function->unit = d->unit;
		function->in_unit = 0;
		if (function->covers)
			d->covered++;
		else if (d->visitor_count < STEP_VISITORS)
			d->visitors[d->visitor_count++] = f;
		d->closers_seen += function->closes;
		d->closed |= d->closers_seen * 2 > d->closers;
	}
	function->in_unit += function->in_unit < STEP_ANY;
	if (function->in_unit > function->expected) {
		d->odd++;
		d->stray += !function->expected;
		if (function->steady) {
			d->excess_launches++;
			if (function->in_unit == function->expected + 1) {
				d->excess++;
				d->excess_usual += function->expected;
			}
		}
	}
	if (f == d->pattern.anchor)
		end_unit(d);
}

/* Takes another anchor's word, at late_position, when the anchor has been away for many units. */
static void step_late(struct step_detector *d)
{
	uint32_t units = hidden_units(d);

	d->late_position = d->position + d->pattern.late;
	if (units == 1)
		return;
	begin_unit(d);
	d->is_mixed = true;
	count_units(d, units, 0);
}

/* --- phases: seeking, trying, trusting --- */

/* Goes through the history by the pattern that was just found, for the steps in it. */
static void step_follow_start(struct step_detector *d)
{
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		struct step_function *function = &d->history.functions[f];

		function->rhythm = (struct step_rhythm){0};
		function->closes = false;
		function->unit = 0;
	}
	d->newest.number = d->before;
	d->pattern.late = LATE_UNITS * (d->pattern.launches / d->pattern.returns + 1);
	d->unit = 0;
	d->true_unit = 1;
	d->closing = 1;
	d->bare = 0;
	d->is_loop = false;
	detector_begin_step(d);
	begin_unit(d);
	for (uint32_t i = 0; i < d->history.event_count; i++)
		step_follow(d, d->history.events[i].function);
	d->true_position = d->position;
	d->true_ns = d->newest_ns;
	d->owed = d->odd_units = d->stray = 0;
}

enum {
	FIRST_LOOK = 64,      /* events */
	FEW_FUNCTIONS = 16,   /* which may do everything */
	FIRST_REST = 1 << 16, /* launches; twice as many each time that nothing is found */
	LONGEST_REST = 1 << 20,
	LONGEST_IDLE_NS = 1 << 30,
	LOOK_LAUNCHES = 4096, /* between two looks at whether a pattern still holds */
	ABSENT_UNITS = 256,   /* that none may come: a validation may be long */
	STRAY_PERCENT = 20,   /* of the launches, in no unit */
	MUTED_UNITS = 8,      /* in which muted functions are seen */
	TRUST_UNITS = 256,
	MANY_UNITS = 4096,
};
/*
 * For how long a pattern is tried: with so many units, in any case, and where something seems to
 * close steps.
 */
static const uint64_t trust_units_ns = 1000000000, trust_ns = 2000000000, decide_ns = 10000000000;

/* Seeks with the known functions, and no launch. */
static void seek_on(struct step_detector *d)
{
	d->history.event_count = d->history.unwritten = 0;
	d->newest_function = STEP_NONE;
	d->phase = STEP_SEEKING;
	d->next_look = FIRST_LOOK;
	d->failed = 0;
}

/* Seeks with an empty history. */
static void seek_anew(struct step_detector *d)
{
	memset(&d->history, 0, sizeof(d->history));
	seek_on(d);
}

struct step_detector *step_create(void)
{
	/*
	 * malloc() maps an allocation of this size anew. Its pages are zero, and take no memory
	 * until they are written.
	 */
	enum { LARGE = 1 << 17 };
	struct step_detector *detector = calloc(1, sizeof(*detector) + LARGE);

	if (!detector)
		return NULL;
	seek_on(detector);
	detector->next_rest = FIRST_REST;
	return detector;
}

/* Gives the pattern up, which holds no more; later steps are counted on. */
static void detector_give_up(struct step_detector *d)
{
	seek_anew(d);
	d->before = d->newest.number;
	/* If there will be another pattern, it has probably begun then. */
	d->regular = d->true_position;
	d->regular_ns = d->true_ns;
	d->by_shape = false;
	d->next_rest = FIRST_REST;
}

/* Mutes the functions of a unit that is a loop within one: they tell nothing. */
static void mute_unit(struct step_detector *d)
{
	struct step_history *history = &d->history;

	if (!d->regular) {
		d->regular = d->tried_position;
		d->regular_ns = d->since_ns;
	}
	for (uint32_t f = 0; f < history->function_count; f++) {
		struct step_function *function = &history->functions[f];

		function->muted |= function->covers;
		function->launches = function->reshaped = function->idle_us = 0;
	}
	seek_on(d);
}

/* --- whether to trust it --- */

/*
 * Adds as many steps in proportion as were missed since the launches before the pattern were
 * regular, too.
 */
static void count_back(struct step_detector *d)
{
	uint32_t missed = d->tried_position - d->regular;

	if (d->regular && missed <= INT32_MAX) {
		d->newest.number += (d->newest.number - d->before) * (uint64_t)missed /
		                    (d->position - d->tried_position);
		d->since_ns = d->regular_ns;
	}
	d->regular = 0;
}

/*
 * Tries on a pattern that may be a loop within a step, of some hundred rounds, rather than a loop
 * of steps.
 */
static void try_on(struct step_detector *d, uint64_t now_ns)
{
	uint64_t ns = now_ns - d->tried_since_ns;
	uint32_t launches = d->position - d->tried_position - d->pattern.launches;

	d->owed = 0;
	if (ns < trust_ns && (ns < trust_units_ns || d->true_unit <= TRUST_UNITS) &&
	    d->true_unit <= MANY_UNITS)
		return;
	if (d->true_unit <= d->pattern.units + MUTED_UNITS)
		return;
	if (d->is_loop || !step_has_muted(d) ||
	    d->stray * 100ull > launches * (uint64_t)STRAY_PERCENT) {
		mute_unit(d);
	} else if (d->closing > 1 || ns > decide_ns || !step_may_have_closer(d)) {
		d->phase = STEP_TRUSTING;
		d->owed = 1;
		count_back(d);
		d->newest.is_first = true;
	}
}

/* Looks whether the pattern still holds. */
static void look_again(struct step_detector *d)
{
	uint32_t absent = d->position - d->true_position - LOOK_LAUNCHES;

	if (d->is_loop)
		mute_unit(d);
	else if ((int32_t)absent > 0 && (uint64_t)absent * d->pattern.returns >
	                                    (uint64_t)ABSENT_UNITS * d->pattern.launches)
		detector_give_up(d);
}

/* --- seeking --- */

/* Follows the pattern that was found, from the beginning of the history. */
static void believe(struct step_detector *d)
{
	struct step_history *history = &d->history;
	uint64_t written = 0, steps;

	step_follow_start(d);
	/* Launches that are no longer in the history had as many steps in proportion. */
	for (uint32_t i = 0; i < history->event_count; i++)
		written += history->events[i].function == d->pattern.anchor;
	steps = d->newest.number - d->before;
	d->since_ns = d->newest_ns - d->pattern.ns;
	if (!d->regular && written && steps) {
		d->newest.number +=
		    steps * (history->functions[d->pattern.anchor].launches - written) / written;
		d->since_ns = d->newest_ns - d->pattern.ns * (d->newest.number - d->before) / steps;
	}
	d->phase = STEP_TRYING;
	d->tried_since_ns = d->newest_ns - d->pattern.ns;
	d->tried_position = d->position - d->pattern.launches;
}

/*
 * Goes on to tell grids apart: a few functions may do everything, each time with another grid. If
 * that was in vain too it rests.
 */
static void seek_otherwise(struct step_detector *d)
{
	d->by_shape = !d->by_shape;
	if (!d->by_shape) {
		d->regular = 0;
		d->rest = d->next_rest;
		if (d->next_rest < LONGEST_REST)
			d->next_rest *= 2;
	}
	seek_anew(d);
}

static void seek(struct step_detector *d)
{
	struct step_history *history = &d->history;

	if (step_history_find(history, &d->pattern)) {
		believe(d);
		return;
	}
	d->next_look = history->event_count + history->event_count / 2;
	if (d->next_look > STEP_EVENTS)
		d->next_look = STEP_EVENTS;
	if (history->event_count < STEP_EVENTS)
		return;
	d->failed++;
	d->newest_function = STEP_NONE;
	if (history->function_count <= FEW_FUNCTIONS || d->by_shape)
		seek_otherwise(d);
	else if (d->failed % 2)
		step_history_halve(history);
	else if (!step_history_thin(history))
		seek_otherwise(d);
}

static bool detector_tell(struct step_detector *d, struct step *ended)
{
	/* Word by word: they have just been written so. */
	ended->number = d->newest.number - --d->owed;
	ended->is_whole = d->newest.is_whole;
	ended->is_first = d->newest.is_first;
	ended->first = d->before;
	ended->first_ns = d->since_ns;
	d->newest.is_first = false;
	return true;
}

static bool launch_followed(struct step_detector *d, uint16_t f, uint64_t now_ns,
                            struct step *ended)
{
	step_follow(d, f);
	if (d->phase == STEP_TRYING && d->owed)
		try_on(d, now_ns);
	if ((int32_t)(d->position - d->late_position) >= 0)
		step_late(d);
	if (d->position % LOOK_LAUNCHES == 0)
		look_again(d);
	return d->owed && d->phase == STEP_TRUSTING && detector_tell(d, ended);
}

bool step_launch(struct step_detector *d, uint64_t key, uint64_t shape, uint64_t now_ns,
                 struct step *ended)
{
	struct step_history *history = &d->history;
	struct step_function *function;
	uint64_t idle_ns;
	uint16_t f;

	/* Threads may have read the clock before they waited for the caller's lock. */
	if (now_ns < d->newest_ns)
		now_ns = d->newest_ns;
	idle_ns = now_ns - d->newest_ns;
	d->newest_ns = now_ns;
	d->position++;
	if (d->rest) {
		d->rest--;
		return false;
	}
	if (d->by_shape)
		key += shape * 0xff51afd7ed558ccdu;
	f = step_history_function(history, key);
	if (d->phase != STEP_SEEKING)
		return launch_followed(d, f, now_ns, ended);
	function = &history->functions[f];
	function->launches++;
	function->reshaped += function->shape != (uint32_t)shape;
	function->shape = (uint32_t)shape;
	if (d->newest_function != STEP_NONE)
		history->functions[d->newest_function].idle_us +=
		    (uint32_t)((idle_ns < LONGEST_IDLE_NS ? idle_ns : LONGEST_IDLE_NS) >> 10);
	d->newest_function = f;
	step_history_write(history, f, now_ns);
	if (history->event_count >= d->next_look)
		seek(d);
	else if (history->unwritten >= LONGEST_REST)
		seek_anew(d); /* every launch is of a muted function */
	return false;
}
