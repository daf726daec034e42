/* Step detection: seeks a pattern in the history, then follows it launch by launch. */
#include <stdlib.h>

#include "core/steps/follow.h"

enum {
	FIRST_LOOK = 64,      /* events */
	MOST_THINNED = 12,    /* times */
	FEW_FUNCTIONS = 16,   /* which may do everything */
	FIRST_REST = 1 << 16, /* launches; twice as many each time that nothing is found */
	LONGEST_REST = 1 << 20,
	LONGEST_IDLE_NS = 1 << 30,
	LOOK_LAUNCHES = 4096, /* between two looks at whether a pattern still holds, at least */
	LOOK_UNITS = 64,      /* likewise */
	ABSENT_UNITS = 256,   /* that the anchor may stay away: a validation may be long */
	STRAY_PERCENT = 20, /* of the launches, in no unit; half as much again once it is trusted */
	MUTED_UNITS = 8,    /* in which what was muted is seen */
	TRUST_UNITS = 256,
	MANY_UNITS = 4096,
};
/* For how long a pattern is tried: with so many units, in any case, and where something seems to close steps. */
static const uint64_t trust_units_ns = 1000000000, trust_ns = 2000000000, decide_ns = 10000000000;

static void seek_anew(struct step_detector *d)
{
	step_history_clear(&d->history);
	d->newest_function = STEP_NONE;
	d->phase = STEP_SEEKING;
	d->next_look = FIRST_LOOK;
	d->thinned = d->failed = d->unknown = 0;
}

struct step_detector *step_create(void)
{
	struct step_detector *detector = calloc(1, sizeof(*detector));

	if (!detector)
		return NULL;
	seek_anew(detector);
	detector->next_rest = FIRST_REST;
	return detector;
}

void step_destroy(struct step_detector *detector)
{
	free(detector);
}

struct step step_newest(const struct step_detector *detector)
{
	return detector->told;
}

/* The pattern holds no more; what comes is counted on. */
static void give_up(struct step_detector *d)
{
	/* If there will be another pattern, it has probably begun then. */
	uint32_t anchor = d->history.functions[d->pattern.anchor].last;

	seek_anew(d);
	d->before = d->newest.number;
	d->regular = anchor;
	d->by_shape = d->by_shape_in_vain = d->folded = false;
	d->next_rest = FIRST_REST;
}

/* What was taken for a unit is a loop within one: its functions say nothing. */
static void mute_unit(struct step_detector *d)
{
	struct step_history *history = &d->history;

	if (!d->regular)
		d->regular = d->tried_position;
	for (uint32_t f = 0; f < history->function_count; f++) {
		struct step_function *function = &history->functions[f];

		function->muted |= function->covers;
		history->has_muted = true;
		function->launches = function->reshaped = function->idle_us = 0;
	}
	history->event_count = history->unwritten = 0;
	d->newest_function = STEP_NONE;
	d->phase = STEP_SEEKING;
	d->next_look = FIRST_LOOK;
	d->failed = 0;
}

/* --- whether to trust it --- */

/* Whether the pattern still holds. */
static bool holds(const struct step_detector *d)
{
	const struct step_pattern *pattern = &d->pattern;
	uint32_t absent = d->position - d->history.functions[pattern->anchor].last;

	return (uint64_t)absent * pattern->returns <=
	       (uint64_t)ABSENT_UNITS * pattern->launches +
	           (uint64_t)LOOK_LAUNCHES * pattern->returns;
}

static bool is_stray(const struct step_detector *d, uint32_t percent)
{
	return d->stray * 100ull > (d->position - d->look_position) * (uint64_t)percent;
}

/* As many steps in proportion since what went before the pattern was regular, too. */
static void count_back(struct step_detector *d)
{
	uint32_t missed = d->tried_position - d->regular;

	if (d->regular && missed <= INT32_MAX)
		d->newest.number += (d->newest.number - d->before) * (uint64_t)missed /
		                    (d->position - d->tried_position);
	d->regular = 0;
}

/* A step ended by a pattern that may be a loop within a step, of some hundred rounds, rather than a loop of steps. */
static void try_on(struct step_detector *d, uint64_t now_ns)
{
	uint64_t ns = now_ns - d->tried_since_ns;

	d->owed = 0;
	if (ns < trust_ns && (ns < trust_units_ns || d->tried_units < TRUST_UNITS) &&
	    d->tried_units < MANY_UNITS)
		return;
	if (d->history.has_muted && d->true_unit - d->tried_unit < MUTED_UNITS)
		return;
	if (d->is_loop || is_stray(d, STRAY_PERCENT) || !step_has_muted(d)) {
		mute_unit(d);
	} else if (d->closing > 1 || ns > decide_ns || !step_may_have_closer(d)) {
		d->phase = STEP_TRUSTING;
		d->owed = 1;
		count_back(d);
		step_forget_times(d);
		step_look_anew(d);
	}
}

static void look_again(struct step_detector *d)
{
	if (d->is_loop) {
		mute_unit(d);
	} else if (!holds(d)) {
		if (d->phase == STEP_TRYING)
			mute_unit(d);
		else
			give_up(d);
	} else if (d->look_units >= LOOK_UNITS && d->phase == STEP_TRUSTING) {
		if (is_stray(d, STRAY_PERCENT * 3 / 2))
			give_up(d);
		else
			step_look_anew(d);
	}
}

/* --- seeking --- */

