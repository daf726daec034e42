/* SPDX-License-Identifier: MIT */
/*
 * Jobs on several devices with kernels that wait for each other keep their throughput: slots come
 * at the same time.
 */
#include "tests/unit/state_directory.h"

#include "tests/unit/pace_scenarios.h"
#include "tests/unit/suite.h"

static const double shares[] = {25, 50, 75, 90};
enum { SHARES = sizeof(shares) / sizeof(*shares) };

/*
 * Returns what the job did of what the share allows: its time unpaced against its time paced, in
 * percent.
 */
static double part_of_ideal(const struct scenario *s, double share, double slack, uint64_t seed)
{
	struct outcome alone = run_scenario(s, 100, seed);
	struct outcome o = run_scenario(s, share, seed);

	ck_assert(alone.ended);
	if (!o.ended)
		ck_abort_msg("%s at %.0f %% does not end", s->name, share);
	ck_assert_uint_eq(o.misuse, 0);
	if (o.held > share + slack)
		ck_abort_msg("%s at %.0f %%: held %.2f", s->name, share, o.held);
	return 100 * (double)alone.elapsed / (double)o.elapsed / (share / 100);
}

static const char *const alike[] = {
    "ranks2",   "ranks4",   "ranks8",   "ranks2sync", "ranks4sync", "ranks8sync",
    "threads2", "threads4", "threads8", "aside2",     "aside4",     "aside8",
};
enum { ALIKE = sizeof(alike) / sizeof(*alike) };

START_TEST(ranks_keep_their_throughput)
{
	const struct scenario *s = scenario_find(alike[_i / SHARES]);
	double share = shares[_i % SHARES];
	double part = part_of_ideal(s, share, 1, (uint64_t)_i + 1);

	if (part < 95)
		ck_abort_msg("%s at %.0f %%: %.1f %% of the ideal", s->name, share, part);
}
END_TEST

/*
 * Where they do not rest at the same launch, or rest rarely, some of it is lost; not the point of
 * it all.
 */
static const char *const unlike[] = {"small4", "large4", "uneven2", "uneven4"};
enum { UNLIKE = sizeof(unlike) / sizeof(*unlike) };

START_TEST(ranks_of_other_kinds_keep_most_of_it)
{
	const struct scenario *s = scenario_find(unlike[_i / SHARES]);
	double share = shares[_i % SHARES];
	/* A kernel of 20 ms that spins at the end is worth a point of such a run. */
	double part = part_of_ideal(s, share, 2, (uint64_t)_i + 1);

	if (part < 80)
		ck_abort_msg("%s at %.0f %%: %.1f %% of the ideal", s->name, share, part);
}
END_TEST

static struct run run;

/* The others spin for it, which is work of theirs; then all go on together. */
START_TEST(a_rank_that_is_stopped_and_continued_holds_nobody_for_ever)
{
	static const char *const jobs[] = {"ranks4", "ranks4sync", "aside4"};
	struct process *process;

	run = (struct run){.share = 50, .seed = (uint64_t)_i + 1};
	run_start(&run, scenario_find(jobs[_i % 3]));
	world_run_until(2 * S + (uint64_t)_i * 1100 * US);
	process = run.program[_i % 4].process;
	process_stop(process);
	world_run_until(world.now + 500 * MS);
	process_continue(process);
	if (!run_finish(&run))
		world_fail("not all ranks have ended");
	for (int i = 0; i < run.programs; i++)
		ck_assert_uint_le(run.program[i].ended_at, 12 * S);
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}
END_TEST

START_TEST(a_job_beside_one_of_the_ranks_has_its_share)
{
	static const char *const jobs[] = {"beside2", "beside4"};
	const struct program *other;
	double held;

	run = (struct run){.share = 25, .seed = (uint64_t)_i + 1};
	run_start(&run, scenario_find(jobs[_i % 2]));
	if (!run_finish(&run))
		world_fail("not all programs have ended");
	other = &run.program[run.programs - 1];
	held = 100 * (double)truth_busy(other->process->tenant[0], run.from, run.to) /
	       (double)(run.to - run.from);
	if (held < 39 || held > 41)
		ck_abort_msg("the other holds %.2f of 40", held);
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pace_ranks");
	TCase *one = tcase_create("ranks");

	tcase_set_timeout(one, 60);
	suite_add_worlds(one, ranks_keep_their_throughput, ALIKE * SHARES);
	suite_add_worlds(one, ranks_of_other_kinds_keep_most_of_it, UNLIKE * SHARES);
	suite_add_worlds(one, a_rank_that_is_stopped_and_continued_holds_nobody_for_ever, 12);
	suite_add_worlds(one, a_job_beside_one_of_the_ranks_has_its_share, 4);
	suite_add_tcase(suite, one);
	return run_suite(suite);
}
