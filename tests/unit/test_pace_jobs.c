/* SPDX-License-Identifier: MIT */
/*
 * Jobs that share one device take turns: each has its share of the work, and no job waits for a
 * dead one.
 */
#include "tests/unit/state_directory.h"

#include "tests/unit/pace_scenarios.h"
#include "tests/unit/suite.h"

static struct run run;

static struct tenant *tenant_of(int program)
{
	return run.program[program].process->tenant[0];
}

static void start(const char *scenario, uint64_t seed, uint64_t seconds)
{
	run = (struct run){.share = 50, .seed = seed, .to = (1 + seconds) * S};
	run_start(&run, scenario_find(scenario));
}

static void finish(void)
{
	ck_assert(run_finish(&run));
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}

static void expect_windows(int program, double share, uint64_t from, uint64_t to, double tolerance)
{
	struct window w = truth_windows(tenant_of(program), from, to, 5 * S);

	if (w.most > share + tolerance || w.least < share - tolerance)
		ck_abort_msg("job %d: %.2f to %.2f held of %.1f", program, w.least, w.most, share);
}

/* Beginning of the tenant's first stretch after a time. */
static uint64_t next_begin(int program, uint64_t after)
{
	const struct tenant *t = tenant_of(program);

	for (size_t i = 0; i < t->truths; i++) {
		if (t->truth[i].end > after)
			return t->truth[i].begin > after ? t->truth[i].begin : after;
	}
	return UINT64_MAX;
}

static void expect_begin(int program, uint64_t at, uint64_t within)
{
	uint64_t begin = next_begin(program, at);

	if (begin > at + within)
		ck_abort_msg("job %d works only after %.3f ms", program,
		             (double)(begin - at) / 1e6);
}

/* Returns when the job's own account allows its next round at the latest, as far as it was told. */
static uint64_t may_work_from(int program, uint64_t at)
{
	uint64_t paid = atomic_load(&run.program[program].process->job->lanes.paid_until[0]);

	return paid > at ? paid : at;
}

/* Percent of the time. */
static double held_by(int program, uint64_t from, uint64_t to)
{
	return 100 * (double)truth_busy(tenant_of(program), from, to) / (double)(to - from);
}

/* At least so much. */
static void expect_held(int program, double share, uint64_t from, uint64_t to)
{
	double held = held_by(program, from, to);

	if (held < share)
		ck_abort_msg("job %d: %.2f held of %.2f", program, held, share);
}

/* --- shares --- */

static const char *const mixes[] = {"jobs2",     "jobs2short", "jobs2long",  "jobs2mix",
                                    "jobs2sync", "jobs3",      "jobs3short", "jobs3sync"};
enum { MIXES = sizeof(mixes) / sizeof(*mixes), SEEDS = 3 };

START_TEST(each_job_has_its_share_of_the_work)
{
	start(mixes[_i / SEEDS], (uint64_t)(_i % SEEDS) + 1, 8);
	ck_assert(run_finish(&run));
	for (int i = 0; i < run.programs; i++) {
		double held = held_by(i, run.from, run.to);

		if (held < run.set[i] - 1 || held > run.set[i] + 1)
			ck_abort_msg("job %d: %.2f held of %.1f", i, held, run.set[i]);
		/* Five seconds may have one kernel of 50 ms more or less. */
		expect_windows(i, run.set[i], run.from, run.to, 1.5);
	}
	finish();
}
END_TEST

START_TEST(shares_that_leave_room_are_held_too)
{
	struct scenario s = *scenario_find("jobs2");

	s.shares[0] = 40;
	s.shares[1] = 20;
	run = (struct run){.seed = 3};
	run_start(&run, &s);
	ck_assert(run_finish(&run));
	expect_windows(0, 40, run.from, run.to, 1);
	expect_windows(1, 20, run.from, run.to, 1);
	finish();
}
END_TEST

/* --- weights --- */

START_TEST(a_lone_job_by_weight_loses_nothing)
{
	struct outcome alone = run_scenario(scenario_find("weight1"), 100, 1);
	struct outcome o = run_scenario(scenario_find("weight1"), 30, 1);

	ck_assert(o.ended);
	ck_assert_double_ge(o.held, 0.99 * alone.held);
	ck_assert_double_ge(o.work, 0.99 * alone.work);
}
END_TEST

