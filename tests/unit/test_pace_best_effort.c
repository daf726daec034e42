/* SPDX-License-Identifier: MIT */
/*
 * Best-effort jobs beside guaranteed jobs, in virtual time: the speed that the guaranteed job
 * keeps, and how busy the device is. Handing the device over costs 20 us, a thread wakes 5 to 120
 * us late, kernels vary by 3 %.
 */
#include "core/sharing/best_effort.c" /* best_effort_off_at(), too */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "core/pace/pacer_private.h"
#include "tests/unit/pace_programs.h"
#include "tests/unit/suite.h"

enum { MOST = 6 };

static struct program program[MOST];
static int programs;

static void begin(uint64_t seed)
{
	struct world_settings settings = world_usual;

	settings.seed = seed;
	settings.handing_ns = 20 * US;
	world_start(&settings);
	programs = 0;
}

/* A job of this priority; a program of no time does not begin. */
static struct program *add(const struct program *template, int priority)
{
	struct program *p = &program[programs++];
	struct process *process = process_create(world_job(), 1);

	*p = *template;
	p->process = process;
	if (priority >= 0)
		process_share(process, 0, priority, priority == PRIORITY_NORMAL);
	program_start(p);
	return p;
}

/* A training: so much of each period is kernels, the rest of it a gap. */
static struct program training(uint64_t period_ns, double busy, uint64_t until)
{
	uint64_t work = (uint64_t)((double)period_ns * busy);
	uint64_t kernels = work / (500 * US) + 1;

	return (struct program){.name = "training",
	                        .kernel_ns = work / kernels,
	                        .jitter = 0.03,
	                        .batch = (int)kernels,
	                        .waits = true,
	                        .pause_ns = period_ns - work,
	                        .until = until};
}

static struct program best_effort(uint64_t kernel_ns, uint64_t until)
{
	return (struct program){
	    .name = "best_effort", .kernel_ns = kernel_ns, .jitter = 0.03, .until = until};
}

struct result {
	double speed; /* of the first program, of its speed alone */
	double busy;  /* the device, of the time */
	double fills; /* the last program, of the time */
	double takes; /* as it says */
};

/* Runs one program alone and then beside a best-effort job. */
static struct result beside_best_effort(const struct program *template, uint64_t kernel_ns,
                                        uint64_t seed)
{
	uint64_t from = 2 * S, to = template->until;
	struct result result;
	double alone;

	begin(seed);
	struct program *p = add(template, -1);
	world_run_until(to + S);
	alone = (double)p->launches;
	world_end();

	begin(seed);
	p = add(template, PRIORITY_GUARANTEED);
	struct program beside = best_effort(kernel_ns, to);
	struct program *f = add(&beside, PRIORITY_OPPORTUNISTIC);
	world_run_until(to);
	result.speed = (double)p->launches / alone;
	result.busy = 1 - (double)gpu_idle(0, from, to) / (double)(to - from);
	result.fills = (double)truth_busy(f->process->tenant[0], from, to) / (double)(to - from);
	result.takes = f->process->record[0].now.takes_ppm / 1e6;
	world_run_until(to + 70 * S);
	ck_assert_uint_eq(world.misuse, 0);
	ck_assert_msg(f->ended_at, "the best-effort job is held for ever");
	world_end();
	return result;
}

static void tell(const char *what, uint64_t period, struct result r)
{
	if (getenv("TELL"))
		fprintf(stderr,
		        "%s, every %.1f ms: speed %.4f device %.3f best-effort job %.3f of %.3f\n",
		        what, (double)period / 1e6, r.speed, r.busy, r.fills, r.takes);
}

static const uint64_t periods[] = {300 * US, 2 * MS, 10 * MS, 50 * MS, 500 * MS, 2 * S};
static const double busies[] = {0.3, 0.6, 0.9};

