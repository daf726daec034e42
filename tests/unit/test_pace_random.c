/* SPDX-License-Identifier: MIT */
/*
 * Jobs of all kinds run at once, under all kinds of events. With any decision of the pacer all jobs
 * go on and end.
 */
#include "tests/unit/state_directory.h"

#include "tests/unit/pace_scenarios.h"
#include "tests/unit/suite.h"

enum { JOBS_MOST = 3, PROCESSES_MOST = 6, PROGRAMS_MOST = 12, DEVICES = 3, SEEDS = 100 };

/* Things happen for so long; later shares are held for so long. */
#define QUIET        (4 * S)
#define STEADY_NS    (5 * S)
#define STEADY_SHARE 25

static struct {
	uint64_t random;
	struct job *job[JOBS_MOST];
	struct process *process[PROCESSES_MOST];
	uint32_t devices[PROCESSES_MOST];
	int processes;
	struct program program[PROGRAMS_MOST];
	int programs;
	struct spin spin[JOBS_MOST];
} play;

static uint64_t chance(uint64_t most)
{
	return random_between(&play.random, 0, most);
}

static double some_share(void)
{
	static const double shares[] = {5, 10, 25, 33.3, 50, 75, 90, 99, 100};

	return shares[chance(8)];
}

static void set_some(struct process *p)
{
	int policy = chance(3) ? POLICY_CAP : POLICY_WEIGHT;
	double share = some_share();

	for (int i = 0; i < DEVICES; i++) {
		if (p->pacer[i])
			process_set(p, i, share, policy);
	}
}

static void add_program(struct process *p, uint32_t devices)
{
	static const uint64_t lengths[] = {5 * US, 50 * US, 300 * US, 1 * MS,
	                                   7 * MS, 50 * MS, 200 * MS};
	struct program *program = &play.program[play.programs++];
	int gpu = (int)chance(DEVICES - 1);

	while (!(devices & 1u << gpu))
		gpu = (gpu + 1) % DEVICES;
	*program = (struct program){
	    .name = "program",
	    .process = p,
	    .gpu = gpu,
	    .kernel_ns = lengths[chance(5)],
	    .lengths = chance(3) ? LENGTHS_SAME : LENGTHS_MIX,
	    .jitter = (double)chance(5) / 10,
	    .streams = chance(1) ? (int)chance(6) : 0,
	    .is_per_thread = chance(3) == 0,
	    .batch = chance(1) ? 1 + (int)chance(30) : 0,
	    .waits = chance(2) != 0,
	    .pause_ns = chance(2) ? 0 : chance(80) * MS,
	    .host_ns = chance(1) ? 0 : chance(200) * US,
	    .until = 1000 * S,
	};
	program_start(program);
}

static void begin(uint64_t seed)
{
	struct world_settings settings = world_usual;
	int jobs;

	memset(&play, 0, sizeof(play));
	play.random = seed;
	settings.seed = seed;
	settings.queue = 64;
	settings.concurrency = 1 + (int)chance(3);
	settings.launch_ns = 1 * US + chance(15) * US;
	settings.latency_ns = 1 * US + chance(10) * US;
	settings.sync_ns = 2 * US + chance(30) * US;
	settings.wake_most_ns = chance(9) ? 120 * US : 3 * MS;
	world_start(&settings);
	jobs = 1 + (int)chance(JOBS_MOST - 1);
	for (int i = 0; i < jobs; i++)
		play.job[i] = world_job();
	play.processes = 1 + (int)chance(PROCESSES_MOST - 1);
	for (int i = 0; i < play.processes; i++) {
		play.devices[i] = 1 + (uint32_t)chance((1u << DEVICES) - 2);
		play.process[i] = process_create(play.job[i % jobs], play.devices[i]);
		set_some(play.process[i]);
		for (uint64_t j = 0; j <= chance(1); j++)
			add_program(play.process[i], play.devices[i]);
	}
}

static bool is_live(const struct process *p)
{
	return !p->is_dead && !p->has_exited;
}

static void let_something_happen(void)
{
	struct process *p = play.process[chance((uint64_t)play.processes - 1)];

	if (!is_live(p))
		return;
	switch (chance(12)) {
	case 0:
		process_kill(p);
		break;
	case 1:
	case 2:
		process_stop(p);
		break;
	case 3:
	case 4:
	case 5:
		process_continue(p);
		break;
	case 6:
		for (int i = 0; i < DEVICES; i++) {
			if (p->pacer[i])
				process_set(p, i, 0, POLICY_CAP);
		}
		break;
	default:
		set_some(p);
	}
}

static void set_all(double share)
{
	for (int i = 0; i < play.processes; i++) {
		struct process *p = play.process[i];

		for (int j = 0; is_live(p) && j < DEVICES; j++) {
			if (p->pacer[j])
				process_set(p, j, share, POLICY_CAP);
		}
	}
}

/* Work that is queued, but for kernels of which one is longer than that. */
static uint64_t backlog(const struct tenant *t)
{
	uint64_t sum = 0;

	for (int i = 0; i < t->streams; i++) {
		const struct stream *s = t->stream[i];

		for (unsigned int j = 0; s->kernels > 1 && j < s->count; j++)
			sum += s->item[(s->first + j) % s->room].left_ns;
	}
	return sum;
}

