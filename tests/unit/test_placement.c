/* SPDX-License-Identifier: MIT */
/*
 * Placement: from a survey to ranks. The test is the survey and the memory; time is its own.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/ledger/codes.h"
#include "core/modules/placement/touch.h"
#include "core/modules/placement/survey.h"
#include "core/memory/move/copy_window.h"
#include "core/modules/placement/placement.h"
#include "core/memory/move/plan.h"
#include "suite.h"

#define MIB    ((uint64_t)1 << 20)
#define SECOND ((uint64_t)1000000000)
#define BASE   ((CUdeviceptr)0x7f1200000000)
enum { RUNS = 4, PER_RUN = 2, PIECES = RUNS * PER_RUN };
/*
 * Runs: used by three kernels, by one, by none that a survey sees; with data that is as good
 * anywhere.
 */
enum { OFTEN, SELDOM, UNSEEN, ALIKE };

static uint64_t clock_ns;

int clock_gettime(clockid_t id, struct timespec *time)
{
	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, id, time);
	time->tv_sec = (time_t)(clock_ns / SECOND);
	time->tv_nsec = (long)(clock_ns % SECOND);
	return 0;
}

/* --- memory --- */

static struct device gpu;
static _Atomic uint64_t placed; /* of it */
static struct terms terms;
static bool on_host[PIECES];
static uint64_t charged, spare, host_bytes;

static CUdeviceptr piece(int run, int part)
{
	return BASE + (CUdeviceptr)(run * PER_RUN + part) * 2 * MIB;
}

void plan_each(struct device *device, enum segment_tier tier,
               void (*each)(void *cookie, const struct candidate *candidate), void *cookie)
{
	ck_assert_ptr_eq(device, &gpu);
	for (int i = PIECES; i-- > 0;) {
		if (on_host[i] == (tier == SEGMENT_ON_HOST))
			each(cookie, &(struct candidate){.address = piece(0, i),
			                                 .run = piece(i / PER_RUN, 0),
			                                 .whole = piece(i / PER_RUN, 0),
			                                 .size = 2 * MIB,
			                                 .read = 2 * MIB});
	}
}

uint64_t link_bytes(const struct device *device, enum segment_tier to, uint64_t ns)
{
	(void)device;
	return to == SEGMENT_ON_HOST ? ns : 0;
}

/* --- the survey --- */

static struct {
	enum survey_state state;
	int begun, ended;
	bool has_steps;
	struct weigh_kernel kernel[8];
	CUdeviceptr use[8];
	struct survey found;
} world;

bool survey_begin(int ordinal, bool has_steps, uint64_t now)
{
	ck_assert_int_eq(ordinal, 0);
	ck_assert_uint_eq(now, clock_ns);
	world.begun++;
	world.has_steps = has_steps;
	world.state = SURVEY_SOUGHT;
	return true;
}

void survey_without_steps(uint64_t now, bool has_times)
{
	ck_assert_int_eq(has_times, terms.settings.survey == CONFIG_SURVEY_ALWAYS);
	(void)now;
	ck_assert_int_eq(world.state, SURVEY_WITHOUT_STEPS);
	world.state = SURVEY_TAKEN;
}

enum survey_state survey_poll(uint64_t now)
{
	(void)now;
	return world.state;
}

const struct survey *survey_found(void)
{
	return &world.found;
}

const char *survey_failure(void)
{
	return "the test says so";
}

void survey_end(void)
{
	world.ended++;
	world.state = SURVEY_NONE;
}

static void add_kernel(uint64_t ns, int run)
{
	size_t k = world.found.kernels++;

	world.kernel[k] = (struct weigh_kernel){
	    .key = k, .ns = ns, .first = (uint32_t)world.found.uses, .uses = 1};
	/* An address within is as good as the first. */
	world.use[world.found.uses++] = piece(run, 0) + MIB;
}

static void set_up(void)
{
	static struct placement_calls calls;

	placement_add_calls(&calls);
	atomic_store(&placement_calls, &calls);
	memset(&world, 0, sizeof(world));
	world.found.kernel = world.kernel;
	world.found.use = world.use;
	clock_ns = 1000 * SECOND;
	host_bytes = (uint64_t)PER_RUN * 2 * MIB;
	gpu.placed = &placed;
	terms = (struct terms){.limit = (uint64_t)(PIECES - PER_RUN) * 2 * MIB,
	                       .yields_above = UINT64_MAX};
	charged = terms.limit;
	spare = 0;
	yield_on_call(&gpu, false, 0);
	terms.settings.placement = PLACEMENT_AUTO;
	/* What is used often is on the host, and its kernels wait for it. */
	for (int i = 0; i < PIECES; i++)
		on_host[i] = i / PER_RUN == OFTEN;
	for (int i = 0; i < 3; i++)
		add_kernel(4000000, OFTEN);
	add_kernel(1000000, SELDOM);
	add_kernel(1000000, ALIKE);
}

