/* SPDX-License-Identifier: MIT */
/*
 * Tests of changes while a program runs: its share, a pause, its contexts. No thread waits for
 * ever.
 */
#include "tests/unit/state_directory.h"

#include "core/cuda/capture.h"
#include "tests/unit/pace_scenarios.h"

static struct run run;

static void start(const char *scenario, double share, uint64_t seed, uint64_t seconds)
{
	run = (struct run){.share = share, .seed = seed, .to = (1 + seconds) * S};
	run_start(&run, scenario_find(scenario));
}

static void finish(void)
{
	if (!run_finish(&run))
		world_fail("not all programs have ended");
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}

static struct process *process(void)
{
	return run.program[0].process;
}

static struct tenant *tenant(void)
{
	return process()->tenant[0];
}

static double held(uint64_t from, uint64_t to)
{
	return 100 * (double)truth_busy(tenant(), from, to) / (double)(to - from);
}

static uint64_t next_begin(uint64_t after)
{
	const struct tenant *t = tenant();

	for (size_t i = 0; i < t->truths; i++) {
		if (t->truth[i].begin >= after)
			return t->truth[i].begin;
	}
	return UINT64_MAX;
}

static uint64_t statistic(_Atomic uint64_t *counter)
{
	return statistics_get(counter);
}

/* --- a program that does what a test wants --- */

static struct scene {
	struct process *process;
	uint64_t work_ns, ended_at;
} scene;

static void scene_start(double share, void (*body)(void *))
{
	struct world_settings settings = world_usual;

	settings.seed = 11;
	world_start(&settings);
	scene = (struct scene){.process = process_create(world_job(), 1)};
	process_set(scene.process, 0, share, POLICY_CAP);
	thread_begin(scene.process, "scene", body, NULL);
}

static void scene_launch(CUstream stream, uint64_t ns)
{
	call_launch(stream, &(struct item){.left_ns = ns, .work = &scene.work_ns}, ns);
}

static void scene_ends(void)
{
	scene.ended_at = world.now;
	process_exit(scene.process);
}

static void scene_expect_end(uint64_t by)
{
	while (!scene.ended_at && world.now < by)
		world_run_until(world.now + 10 * MS);
	if (!scene.ended_at)
		world_fail("the program does not end");
	ck_assert_uint_eq(world.misuse, 0);
}

/* --- a kernel longer than its share --- */

static void long_then_short(void *unused)
{
	(void)unused;
	call_use(0);
	scene_launch(NULL, 1 * MS);
	call_synchronize();
	thread_sleep_until(2 * S);
	scene_launch(NULL, 500 * MS);
	call_synchronize();
	scene_launch(NULL, 1 * MS);
	call_synchronize();
	scene_ends();
}

START_TEST(a_long_kernel_is_paid_for_afterwards)
{
	static const double shares[] = {10, 25, 50, 75, 90};
	double share = shares[_i];
	const struct truth *last;
	struct tenant *t;
	double gap;

	scene_start(share, long_then_short);
	scene_expect_end(20 * S);
	t = scene.process->tenant[0];
	last = &t->truth[t->truths - 1];
	gap = (double)(last->begin - last[-1].end) / (double)MS;
	/* The pause before it may have saved some of a window's worth. */
	ck_assert_double_le(gap, 500 * (100 - share) / share + 1);
	ck_assert_double_ge(gap, 500 * (100 - share) / share - 100);
	run_end(&run);
}
END_TEST

/* --- another share --- */

static const double changes[][2] = {{25, 75}, {75, 25}, {90, 10}, {10, 90}, {50, 60}};
enum { CHANGES = sizeof(changes) / sizeof(*changes), PHASES = 8 };