/*
 * Speed is at least 98 %, whatever the gaps; those of 50 ms and longer are filled: their beginning
 * is looked for when it is due, and rounds that the end of one has stretched do not count as long
 * in the next.
 */
START_TEST(a_training_keeps_its_speed)
{
	uint64_t period = periods[_i / 3];
	struct program p = training(period, busies[_i % 3], period < S ? 20 * S : 60 * S);
	struct result r = beside_best_effort(&p, 200 * US, 1);

	tell("training", period, r);
	ck_assert_double_ge(r.speed, 0.98);
	if (period >= 50 * MS)
		ck_assert_double_ge(r.busy, busies[_i % 3] > 0.8 ? 0.97 : 0.96);
}
END_TEST

/*
 * A best-effort job's kernels of 50 ms cannot be ended when the training goes on: they are made as
 * rarely as it bears.
 */
START_TEST(long_kernels_are_rare)
{
	uint64_t period = periods[_i];
	struct program p = training(period, 0.5, 60 * S);
	struct result r = beside_best_effort(&p, 50 * MS, 1);

	tell("long kernels", period, r);
	ck_assert_double_ge(r.speed, 0.98);
	ck_assert_double_gt(r.fills, 0);
}
END_TEST

/*
 * An inference engine works for 8 ms and pauses for 0.7 ms. Each look of a watcher takes
 * time from the engine's threads, so a burst that is like the last ones is looked at a few times.
 */
START_TEST(watchers_look_rarely)
{
	struct program p = training(8700 * US, 0.92, 12 * S), other = best_effort(200 * US, 12 * S);
	struct process *engine, *beside;
	uint64_t looks, looks_beside;

	begin(14);
	engine = add(&p, PRIORITY_GUARANTEED)->process;
	beside = add(&other, PRIORITY_OPPORTUNISTIC)->process;
	world_run_until(2 * S);
	looks = engine->watcher_looks;
	looks_beside = beside->watcher_looks;
	world_run_until(12 * S);
	looks = (engine->watcher_looks - looks) / 10;
	looks_beside = (beside->watcher_looks - looks_beside) / 10;
	if (getenv("TELL"))
		fprintf(stderr, "looks per second: %lu, best-effort job %lu\n", looks,
		        looks_beside);
	ck_assert_uint_le(looks, 3000);
	ck_assert_uint_le(looks_beside, 5000);
	world_end();
}
END_TEST

/*
 * A best-effort job with kernels of 0.2 ms. Every 5 s two of them take 45 ms each, as on a host
 * that is short of processors.
 */
static void launch_with_outliers(void *argument)
{
	struct program *p = argument;

	call_use(0);
	while (world.now < p->until) {
		struct item kernel = {.left_ns = p->kernel_ns};

		if (world.now >= p->began_at + 5 * S) {
			kernel.left_ns = 45 * MS;
			if (p->batches++ % 2)
				p->began_at = world.now;
		}
		call_launch(NULL, &kernel, 1);
		p->launches++;
	}
}

/*
 * A kernel that took longer than the gaps once says nothing of the next ones for long: the job
 * fills gaps of 30 ms again after a second, and the guaranteed job keeps its speed.
 */
START_TEST(a_kernel_that_took_long_once_is_forgotten)
{
	struct program p = training(50 * MS, 0.4, 30 * S), other = best_effort(200 * US, 30 * S);
	uint64_t alone, least = UINT64_MAX;
	struct program *one, *f;

	begin(13);
	one = add(&p, -1);
	world_run_until(30 * S);
	alone = one->launches;
	world_end();

	begin(13);
	one = add(&p, PRIORITY_GUARANTEED);
	f = &program[programs++];
	*f = other;
	f->process = process_create(world_job(), 1);
	process_share(f->process, 0, PRIORITY_OPPORTUNISTIC, false);
	thread_begin(f->process, f->name, launch_with_outliers, f);
	world_run_until(7 * S);
	while (world.now < 30 * S) {
		uint64_t before = f->launches;

		world_run_until(world.now + 2 * S);
		least = f->launches - before < least ? f->launches - before : least;
	}
	if (getenv("TELL"))
		fprintf(stderr,
		        "outliers: speed %.4f, best-effort job %lu launches, in 2 s at least %lu\n",
		        (double)one->launches / (double)alone, f->launches, least);
	ck_assert_double_ge((double)one->launches, 0.98 * (double)alone);
	ck_assert_uint_ge(least, 1000);
	world_end();
}
END_TEST