static void poll_placement(void)
{
	placement_tell(poll, &gpu, &terms, charged, spare, host_bytes);
}

static void tear_down(void)
{
	terms.settings.placement = PLACEMENT_HEAT;
	terms.settings.survey = 0;
	poll_placement();
	ck_assert(!placement_ask(false, is_settled, &gpu));
}

static unsigned int heat_at(int run, int part, uint32_t touched)
{
	return movable_heat(placement_ask(0, rank, &gpu, piece(run, part), touched, heat_now()));
}

static uint64_t rank_at(int run, int part)
{
	return placement_ask(0, rank, &gpu, piece(run, part), 0, heat_now());
}

/* Returns what the word of memory is that a kernel uses now. */
static uint32_t touched_now(void)
{
	return heat_work() | HEAT_LAUNCHED;
}

static void survey(void)
{
	poll_placement();
	ck_assert_int_eq(world.state, SURVEY_SOUGHT);
	world.state = SURVEY_DONE;
	poll_placement();
	ck_assert_int_eq(world.state, SURVEY_NONE);
}

/* --- tests --- */

/* What no kernel used leaves first, then what is used seldom; what is used often is wanted back. */
START_TEST(a_survey_decides)
{
	uint32_t before = touched_now();

	clock_ns += SECOND;
	heat_work();
	survey();
	ck_assert(world.has_steps);
	ck_assert(placement_ask(false, is_settled, &gpu));
	for (int part = 0; part < PER_RUN; part++) {
		ck_assert_uint_eq(heat_at(OFTEN, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(ALIKE, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(UNSEEN, part, before), HEAT_WARM);
		ck_assert_uint_lt(rank_at(SELDOM, part), rank_at(OFTEN, part));
		ck_assert_uint_lt(rank_at(ALIKE, part), rank_at(OFTEN, part));
	}
	/* What is new since then is as hot as it is used. */
	heat_work();
	clock_ns += SECOND;
	ck_assert_uint_eq(heat_at(UNSEEN, 0, touched_now()), HEAT_HOT);
}
END_TEST

/* With a lower limit more of the same order is to leave, without another decision. */
START_TEST(a_lower_limit_is_no_new_decision)
{
	int cold = 0;

	survey();
	ck_assert_int_eq(world.begun, 1);
	terms.limit -= (uint64_t)PER_RUN * 2 * MIB;
	charged = terms.limit;
	host_bytes *= 2;
	poll_placement();
	for (int part = 0; part < PER_RUN; part++)
		cold += (heat_at(SELDOM, part, 0) == HEAT_COLD) +
		        (heat_at(ALIKE, part, 0) == HEAT_COLD);
	ck_assert_int_eq(cold, PER_RUN);
	ck_assert_uint_eq(heat_at(OFTEN, 0, 0), HEAT_HOT);
	ck_assert_uint_eq(heat_at(OFTEN, 1, 0), HEAT_HOT);
}
END_TEST

/*
 * Where allocations move as a whole none is half on one tier: what has to leave of the order ends
 * with an allocation, and a piece of it too much.
 */
START_TEST(allocations_that_stay_whole_leave_as_a_whole)
{
	int cold = 0;

	terms.settings.mixed = _i ? MIXED_WHOLE : MIXED_AUTO;
	survey();
	terms.limit -= 2 * MIB;
	charged = terms.limit;
	host_bytes += 2 * MIB;
	poll_placement();
	for (int run = 0; run < RUNS; run++) {
		if (_i)
			ck_assert_uint_eq(heat_at(run, 0, 0), heat_at(run, 1, 0));
		for (int part = 0; part < PER_RUN; part++)
			cold += heat_at(run, part, 0) == HEAT_COLD;
	}
	ck_assert_int_eq(cold, _i ? PER_RUN : 1);
	ck_assert_uint_eq(heat_at(OFTEN, 0, 0), HEAT_HOT);
}
END_TEST

/* Where nothing is gained nothing is exchanged: all that is used is as hot as the rest. */
START_TEST(what_gains_nothing_stays)
{
	for (int i = 0; i < PIECES; i++)
		on_host[i] = i / PER_RUN == UNSEEN;
	for (size_t i = 0; i < world.found.kernels; i++)
		world.kernel[i].ns = 1000000;
	survey();
	ck_assert(placement_ask(false, is_settled, &gpu));
	terms.limit -= MIB;
	poll_placement();
	for (int part = 0; part < PER_RUN; part++) {
		ck_assert_uint_eq(heat_at(OFTEN, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(SELDOM, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(ALIKE, part, 0), HEAT_HOT);
	}
}
END_TEST

/* What is measured shall be true of where memory is when it is decided. */
START_TEST(nothing_is_exchanged_while_it_is_measured)
{
	poll_placement();
	ck_assert_uint_eq(heat_at(SELDOM, 0, 0), HEAT_WARM);
	world.state = SURVEY_TAKEN;
	poll_placement();
	ck_assert_uint_eq(heat_at(SELDOM, 0, 0), HEAT_HOT);
	world.state = SURVEY_READ;
	poll_placement();
	ck_assert_uint_eq(heat_at(SELDOM, 0, 0), HEAT_HOT);
	world.state = SURVEY_FAILED;
	poll_placement();
	ck_assert_uint_eq(heat_at(SELDOM, 0, 0), HEAT_WARM);
	ck_assert(!placement_ask(false, is_settled, &gpu));
}
END_TEST

/* Until the first survey has ended heat exchanges nothing, and after it whatever it wants. */
START_TEST(heat_waits_for_the_first_survey)
{
	ck_assert(!placement_ask(false, is_awaited, &gpu));
	poll_placement();
	ck_assert(placement_ask(false, is_awaited, &gpu));
	world.state = SURVEY_TAKEN;
	poll_placement();
	ck_assert(placement_ask(false, is_awaited, &gpu));
	world.state = _i ? SURVEY_FAILED : SURVEY_WITHOUT_STEPS;
	poll_placement();
	ck_assert(!placement_ask(false, is_awaited, &gpu));
	clock_ns += 200 * SECOND;
	poll_placement();
	ck_assert_int_eq(world.state, SURVEY_SOUGHT);
	ck_assert(!placement_ask(false, is_awaited, &gpu));
	/* What the settings keep from being found is not waited for. */
	terms.settings.steps = STEPS_OFF;
	poll_placement();
	ck_assert(!placement_ask(false, is_awaited, &gpu));
}
END_TEST

/* After a failure it is tried again later and later. */
START_TEST(a_failure_is_not_repeated_at_once)
{
	uint64_t pause = 0;

	for (int tries = 1; tries < 5; tries++) {
		uint64_t since = clock_ns, last = pause;

		while (world.begun < tries) {
			poll_placement();
			clock_ns += world.begun < tries ? SECOND : 0;
		}
		pause = clock_ns - since;
		ck_assert_uint_ge(pause, tries > 2 ? 2 * last : last);
		world.state = SURVEY_FAILED;
		poll_placement();
		ck_assert_int_eq(world.ended, tries);
	}
	ck_assert_uint_ge(pause, 30 * SECOND);
}
END_TEST

static void place(int run, bool to_host)
{
	for (int part = 0; part < PER_RUN; part++)
		on_host[run * PER_RUN + part] = to_host;
}

/* Has the exchange made that was decided, and what came of it surveyed. */
static void try_it(uint64_t ns_of_often)
{
	ck_assert_int_eq(world.begun, 1);
	clock_ns += 60 * SECOND;
	poll_placement();
	ck_assert_int_eq(world.begun, 1);
	place(OFTEN, false);
	place(UNSEEN, true);
	placement_tell(note_even, &gpu);
	for (int i = 0; i < 3; i++)
		world.kernel[i].ns = ns_of_often;
	survey();
	ck_assert_int_eq(world.begun, 2);
}

static unsigned int shown(void)
{
	return placed_unpack(atomic_load(&placed)).placement;
}

/*
 * Whatever was reckoned, kernels take longer than before: memory goes back, that which no kernel
 * uses, too. It stays there until there is other memory.
 */
START_TEST(what_was_not_worth_it_goes_back)
{
	survey();
	ck_assert_uint_eq(shown(), PLACED_BALANCED);
	try_it(4200000);
	poll_placement();
	ck_assert_uint_eq(shown(), PLACED_KEPT);
	for (int part = 0; part < PER_RUN; part++) {
		ck_assert_uint_eq(heat_at(OFTEN, part, 0), HEAT_COLD);
		ck_assert_uint_eq(heat_at(UNSEEN, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(SELDOM, part, 0), HEAT_HOT);
		ck_assert(placement_ask(false, has_decided, &gpu, piece(UNSEEN, part)));
	}
	place(OFTEN, true);
	place(UNSEEN, false);
	placement_tell(note_even, &gpu);
	/* It is not tried again, ... */
	clock_ns += 700 * SECOND;
	survey();
	ck_assert_int_eq(world.begun, 3);
	ck_assert_uint_eq(heat_at(OFTEN, 0, 0), HEAT_COLD);
	ck_assert_uint_eq(heat_at(UNSEEN, 0, 0), HEAT_HOT);
	clock_ns += 60 * SECOND;
	poll_placement();
	ck_assert_int_eq(world.begun, 3);
	/* ... but where more has to be on the host. */
	charged = terms.limit -= host_bytes;
	host_bytes *= 2;
	place(SELDOM, true);
	survey();
	ck_assert_int_eq(world.begun, 4);
	ck_assert_uint_eq(heat_at(OFTEN, 0, 0), HEAT_HOT);
}
END_TEST

/*
 * Without a limit as much has to be on the host as other jobs leave no room for: what is used often
 * changes places with what is used seldom, and where that is under way nothing else is decided.
 */
START_TEST(a_full_device_is_a_limit)
{
	terms.limit = UINT64_MAX;
	placement_tell(note_full, &gpu);
	survey();
	for (int part = 0; part < PER_RUN; part++) {
		ck_assert_uint_eq(heat_at(OFTEN, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(UNSEEN, part, 0), HEAT_WARM);
	}
	/* Most kernels waited for the host in all launches: their computing is not known. */
	ck_assert_uint_eq(placed_unpack(atomic_load(&placed)).best, 0);
	/* More than what no kernel uses is on the host. */
	host_bytes *= 2;
	poll_placement();
	ck_assert_uint_eq(heat_at(SELDOM, 0, 0) + heat_at(SELDOM, 1, 0) + heat_at(ALIKE, 0, 0) +
	                      heat_at(ALIKE, 1, 0),
	                  2 * HEAT_COLD + 2 * HEAT_HOT);
	host_bytes /= 2;
	/* What has left is kept ready for what is to come. */
	spare = (uint64_t)PER_RUN * 2 * MIB;
	host_bytes += spare;
	charged -= spare;
	clock_ns += 60 * SECOND;
	poll_placement();
	ck_assert_int_eq(world.begun, 1);
	ck_assert(placement_ask(false, is_full, &gpu));
	/* Others have gone. */
	spare = host_bytes = 0;
	poll_placement();
	ck_assert(!placement_ask(false, is_full, &gpu));
}
END_TEST

/* How long kernels take beside those of other jobs does not say what came of it. */
START_TEST(beside_other_jobs_nothing_goes_back)
{
	yield_on_call(&gpu, _i == 0, 0);
	survey();
	if (_i) {
		yield_on_call(&gpu, true, 0);
		try_it(4200000);
	} else {
		clock_ns += 60 * SECOND;
		poll_placement();
		placement_tell(note_even, &gpu);
		poll_placement();
		ck_assert_int_eq(world.begun, 1);
	}
	poll_placement();
	ck_assert_uint_eq(shown(), PLACED_BALANCED);
	ck_assert_uint_eq(heat_at(OFTEN, 0, 0), HEAT_HOT);
}
END_TEST

/* It is measured once, and kept. */
START_TEST(what_was_worth_it_stays)
{
	survey();
	try_it(_i ? 1000000 : 4000000);
	poll_placement();
	ck_assert_uint_eq(shown(), PLACED_BALANCED);
	for (int part = 0; part < PER_RUN; part++) {
		ck_assert_uint_eq(heat_at(OFTEN, part, 0), HEAT_HOT);
		ck_assert_uint_eq(heat_at(UNSEEN, part, 0), HEAT_WARM);
	}
	placement_tell(note_even, &gpu);
	clock_ns += 60 * SECOND;
	poll_placement();
	ck_assert_int_eq(world.begun, 2);
}
END_TEST

START_TEST(settings_say_whether_anybody_asks)
{
	static const struct {
		uint64_t placement, steps;
		int begun, counts; /* counts: where no steps are found */
	} settings[] = {
	    {PLACEMENT_AUTO, STEPS_AUTO, 1, 0},   {PLACEMENT_AUTO, STEPS_OFF, 0, 0},
	    {PLACEMENT_BALANCED, STEPS_ON, 1, 1}, {PLACEMENT_BALANCED, STEPS_OFF, 1, 1},
	    {PLACEMENT_HEAT, STEPS_ON, 0, 0},
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		clock_ns += 200 * SECOND;
		world.begun = 0;
		terms.settings.placement = settings[i].placement;
		terms.settings.steps = settings[i].steps;
		poll_placement();
		ck_assert_int_eq(world.begun, settings[i].begun);
		if (!world.begun)
			continue;
		ck_assert_int_eq(world.has_steps, settings[i].steps != STEPS_OFF);
		world.state = SURVEY_WITHOUT_STEPS;
		poll_placement();
		ck_assert_int_eq(world.state, settings[i].counts ? SURVEY_TAKEN : SURVEY_NONE);
		/* Back to heat in its midst: it is over. */
		terms.settings.placement = PLACEMENT_HEAT;
		poll_placement();
		ck_assert_int_eq(world.state, SURVEY_NONE);
	}
}
END_TEST

/* Nothing is spilled, or everything is to leave: there is nothing to choose. */
START_TEST(nothing_to_choose_is_not_surveyed)
{
	host_bytes = 0;
	poll_placement();
	terms.limit = charged = 0;
	host_bytes = MIB;
	poll_placement();
	ck_assert_int_eq(world.begun, 0);
}
END_TEST

/* For the tool steps are measured with nothing on the host, too; then nothing moves. */
START_TEST(it_is_surveyed_for_the_tool)
{
	for (int i = 0; i < PIECES; i++)
		on_host[i] = false;
	host_bytes = 0;
	poll_placement();
	ck_assert_int_eq(world.begun, 0);
	terms.settings.survey = CONFIG_SURVEY_ALWAYS;
	poll_placement();
	ck_assert_int_eq(world.begun, 1);
	ck_assert(!placement_ask(false, is_awaited, &gpu));
	world.state = SURVEY_WITHOUT_STEPS;
	poll_placement();
	ck_assert_int_eq(world.state, SURVEY_TAKEN);
	world.state = SURVEY_DONE;
	poll_placement();
	ck_assert_int_eq(world.ended, 1);
	ck_assert_uint_eq(heat_at(SELDOM, 0, 0), HEAT_HOT);
	/* Soon again: the first was perhaps of what a program does before its steps. */
	clock_ns += 9 * SECOND;
	poll_placement();
	ck_assert_int_eq(world.begun, 1);
	clock_ns += SECOND;
	poll_placement();
	ck_assert_int_eq(world.begun, 2);
}
END_TEST

/* So they are where the settings let no memory move for it. Then none moves. */
START_TEST(a_record_alone_moves_nothing)
{
	terms.settings.survey = CONFIG_SURVEY_ALWAYS;
	terms.settings.placement = _i ? PLACEMENT_HEAT : PLACEMENT_AUTO;
	terms.settings.steps = _i ? STEPS_ON : STEPS_OFF;
	poll_placement();
	ck_assert_int_eq(world.begun, 1);
	world.state = SURVEY_WITHOUT_STEPS;
	poll_placement();
	ck_assert_int_eq(world.state, SURVEY_TAKEN);
	world.state = SURVEY_DONE;
	poll_placement();
	ck_assert_int_eq(world.ended, 1);
	ck_assert(!placement_ask(false, is_settled, &gpu));
	ck_assert_uint_eq(rank_at(SELDOM, 0), rank_at(OFTEN, 0));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("placement");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_survey_decides);
	tcase_add_test(tests, a_lower_limit_is_no_new_decision);
	tcase_add_loop_test(tests, allocations_that_stay_whole_leave_as_a_whole, 0, 2);
	tcase_add_test(tests, what_gains_nothing_stays);
	tcase_add_test(tests, nothing_is_exchanged_while_it_is_measured);
	tcase_add_loop_test(tests, heat_waits_for_the_first_survey, 0, 2);
	tcase_add_test(tests, a_failure_is_not_repeated_at_once);
	tcase_add_test(tests, what_was_not_worth_it_goes_back);
	tcase_add_test(tests, a_full_device_is_a_limit);
	tcase_add_loop_test(tests, beside_other_jobs_nothing_goes_back, 0, 2);
	tcase_add_loop_test(tests, what_was_worth_it_stays, 0, 2);
	tcase_add_test(tests, settings_say_whether_anybody_asks);
	tcase_add_test(tests, nothing_to_choose_is_not_surveyed);
	tcase_add_test(tests, it_is_surveyed_for_the_tool);
	tcase_add_loop_test(tests, a_record_alone_moves_nothing, 0, 2);
	return suite_run("placement", tests);
}