START_TEST(weights_divide_the_whole_device)
{
	static const double weights[][2] = {{70, 30}, {20, 10}, {90, 90}};
	struct scenario s = *scenario_find("weight2");
	double sum;

	s.shares[0] = weights[_i][0];
	s.shares[1] = weights[_i][1];
	sum = s.shares[0] + s.shares[1];
	run = (struct run){.seed = 3};
	run_start(&run, &s);
	ck_assert(run_finish(&run));
	expect_windows(0, 100 * s.shares[0] / sum, run.from, run.to, 1);
	expect_windows(1, 100 * s.shares[1] / sum, run.from, run.to, 1);
	finish();
}
END_TEST

static struct program *add_job(double share, int policy, const struct program *template)
{
	struct program *p = &run.program[run.programs];

	*p = *template;
	p->name = "newcomer";
	p->process = process_create(world_job(), 1);
	p->until = run.to;
	process_set(p->process, 0, share, policy);
	run.set[run.programs++] = share;
	program_start(p);
	return p;
}

START_TEST(a_lone_job_lets_a_newcomer_in_within_two_quanta)
{
	const struct program newcomer = {.kernel_ns = 1 * MS};
	uint64_t at;

	start("weight1", (uint64_t)_i, 4);
	at = 2 * S + (uint64_t)_i * 377 * US;
	world_run_until(at);
	add_job(50, POLICY_WEIGHT, &newcomer);
	world_run_until(at + 500 * MS);
	expect_begin(1, at, 2 * PACER_QUANTUM_NS + 1 * MS);
	finish();
}
END_TEST

/*
 * Its natural pauses are credit that it has against a newcomer; who passes its turn leaves it to
 * him all the same.
 */
START_TEST(a_lone_job_with_pauses_lets_a_newcomer_in_within_two_quanta)
{
	const struct program newcomer = {.kernel_ns = 1 * MS};
	struct scenario s = *scenario_find("weight1");
	uint64_t at;

	s.program.batch = 10;
	s.program.waits = true;
	s.program.pause_ns = 200 * US;
	run = (struct run){.share = 50, .seed = (uint64_t)_i, .to = 5 * S};
	run_start(&run, &s);
	at = 2 * S + (uint64_t)_i * 377 * US;
	world_run_until(at);
	add_job(50, POLICY_WEIGHT, &newcomer);
	world_run_until(at + 500 * MS);
	expect_begin(1, at, 2 * PACER_QUANTUM_NS + 1 * MS);
	finish();
}
END_TEST

START_TEST(an_idle_job_passes_its_turn_on)
{
	double idle;
	const struct program lazy = {
	    .kernel_ns = 1 * MS, .batch = 5, .waits = true, .pause_ns = 50 * MS};

	start("weight1", (uint64_t)_i, 8);
	add_job(50, POLICY_WEIGHT, &lazy);
	ck_assert(run_finish(&run));
	/* The time that the lazy one leaves: it works for less than 5 of 50 ms. */
	idle = 100 * (double)gpu_idle(0, run.from, run.to) / (double)(run.to - run.from);
	if (idle > 3)
		ck_abort_msg("the device is idle for %.2f %%", idle);
	expect_held(0, 87, run.from, run.to);
	/* And it need not wait long: ten times a second it gets its 5 ms. */
	ck_assert_uint_ge(run.program[1].launches, 8 * 12 * 5);
	finish();
}
END_TEST

/*
 * The watcher, which passes the turn on, sleeps in its pauses: each time it is called for work that
 * is in flight.
 */
START_TEST(a_job_that_rested_passes_its_turn_on)
{
	double idle;
	const struct program lazy = {
	    .kernel_ns = 1 * MS, .batch = 1, .waits = true, .pause_ns = 300 * MS};

	start("weight1", (uint64_t)_i, 8);
	add_job(50, POLICY_WEIGHT, &lazy);
	ck_assert(run_finish(&run));
	idle = 100 * (double)gpu_idle(0, run.from, run.to) / (double)(run.to - run.from);
	if (idle > 3)
		ck_abort_msg("the device is idle for %.2f %%", idle);
	finish();
}
END_TEST

/* --- those who go --- */

/* Until this job works, which is in its turn. */
static void run_until_works(int program, uint64_t from)
{
	struct tenant *t = tenant_of(program);

	world_run_until(from);
	for (int i = 0; i < 10000; i++) {
		if (world.gpu[0]->active == t && t->residents)
			return;
		world_run_until(world.now + 100 * US);
	}
	ck_abort_msg("job %d does not work", program);
}