START_TEST(another_share_is_in_force_within_two_quanta)
{
	const double *change = changes[_i / PHASES];
	uint64_t at = 2 * S + (uint64_t)(_i % PHASES) * 1300 * US, from;
	double h;

	start(_i % 2 ? "sync1ms" : "deep1ms", change[0], (uint64_t)_i, 3);
	world_run_until(at);
	process_set(process(), 0, change[1], POLICY_CAP);
	ck_assert(run_finish(&run));
	from = at + 2 * PACER_QUANTUM_NS + 1 * MS;
	h = held(from, from + 500 * MS);
	if (h > change[1] + 1 || h < change[1] - 1)
		ck_abort_msg("%.2f held of %.0f", h, change[1]);
	finish();
}
END_TEST

static void two_long(void *unused)
{
	(void)unused;
	call_use(0);
	for (int i = 0; i < 2; i++) {
		scene_launch(NULL, 200 * MS);
		call_synchronize();
	}
	scene_ends();
}

START_TEST(another_share_wakes_who_sleeps)
{
	uint64_t at;
	struct tenant *t;

	scene_start(10, two_long);
	world_run_until(1 * S + 300 * MS);
	at = world.now;
	process_set(scene.process, 0, 90, POLICY_CAP);
	scene_expect_end(3 * S);
	t = scene.process->tenant[0];
	ck_assert_uint_eq(t->truths, 2);
	ck_assert_uint_ge(t->truth[1].begin, at);
	ck_assert_uint_le(t->truth[1].begin, at + 2 * PACER_QUANTUM_NS);
	run_end(&run);
}
END_TEST

/* --- pause --- */

static const char *const paused[] = {"deep1ms", "deep50us", "sync1ms", "four1ms", "perthread1ms"};
enum { PAUSED = sizeof(paused) / sizeof(*paused) };

START_TEST(a_pause_stops_at_the_next_launch)
{
	static const double shares[] = {30, 100}; /* paced before, and not */
	double share = shares[_i / PAUSED];
	uint64_t at, last = 0, launches;

	start(paused[_i % PAUSED], share, (uint64_t)_i, 4);
	world_run_until(2 * S + 345 * US);
	at = world.now;
	process_set(process(), 0, 0, POLICY_CAP);
	world_run_until(at + 5 * MS);
	launches = run.program[0].launches;
	ck_assert_uint_eq(statistic(&process()->device[0].statistics->paused), 1);
	world_run_until(at + 1700 * MS);
	ck_assert_uint_eq(run.program[0].launches, launches);
	ck_assert_uint_ge(statistic(&process()->device[0].statistics->idle_ns), 1 * S);
	for (size_t i = 0; i < tenant()->truths; i++)
		last = tenant()->truth[i].end;
	/* The work in flight: two quanta and a launch while paced, the whole queue else. */
	if (share < 100)
		ck_assert_uint_le(last, at + 2 * PACER_QUANTUM_NS + 2 * MS);
	process_set(process(), 0, 30, POLICY_CAP);
	finish();
}
END_TEST

/* During a capture nothing is held back, so nothing waits. */
START_TEST(a_pause_that_a_capture_ends_is_over)
{
	start("deep1ms", 30, 1, 4);
	world_run_until(2 * S);
	process_set(process(), 0, 0, POLICY_CAP);
	world_run_until(world.now + 500 * MS);
	ck_assert_uint_eq(statistic(&process()->device[0].statistics->paused), 1);
	capture_began((CUstream)1);
	world_run_until(world.now + 500 * MS);
	ck_assert_uint_eq(statistic(&process()->device[0].statistics->paused), 0);
	process_set(process(), 0, 30, POLICY_CAP);
	capture_is_over((CUstream)1);
	finish();
}
END_TEST

START_TEST(resume_is_at_once)
{
	uint64_t at;

	start("deep1ms", 30, (uint64_t)_i, 4);
	world_run_until(2 * S + (uint64_t)_i * 700 * US);
	process_set(process(), 0, 0, POLICY_CAP);
	world_run_until(world.now + 1 * S);
	at = world.now;
	process_set(process(), 0, 30, POLICY_CAP);
	world_run_until(at + 500 * MS);
	ck_assert_uint_le(next_begin(at), at + 1 * MS);
	ck_assert_uint_eq(statistic(&process()->device[0].statistics->paused), 0);
	ck_assert_double_le(held(at, at + 500 * MS), 30 + 1);
	finish();
}
END_TEST

