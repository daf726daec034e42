/* Follows a pattern launch by launch. */
#include "core/steps/follow.h"

#include <stddef.h>

enum {
	LATE_UNITS = 16, /* that the anchor is away */
	LONG_UNIT = 8,   /* times the mean: it is none, or not only */
	ODD_UNITS = 16,  /* in a row: they are so now */
	LEFT_OUT = 16,   /* steps in a row without what closes them: it closes none */
	MIN_GROUPS = 5,  /* of what closes steps */
	NEAR = 4,        /* units */
	FAR = 32,        /* likewise */
	LONG_RUN = 8,    /* units */
	MIN_RUNS = 3,
	MIN_COVERS = 16,       /* units in a row */
	MIN_BETWEEN_WAITS = 8, /* steps */
	MEMORY = 512,          /* steps in the mean, twice as many at most */
};

static void begin_step(struct step_detector *d)
{
	d->units = 0;
	d->step_ns = 0;
	d->untimed = d->closed = false;
}

static void begin_unit(struct step_detector *d, uint64_t now_ns)
{
	d->unit++;
	d->covered = d->odd = d->excess = d->excess_launches = d->excess_usual = d->visitor_count =
	    d->closers_seen = 0;
	d->unit_begun_ns = now_ns;
	d->unit_position = d->position;
	d->late_position =
	    d->position + LATE_UNITS * (d->pattern.launches / d->pattern.returns + 1);
}

void step_forget_times(struct step_detector *d)
{
	d->timed = d->before_wait = d->since_wait = (struct step_times){0};
	d->waits = 0;
	d->newest.mean_ns = 0;
}

static void add_times(struct step_times *times, uint64_t ns, uint32_t steps)
{
	times->ns += ns;
	times->steps += steps;
}

/*
 * A program that runs ahead of the device makes some steps in no time and then waits for all of them, longer than they
 * took; and again. Its mean is taken from one such wait to another.
 */
static void time_steps(struct step_detector *d, uint64_t ns, uint32_t steps)
{
	bool waited = d->since_wait.steps >= MIN_BETWEEN_WAITS && ns > d->since_wait.ns;

	add_times(&d->timed, ns, steps);
	add_times(&d->since_wait, ns, steps);
	if (waited) {
		if (++d->waits == 2) {
			d->timed.ns -= d->before_wait.ns;
			d->timed.steps -= d->before_wait.steps;
		}
		d->before_wait = d->timed;
		d->since_wait = (struct step_times){0};
	} else if (d->since_wait.steps > 2 * (uint64_t)MEMORY) {
		d->waits = 0;
	}
	if (!waited && d->waits >= 2)
		return;
	d->newest.mean_ns = d->timed.ns / d->timed.steps;
	if (d->timed.steps >= 2 * (uint64_t)MEMORY) {
		d->timed = (struct step_times){d->timed.ns / 2, d->timed.steps / 2};
		d->before_wait =
		    (struct step_times){d->before_wait.ns / 2, d->before_wait.steps / 2};
	}
}

static void end_steps(struct step_detector *d, uint32_t steps)
{
	d->newest.number += steps;
	d->owed += steps;
	d->newest.time_ns = d->untimed ? 0 : d->step_ns / steps;
	if (d->newest.time_ns)
		time_steps(d, d->step_ns, steps);
	begin_step(d);
}

/* What is done every 10th step is a validation that was compiled on its own rather than an optimizer. */
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

/* The function was in a unit again, `away` units after the one before. */
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

/* Units turn out to be parts of steps. */
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
	step_forget_times(d);
	d->left_out = d->owed = 0;
	begin_step(d);
	d->closed = true;
}

/* At the end of a unit, or of what is none: the functions in it that are not in every one. */
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
 * The time of a unit, or of what is none, that has launches which do not belong to it. It is no step's, but where it is
 * longer than all the steps since the one before: then the program ran ahead of the device, and waited here for all.
 */
static uint64_t waited_ns(struct step_detector *d, uint64_t ns)
{
	bool waited = d->steady_ns && ns > d->steady_ns;

	d->steady_ns = 0;
	return waited ? ns : 0;
}

void step_look_anew(struct step_detector *d)
{
	d->look_position = d->position;
	d->look_units = d->stray = 0;
}

/* What came too often came twice as often as usual. */
static bool is_doubled(const struct step_detector *d)
{
	return d->excess_launches * 4 >= d->excess_usual * 3 &&
	       d->excess_launches * 4 <= d->excess_usual * 5;
}

/*
 * A return that did not come: of functions that are launched once in a unit nearly all came several times. Another of
 * them is the anchor from now on. Returns how often it came; 1: nothing of the kind.
 */
static uint32_t hidden_units(struct step_detector *d)
{
	const struct step_function *best = NULL, *functions = d->history.functions;

	/* More than a validation has, which leaves out a backward pass; less than all but what was left out. */
	if (!d->excess || d->excess * 20 < (d->pattern.steady - 1) * (is_doubled(d) ? 9 : 11))
		return 1;
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		const struct step_function *function = &functions[f];

		if (function->role == STEP_STEADY && function->expected == 1 &&
		    function->unit == d->unit && function->in_unit > 1 &&
		    (!best || step_is_better(function, best)))
			best = function;
	}
	if (!best)
		return 1;
	d->pattern.anchor = (uint16_t)(best - functions);
	d->pattern.gap = 0;
	d->anchored_anew = true;
	return best->in_unit;
}