/* Who tells best-effort jobs of its gaps does not say by that that its memory may be claimed. */
START_TEST(a_gap_is_no_idleness)
{
	struct program one = training(50 * MS, 0.3, 4 * S), other = best_effort(200 * US, 4 * S);
	const struct peer_record *record;
	int gaps = 0;

	begin(11);
	record = &add(&one, PRIORITY_GUARANTEED)->process->record[0].now;
	add(&other, PRIORITY_OPPORTUNISTIC);
	while (world.now < 4 * S) {
		world_run_until(world.now + 7 * MS);
		gaps += record->working == PEER_IDLE && record->gap_since_ns != 0;
		if (record->idle_since_ns)
			ck_abort_msg("a gap at %lu ms is told as idleness",
			             (unsigned long)(world.now / MS));
	}
	ck_assert_int_ge(gaps, 100);
	world_end();
}
END_TEST

/* Where no thread could be started to see gaps nobody is held for ever; 1 % is what is left. */
START_TEST(who_has_no_watcher_goes_on)
{
	struct program one = training(10 * MS, 0.5, 10 * S), other = best_effort(200 * US, 10 * S);
	struct program *f;

	atomic_store(&watch_is_missing, true);
	begin(12);
	add(&one, PRIORITY_GUARANTEED);
	f = add(&other, PRIORITY_OPPORTUNISTIC);
	world_run_until(12 * S);
	ck_assert_msg(f->ended_at, "the best-effort job is held for ever");
	ck_assert_uint_gt(f->launches, 10);
	ck_assert_double_lt((double)truth_busy(f->process->tenant[0], 2 * S, 10 * S), 0.02 * 8 * S);
	world_end();
	atomic_store(&watch_is_missing, false);
}
END_TEST

/* A program whose steps change by themselves, by up to 200 times, is not taken for a hurt one. */
START_TEST(phases_are_no_loss)
{
	struct program p = training(10 * MS, 0.5, 60 * S);
	struct result r;

	p.lengths = LENGTHS_CHANGE;
	r = beside_best_effort(&p, 200 * US, (uint64_t)_i + 1);
	tell("phases", 0, r);
	ck_assert_double_ge(r.speed, 0.98);
	ck_assert_double_ge(r.fills, 0.05);
}
END_TEST