START_TEST(a_pause_leaves_other_devices_alone)
{
	struct process *p;
	struct world_settings settings = world_usual;
	static struct program program[2];

	run = (struct run){.to = 4 * S};
	world_start(&settings);
	p = process_create(world_job(), 3);
	for (int i = 0; i < 2; i++) {
		process_set(p, i, 50, POLICY_CAP);
		program[i] = (struct program){
		    .name = "program", .kernel_ns = 1 * MS, .process = p, .gpu = i, .until = 4 * S};
		program_start(&program[i]);
	}
	world_run_until(2 * S);
	process_set(p, 0, 0, POLICY_CAP);
	world_run_until(4 * S);
	ck_assert_double_ge((double)truth_busy(p->tenant[1], 2500 * MS, 4 * S),
	                    0.49 * (double)(1500 * MS));
	ck_assert_uint_eq(truth_busy(p->tenant[0], 2500 * MS, 4 * S), 0);
	process_set(p, 0, 50, POLICY_CAP);
	while ((!program[0].ended_at || !program[1].ended_at) && world.now < 10 * S)
		world_run_until(world.now + 10 * MS);
	ck_assert(program[0].ended_at && program[1].ended_at);
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}
END_TEST

/* --- contexts, exits, stops --- */

static void sleep_in_slot(void *unused)
{
	(void)unused;
	call_use(0);
	for (int i = 0; i < 3; i++)
		scene_launch(CU_STREAM_PER_THREAD, 100 * MS);
	scene_ends();
}

/* The sleeper's launch fails then, as the driver's answer to it would. */
static void destroy_under_sleeper(void *unused)
{
	(void)unused;
	call_use(0);
	thread_sleep_until(1 * S + 100 * MS + world.settings.seed * 30 * MS);
	call_destroy_context(0);
	call_use(0);
	for (int i = 0; i < 5; i++)
		scene_launch(NULL, 1 * MS);
	call_synchronize();
}

START_TEST(a_context_is_destroyed_under_a_sleeper)
{
	struct world_settings settings = world_usual;

	settings.seed = (uint64_t)_i;
	world_start(&settings);
	scene = (struct scene){.process = process_create(world_job(), 1)};
	process_set(scene.process, 0, 20, POLICY_CAP);
	thread_begin(scene.process, "sleeper", sleep_in_slot, NULL);
	thread_begin(scene.process, "destroyer", destroy_under_sleeper, NULL);
	world_run_until(1 * S + 100 * MS);
	while (!scene.ended_at && world.now < 10 * S)
		world_run_until(world.now + 10 * MS);
	if (!scene.ended_at)
		world_fail("the sleeper sleeps on");
	ck_assert_uint_eq(world.misuse, 0);
	run_end(&run);
}
END_TEST

START_TEST(exit_wakes_sleepers)
{
	uint64_t at = 1 * S + 350 * MS + (uint64_t)_i * 10 * MS;

	scene_start(1, sleep_in_slot);
	world_run_until(at);
	process_exit(scene.process);
	while (!scene.ended_at && world.now < at + 1 * S)
		world_run_until(world.now + 1 * MS);
	if (!scene.ended_at)
		world_fail("the sleeper sleeps on");
	/* Its queue may be full of nothing: it goes at once. */
	ck_assert_uint_le(scene.ended_at, at + 2 * MS);
	run_end(&run);
}
END_TEST

