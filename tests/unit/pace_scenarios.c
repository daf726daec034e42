/* SPDX-License-Identifier: MIT */
/* Scenarios of the world. */
#include "tests/unit/pace_scenarios.h"

#include <string.h>

static struct program *add(struct run *run, const struct program *template, struct process *process,
                           int gpu, double share)
{
	struct program *p = &run->program[run->programs];

	if (run->programs == RUN_PROGRAMS)
		world_fail("too many programs");
	*p = *template;
	if (!p->name)
		p->name = "program";
	p->process = process;
	p->gpu = gpu;
	if (!p->most_launches)
		p->until = run->to;
	run->set[run->programs++] = share;
	return p;
}

static void build_alone(struct run *run, const struct scenario *s)
{
	uint32_t devices = 1u | (s->program.also_gpu ? 1u << s->program.also_gpu : 0);
	struct process *process = process_create(world_job(), devices);

	for (int i = 0; i < WORLD_DEVICES; i++) {
		if (devices & 1u << i)
			process_set(process, i, run->share, s->policy);
	}
	for (int i = 0; i < (s->threads ? s->threads : 1); i++)
		program_start(add(run, &s->program, process, 0, run->share));
}

static void build_jobs(struct run *run, const struct scenario *s)
{
	for (int i = 0; i < RUN_JOBS && s->shares[i] > 0; i++) {
		struct process *process = process_create(world_job(), 1);

		process_set(process, 0, s->shares[i], s->policy);
		program_start(add(run, &s->program, process, 0, s->shares[i]));
	}
}

/* Ranks with devices of their own: processes of a job, or threads of a process. */
static void build_ranks(struct run *run, const struct scenario *s)
{
	struct job *job = world_job();
	struct process *process = NULL;

	run->spin.ranks = s->ranks;
	for (int i = 0; i < s->ranks; i++) {
		struct program *p;

		if (!process || !s->threads) {
			process = process_create(job, s->threads ? (1u << s->ranks) - 1 : 1u << i);
			for (int j = 0; j < WORLD_DEVICES; j++) {
				if (process->pacer[j])
					process_set(process, j, run->share, s->policy);
			}
		}
		p = add(run, &s->program, process, i, run->share);
		p->spin = &run->spin;
		program_start(p);
	}
}

/* Ranks that need another number of kernels each for a step that takes as long. */
static void build_uneven(struct run *run, const struct scenario *s)
{
	struct job *job = world_job();

	run->spin.ranks = s->ranks;
	for (int i = 0; i < s->ranks; i++) {
		struct process *process = process_create(job, 1u << i);
		struct program *p;

		process_set(process, i, run->share, s->policy);
		p = add(run, &s->program, process, i, run->share);
		p->spin = &run->spin;
		p->spin_every += (uint64_t)i;
		p->most_launches = p->most_launches / s->program.spin_every * p->spin_every;
		p->kernel_ns = p->kernel_ns * s->program.spin_every / p->spin_every;
		program_start(p);
	}
}

/* A job of ranks, and another job on the first one's device. */
static void build_ranks_beside(struct run *run, const struct scenario *s)
{
	const struct program other = {.name = "other", .kernel_ns = 1 * MS};
	struct process *process = process_create(world_job(), 1);

	build_ranks(run, s);
	process_set(process, 0, s->shares[0], s->policy);
	program_start(add(run, &other, process, 0, s->shares[0]));
}

/*
 * A step of a training on several devices: five kernels of about a millisecond, then the
 * all-reduce.
 */
#define TRAINING                                                                         \
	{                                                                                \
		.kernel_ns = 1 * MS, .jitter = 0.3, .host_ns = 20 * US, .spin_every = 6, \
		.most_launches = 3000                                                    \
	}
#define WAITING_TRAINING                                                                 \
	{                                                                                \
		.kernel_ns = 1 * MS, .jitter = 0.3, .host_ns = 20 * US, .spin_every = 6, \
		.most_launches = 3000, .batch = 6, .waits = true                         \
	}

/* The all-reduce has a stream of its own, and events between. */
#define OVERLAPPING_TRAINING                                                          \
	{                                                                             \
		.kernel_ns = 1 * MS, .jitter = 0.3, .host_ns = 20 * US, .streams = 1, \
		.spin_every = 6, .spins_aside = true, .most_launches = 3000           \
	}
/* Many small kernels between. */
#define SMALL_TRAINING                                                                     \
	{                                                                                  \
		.kernel_ns = 50 * US, .jitter = 0.3, .host_ns = 2 * US, .spin_every = 100, \
		.most_launches = 40000                                                     \
	}
