/* SPDX-License-Identifier: MIT */
/*
 * Exclusive turns beside peer records that lie, and processes that hang: whatever they say, and
 * when, the others go on by exclusive turns, and it costs them no more than a job that keeps to the
 * rules.
 */
#include "core/sharing/gang.h"
#include "tests/unit/gang_world.h"
#include "tests/unit/suite.h"

/* Honest jobs beside them; in the long form eight instead of five. */
static int jobs_of[] = {1, 3, 5};
enum { SIZES = sizeof(jobs_of) / sizeof(*jobs_of) };

static void add_jobs(int jobs)
{
	for (int j = 0; j < jobs; j++)
		add(j, 1, 60000 + (int)random_below(30000), 10 * S);
	link = 1000;
	for (int j = 0; j < jobs; j++)
		process[j].gang.own.exchange_ns = 90 * MS;
}

/* Two may have a device at a time where they find out about a liar at different times. */
enum { MOST_TWO_MS = 30000 };

/* A peer record that says it wants the device, as each test has it. */
static struct gang_member liar(int i, uint32_t state)
{
	return (struct gang_member){.process = 1000 + (uint64_t)i,
	                            .job = 2000 + (uint64_t)i,
	                            .device = {7},
	                            .state = state,
	                            .is_exclusive = true,
	                            .wants = true,
	                            .ticket_ns = 1,
	                            .since_ns = 1,
	                            .length_ns = 10 * S};
}

/*
 * Lets the jobs run, checks that none gives exclusive turns up, and that all work so much together.
 */
static void check_go_on(int jobs, uint64_t settles_ns, uint64_t percent)
{
	uint64_t together = 0, total_ms = 240000;

	run_for(settles_ns);
	for (int i = 0; i < jobs; i++)
		process[i].worked_ms = 0;
	for (uint64_t end = now + total_ms * MS; now < end;) {
		tick();
		for (int i = 0; i < jobs; i++)
			if (process[i].gang.own.why)
				ck_abort_msg("job %d of %d gives up: %s", i, jobs,
				             gang_why_text(process[i].gang.own.why));
	}
	for (int i = 0; i < jobs; i++) {
		uint64_t part = total_ms * percent / 100 / (uint64_t)jobs;

		together += process[i].worked_ms;
		ck_assert_msg(process[i].worked_ms >= part * 6 / 10,
		              "job %d of %d worked %lu ms, of %lu", i, jobs,
		              (unsigned long)process[i].worked_ms, (unsigned long)part);
	}
	ck_assert_msg(together * 100 >= total_ms * percent, "%d jobs worked %lu ms of %lu", jobs,
	              (unsigned long)together, (unsigned long)total_ms);
}

/* --- one that stands still, in each state, and what it says of numbers --- */

START_TEST(one_state_for_ever)
{
	for (uint32_t state = 0; state < GANG_STATES; state++) {
		begin_world(state);
		add_jobs(jobs_of[_i]);
		run_for(25 * S);
		forgeries = 1;
		forged[0] = liar(0, state);
		check_go_on(jobs_of[_i], 0, 45);
		check_go_on(jobs_of[_i], 0, 80);
	}
}
END_TEST

START_TEST(times_to_come_and_devices_that_are_not_there)
{
	for (uint32_t state = 0; state < GANG_STATES; state++) {
		begin_world(20 + state);
		add_jobs(jobs_of[_i]);
		process[0].devices = 3;
		process[0].gang.own.device[1] = 8;
		run_for(25 * S);
		forgeries = 5;
		for (int i = 0; i < forgeries; i++) {
			forged[i] = liar(i, state);
			forged[i].since_ns = forged[i].ticket_ns = UINT64_MAX;
			for (uint32_t k = 1; k < GANG_DEVICES; k++)
				forged[i].device[k] = 1000 + 16 * (uint32_t)i + k;
		}
		forged[1].device[0] = 8;
		may_be_two = true;
		check_go_on(jobs_of[_i], 200 * S, 40);
		ck_assert_uint_le(two_ms, MOST_TWO_MS);
	}
}
END_TEST