static int by_length(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

enum { REQUESTS = 20000 };

/* Runs requests of 1 ms at random, 20 % of the time. Returns their 99th percentile. */
static uint64_t answer(bool beside, double *fills)
{
	static uint64_t took[REQUESTS];
	struct program requests = {.name = "requests",
	                           .kernel_ns = 250 * US,
	                           .jitter = 0.03,
	                           .batch = 4,
	                           .waits = true,
	                           .pause_ns = 4 * MS,
	                           .pause_varies = true,
	                           .batch_took_ns = took,
	                           .batches_most = REQUESTS,
	                           .until = 60 * S};
	struct program other = best_effort(200 * US, 60 * S);
	struct program *p, *f;

	begin(3);
	p = add(&requests, beside ? PRIORITY_GUARANTEED : -1);
	f = beside ? add(&other, PRIORITY_OPPORTUNISTIC) : NULL;
	world_run_until(60 * S);
	if (f)
		*fills = (double)truth_busy(f->process->tenant[0], S, 60 * S) / (59.0 * S);
	ck_assert_uint_gt(p->batches, 5000);
	qsort(took, p->batches, sizeof *took, by_length);
	uint64_t percentile = took[p->batches * 99 / 100];

	world_end();
	return percentile;
}

/*
 * Requests at random take no longer beside a best-effort job than a round of it, at the 99th
 * percentile.
 */
START_TEST(requests_are_answered_in_time)
{
	double fills = 0;
	uint64_t alone = answer(false, NULL), beside = answer(true, &fills);

	if (getenv("TELL"))
		fprintf(stderr, "requests: %.3f ms alone, %.3f beside, best-effort job %.3f\n",
		        (double)alone / 1e6, (double)beside / 1e6, fills);
	ck_assert_uint_le(beside, alone + 1 * MS);
	ck_assert_double_ge(fills, 0.05);
}
END_TEST

struct sums {
	double first, second, third; /* launches */
};

/* Runs two jobs, and beside them a best-effort job. */
static struct sums run_three(const struct program *first, const struct program *second,
                             int priority, bool has_best_effort, uint64_t until)
{
	struct program other = best_effort(200 * US, until);
	struct sums sums = {0};
	struct program *a, *b = NULL, *f = NULL;

	begin(5);
	a = add(first, PRIORITY_GUARANTEED);
	if (second)
		b = add(second, priority);
	if (has_best_effort)
		f = add(&other, PRIORITY_OPPORTUNISTIC);
	world_run_until(until);
	sums.first = (double)a->launches;
	sums.second = b ? (double)b->launches : 0;
	sums.third = f ? (double)f->launches : 0;
	world_end();
	return sums;
}

/* Two guaranteed jobs are to each other what they are without a best-effort job. */
START_TEST(two_guaranteed_jobs_keep_their_speed)
{
	struct program one = training(50 * MS, 0.3, 30 * S), two = training(20 * MS, 0.3, 30 * S);
	struct sums alone = run_three(&one, &two, PRIORITY_GUARANTEED, false, 30 * S);
	struct sums beside = run_three(&one, &two, PRIORITY_GUARANTEED, true, 30 * S);

	if (getenv("TELL"))
		fprintf(stderr, "two guaranteed: %.4f %.4f, best-effort job %.0f\n",
		        beside.first / alone.first, beside.second / alone.second, beside.third);
	ck_assert_double_ge(beside.first, 0.98 * alone.first);
	ck_assert_double_ge(beside.second, 0.98 * alone.second);
	ck_assert_double_ge(beside.third, 10000);
}
END_TEST

/* A normal job gives way to a guaranteed one, and a best-effort job to both. */
START_TEST(a_normal_job_gives_way)
{
	struct program one = training(50 * MS, 0.3, 30 * S);
	struct program normal = training(20 * MS, 0.5, 30 * S);
	struct sums alone = run_three(&one, NULL, 0, false, 30 * S);
	struct sums two = run_three(&one, &normal, PRIORITY_NORMAL, false, 30 * S);
	struct sums three = run_three(&one, &normal, PRIORITY_NORMAL, true, 30 * S);

	if (getenv("TELL"))
		fprintf(stderr,
		        "beside a normal one: %.4f, with a best-effort job %.4f; normal %.4f, "
		        "best-effort job %.0f\n",
		        two.first / alone.first, three.first / alone.first,
		        three.second / two.second, three.third);
	ck_assert_double_ge(two.first, 0.98 * alone.first);
	ck_assert_double_ge(three.first, 0.98 * alone.first);
	ck_assert_double_gt(two.second, 1000);
	ck_assert_double_ge(three.second, 0.9 * two.second);
	ck_assert_double_gt(three.third, 1000);
}
END_TEST

/*
 * A guaranteed job that stands still, or is killed, holds the best-effort job up for some seconds,
 * once.
 */
START_TEST(who_stands_still_delays_once)
{
	struct program one = training(50 * MS, 0.9, 30 * S), other = best_effort(200 * US, 30 * S);
	struct program *a, *f;
	uint64_t before;

	begin(7);
	a = add(&one, PRIORITY_GUARANTEED);
	f = add(&other, PRIORITY_OPPORTUNISTIC);
	world_run_until(5 * S);
	if (_i)
		process_kill(a->process);
	else
		process_stop(a->process);
	world_run_until(_i ? 5 * S + 600 * MS : 5 * S + PEER_SILENT_NS + 600 * MS);
	before = f->launches;
	world_run_until(world.now + S);
	ck_assert_uint_ge(f->launches - before, 4000);
	world_end();
}
END_TEST

/*
 * Where a job loses what best-effort jobs take from it elsewhere, as bandwidth, they take less
 * until it bears that; and more again when it loses no more.
 */
START_TEST(best_effort_jobs_take_what_is_borne)
{
	static struct feedback feedback;
	static struct best_effort f;
	static struct peers peers;
	struct peer_record *record = &peers.other[0].record;
	const struct best_effort_now own = {.priority = PRIORITY_OPPORTUNISTIC};
	struct feedback_loss loss;
	double count = 0, costs = 0.2, worst = 0;

	feedback = (struct feedback){0};
	f = (struct best_effort){0};
	peers = (struct peers){.count = 1};
	*record = (struct peer_record){.priority = PRIORITY_GUARANTEED,
	                               .token = 1,
	                               .slowdown_ppm = 20000,
	                               .working = PEER_WORKS};
	for (uint64_t at = S; at < 1200 * S; at += 2 * MS) {
		uint64_t off = best_effort_off_at(at);
		double takes = (double)f.takes_ppm / BEST_EFFORT_ALL;

		if (at == 600 * S)
			costs = 0;
		count +=
		    at >= off && at < off + BEST_EFFORT_OFF_NS ? 200 : 200 * (1 - costs * takes);
		record->looked_ns = at;
		if (feedback_look(&feedback, at, (uint64_t)count, record->slowdown_ppm, &loss)) {
			record->loss_ppm = loss.loss_ppm;
			record->loss_error_ppm = loss.error_ppm;
			record->loss_number++;
		}
		best_effort_decide(&f, &peers, &own, at);
		if (at > 120 * S && at < 600 * S && costs * takes > worst)
			worst = costs * takes;
	}
	if (getenv("TELL"))
		fprintf(stderr, "loss at most %.4f; then takes %u ppm\n", worst, f.takes_ppm);
	ck_assert_double_le(worst, 0.025);
	ck_assert_uint_eq(f.takes_ppm, BEST_EFFORT_ALL);
}
END_TEST

/*
 * A peer record that lies costs a best-effort job its time, as an honest one of a job that always
 * works would; and never all of it, whatever stands in it.
 */
START_TEST(a_lie_costs_no_more_than_the_truth_would)
{
	static const struct peer_record lies[] = {
	    {.working = PEER_WORKS},
	    {.working = 255},
	    {.working = PEER_IDLE}, /* looked at when the machine began */
	    {.working = PEER_WORKS, .loss_number = 1, .loss_ppm = INT32_MAX},
	    {.working = PEER_WORKS, .slowdown_ppm = UINT32_MAX, .loss_ppm = INT32_MIN},
	    {.working = PEER_UNKNOWN, .slowdown_ppm = 1, .loss_error_ppm = UINT32_MAX},
	    {.working = PEER_WORKS, .gap_ns = UINT64_MAX, .gap_since_ns = UINT64_MAX - 1},
	    {.working = PEER_WORKS, .beat_ns = UINT64_MAX, .looked_ns = UINT64_MAX},
	    {.working = PEER_WORKS, .burst_ends_ns = UINT64_MAX},
	};
	const struct best_effort_now own = {.priority = PRIORITY_OPPORTUNISTIC};
	static struct peers peers;
	struct best_effort f = {0};
	int launches = 0, wrong = 0;

	peers = (struct peers){.count = 1};
	peers.other[0].record = lies[_i];
	peers.other[0].record.priority = PRIORITY_GUARANTEED;
	peers.other[0].record.token = 1;
	for (uint64_t at = S; at < 130 * S;) {
		struct best_effort_go go = best_effort_decide(&f, &peers, &own, at);

		peers.other[0].record.loss_number += lies[_i].loss_number;
		launches += go.until_ns > at;
		/* The suite writes down each of its checks: they are made once. */
		wrong += !go.again_ns || go.again_ns > 1 * MS || go.round_ns > 2 * MS;
		at += go.again_ns ? go.again_ns : 1 * MS;
	}
	ck_assert_int_eq(wrong, 0);
	ck_assert_int_ge(launches, 2);
	/* What is no priority is nobody who goes first. */
	peers.other[0].record.priority = 200;
	ck_assert_uint_gt(best_effort_decide(&f, &peers, &own, 140 * S).until_ns, 140 * S);
}
END_TEST

/*
 * What best-effort jobs cost is found to a point within a minute, and nothing where they cost
 * nothing.
 */
START_TEST(a_loss_is_found)
{
	static struct feedback feedback;
	struct feedback_loss loss = {0};
	double lost = _i / 10.0, count = 0;
	int told = 0;

	feedback = (struct feedback){0};
	for (uint64_t at = S; at < 120 * S; at += MS) {
		uint64_t off = best_effort_off_at(at);
		bool is_off = at >= off && at < off + BEST_EFFORT_OFF_NS;

		count += is_off ? 10 : 10 * (1 - lost);
		told += feedback_look(&feedback, at, (uint64_t)count, UINT32_MAX, &loss);
	}
	ck_assert_int_ge(told, 6);
	ck_assert_int_le(abs(loss.loss_ppm - (int)(lost * 1e6)), 10000);
	ck_assert_int_le((int)loss.error_ppm, 10000);
}
END_TEST

/* A gap should be as long as those that were; of one that is older than all nothing is known. */
START_TEST(a_gap_s_length_is_expected)
{
	struct gaps gaps = {.count = 0};

	ck_assert_uint_eq(gaps_expect(&gaps, 0), 0);
	for (uint64_t i = 0; i < 20; i++)
		gaps_note(&gaps, i % 2 ? 50 * MS : 2 * MS);
	ck_assert_uint_eq(gaps_expect(&gaps, 1 * MS), 2 * MS);
	ck_assert_uint_eq(gaps_expect(&gaps, 3 * MS), 50 * MS);
	ck_assert_uint_eq(gaps_expect(&gaps, 51 * MS), 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("best_effort");

	tcase_set_timeout(tests, 120);
	suite_add_worlds(tests, a_training_keeps_its_speed, 18);
	tcase_add_test(tests, watchers_look_rarely);
	suite_add_worlds(tests, long_kernels_are_rare, 6);
	tcase_add_test(tests, a_kernel_that_took_long_once_is_forgotten);
	tcase_add_test(tests, a_gap_is_no_idleness);
	tcase_add_test(tests, who_has_no_watcher_goes_on);
	suite_add_worlds(tests, phases_are_no_loss, 3);
	tcase_add_test(tests, requests_are_answered_in_time);
	tcase_add_test(tests, two_guaranteed_jobs_keep_their_speed);
	tcase_add_test(tests, a_normal_job_gives_way);
	suite_add_worlds(tests, who_stands_still_delays_once, 2);
	tcase_add_test(tests, best_effort_jobs_take_what_is_borne);
	suite_add_worlds(tests, a_lie_costs_no_more_than_the_truth_would, 9);
	suite_add_worlds(tests, a_loss_is_found, 3);
	tcase_add_test(tests, a_gap_s_length_is_expected);
	return suite_run("best_effort", tests);
}
