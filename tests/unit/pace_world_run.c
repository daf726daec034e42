/* SPDX-License-Identifier: MIT */
/*
 * Looks at one scenario of the world by hand:
 *
 *   pace_world_run                                  lists the scenarios
 *   pace_world_run SCENARIO [SHARE [SEED [trace]]]  runs one and tells what came of it; a trace
 *                                                   goes to stderr
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/pace_scenarios.h"

static void tell_tenant(const struct run *run, struct tenant *t)
{
	struct process *p = t->process;
	const struct counters *s = p->device[t->gpu->index].statistics;
	uint64_t to = world.now < run->to ? world.now : run->to, at = 0;
	uint64_t length = to - run->from < 5 * S ? to - run->from : 5 * S;
	struct window w = truth_windows(t, run->from, to, length);
	double elapsed = (double)(to - run->from);
	uint64_t longest = truth_longest(t, run->from, to, 30 * US, &at);

	printf("process %d gpu %d: set %5.1f  held %6.2f  5 s windows %6.2f (at %.4f) to %6.2f (at "
	       "%.4f)\n",
	       p->index, t->gpu->index, (double)p->settings[t->gpu->index].share / 1000,
	       100 * (double)truth_busy(t, run->from, to) / elapsed, w.least,
	       (double)w.least_at / 1e9, w.most, (double)w.most_at / 1e9);
	printf("    longest stretch %.3f ms (at %.4f); all in all busy %.6f s, measured %.6f s, "
	       "idle %.3f s in %llu slots\n",
	       (double)longest / 1e6, (double)at / 1e9, (double)t->busy_ns / 1e9,
	       (double)s->busy_ns / 1e9, (double)s->idle_ns / 1e9,
	       (unsigned long long)s->idle_slots);
}

static void tell(struct run *run, bool ended)
{
	for (int i = 0; i < WORLD_DEVICES; i++) {
		struct gpu *g = world.gpu[i];
		uint64_t to = world.now < run->to ? world.now : run->to;

		for (int j = 0; j < g->tenants; j++)
			tell_tenant(run, g->tenant[j]);
		if (g->tenants)
			printf("gpu %d idle %.2f %%\n", i,
			       100 * (double)gpu_idle(i, run->from, to) / (double)(to - run->from));
	}
	for (int i = 0; i < run->programs; i++) {
		const struct program *p = &run->program[i];

		printf(
		    "program %d (process %d): %llu launches, work %.3f s, from %.3f s to %.3f s\n",
		    i, p->process->index, (unsigned long long)p->launches, (double)p->work_ns / 1e9,
		    (double)p->began_at / 1e9, (double)p->ended_at / 1e9);
	}
	if (world.misuse)
		printf("MISUSE of the driver %llu times, first: %s\n",
		       (unsigned long long)world.misuse, world.misused);
	if (!ended) {
		printf("NOT ALL PROGRAMS HAVE ENDED; threads:\n");
		fflush(stdout);
		world_tell_threads();
	}
}

int main(int argc, char **argv)
{
	const struct scenario *s = argc > 1 ? scenario_find(argv[1]) : NULL;
	static struct run run;
	struct timespec a, b;
	double seconds;
	bool ended;

	if (!s) {
		for (int i = 0; i < scenario_count; i++)
			printf("%-14s %s\n", scenarios[i].name, scenarios[i].what);
		return argc > 1 ? 2 : 0;
	}
	run.share = argc > 2 ? atof(argv[2]) : 50;
	run.seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	run.trace = argc > 4 && strcmp(argv[4], "trace") == 0;
	clock_gettime(CLOCK_MONOTONIC, &a);
	run_start(&run, s);
	ended = run_finish(&run);
	clock_gettime(CLOCK_MONOTONIC, &b);
	tell(&run, ended);
	seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	printf("%.1f s of world, %llu events, %.2f s here\n", (double)(world.now - S) / 1e9,
	       (unsigned long long)world.events, seconds);
	run_end(&run);
	return !ended || world.misuse;
}
