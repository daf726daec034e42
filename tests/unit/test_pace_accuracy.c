/* SPDX-License-Identifier: MIT */
/* One job on a device holds its share with any program, by the device's own book. */
#include "tests/unit/state_directory.h"

#include "tests/unit/pace_scenarios.h"
#include "tests/unit/suite.h"

static const double shares[] = {10, 25, 50, 75, 90};
enum { SHARES = sizeof(shares) / sizeof(*shares) };

/*
 * Every kind of program; with its longest kernel, by which a stretch may be longer than a quantum.
 */
struct kind {
	const char *scenario;
	double longest_ms;
};

static const struct kind all[] = {
    {"deep50us", 0.05}, {"deep1ms", 1},          {"deep50ms", 50},    {"deepmix", 50},
    {"sync50us", 0.05}, {"sync1ms", 1},          {"sync50ms", 50},    {"syncmix", 50},
    {"four50us", 0.05}, {"four1ms", 1},          {"four50ms", 50},    {"fourmix", 50},
    {"fourserial", 1},  {"perthread50us", 0.05}, {"perthread1ms", 1}, {"perthreadsync", 1},
    {"graph1", 0.02},   {"graph100", 2},         {"graph2000", 40},   {"bursts", 1},
    {"burstswait", 1},  {"burstsfew", 1},        {"burstslong", 1},   {"change", 10},
    {"changesync", 10}, {"foursync", 0.05},
};
enum { ALL = sizeof(all) / sizeof(*all) };

static bool is_short(const struct scenario *s)
{
	return s->program.kernel_ns && s->program.kernel_ns < 1 * MS;
}

/* Percent of the device that the program asks for. */
static double demand_of(const struct scenario *s, uint64_t seed)
{
	return s->program.batch ? run_scenario(s, 100, seed).held : 100;
}

static void expect_share(const struct scenario *s, const struct outcome *o, double share,
                         double demand)
{
	if (o->window.most > share + 1)
		ck_abort_msg("%s: %.2f held of %.0f", s->name, o->window.most, share);
	/*
	 * A program that asks for less gets it; what little each launch costs the host is lost. In
	 * between, a pause longer than the window is forgotten.
	 */
	if (demand < share - 5)
		share = (is_short(s) ? 0.95 : 0.98) * demand;
	else if (demand < share + 5)
		share -= 5;
	/*
	 * Whose kernels are of other lengths three times a second is waited for too long each time.
	 */
	if (o->window.least < share - (strcmp(s->name, "change") == 0 ? 2.5 : 1))
		ck_abort_msg("%s: %.2f held of %.0f, asks for %.2f", s->name, o->window.least,
		             share, demand);
}

/*
 * A quantum is what launches cost lately. Kernels that are longer by chance make it longer; and
 * what is learnt of streams that overlap is too little where they do not.
 */
static void expect_gaps(const struct scenario *s, const struct outcome *o, double share,
                        double longest_ms)
{
	int streams = s->threads > s->program.streams ? s->threads : s->program.streams;
	double most =
	    (double)pacer_quantum((uint32_t)(share * 1000)) / (double)MS * (streams ? streams : 1) +
	    longest_ms;
	double longest = (double)o->longest / (double)MS;

	/* That kernels of the same code take longer now is seen when they are done. */
	if (strcmp(s->name, "change") == 0)
		return;
	if (longest > most * (1 + s->program.jitter) + 0.05)
		ck_abort_msg("%s: longest stretch %.3f ms", s->name, longest);
}

/*
 * What is called idle is: nothing runs meanwhile. What is called busy is, but for what was not
 * looked at any more.
 */
static void expect_true_books(const struct scenario *s, const struct outcome *o, double longest_ms)
{
	double slack = (2 * longest_ms + 4) * (double)MS;

	ck_assert_uint_le(o->idle_ns, o->true_idle_ns + 1 * MS);
	if ((double)o->busy_ns > (double)o->true_busy_ns * (is_short(s) ? 1.02 : 1.01) ||
	    (double)o->busy_ns < (double)o->true_busy_ns * 0.99 - slack)
		ck_abort_msg("%s: measured %.3f of what it was", s->name,
		             (double)o->busy_ns / (double)o->true_busy_ns);
}