/* What was launched while nothing was paced is done. */
static bool queues_are_short(void)
{
	for (int i = 0; i < play.processes; i++) {
		for (int j = 0; j < DEVICES; j++) {
			const struct tenant *t = play.process[i]->tenant[j];

			if (t && backlog(t) > 100 * MS)
				return false;
		}
	}
	return true;
}

static void put_everything_right(void)
{
	for (int i = 0; i < play.processes; i++) {
		if (is_live(play.process[i]))
			process_continue(play.process[i]);
	}
	set_all(STEADY_SHARE + 1);
	for (int i = 0; i < 100 && !queues_are_short(); i++)
		world_run_until(world.now + 1 * S);
	world_run_until(world.now + 1 * S);
	set_all(STEADY_SHARE); /* nobody owes anything */
	world_run_until(world.now + 1 * S);
}

static bool all_have_ended(void)
{
	for (int i = 0; i < play.programs; i++) {
		if (!play.program[i].ended_at && !play.program[i].process->is_dead)
			return false;
	}
	return true;
}

/* Expects that what the queues hold is done. */
static void expect_progress(void)
{
	uint64_t before[PROGRAMS_MOST] = {0};

	while (!all_have_ended()) {
		bool any = false;

		for (int i = 0; i < play.programs; i++)
			before[i] = play.program[i].work_ns;
		world_run_until(world.now + 10 * S);
		for (int i = 0; i < play.programs; i++)
			any |= play.program[i].work_ns != before[i] || play.program[i].ended_at;
		if (!any || world.now > 200 * S)
			world_fail("not all programs end");
	}
}

/* All processes of the job on this device, in percent of the steady time. */
static double held_by_job(const struct job *job, int gpu, uint64_t from)
{
	uint64_t busy = 0;

	for (int i = 0; i < play.processes; i++) {
		struct tenant *t = play.process[i]->tenant[gpu];

		if (play.process[i]->job == job && t)
			busy += truth_busy(t, from, from + STEADY_NS);
	}
	return 100 * (double)busy / (double)STEADY_NS;
}

static void tell_all(void)
{
	for (int i = 0; i < play.programs; i++) {
		const struct program *p = &play.program[i];

		fprintf(stderr,
		        "program %d: process %d job %d gpu %d kernel %.3f ms%s jitter %.1f streams "
		        "%d%s "
		        "batch %d%s pause %.0f ms host %.0f us launches %llu%s\n",
		        i, p->process->index, (int)p->process->job->number - 1, p->gpu,
		        (double)p->kernel_ns / 1e6, p->lengths == LENGTHS_MIX ? " mixed" : "",
		        p->jitter, p->streams, p->is_per_thread ? " per thread" : "", p->batch,
		        p->waits ? " waits" : "", (double)p->pause_ns / 1e6,
		        (double)p->host_ns / 1e3, (unsigned long long)p->launches,
		        p->process->is_dead ? " killed" : "");
	}
	world_tell_threads();
}

static void expect_shares(uint64_t from)
{
	/* One kernel of 50 ms more or less, of each of a few programs or of six streams. */
	double slack = 1 + 100 * 6 * 0.075 / 5;

	for (int i = 0; i < JOBS_MOST; i++) {
		for (int gpu = 0; play.job[i] && gpu < DEVICES; gpu++) {
			double held = held_by_job(play.job[i], gpu, from);

			if (held <= STEADY_SHARE + slack)
				continue;
			tell_all();
			ck_abort_msg("job %d holds %.2f of %d on gpu %d", i, held, STEADY_SHARE,
			             gpu);
		}
	}
}

static void expect_nobody_starves(const uint64_t launches[])
{
	for (int i = 0; i < play.programs; i++) {
		const struct program *p = &play.program[i];

		if (p->process->is_dead || p->launches != launches[i])
			continue;
		tell_all();
		ck_abort_msg("program %d did nothing in %d s", i, (int)(STEADY_NS / S));
	}
}

START_TEST(whatever_happens_everybody_ends)
{
	uint64_t launches[PROGRAMS_MOST] = {0}, from;

	begin((uint64_t)_i + 1);
	while (world.now < QUIET) {
		world_run_until(world.now + chance(300) * MS + chance(1000) * US);
		let_something_happen();
	}
	put_everything_right();
	from = world.now;
	for (int i = 0; i < play.programs; i++)
		launches[i] = play.program[i].launches;
	world_run_until(from + STEADY_NS);
	expect_shares(from);
	expect_nobody_starves(launches);
	for (int i = 0; i < play.programs; i++)
		play.program[i].until = world.now;
	expect_progress();
	if (world.misuse)
		ck_abort_msg("%s", world.misused);
	world_end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pace_random");
	TCase *one = tcase_create("random");

	tcase_set_timeout(one, 60);
	suite_add_worlds(one, whatever_happens_everybody_ends, SEEDS);
	suite_add_tcase(suite, one);
	return run_suite(suite);
}
