/* SPDX-License-Identifier: MIT */
/* Scenarios of the world by name, for the tests and for looking at one by hand (pace_world_run). */
#ifndef PACE_SCENARIOS_H
#define PACE_SCENARIOS_H

#include "tests/unit/pace_programs.h"

enum { RUN_PROGRAMS = 32, RUN_JOBS = 4 };

/* One run of a scenario; outlives its world but for what points into it. */
struct run {
	double share; /* percent; of all jobs but where `shares` says otherwise. 100: not paced */
	uint64_t seed;
	bool trace;
	uint64_t from, to; /* what is measured: after the first second */
	struct program program[RUN_PROGRAMS];
	int programs;
	double set[RUN_PROGRAMS]; /* the share of each program's process */
	struct spin spin;
};

/* The outcome of the first process of a run on device 0. */
struct outcome {
	struct window window; /* of 5 s */
	double held;          /* percent */
	double cycles;        /* the same from the beginning of one stretch to that of another */
	double work;          /* done by all its programs, in percent of the time */
	uint64_t longest;     /* stretch without a gap of 5 us */
	uint64_t idle_ns, true_idle_ns; /* as the pacer tells; and what there was of it */
	uint64_t busy_ns, true_busy_ns; /* likewise */
	uint64_t elapsed;               /* until the last program ended */
	bool ended;
	uint64_t misuse;
};

struct scenario {
	const char *name, *what;
	struct program program; /* of a scenario of one program */
	int threads;            /* so many of them, in one process */
	int concurrency;        /* 0: as usual */
	void (*build)(struct run *run, const struct scenario *scenario); /* of others */
	int ranks;
	double shares[RUN_JOBS]; /* one job for each */
	int policy;
};

extern const struct scenario scenarios[];
extern const int scenario_count;

const struct scenario *scenario_find(const char *name);
/* Builds the world and starts the programs, which end at `to`. */
void run_start(struct run *run, const struct scenario *scenario);
/* Lets it run until all programs have ended; false: they did not within ten seconds after `to`. */
bool run_finish(struct run *run);
void run_end(struct run *run);
/* All of it: a run of the scenario, with this share for jobs that have none of their own. */
struct outcome run_scenario(const struct scenario *scenario, double share, uint64_t seed);

#endif
