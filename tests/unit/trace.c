/* SPDX-License-Identifier: MIT */
/* Traces: see trace.h. */
#include "tests/unit/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/modules/steps/step.h"

enum { MOST_FUNCTIONS = 4096 };

struct shapes {
	long long of[MOST_FUNCTIONS];
};

void trace_start(struct trace *trace, uint64_t seed)
{
	*trace = (struct trace){
	    .random = seed * 0x9e3779b97f4a7c15u + 1, .now_ns = 1000000000, .launch_ns = 5000};
}

void trace_free(struct trace *trace)
{
	free(trace->launches);
}

uint64_t trace_random(struct trace *trace, uint64_t below)
{
	trace->random ^= trace->random << 13;
	trace->random ^= trace->random >> 7;
	trace->random ^= trace->random << 17;
	return (trace->random >> 11) % below;
}

bool trace_chance(struct trace *trace, double percent)
{
	return (double)trace_random(trace, 1000000) < percent * 10000;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void trace_add(struct trace *trace, uint64_t function, uint64_t shape)
{
	if (trace->count == trace->room) {
		trace->room = trace->room ? trace->room * 2 : 4096;
		trace->launches = realloc(trace->launches, sizeof(*trace->launches) * trace->room);
		if (!trace->launches) {
			fputs("out of memory\n", stderr);
			exit(99);
		}
	}
	trace->now_ns +=
	    trace->launch_ns * 2 / 3 + trace_random(trace, trace->launch_ns * 2 / 3 + 1);
	trace->launches[trace->count++] =
	    (struct trace_launch){.function = function * 64 + 0x7f0000000000,
	                          .shape = shape,
	                          .ns = trace->now_ns,
	                          .done_ns = later(trace->now_ns, trace->busy_until_ns)};
}

void trace_run(struct trace *trace, unsigned library, unsigned first, unsigned count,
               uint64_t shape)
{
	for (unsigned i = 0; i < count; i++)
		trace_add(trace, library * 1000ull + first + i, shape + i);
}

void trace_pass(struct trace *trace, uint64_t ns)
{
	trace->now_ns += ns;
	if (trace->count)
		trace->launches[trace->count - 1].done_ns = trace->now_ns;
}

void trace_step_begins(struct trace *trace)
{
	trace->begun_ns = trace->now_ns;
}

void trace_step_ends(struct trace *trace)
{
	if (!trace->count)
		return;
	trace->launches[trace->count - 1].step_ns = trace->now_ns - trace->begun_ns;
	trace->steps++;
}

void trace_jitter(struct trace *trace, double percent, unsigned distance)
{
	for (size_t i = 0; i + distance < trace->count; i++) {
		struct trace_launch *a = &trace->launches[i], *b;

		if (!trace_chance(trace, percent))
			continue;
		b = a + 1 + trace_random(trace, distance);
		uint64_t function = a->function, shape = a->shape;
		a->function = b->function;
		a->shape = b->shape;
		b->function = function;
		b->shape = shape;
	}
}

struct trace_found trace_detect(const struct trace *trace)
{
	struct step_detector *detector = step_create();
	struct trace_found found = {0};
	struct step ended = {0};
	uint64_t whole_ns = 0, whole = 0, last_ns = 0;
	struct {
		uint64_t ns, steps;
	} own = {0},
	  own_whole = {0}; /* of the program's steps: since the last told; in whole ones */
	uint64_t own_steps = 0;

	if (!detector)
		exit(99);
	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_launch *launch = &trace->launches[i];
		bool is_told =
		    step_launch(detector, launch->function, launch->shape, launch->ns, &ended);

		if (launch->step_ns) {
			found.true_told += found.told || is_told;
			own.ns += launch->step_ns;
			own.steps++;
			own_steps++;
		}
		if (!is_told)
			continue;
		found.told++;
		found.at_their_end += launch->step_ns > 0;
		if (ended.is_first && ended.number > ended.first && own_steps) {
			found.since_ns =
			    (launch->ns - ended.first_ns) / (ended.number - ended.first);
			found.true_since_ns = (launch->ns - trace->launches[0].ns) / own_steps;
		}
		if (ended.is_first) {
			own_whole.ns = own_whole.steps = whole_ns = whole = 0;
		} else if (ended.is_whole) {
			whole_ns += launch->done_ns - last_ns;
			whole++;
			own_whole.ns += own.ns;
			own_whole.steps += own.steps;
		}
		own.ns = own.steps = 0;
		last_ns = launch->done_ns;
	}
	found.steps = ended.number;
	found.mean_ns = whole ? whole_ns / whole : 0;
	if (trace->mean_ns)
		found.true_mean_ns = trace->mean_ns;
	else if (own_whole.steps)
		found.true_mean_ns = own_whole.ns / own_whole.steps;
	free(detector);
	return found;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static double least(uint64_t a, uint64_t b)
{
	return (double)(a < b ? a : b);
}

const char *trace_judge(const char *name, const struct trace *trace, unsigned missed)
{
	static char wrong[256];
	struct trace_found found = trace_detect(trace);

	if (found.told && difference(found.steps, trace->steps) <= missed + trace->steps / 100 &&
	    difference(found.told, found.true_told) <= 3 + found.true_told / 100 && found.mean_ns &&
	    difference(found.mean_ns, found.true_mean_ns) * 50 <= found.true_mean_ns &&
	    (double)found.since_ns <= (double)found.true_since_ns * 1.05 &&
	    (double)found.since_ns >= least(found.mean_ns, found.true_since_ns) * 0.85)
		return NULL;
	snprintf(
	    wrong, sizeof(wrong),
	    "%s: %llu steps found of %llu, %llu told of %llu, mean %llu ns, of the program %llu; "
	    "from the begin %llu ns, of the program %llu",
	    name, (unsigned long long)found.steps, (unsigned long long)trace->steps,
	    (unsigned long long)found.told, (unsigned long long)found.true_told,
	    (unsigned long long)found.mean_ns, (unsigned long long)found.true_mean_ns,
	    (unsigned long long)found.since_ns, (unsigned long long)found.true_since_ns);
	return wrong;
}

/* Unsigned number at *text, which is moved past it; -1: there is none. */
static long long number_at(const char **text)
{
	char *end;
	long long value = strtoll(*text, &end, 10);

	if (end == *text || value < 0)
		return -1;
	*text = end;
	return value;
}

static bool read_token(struct trace *trace, struct shapes *shapes, const char *token)
{
	long long function, us;

	if (*token == '=') {
		token++;
		us = number_at(&token);
		if (us < 0 || !trace->count)
			return false;
		/* A step that took nothing is one that began with the first mark. */
		trace->launches[trace->count - 1].step_ns = us ? (uint64_t)us * 1000 : 1;
		trace->steps++;
		return !*token;
	}
	if (*token == '@') {
		token++;
		us = number_at(&token);
		trace->mean_ns = us > 0 ? (uint64_t)us * 1000 : 0;
		return us > 0 && !*token;
	}
	function = number_at(&token);
	if (function < 0 || function >= MOST_FUNCTIONS)
		return false;
	if (*token == ':') {
		token++;
		shapes->of[function] = number_at(&token);
	}
	if (*token++ != '+' || (us = number_at(&token)) < 0)
		return false;
	trace->launch_ns = 0;
	trace->now_ns += (uint64_t)us * 1000;
	trace_add(trace, (uint64_t)function, (uint64_t)shapes->of[function]);
	return !*token;
}

/*
 * Lets the device take as long for each launch as makes up the program's own mean: when it did what
 * was launched is not in the recording of a program that runs ahead of it.
 */
static void spread_evenly(struct trace *trace)
{
	uint64_t ns = trace->mean_ns * trace->steps / trace->count;

	for (size_t i = 0; i < trace->count; i++)
		trace->launches[i].done_ns = trace->launches[0].ns + i * ns;
}

bool trace_read(struct trace *trace, const char *path)
{
	FILE *file = fopen(path, "r");
	struct shapes shapes = {0};
	char token[64];
	bool good = file != NULL;

	trace_start(trace, 0);
	while (good && fscanf(file, "%63s", token) == 1)
		if (*token == '#')
			good = fscanf(file, "%*[^\n]") >= 0;
		else
			good = read_token(trace, &shapes, token);
	if (file)
		fclose(file);
	if (good && trace->mean_ns)
		spread_evenly(trace);
	return good && trace->count;
}