START_TEST(a_stop_and_a_continue_change_nothing)
{
	struct window w;

	start(_i % 2 ? "sync1ms" : "deep1ms", 50, (uint64_t)_i, 9);
	world_run_until(1500 * MS + (uint64_t)_i * 3700 * US);
	process_stop(process());
	world_run_until(world.now + 400 * MS);
	process_continue(process());
	ck_assert(run_finish(&run));
	w = truth_windows(tenant(), 3 * S, run.to, 5 * S);
	ck_assert_double_le(w.most, 51);
	ck_assert_double_ge(w.least, 49);
	finish();
}
END_TEST

/* --- work that needs the launch that is held back --- */

/* A kernel that waits for another on the same device: the second launch must come through. */
static void spin_on_two_streams(void *spin)
{
	CUstream stream[2];

	call_use(0);
	driver.cuStreamCreate(&stream[0], 0);
	driver.cuStreamCreate(&stream[1], 0);
	for (uint64_t step = 0; step < 10; step++) {
		for (int i = 0; i < 2; i++)
			call_launch(stream[i],
			            &(struct item){.left_ns = 3 * MS, .spin = spin, .step = step},
			            1);
		call_synchronize();
	}
	scene_ends();
}

static void scene_start_with(double share, void (*body)(void *), void *argument)
{
	struct world_settings settings = world_usual;

	settings.seed = 12;
	world_start(&settings);
	scene = (struct scene){.process = process_create(world_job(), 1)};
	process_set(scene.process, 0, share, POLICY_CAP);
	thread_begin(scene.process, "scene", body, argument);
}

START_TEST(a_kernel_that_needs_the_launch_held_back_gets_it)
{
	static struct spin spin;

	spin = (struct spin){.ranks = 2};
	scene_start_with(_i ? 90 : 25, spin_on_two_streams, &spin);
	scene_expect_end(60 * S);
	run_end(&run);
}
END_TEST

/* A stream waits for what the program does only after its next launch. */
static void gate_after_launch(void *unused)
{
	CUstream stream[2];

	(void)unused;
	call_use(0);
	driver.cuStreamCreate(&stream[0], 0);
	driver.cuStreamCreate(&stream[1], 0);
	for (int i = 0; i < 10; i++) {
		struct event *gate = gate_create((struct gpu_context *)scene.process->context[0]);
		uint64_t before;

		scene_launch(stream[0], 3 * MS);
		call_stream_wait(stream[0], (CUevent)gate);
		scene_launch(stream[0], 3 * MS);
		before = world.now;
		scene_launch(stream[1], 1 * MS);
		ck_assert_uint_le(world.now - before, 2 * S);
		event_open(gate);
		call_synchronize();
	}
	scene_ends();
}

START_TEST(a_stream_that_waits_for_a_later_launch_is_no_deadlock)
{
	scene_start(_i ? 90 : 25, gate_after_launch);
	scene_expect_end(60 * S);
	run_end(&run);
}
END_TEST

/*
 * A thread sleeps in a slot with the application's lock, which the one that opens the gate needs.
 */
static _Atomic uint32_t app_lock_word;
static bool app_locked;
static struct event *app_gate;

static void app_lock(void)
{
	while (app_locked)
		thread_wait_word("waits for the program's lock", &app_lock_word, app_lock_word,
		                 UINT64_MAX);
	app_locked = true;
}

static void app_unlock(void)
{
	app_locked = false;
	app_lock_word++;
	threads_wake_word(&app_lock_word);
}

static void launch_with_lock(void *unused)
{
	(void)unused;
	call_use(0);
	for (int i = 0; i < 10; i++) {
		app_lock();
		app_gate = gate_create((struct gpu_context *)scene.process->context[0]);
		call_stream_wait(CU_STREAM_PER_THREAD, (CUevent)app_gate);
		for (int j = 0; j < 4; j++)
			scene_launch(CU_STREAM_PER_THREAD, 3 * MS);
		app_unlock();
		call_synchronize();
	}
	scene_ends();
}

static void open_with_lock(void *unused)
{
	(void)unused;
	while (!scene.ended_at) {
		thread_sleep_until(world.now + 1 * MS);
		app_lock();
		if (app_gate)
			event_open(app_gate);
		app_unlock();
	}
}