/* More than a device can hold is not reserved for it; and elsewhere nobody takes all there is. */
START_TEST(bytes_that_nobody_has)
{
	host_room = 0;
	begin_world(40);
	add_jobs(2);
	host_room = 600000;
	forgeries = 2;
	forged[0] = liar(0, GANG_RESTS);
	forged[0].wants = false;
	forged[0].bytes = UINT64_MAX;
	forged[1] = liar(1, GANG_FREE);
	forged[1].device[0] = 99;
	forged[1].bytes = UINT64_MAX;
	check_go_on(2, 20 * S, 80);
}
END_TEST

/* --- those that follow what the others do --- */

/* Takes the turn, and lets go, at every other look; a place that is always the first. */
static void flaps(const struct process *viewer)
{
	(void)viewer;
	forged[0].state = now / (7 * MS) % 2 ? GANG_TAKES : GANG_WAITS;
	forged[0].ticket_ns = now - 100 * S;
}

/* Has a place before all others that is another each time. */
static void queues(const struct process *viewer)
{
	(void)viewer;
	forged[0].ticket_ns = 2 + now / S * 2;
	forged[1].ticket_ns = 3 + now / S * 2 - now / (500 * MS) % 2 * 2;
}

/* Says that it has had the turn before whoever has it. */
static void is_earlier(const struct process *viewer)
{
	(void)viewer;
	forged[0].state = GANG_RESTS;
	for (int i = 0; i < processes; i++)
		if (!gang_holds(process[i].told.state))
			forged[0].state = GANG_HAS;
}

/* Goes through all states, and lets go when it would be ignored. */
static void comes_and_goes(const struct process *viewer)
{
	static const uint32_t states[] = {GANG_HAS, GANG_LEAVES, GANG_WAITS, GANG_TAKES};

	(void)viewer;
	forged[0].state = states[now / (3 * S) % 4];
	forged[0].since_ns = now;
}

/* Is another job every second. */
static void is_another(const struct process *viewer)
{
	static const uint32_t states[] = {GANG_HAS, GANG_LEAVES, GANG_TAKES, GANG_FREE};

	(void)viewer;
	forged[0].job = 5000 + now / S;
	forged[0].process = 6000 + now / S;
	forged[0].state = states[now / S % 4];
}

/* Takes fine turns and does nothing, and then has had an exclusive one for long. */
static void wakes_up(const struct process *viewer)
{
	bool sleeps = now / (4 * S) % 2;

	(void)viewer;
	forged[0].is_exclusive = forged[0].wants = !sleeps;
	forged[0].state = sleeps ? GANG_FREE : GANG_HAS;
}

static void (*const liars[])(const struct process *viewer) = {
    flaps, queues, is_earlier, comes_and_goes, is_another, wakes_up,
};
enum { LIARS = sizeof(liars) / sizeof(*liars) };

/* What a job that keeps to the rules costs: its part of the time. */
static uint64_t honest_percent(int jobs)
{
	return 100 * (uint64_t)jobs / ((uint64_t)jobs + 1) * 8 / 10;
}

START_TEST(liars_that_follow_the_others)
{
	int jobs = jobs_of[_i % SIZES];

	begin_world(60 + (uint64_t)_i);
	add_jobs(jobs);
	run_for(25 * S);
	forgeries = 1 + (liars[_i / SIZES] == queues);
	for (int i = 0; i < forgeries; i++)
		forged[i] = liar(i, GANG_WAITS);
	forge = liars[_i / SIZES];
	may_be_two = true;
	check_go_on(jobs, 300 * S, honest_percent(jobs));
	ck_assert_uint_le(two_ms, MOST_TWO_MS);
}
END_TEST

/* --- processes that hang, and those that are only slow --- */

/* Its memory never leaves, or what it runs never ends: the others go on without it. */
START_TEST(one_that_never_leaves)
{
	begin_world(80);
	for (int j = 0; j < 3; j++)
		add(j, 1, 30000, 10 * S);
	run_for(5 * S);
	process[0].is_stuck = true;
	run_for(100 * S);
	process[1].worked_ms = process[2].worked_ms = 0;
	run_for(200 * S);
	for (int i = 1; i < 3; i++) {
		ck_assert_uint_eq(process[i].gang.own.why, GANG_NOTHING);
		ck_assert_uint_ge(process[i].worked_ms, 80000);
	}
	/* Once its memory has left it waits for its turn like any other. */
	process[0].is_stuck = false;
	run_for(60 * S);
	process[0].worked_ms = 0;
	run_for(120 * S);
	ck_assert_uint_ge(process[0].worked_ms, 30000);
}
END_TEST

