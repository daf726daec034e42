/* SPDX-License-Identifier: MIT */
/* Step detection: seeks a pattern in the history, then follows it launch by launch. */
#include "core/steps/detector.h"

#include <stdlib.h>
#include <string.h>

enum {
	FIRST_LOOK = 64,      /* events */
	FEW_FUNCTIONS = 16,   /* which may do everything */
	FIRST_REST = 1 << 16, /* launches; twice as many each time that nothing is found */
	LONGEST_REST = 1 << 20,
	LONGEST_IDLE_NS = 1 << 30,
	LOOK_LAUNCHES = 4096, /* between two looks at whether a pattern still holds */
	ABSENT_UNITS = 256,   /* that none may come: a validation may be long */
	STRAY_PERCENT = 20,   /* of the launches, in no unit */
	MUTED_UNITS = 8,      /* in which what was muted is seen */
	TRUST_UNITS = 256,
	MANY_UNITS = 4096,
};
/*
 * For how long a pattern is tried: with so many units, in any case, and where something seems to
 * close steps.
 */
static const uint64_t trust_units_ns = 1000000000, trust_ns = 2000000000, decide_ns = 10000000000;

/* Seeks with what functions are known, and no launch. */
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
	/* So much malloc() takes of the kernel, zero and with no page of it written. */
	enum { LARGE = 1 << 17 };
	struct step_detector *detector = calloc(1, sizeof(*detector) + LARGE);

	if (!detector)
		return NULL;
	seek_on(detector);
	detector->next_rest = FIRST_REST;
	return detector;
}

/* Gives the pattern up, which holds no more; what comes is counted on. */
static void give_up(struct step_detector *d)
{
	seek_anew(d);
	d->before = d->newest.number;
	/* If there will be another pattern, it has probably begun then. */
	d->regular = d->true_position;
	d->regular_ns = d->true_ns;
	d->by_shape = false;
	d->next_rest = FIRST_REST;
}

/* Mutes what was taken for a unit and is a loop within one: its functions say nothing. */
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
 * Adds as many steps in proportion as were missed since what went before the pattern was regular,
 * too.
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
		give_up(d);
}

/* --- seeking --- */

/* Follows the pattern that was found, from the beginning of the history. */
static void believe(struct step_detector *d)
{
	struct step_history *history = &d->history;
	uint64_t written = 0, steps;

	step_follow_start(d);
	/* What is no longer in the history had as many steps in proportion. */
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

static bool tell(struct step_detector *d, struct step *ended)
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
	return d->owed && d->phase == STEP_TRUSTING && tell(d, ended);
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
		seek_anew(d); /* nothing is launched but what was muted */
	return false;
}