START_TEST(share_is_held_with_gaps)
{
	const struct kind *kind = &all[_i / SHARES];
	const struct scenario *s = scenario_find(kind->scenario);
	double share = shares[_i % SHARES];
	uint64_t seed = (uint64_t)_i + 1;
	struct outcome o = run_scenario(s, share, seed);

	ck_assert(o.ended);
	ck_assert_uint_eq(o.misuse, 0);
	expect_share(s, &o, share, demand_of(s, seed));
	expect_true_books(s, &o, kind->longest_ms);
	expect_gaps(s, &o, share, kind->longest_ms);
}
END_TEST

/*
 * Loads that are hard to hold in any 5 s, and how far from their share, or what they want of it,
 * they may be.
 */
static const struct hard {
	const char *scenario;
	double shares[8];
	double error;
} hard[] = {
    /* bursts that want little more than their share, just that, or little less */
    {"burstshalf", {30, 40, 45, 47, 48, 49, 50, 52}, 0.8},
    /* each is two points: where 12.5 of them are due in 5 s some have 13 */
    {"graph5000", {10, 25, 30, 40, 50, 60, 75, 90}, 1.0},
};
enum { HARD_SHARES = 8, HARD_SEEDS = 4, HARD = sizeof(hard) / sizeof(*hard) };

START_TEST(what_is_hard_to_hold_is_held)
{
	const struct hard *h = &hard[_i / (HARD_SHARES * HARD_SEEDS)];
	double share = h->shares[_i / HARD_SEEDS % HARD_SHARES], wanted;
	uint64_t seed = (uint64_t)(_i % HARD_SEEDS) + 1;
	const struct scenario *s = scenario_find(h->scenario);
	struct outcome o = run_scenario(s, share, seed);

	ck_assert(o.ended);
	wanted = demand_of(s, seed);
	wanted = share < wanted ? share : wanted;
	if (o.window.most > share + h->error + 0.005 || o.window.least < wanted - h->error - 0.005)
		ck_abort_msg("%s: %.3f to %.3f held of %.2f", s->name, o.window.least,
		             o.window.most, wanted);
}
END_TEST

/*
 * One stream: where kernels overlap, what a device does in a second depends on how many of them
 * meet.
 */
static const char *const long_kernels[] = {"deep1ms",  "deep50ms",  "sync1ms",    "sync50ms",
                                           "graph100", "graph2000", "burstswait", "change"};
enum { LONG_KERNELS = sizeof(long_kernels) / sizeof(*long_kernels) };

START_TEST(throughput_is_the_share_of_what_it_was)
{
	const struct scenario *s = scenario_find(long_kernels[_i / SHARES]);
	double share = shares[_i % SHARES];
	double alone = run_scenario(s, 100, 3).cycles, ideal;
	struct outcome o = run_scenario(s, share, 3);

	ck_assert(o.ended);
	ideal = share < alone ? share : alone;
	if (o.cycles < 0.98 * ideal)
		ck_abort_msg("%s at %.0f %%: %.2f %% of the ideal", s->name, share,
		             100 * o.cycles / ideal);
}
END_TEST

START_TEST(one_thread_holds_the_shares_of_two_devices)
{
	double share = shares[_i];
	static struct run run;

	run = (struct run){.share = share, .seed = 5};
	run_start(&run, scenario_find("twogpus"));
	ck_assert(run_finish(&run));
	for (int i = 0; i < 2; i++) {
		struct window w =
		    truth_windows(run.program[0].process->tenant[i], run.from, run.to, 5 * S);

		ck_assert_double_le(w.most, share + 1);
		ck_assert_double_ge(w.least, share - 1);
	}
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pace_accuracy");
	TCase *one = tcase_create("accuracy");

	tcase_set_timeout(one, 60);
	suite_add_worlds(one, share_is_held_with_gaps, ALL * SHARES);
	suite_add_worlds(one, what_is_hard_to_hold_is_held, HARD * HARD_SHARES * HARD_SEEDS);
	suite_add_worlds(one, throughput_is_the_share_of_what_it_was, LONG_KERNELS * SHARES);
	suite_add_worlds(one, one_thread_holds_the_shares_of_two_devices, SHARES);
	suite_add_tcase(suite, one);
	return run_suite(suite);
}
