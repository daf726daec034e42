/* SPDX-License-Identifier: MIT */
/* See control.h. */
#include "tests/bench/control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/state/segment.h"

enum { PATIENCE_S = 60 };

static struct segment_view view; /* large */

static void die(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

bool control_is_possible(void)
{
	return getenv("SPILLWAY_CONFIG") && getenv("SPILLWAY_JOB");
}

void control_change(uint64_t limit, bool evicted)
{
	const char *path = getenv("SPILLWAY_CONFIG"), *more = getenv("BENCH_SETTINGS");
	char aside[4096];
	FILE *file;

	snprintf(aside, sizeof(aside), "%s.new", path);
	file = fopen(aside, "w");
	if (!file)
		die("cannot write beside SPILLWAY_CONFIG");
	fprintf(file, "[gpu]\nmemory = %" PRIu64 "B\nhost_memory = unlimited\n", limit);
	if (evicted)
		fprintf(file, "evict = yes\n");
	if (more)
		fprintf(file, "%s\n", more);
	if (fclose(file) != 0 || rename(aside, path) != 0)
		die("cannot replace SPILLWAY_CONFIG");
}

static struct statistics statistics_now(void)
{
	char message[256];

	if (segment_read(getenv("SPILLWAY_JOB"), &view, message, sizeof(message)) != 0)
		die(message);
	return view.job_total[0];
}

uint64_t control_counter(const char *name)
{
	struct statistics now = statistics_now();

#define X(field, how, unit, meaning)   \
	if (strcmp(name, #field) == 0) \
		return now.field;
	STATISTICS(X)
#undef X
	die("no such counter");
	return 0;
}

void control_wait(const char *name, bool at_least, uint64_t value)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char message[256];

	for (time_t until = time(NULL) + PATIENCE_S; time(NULL) < until; nanosleep(&pause, NULL)) {
		uint64_t now = control_counter(name);

		if (at_least ? now >= value : now <= value)
			return;
	}
	snprintf(message, sizeof(message),
	         "%s is %" PRIu64 " after %d s and was to be at %s %" PRIu64, name,
	         control_counter(name), PATIENCE_S, at_least ? "least" : "most", value);
	die(message);
}
