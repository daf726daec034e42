/* SPDX-License-Identifier: MIT */
/*
 * write_events: a job's process without CUDA that writes the events it is told, for tests of the
 * tool.
 *
 * Joins the job in SPILLWAY_JOB, as of the run in SPILLWAY_RUN, and makes its ring. It reads lines
 *     KIND DEVICE BEGIN DURATION A B C OBJECT CONTEXT [COUNT]
 * from standard input; A, B and C may be a reason of a spill by its word; a BEGIN with a sign is
 * from now on, in nanoseconds. With a COUNT it is written so many times, each one nanosecond later.
 * After each line it prints "written PID". It leaves the job at the end of its input.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/rings/ring.h"
#include "core/state/segment.h"

static void fail(const char *message)
{
	fprintf(stderr, "write_events: %s\n", message);
	exit(1);
}

static enum event_kind kind_of(const char *name)
{
#define X(kind, ...)                  \
	if (strcmp(name, #kind) == 0) \
		return EVENT_##kind;
	EVENTS(X)
#undef X
	fail("no such kind of event");
	return EVENT_KINDS;
}

static uint64_t begin_of(const char *text)
{
	struct timespec now;

	if (*text != '+' && *text != '-')
		return strtoull(text, NULL, 10);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
	       (uint64_t)strtoll(text, NULL, 10);
}

static uint64_t value_of(const char *text)
{
	static const char *const spill[] = {
#define X(constant, word) word,
	    CODES_spill(X)
#undef X
	};

	for (uint64_t i = 0; i < sizeof spill / sizeof *spill; i++)
		if (strcmp(text, spill[i]) == 0)
			return i;
	return strtoull(text, NULL, 10);
}

static void write_line(struct ring *ring, const char *line)
{
	uint64_t count = 1;
	char kind[32], begin[32], a[32], b[32], c[32];
	struct event event;

	if (sscanf(line, "%31s %d %31s %" SCNu64 " %31s %31s %31s %" SCNx64 " %" SCNu32 " %" SCNu64,
	           kind, &event.device, begin, &event.duration_ns, a, b, c, &event.object,
	           &event.context, &count) < 9)
		fail("expected KIND DEVICE BEGIN DURATION A B C OBJECT CONTEXT [COUNT]");
	event.kind = kind_of(kind);
	event.begin_ns = begin_of(begin);
	event.a = value_of(a);
	event.b = value_of(b);
	event.c = value_of(c);
	for (; count > 0; count--, event.begin_ns++)
		ring_write(ring, &event);
	printf("written %d\n", (int)getpid());
	fflush(stdout);
}

int main(void)
{
	static const struct segment_device gpu = {
	    .uuid = "GPU-1", .name = "GPU", .memory = 1 << 30};
	const char *job = getenv("SPILLWAY_JOB");
	char line[256], message[512] = "";
	struct segment *segment;
	struct ring *ring;

	if (segment_join(job, "", getenv("SPILLWAY_RUN"), &segment, message, sizeof message) != 0 ||
	    ring_create(segment, &ring, message, sizeof message) != 0)
		fail(message);
	ring_name_device(ring, 0, segment_device(segment, &gpu));
	while (fgets(line, sizeof line, stdin))
		write_line(ring, line);
	segment_leave(segment);
	return 0;
}