START_TEST(a_lock_of_the_program_held_in_a_slot_is_no_deadlock)
{
	app_locked = false;
	app_gate = NULL;
	scene_start(_i ? 90 : 25, launch_with_lock);
	thread_begin(scene.process, "opener", open_with_lock, NULL);
	scene_expect_end(90 * S);
	run_end(&run);
}
END_TEST

/*
 * One thread launches while the other sleeps: what is in flight stays bounded, and the share is
 * that of both.
 */
START_TEST(threads_that_launch_while_others_sleep_hold_the_share)
{
	struct scenario s = *scenario_find("perthreadsync");
	struct outcome o;

	s.threads = 2 + _i * 3;
	o = run_scenario(&s, 30, (uint64_t)_i);
	ck_assert(o.ended);
	ck_assert_uint_eq(o.misuse, 0);
	ck_assert_double_le(o.window.most, 31);
	ck_assert_double_ge(o.window.least, 29);
}
END_TEST

static _Atomic int called;

static void count_call(void *unused)
{
	(void)unused;
	called++;
}

static void host_functions(void *unused)
{
	CUstream stream[2];

	(void)unused;
	call_use(0);
	driver.cuStreamCreate(&stream[0], 0);
	driver.cuStreamCreate(&stream[1], 0);
	for (int i = 0; i < 400; i++) {
		scene_launch(stream[0], 1 * MS);
		call_host_function(stream[0], count_call, NULL, 3 * MS);
		scene_launch(stream[1], 1 * MS);
		if (i % 10 == 9)
			call_synchronize();
	}
	call_synchronize();
	scene_ends();
}

/*
 * The host's functions in a stream are no work of the device: unpaced the device is busy for 1 ms
 * of 4.
 */
START_TEST(host_functions_are_not_charged)
{
	const struct counters *told;
	struct tenant *t;

	called = 0;
	scene_start(60, host_functions);
	scene_expect_end(60 * S);
	t = scene.process->tenant[0];
	told = scene.process->device[0].statistics;
	ck_assert_int_eq(called, 400);
	ck_assert_double_le((double)told->busy_ns, 1.05 * (double)t->busy_ns);
	ck_assert_uint_le(scene.ended_at - 1 * S, 400 * 43 * MS / 10);
	run_end(&run);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pace_live");
	TCase *one = tcase_create("live");

	tcase_set_timeout(one, 60);
	tcase_add_loop_test(one, a_long_kernel_is_paid_for_afterwards, 0, 5);
	tcase_add_loop_test(one, another_share_is_in_force_within_two_quanta, 0, CHANGES * PHASES);
	tcase_add_test(one, another_share_wakes_who_sleeps);
	tcase_add_loop_test(one, a_pause_stops_at_the_next_launch, 0, 2 * PAUSED);
	tcase_add_test(one, a_pause_that_a_capture_ends_is_over);
	tcase_add_loop_test(one, resume_is_at_once, 0, 8);
	tcase_add_test(one, a_pause_leaves_other_devices_alone);
	tcase_add_loop_test(one, a_context_is_destroyed_under_a_sleeper, 0, 4);
	tcase_add_loop_test(one, exit_wakes_sleepers, 0, 4);
	tcase_add_loop_test(one, a_stop_and_a_continue_change_nothing, 0, 8);
	tcase_add_loop_test(one, a_kernel_that_needs_the_launch_held_back_gets_it, 0, 2);
	tcase_add_loop_test(one, a_stream_that_waits_for_a_later_launch_is_no_deadlock, 0, 2);
	tcase_add_loop_test(one, a_lock_of_the_program_held_in_a_slot_is_no_deadlock, 0, 2);
	tcase_add_loop_test(one, threads_that_launch_while_others_sleep_hold_the_share, 0, 3);
	tcase_add_test(one, host_functions_are_not_charged);
	suite_add_tcase(suite, one);
	return run_suite(suite);
}