static const char *const turns_of[] = {"jobs2", "jobs2short", "weight2", "jobs2sync"};
enum { TIMES = 6, TURNS_OF = sizeof(turns_of) / sizeof(*turns_of) };

START_TEST(a_job_killed_in_its_turn_loses_it)
{
	uint64_t at;

	start(turns_of[_i / TIMES], (uint64_t)_i, 6);
	run_until_works(_i % 2, 2 * S + (uint64_t)(_i % TIMES) * 7300 * US);
	at = may_work_from(1 - _i % 2, world.now);
	process_kill(run.program[_i % 2].process);
	world_run_until(at + 400 * MS);
	expect_begin(1 - _i % 2, at, 20 * MS);
	finish();
}
END_TEST

START_TEST(a_job_stopped_in_its_turn_loses_it)
{
	uint64_t at;
	int other = 1 - _i % 2;

	start(turns_of[_i / TIMES], (uint64_t)_i, 12);
	run_until_works(_i % 2, 2 * S + (uint64_t)(_i % TIMES) * 7300 * US);
	at = may_work_from(other, world.now);
	process_stop(run.program[_i % 2].process);
	world_run_until(at + 2 * S);
	expect_begin(other, at, 20 * MS);
	process_continue(run.program[_i % 2].process);
	at = world.now;
	ck_assert(run_finish(&run));
	expect_windows(0, run.set[0], at + 1 * S, run.to, 1.5);
	expect_windows(1, run.set[1], at + 1 * S, run.to, 1.5);
	finish();
}
END_TEST

START_TEST(who_stays_by_weight_gets_all)
{
	uint64_t at;

	start("weight2", (uint64_t)_i, 5);
	run_until_works(1, 2 * S + (uint64_t)_i * 1700 * US);
	at = world.now;
	process_kill(run.program[1].process);
	ck_assert(run_finish(&run));
	expect_held(0, 99, at + 200 * MS, run.to);
	finish();
}
END_TEST

START_TEST(a_paused_job_does_not_hold_the_turn)
{
	uint64_t at;

	start("weight2", (uint64_t)_i, 5);
	run_until_works(0, 2 * S + (uint64_t)_i * 1700 * US);
	at = world.now;
	process_set(run.program[0].process, 0, 0, POLICY_WEIGHT);
	world_run_until(at + 1 * S);
	expect_begin(1, at, 100 * MS);
	expect_held(1, 99, at + 200 * MS, at + 1 * S);
	process_set(run.program[0].process, 0, 70, POLICY_WEIGHT);
	finish();
}
END_TEST

/* A process that was about to take a lane, and was late, may write to it once more. */
START_TEST(a_lane_says_its_own_job)
{
	struct turn_lane *lane = world_turns[0].lane;
	uint64_t job;

	start("jobs2", 1, 2);
	world_run_until(1 * S);
	job = lane->job;
	ck_assert(lane->owner && job);
	lane->job = job + 1000;
	world_run_until(2 * S);
	ck_assert_uint_eq(lane->job, job);
	finish();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pace_jobs");
	TCase *one = tcase_create("jobs");

	tcase_set_timeout(one, 60);
	suite_add_worlds(one, each_job_has_its_share_of_the_work, MIXES * SEEDS);
	tcase_add_test(one, shares_that_leave_room_are_held_too);
	tcase_add_test(one, a_lone_job_by_weight_loses_nothing);
	suite_add_worlds(one, weights_divide_the_whole_device, 3);
	suite_add_worlds(one, a_lone_job_lets_a_newcomer_in_within_two_quanta, 20);
	suite_add_worlds(one, a_lone_job_with_pauses_lets_a_newcomer_in_within_two_quanta, 20);
	suite_add_worlds(one, an_idle_job_passes_its_turn_on, 3);
	suite_add_worlds(one, a_job_that_rested_passes_its_turn_on, 3);
	suite_add_worlds(one, a_job_killed_in_its_turn_loses_it, TURNS_OF * TIMES);
	suite_add_worlds(one, a_job_stopped_in_its_turn_loses_it, TURNS_OF * TIMES);
	suite_add_worlds(one, who_stays_by_weight_gets_all, 6);
	suite_add_worlds(one, a_paused_job_does_not_hold_the_turn, 6);
	tcase_add_test(one, a_lane_says_its_own_job);
	suite_add_tcase(suite, one);
	return run_suite(suite);
}