/* Killed, or stopped for ever, in each of its states: whoever remains goes on. */
START_TEST(killed_or_stopped_in_each_state)
{
	static const uint32_t states[] = {GANG_WAITS, GANG_TAKES, GANG_HAS, GANG_LEAVES};
	int jobs = jobs_of[_i];

	for (int k = 0; k < 8; k++) {
		struct process *victim;

		begin_world(100 + (uint64_t)k);
		add_jobs(jobs + 1);
		victim = &process[jobs];
		run_for(20 * S);
		for (uint64_t end = now + 200 * S; now < end;) {
			tick();
			if (victim->gang.own.state == states[k / 2])
				break;
		}
		ck_assert_uint_eq(victim->gang.own.state, states[k / 2]);
		if (k % 2)
			victim->frozen_until = UINT64_MAX;
		else
			victim->is_there = false;
		/* What it holds on the device stays there where it is stopped. */
		check_go_on(jobs, 3 * S, 75);
		for (int i = 0; i < jobs; i++)
			ck_assert_uint_eq(process[i].gang.blocking_jobs.ignored, 0);
	}
}
END_TEST

/* Who asks for its turn now and then, and lets it be, has no reason to ignore others. */
START_TEST(who_asks_now_and_then)
{
	begin_world(95);
	add_jobs(2);
	run_for(12 * S);
	for (int i = 0; i < 40; i++) {
		process[1].is_busy = i % 2 == 0;
		run_for(3 * S);
	}
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(process[i].gang.blocking_jobs.ignored, 0);
}
END_TEST

/* A rank that hangs keeps the others of its job, and others, for a while, not for ever. */
START_TEST(a_rank_that_hangs)
{
	begin_world(81);
	for (int r = 0; r < 2; r++)
		add(0, 1u << r, 30000, 10 * S);
	add(1, 1, 30000, 10 * S);
	run_for(5 * S);
	forgeries = 1;
	forged[0] = liar(0, GANG_LEAVES);
	forged[0].job = process[0].gang.own.job;
	forged[0].device[0] = 9;
	may_be_two = true;
	check_go_on(3, 200 * S, 100);
}
END_TEST

/* An exchange of a minute, once, as on a machine at load, is no lie. */
START_TEST(a_slow_exchange_is_no_lie)
{
	int jobs = 2 + _i;

	begin_world(90 + (uint64_t)_i);
	for (int j = 0; j < jobs; j++)
		add(j, 1, 88000, 10 * S);
	run_for(12 * S);
	while (process[1].gang.own.state != GANG_TAKES && process[0].gang.own.state != GANG_TAKES)
		tick();
	/* Both ways together: 60 s. */
	for (uint64_t end = now + 58 * S; now < end;) {
		link = now / MS % 2 ? 3 : 0;
		tick();
	}
	link = 100;
	run_for(200 * S);
	for (int i = 0; i < jobs; i++) {
		ck_assert_uint_eq(process[i].gang.blocking_jobs.ignored, 0);
		ck_assert_uint_eq(process[i].gang.own.why, GANG_NOTHING);
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("gang_liars");

	if (suite_is_long())
		jobs_of[SIZES - 1] = 8;

	tcase_set_timeout(tests, 120);
	suite_add_worlds(tests, one_state_for_ever, SIZES);
	suite_add_worlds(tests, times_to_come_and_devices_that_are_not_there, SIZES);
	tcase_add_test(tests, bytes_that_nobody_has);
	suite_add_worlds(tests, liars_that_follow_the_others, LIARS * SIZES);
	tcase_add_test(tests, one_that_never_leaves);
	suite_add_worlds(tests, killed_or_stopped_in_each_state, SIZES);
	tcase_add_test(tests, who_asks_now_and_then);
	tcase_add_test(tests, a_rank_that_hangs);
	suite_add_worlds(tests, a_slow_exchange_is_no_lie, 2);
	return suite_run("gang_liars", tests);
}