#define LARGE_TRAINING                                                                    \
	{                                                                                 \
		.kernel_ns = 20 * MS, .jitter = 0.3, .host_ns = 20 * US, .spin_every = 4, \
		.most_launches = 200                                                      \
	}

const struct scenario scenarios[] = {
    {.name = "deep50us", .what = "deep queue of 50 us", .program = {.kernel_ns = 50 * US}},
    {.name = "deep1ms", .what = "deep queue of 1 ms", .program = {.kernel_ns = 1 * MS}},
    {.name = "deep50ms", .what = "deep queue of 50 ms", .program = {.kernel_ns = 50 * MS}},
    {.name = "deepmix", .what = "deep queue, mixed", .program = {.lengths = LENGTHS_MIX}},
    {.name = "sync50us",
     .what = "launch, wait; 50 us",
     .program = {.kernel_ns = 50 * US, .batch = 1, .waits = true}},
    {.name = "sync1ms",
     .what = "launch, wait; 1 ms",
     .program = {.kernel_ns = 1 * MS, .batch = 1, .waits = true}},
    {.name = "sync50ms",
     .what = "launch, wait; 50 ms",
     .program = {.kernel_ns = 50 * MS, .batch = 1, .waits = true}},
    {.name = "syncmix",
     .what = "launch, wait; mixed",
     .program = {.lengths = LENGTHS_MIX, .batch = 1, .waits = true}},
    {.name = "four50us",
     .what = "four streams, 50 us",
     .program = {.kernel_ns = 50 * US, .streams = 4}},
    {.name = "four1ms",
     .what = "four streams, 1 ms",
     .program = {.kernel_ns = 1 * MS, .jitter = 0.3, .streams = 4}},
    {.name = "four50ms",
     .what = "four streams, 50 ms",
     .program = {.kernel_ns = 50 * MS, .jitter = 0.1, .streams = 4}},
    {.name = "fourmix",
     .what = "four streams, mixed",
     .program = {.lengths = LENGTHS_MIX, .streams = 4}},
    {.name = "fourserial",
     .what = "four streams, 1 ms, one kernel at a time",
     .program = {.kernel_ns = 1 * MS, .jitter = 0.3, .streams = 4},
     .concurrency = 1},
    {.name = "perthread50us",
     .what = "two threads on their default streams, 50 us",
     .program = {.kernel_ns = 50 * US, .is_per_thread = true},
     .threads = 2},
    {.name = "perthread1ms",
     .what = "likewise, 1 ms",
     .program = {.kernel_ns = 1 * MS, .jitter = 0.3, .is_per_thread = true},
     .threads = 2},
    {.name = "perthreadsync",
     .what = "likewise, and waiting",
     .program =
         {.kernel_ns = 1 * MS, .jitter = 0.3, .is_per_thread = true, .batch = 3, .waits = true},
     .threads = 2},
    {.name = "foursync",
     .what = "four streams, waits after 13 of 50 us",
     .program =
         {.kernel_ns = 50 * US, .host_ns = 12 * US, .streams = 4, .batch = 13, .waits = true}},
    {.name = "graph1", .what = "graphs of one node of 20 us", .program = {.kernel_ns = 20 * US}},
    {.name = "graph100", .what = "graphs of 100 nodes of 20 us", .program = {.kernel_ns = 2 * MS}},
    {.name = "graph2000",
     .what = "graphs of 2000 nodes of 20 us",
     .program = {.kernel_ns = 40 * MS}},
    {.name = "graph5000",
     .what = "graphs of 5000 nodes of 20 us",
     .program = {.kernel_ns = 100 * MS}},
    {.name = "bursts",
     .what = "20 of 1 ms, pauses for 2 ms, never waits",
     .program = {.kernel_ns = 1 * MS, .batch = 20, .pause_ns = 2 * MS}},
    {.name = "burstswait",
     .what = "20 of 1 ms, waits, pauses for 1 ms",
     .program = {.kernel_ns = 1 * MS, .batch = 20, .waits = true, .pause_ns = 1 * MS}},
    {.name = "burstsfew",
     .what = "20 of 1 ms, waits, pauses for 20 ms",
     .program = {.kernel_ns = 1 * MS, .batch = 20, .waits = true, .pause_ns = 20 * MS}},
    {.name = "burstshalf",
     .what = "40 of 1 ms, waits, pauses for 40 ms",
     .program = {.kernel_ns = 1 * MS, .batch = 40, .waits = true, .pause_ns = 40 * MS}},
    {.name = "burstslong",
     .what = "100 of 1 ms, waits, pauses for 100 ms",
     .program = {.kernel_ns = 1 * MS, .batch = 100, .waits = true, .pause_ns = 100 * MS}},
    {.name = "change",
     .what = "kernels change their length",
     .program = {.kernel_ns = 1 * MS, .lengths = LENGTHS_CHANGE}},
    {.name = "changesync",
     .what = "likewise, waiting",
     .program = {.kernel_ns = 1 * MS, .lengths = LENGTHS_CHANGE, .batch = 1, .waits = true}},
    {.name = "twogpus",
     .what = "one thread drives two devices",
     .program = {.kernel_ns = 1 * MS, .also_gpu = 1}},
    {.name = "jobs2",
     .what = "70 and 30, 1 ms",
     .program = {.kernel_ns = 1 * MS},
     .build = build_jobs,
     .shares = {70, 30}},
    {.name = "jobs2short",
     .what = "70 and 30, 50 us",
     .program = {.kernel_ns = 50 * US},
     .build = build_jobs,
     .shares = {70, 30}},
    {.name = "jobs2long",
     .what = "70 and 30, 50 ms",
     .program = {.kernel_ns = 50 * MS},
     .build = build_jobs,
     .shares = {70, 30}},
    {.name = "jobs2mix",
     .what = "70 and 30, mixed",
     .program = {.lengths = LENGTHS_MIX},
     .build = build_jobs,
     .shares = {70, 30}},
    {.name = "jobs2sync",
     .what = "65 and 30, waiting: that leaves idle what it cannot have",
     .program = {.kernel_ns = 1 * MS, .batch = 1, .waits = true},
     .build = build_jobs,
     .shares = {65, 30}},
    {.name = "jobs3",
     .what = "50, 30 and 20, 1 ms",
     .program = {.kernel_ns = 1 * MS},
     .build = build_jobs,
     .shares = {50, 30, 20}},
    {.name = "jobs3short",
     .what = "50, 30 and 20, 50 us",
     .program = {.kernel_ns = 50 * US},
     .build = build_jobs,
     .shares = {50, 30, 20}},
    {.name = "jobs3sync",
     .what = "45, 30 and 20, waiting",
     .program = {.kernel_ns = 1 * MS, .batch = 1, .waits = true},
     .build = build_jobs,
     .shares = {45, 30, 20}},
    {.name = "weight1",
     .what = "one job by weight",
     .program = {.kernel_ns = 1 * MS},
     .policy = POLICY_WEIGHT},
    {.name = "weight2",
     .what = "70 and 30 by weight",
     .program = {.kernel_ns = 1 * MS},
     .build = build_jobs,
     .shares = {70, 30},
     .policy = POLICY_WEIGHT},
    {.name = "ranks2",
     .what = "two processes that wait for each other",
     .program = TRAINING,
     .build = build_ranks,
     .ranks = 2},
    {.name = "ranks4", .what = "four", .program = TRAINING, .build = build_ranks, .ranks = 4},
    {.name = "ranks8", .what = "eight", .program = TRAINING, .build = build_ranks, .ranks = 8},
    {.name = "ranks2sync",
     .what = "two that wait after each step",
     .program = WAITING_TRAINING,
     .build = build_ranks,
     .ranks = 2},
    {.name = "ranks4sync",
     .what = "four",
     .program = WAITING_TRAINING,
     .build = build_ranks,
     .ranks = 4},
    {.name = "ranks8sync",
     .what = "eight",
     .program = WAITING_TRAINING,
     .build = build_ranks,
     .ranks = 8},
    {.name = "threads2",
     .what = "two threads of a process that wait for each other",
     .program = TRAINING,
     .build = build_ranks,
     .ranks = 2,
     .threads = 1},
    {.name = "threads4",
     .what = "four",
     .program = TRAINING,
     .build = build_ranks,
     .ranks = 4,
     .threads = 1},
    {.name = "threads8",
     .what = "eight",
     .program = TRAINING,
     .build = build_ranks,
     .ranks = 8,
     .threads = 1},
    {.name = "aside2",
     .what = "two, all-reduce on a stream of its own",
     .program = OVERLAPPING_TRAINING,
     .build = build_ranks,
     .ranks = 2},
    {.name = "aside4",
     .what = "four",
     .program = OVERLAPPING_TRAINING,
     .build = build_ranks,
     .ranks = 4},
    {.name = "aside8",
     .what = "eight",
     .program = OVERLAPPING_TRAINING,
     .build = build_ranks,
     .ranks = 8},
    {.name = "small4",
     .what = "four, 100 kernels of 50 us a step",
     .program = SMALL_TRAINING,
     .build = build_ranks,
     .ranks = 4},
    {.name = "large4",
     .what = "four, 4 kernels of 20 ms a step",
     .program = LARGE_TRAINING,
     .build = build_ranks,
     .ranks = 4},
    {.name = "uneven2",
     .what = "two that launch 6 and 7 kernels a step",
     .program = TRAINING,
     .build = build_uneven,
     .ranks = 2},
    {.name = "uneven4",
     .what = "four that launch 6 to 9",
     .program = TRAINING,
     .build = build_uneven,
     .ranks = 4},
    {.name = "beside2",
     .what = "two, and a job of 40 % on one of their devices",
     .program = TRAINING,
     .build = build_ranks_beside,
     .ranks = 2,
     .shares = {40}},
    {.name = "beside4",
     .what = "four, likewise",
     .program = TRAINING,
     .build = build_ranks_beside,
     .ranks = 4,
     .shares = {40}},
};
const int scenario_count = sizeof(scenarios) / sizeof(*scenarios);