/* What most units have become is what they are. */
static void get_used_to(struct step_detector *d)
{
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		struct step_function *function = &d->history.functions[f];

		if (function->unit == d->unit && function->in_unit > function->expected) {
			function->role = STEP_VARYING;
			function->expected = STEP_ANY;
		}
	}
	d->odd_units = 0;
	step_look_anew(d);
}

/* Other work that uses the same functions lies in the unit, such as a validation. */
static bool is_spoilt(const struct step_detector *d)
{
	return d->excess * 5 > d->pattern.steady;
}

/* A unit, or what is none, has so many launches that do not belong to it, or functions that come too often. */
static bool is_odd(const struct step_detector *d)
{
	const struct step_pattern *pattern = &d->pattern;

	/* What closes a step may use a few functions that its units use, too. */
	if (d->closing > 1 && d->closed)
		return is_spoilt(d);
	return d->odd * 4ull * pattern->returns >= pattern->events ||
	       d->excess_launches * 3 > pattern->usual;
}

/* So many units are over, the last with so many of the functions that close steps, and perhaps a step with them. */
static void count_units(struct step_detector *d, uint32_t units, uint32_t closers)
{
	bool in_part = d->closed && closers < d->closers;

	d->true_unit += units;
	d->look_units += units;
	d->tried_units += units;
	d->units += units;
	if (d->closed && d->units == 1 && d->closing > 1 &&
	    (d->left_out || d->is_split || in_part)) {
		/* What closes was not left out but came late, or it lies on both sides of the anchor. */
		d->left_out = 0;
		d->is_split = false;
		begin_step(d);
		return;
	}
	if (!d->closed && d->units < d->closing)
		return;
	d->left_out = d->closed || d->closing == 1 ? 0 : d->left_out + 1;
	if (d->left_out == LEFT_OUT)
		d->closing = 1;
	d->is_split = in_part;
	end_steps(d, d->closing == 1 ? units : 1);
}

/* The anchor returned. */
static void end_unit(struct step_detector *d, uint64_t now_ns)
{
	const struct step_pattern *pattern = &d->pattern;
	uint64_t ns = d->unit_begun_ns ? now_ns - d->unit_begun_ns : 0;
	uint32_t launches = d->position - d->unit_position, units;
	bool odd = is_odd(d), covered = step_covers(pattern, d->covered);
	uint32_t closers = d->closers_seen;
	/* Alone, it is a unit that left something out; several in a row are a validation. */
	bool bare = d->covered * 5 >= pattern->covering * 2;

	if (d->anchored_anew) {
		d->anchored_anew = false;
		begin_unit(d, now_ns);
		return;
	}
	if ((uint64_t)launches * pattern->returns > (uint64_t)LONG_UNIT * pattern->launches)
		d->stray += launches - d->odd;
	look_at_visitors(d, !covered || is_spoilt(d));
	units = covered ? hidden_units(d) : 1;
	d->odd_units = covered && odd && units == 1 ? d->odd_units + 1 : 0;
	if (d->odd_units == ODD_UNITS)
		get_used_to(d);
	begin_unit(d, now_ns);
	if (!covered && bare && !d->bare++) {
		d->bare_ns = ns;
		return;
	}
	if (!covered) {
		/* Where several functions are taken for one, the anchor may be in what closes steps, too. */
		d->step_ns += closers || d->folded ? ns : waited_ns(d, ns);
		return;
	}
	if (odd) {
		ns = waited_ns(d, ns);
		/* Of one of several an estimate will do. */
		if (!ns && d->closing > 1)
			ns = d->usual_ns;
	} else {
		d->steady_ns += ns;
		d->usual_ns = d->usual_ns ? d->usual_ns - d->usual_ns / 16 + ns / 16 : ns;
	}
	if (d->bare == 1) {
		units++;
		ns += d->bare_ns;
	}
	d->bare = 0;
	d->untimed |= !ns;
	d->step_ns += ns;
	count_units(d, units, closers);
}

void step_follow(struct step_detector *d, uint16_t f, uint32_t away, uint64_t now_ns)
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
		d->stray += function->role == STEP_FOREIGN;
		if (function->role == STEP_STEADY) {
			d->excess_launches++;
			if (function->in_unit == function->expected + 1) {
				d->excess++;
				d->excess_usual += function->expected;
			}
		}
	}
	if (f == d->pattern.anchor && away > d->pattern.gap)
		end_unit(d, now_ns);
}

void step_late(struct step_detector *d, uint64_t now_ns)
{
	uint32_t units = hidden_units(d);

	d->late_position =
	    d->position + LATE_UNITS * (d->pattern.launches / d->pattern.returns + 1);
	if (units == 1)
		return;
	begin_unit(d, now_ns);
	d->untimed = true;
	count_units(d, units, 0);
}

void step_follow_start(struct step_detector *d)
{
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		struct step_function *function = &d->history.functions[f];

		function->rhythm = (struct step_rhythm){0};
		function->closes = false;
		function->unit = 0;
	}
	d->newest.number = d->before;
	d->unit = 0;
	d->true_unit = 1;
	d->closing = 1;
	d->odd_units = d->left_out = d->bare = d->owed = 0;
	d->anchored_anew = d->is_split = d->is_loop = false;
	d->usual_ns = 0;
	begin_step(d);
	begin_unit(d, 0);
}

bool step_has_muted(const struct step_detector *d)
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

bool step_may_have_closer(const struct step_detector *d)
{
	for (uint32_t f = 0; f < d->history.function_count; f++) {
		const struct step_function *function = &d->history.functions[f];

		if (is_closer(function, function->rhythm.every < 16 ? 2 : 1))
			return true;
	}
	return false;
}
