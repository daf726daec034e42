/*
 * Fillers beside guaranteed jobs, in virtual time: what the guaranteed job keeps of its speed, and
 * how busy the device is. Handing the device over costs 20 us, a thread wakes 5 to 120 us late,
 * kernels vary by 3 %.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "core/sharing/feedback.h"
#include "core/sharing/filler.h"
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
		process_share(process, 0, priority);
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

static struct program filler(uint64_t kernel_ns, uint64_t until)
{
	return (struct program){
	    .name = "filler", .kernel_ns = kernel_ns, .jitter = 0.03, .until = until};
}

struct result {
	double speed; /* of the first program, of its speed alone */
	double busy;  /* the device, of the time */
	double fills; /* the last program, of the time */
};

/* Runs one program alone and then beside a filler. */
static struct result beside_filler(const struct program *template, uint64_t kernel_ns,
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
	struct program beside = filler(kernel_ns, to);
	struct program *f = add(&beside, PRIORITY_OPPORTUNISTIC);
	world_run_until(to);
	result.speed = (double)p->launches / alone;
	result.busy = 1 - (double)gpu_idle(0, from, to) / (double)(to - from);
	result.fills = (double)truth_busy(f->process->tenant[0], from, to) / (double)(to - from);
	world_run_until(to + 70 * S);
	ck_assert_uint_eq(world.misuse, 0);
	ck_assert_msg(f->ended_at, "the filler is held for ever");
	world_end();
	return result;
}

static const uint64_t periods[] = {300 * US, 2 * MS, 10 * MS, 50 * MS, 500 * MS};
static const double busies[] = {0.3, 0.6, 0.9};

/* Speed is at least 98 %, whatever the gaps; those of 50 ms and longer are filled. */
START_TEST(a_training_keeps_its_speed)
{
	uint64_t period = periods[_i / 3];
	struct program p = training(period, busies[_i % 3], 20 * S);
	struct result r = beside_filler(&p, 200 * US, 1);

	if (getenv("TELL"))
		fprintf(stderr,
		        "period %6.1f ms busy %2.0f %%: speed %.4f device %.3f filler %.3f\n",
		        (double)period / 1e6, 100 * busies[_i % 3], r.speed, r.busy, r.fills);
	ck_assert_double_ge(r.speed, 0.98);
	if (period >= 50 * MS)
		ck_assert_double_ge(r.busy, 0.95);
}
END_TEST

/* What fillers cost is found to a point within a minute, and nothing where they cost nothing. */
START_TEST(a_loss_is_found)
{
	static struct feedback feedback;
	struct feedback_loss loss = {0};
	double lost = _i / 10.0, count = 0;
	int told = 0;

	feedback = (struct feedback){0};
	for (uint64_t at = S; at < 120 * S; at += MS) {
		uint64_t off = filler_off_at(at);
		bool is_off = at >= off && at < off + FILLER_OFF_NS;

		count += is_off ? 10 : 10 * (1 - lost);
		told += feedback_look(&feedback, at, (uint64_t)count, UINT32_MAX, &loss);
	}
	ck_assert_int_ge(told, 60);
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
	TCase *tests = tcase_create("filler");

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, a_training_keeps_its_speed, 0, 15);
	tcase_add_loop_test(tests, a_loss_is_found, 0, 3);
	tcase_add_test(tests, a_gap_s_length_is_expected);
	return suite_run("filler", tests);
}