const struct scenario *scenario_find(const char *name)
{
	for (int i = 0; i < scenario_count; i++) {
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	}
	return NULL;
}

void run_start(struct run *run, const struct scenario *s)
{
	struct world_settings settings = world_usual;

	settings.seed = run->seed;
	settings.trace = run->trace;
	if (s->concurrency)
		settings.concurrency = s->concurrency;
	world_start(&settings);
	if (!run->to)
		run->to = world.now + 8 * S;
	run->from = world.now + 1 * S;
	if (s->build)
		s->build(run, s);
	else
		build_alone(run, s);
}

static bool all_have_ended(const struct run *run)
{
	for (int i = 0; i < run->programs; i++) {
		if (!run->program[i].ended_at && !run->program[i].process->is_dead)
			return false;
	}
	return true;
}

bool run_finish(struct run *run)
{
	uint64_t limit = run->to + (run->program[0].most_launches ? 200 * S : 10 * S);

	while (!all_have_ended(run) && world.now < limit)
		world_run_until(world.now + 100 * MS);
	return all_have_ended(run);
}

void run_end(struct run *run)
{
	(void)run;
	world_end();
}

/* Percent held in whole cycles of work and slots. */
static double held_in_cycles(struct tenant *t, uint64_t from, uint64_t to)
{
	uint64_t first = 0, last = 0;

	for (size_t i = 0; i < t->truths; i++) {
		if (t->truth[i].begin < from || t->truth[i].begin >= to)
			continue;
		if (!first)
			first = t->truth[i].begin;
		last = t->truth[i].begin;
	}
	return last > first ? 100 * (double)truth_busy(t, first, last) / (double)(last - first)
	                    : 100;
}

