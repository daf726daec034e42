/* SPDX-License-Identifier: MIT */
/*
 * raises JOB CHANGES SEED: sets the memory limit of a running job again and again, by its override.
 * As often as it can it compares the software GPU's books with the limit. From the moment at which
 * all of the job's processes report a limit as held, no more than that limit may be there. From the
 * moment at which a higher limit is written, no more than the higher one.
 *
 * Prints how many raises and lowerings there were, how often it looked, and the most that was
 * beyond. Status 1: something was.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "core/state/segment.h"
#include "tests/softgpu/machine.h"
#include "tests/softgpu/softgpu.h"

#define MIB       ((uint64_t)1 << 20)
#define GIVE_UP_S 200

enum { PROCESSES = 64, LEAST_MIB = 8, MOST_MIB = 96 };

static _Atomic uint64_t bound, samples, over, most_beyond;
static _Atomic bool has_ended, rises;

static uint64_t held_by_all(void)
{
	struct softgpu_truth truth[PROCESSES];
	int count = machine_truth(0, truth, PROCESSES);
	uint64_t held = 0;

	for (int i = 0; i < count && i < PROCESSES; i++)
		held += truth[i].physical_bytes;
	return held;
}

/* Takes the bound before and after: what changes between is within one of both. */
static void *sample(void *cookie)
{
	(void)cookie;
	while (!has_ended) {
		uint64_t before = bound, held = held_by_all(), after = bound;
		uint64_t may = before > after ? before : after;

		samples++;
		if (held <= may)
			continue;
		over++;
		if (held - may > most_beyond)
			most_beyond = held - may;
		fprintf(stderr, "%llu bytes beyond %llu, %s\n", (unsigned long long)(held - may),
		        (unsigned long long)may, rises ? "after a raise" : "after a lowering");
	}
	return NULL;
}

static void fail(const char *what)
{
	fprintf(stderr, "raises: %s\n", what);
	exit(2);
}

/* As set does, which rings: no helper then sleeps until it looks at its files by itself. */
static void write_limit(const char *job, const char *path, uint64_t limit)
{
	const char *const keys[] = {"memory", NULL};
	char text[32];
	const char *const values[] = {text, NULL};
	struct deadline until = DEADLINE_IN(GIVE_UP_S * 1000000000ull);
	struct config_error error;

	snprintf(text, sizeof(text), "%lluB", (unsigned long long)limit);
	if (config_override_write(path, "", keys, values, &until, &error) != 0)
		fail(error.message);
	segment_ring(job);
}

/* As set does: all live processes follow, and no more is there than is to be. */
static bool is_held(const char *job, uint64_t limit, struct segment_view *view)
{
	char message[256];

	if (segment_read(job, view, message, sizeof(message)) != 0)
		fail(message);
	for (int i = 0; i < view->process_count; i++) {
		const struct segment_process *process = &view->process[i];

		if (process->state == SLOT_LIVE && process->device[0].limit_set != limit)
			return false;
	}
	return view->job_total[0].limit_held == limit;
}

static void wait_until_held(const char *job, uint64_t limit, struct segment_view *view)
{
	uint64_t began = clock_now();

	while (!is_held(job, limit, view)) {
		if (clock_now() - began > GIVE_UP_S * 1000000000ull)
			fail("a limit is not held for a minute");
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	}
}

int main(int argc, char **argv)
{
	struct segment_view *view = calloc(1, sizeof(*view));
	uint64_t now = MOST_MIB * MIB, raises = 0, lowerings = 0;
	char path[512];
	pthread_t sampler;
	unsigned int seed;
	long changes;

	if (argc != 4 || !view || directory_override_path(argv[1], path, sizeof(path)) != 0)
		fail("usage: raises JOB CHANGES SEED");
	changes = strtol(argv[2], NULL, 10);
	seed = (unsigned int)strtoul(argv[3], NULL, 10);
	bound = now;
	write_limit(argv[1], path, now);
	wait_until_held(argv[1], now, view);
	pthread_create(&sampler, NULL, sample, NULL);
	for (long i = 0; i < changes; i++) {
		/*
		 * None comes twice: who still follows the same one from before would be taken to
		 * follow this.
		 */
		uint64_t next =
		    LEAST_MIB * MIB + (uint64_t)rand_r(&seed) % ((MOST_MIB - LEAST_MIB) * MIB);

		rises = next > now;
		if (rises) {
			bound = next;
			raises++;
		} else {
			lowerings++;
		}
		write_limit(argv[1], path, next);
		/* A raise is changed again before all has come back. */
		if (!rises || rand_r(&seed) % 4 == 0)
			wait_until_held(argv[1], next, view);
		else
			nanosleep(&(struct timespec){.tv_nsec = rand_r(&seed) % 5000000}, NULL);
		if (!rises)
			bound = next;
		now = next;
	}
	has_ended = true;
	pthread_join(sampler, NULL);
	printf("raises=%llu lowerings=%llu samples=%llu over=%llu beyond=%llu\n",
	       (unsigned long long)raises, (unsigned long long)lowerings,
	       (unsigned long long)samples, (unsigned long long)over,
	       (unsigned long long)most_beyond);
	segment_view_free(view);
	return over != 0;
}