/* Goes through the history by the pattern found, for the steps so far. */
static void believe(struct step_detector *d)
{
	struct step_history *history = &d->history;
	uint64_t written = 0;
	uint32_t away = 0;

	step_follow_start(d);
	for (uint32_t i = 0; i < history->event_count; i++) {
		uint16_t f = history->events[i].function;

		away += history->events[i].launches;
		step_follow(d, f, away, 0);
		away = f == d->pattern.anchor ? 0 : away;
	}
	/* What is no longer in the history had as many steps in proportion. */
	for (uint32_t i = 0; i < history->event_count; i++)
		written += history->events[i].function == d->pattern.anchor;
	if (!d->regular && written)
		d->newest.number += (d->newest.number - d->before) *
		                    (history->functions[d->pattern.anchor].launches - written) /
		                    written;
	step_forget_times(d);
	d->owed = 0;
	d->phase = STEP_TRYING;
	d->odd_units = 0;
	d->tried_since_ns = d->newest_ns - d->pattern.ns;
	d->tried_units = d->pattern.units;
	d->tried_unit = d->true_unit;
	d->tried_position = d->position - d->pattern.launches;
	step_look_anew(d);
}

/* By functions alone, or by their grids too. failed: by functions alone nothing was found. */
static void seek_otherwise(struct step_detector *d, bool failed)
{
	if (!d->by_shape) {
		d->in_vain = failed;
		if (failed)
			d->regular = 0;
	}
	d->by_shape_in_vain = d->by_shape;
	d->by_shape = !d->by_shape;
	if (!d->by_shape && d->in_vain) {
		d->rest = d->next_rest;
		if (d->next_rest < LONGEST_REST)
			d->next_rest *= 2;
	}
	seek_anew(d);
}

/* More functions than there is room for come again and again: several are taken for one. */
static void fold(struct step_detector *d)
{
	seek_anew(d);
	d->folded = true;
}

/* There is no room for more functions. */
static void forget(struct step_detector *d)
{
	d->unknown = 0;
	if (d->by_shape) {
		seek_otherwise(d, true);
		return;
	}
	step_history_forget(&d->history);
	d->newest_function = STEP_NONE;
	if (d->history.function_count > STEP_FUNCTIONS / 8 * 7)
		fold(d);
}

static void seek(struct step_detector *d)
{
	struct step_history *history = &d->history;
	bool reshaped = false;

	if (step_history_find(history, &d->pattern)) {
		reshaped = !d->by_shape && !d->by_shape_in_vain && d->pattern.reshaped;
		if (d->history.function_count == STEP_FUNCTIONS && !d->folded) {
			if (!d->regular)
				d->regular = d->position - d->pattern.launches;
			fold(d);
			return;
		}
		/* By grids it is the very same each time. */
		if (!reshaped && (!d->by_shape || d->pattern.alike * 2 > d->pattern.units)) {
			believe(d);
			return;
		}
	}
	d->next_look = history->event_count + history->event_count / 2;
	if (d->next_look > STEP_EVENTS)
		d->next_look = STEP_EVENTS;
	if (history->event_count < STEP_EVENTS)
		return;
	d->failed++;
	if (reshaped && !d->regular)
		d->regular = d->position - d->pattern.launches;
	if (reshaped || history->function_count <= FEW_FUNCTIONS) {
		/* A few functions may do everything, each time with another grid. */
		seek_otherwise(d, !reshaped);
		return;
	}
	if (d->by_shape && !d->in_vain && d->failed > 1) {
		/* By functions alone something was found. */
		seek_otherwise(d, true);
		return;
	}
	if (d->failed % 2) {
		step_history_halve(history);
	} else if (d->thinned < MOST_THINNED && step_history_thin(history)) {
		d->thinned++;
	} else {
		seek_otherwise(d, true);
		return;
	}
	step_history_forget(history);
	d->newest_function = STEP_NONE;
}

static bool tell(struct step_detector *d, struct step *ended)
{
	d->owed--;
	d->told = d->newest;
	d->told.number -= d->owed;
	*ended = d->told;
	return true;
}

/* A launch of a function for which there is no room. */
static void launch_unknown(struct step_detector *d)
{
	if (d->phase == STEP_SEEKING) {
		d->history.unwritten++;
		if (++d->unknown == STEP_EVENTS)
			forget(d);
	} else {
		d->odd++;
		d->stray++;
	}
}

bool step_launch(struct step_detector *d, uint64_t key, uint64_t shape, uint64_t now_ns,
                 struct step *ended)
{
	struct step_history *history = &d->history;
	struct step_function *function;
	uint64_t idle_ns;
	uint32_t away;
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
	if (d->folded)
		key = key * 0x9e3779b97f4a7c15u >> 32 & (STEP_FUNCTIONS - 1);
	f = step_history_function(history, key);
	if (f == STEP_NONE) {
		launch_unknown(d);
		return false;
	}
	function = &history->functions[f];
	away = d->position - function->last;
	function->last = d->position;
	if (d->phase != STEP_SEEKING) {
		step_follow(d, f, away, now_ns);
		if (d->phase == STEP_TRYING && d->owed)
			try_on(d, now_ns);
		if ((int32_t)(d->position - d->late_position) >= 0)
			step_late(d, now_ns);
		if (d->position - d->look_position >= LOOK_LAUNCHES)
			look_again(d);
		return d->owed && d->phase == STEP_TRUSTING && tell(d, ended);
	}
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
		seek_anew(d); /* nothing is launched but what was muted */
	return false;
}