struct outcome run_scenario(const struct scenario *s, double share, uint64_t seed)
{
	static struct run run;
	struct outcome o = {.misuse = 0};
	const struct counters *told;
	struct tenant *t;
	uint64_t at;

	run = (struct run){.share = share, .seed = seed};
	run_start(&run, s);
	o.ended = run_finish(&run);
	if (!o.ended)
		world_tell_threads();
	t = run.program[0].process->tenant[0];
	told = run.program[0].process->device[0].statistics;
	o.window = truth_windows(t, run.from, run.to, 5 * S);
	o.held = 100 * (double)truth_busy(t, run.from, run.to) / (double)(run.to - run.from);
	o.cycles = held_in_cycles(t, run.from, run.to);
	o.longest = truth_longest(t, run.from, run.to, 5 * US, &at);
	for (int i = 0; i < run.programs; i++) {
		const struct program *p = &run.program[i];

		if (p->process == run.program[0].process)
			o.work += 100 * (double)p->work_ns / (double)(run.to - p->began_at);
		if (p->ended_at - p->began_at > o.elapsed)
			o.elapsed = p->ended_at - p->began_at;
	}
	o.idle_ns = statistics_get(&told->idle_ns);
	o.busy_ns = statistics_get(&told->busy_ns);
	o.true_busy_ns = t->busy_ns;
	o.true_idle_ns = world.now - run.program[0].began_at - t->busy_ns;
	o.misuse = world.misuse;
	run_end(&run);
	return o;
}
