/* SPDX-License-Identifier: MIT */
/* Exclusive turns, in a world of their own (gang_world.h). */
#include "core/config/config.h"
#include "core/modules/sharing/gang.h"
#include "tests/unit/gang_world.h"
#include "tests/unit/suite.h"

/* --- the best schedule --- */

START_TEST(two_jobs_go_by_turns)
{
	begin_world(1);
	struct process *a = add(0, 1, 90000, 30 * S);
	run_for(5 * S);
	ck_assert_uint_eq(a->gang.own.state, GANG_FREE);
	ck_assert_uint_ge(a->worked_ms, 4950);
	struct process *b = add(1, 1, 90000, 30 * S);
	run_for(600 * S);
	/* 900 ms there and back of 30 s. */
	ck_assert_uint_ge(a->worked_ms + b->worked_ms, 605000 * 9 / 10);
	ck_assert_uint_ge(b->worked_ms, 600000 * 4 / 10);
	ck_assert_uint_ge(a->worked_ms, 600000 * 4 / 10);
	ck_assert_uint_le(b->longest_ms, 34000);
	/* An exchange is once around: both ways at the same time. */
	ck_assert_uint_le(b->gang.own.exchange_ns, 3 * S);
}
END_TEST

/* --- gangs --- */

/* Checks that every job has worked so much of the time, in percent. */
static void check_work(int jobs, uint64_t total_ms, uint64_t percent)
{
	for (int j = 0; j < jobs; j++)
		ck_assert_msg(worked_ms[j] * 100 >= total_ms * percent,
		              "job %d worked %lu of %lu ms, expected %lu %%", j,
		              (unsigned long)worked_ms[j], (unsigned long)total_ms,
		              (unsigned long)percent);
}

static uint64_t longest_wait(void)
{
	uint64_t longest = 0;

	for (int i = 0; i < processes; i++)
		if (process[i].longest_ms > longest)
			longest = process[i].longest_ms;
	return longest;
}

/* Two on each side and one across: either both, or the one, have their turn. */
START_TEST(overlapping_gangs)
{
	begin_world(2);
	add(0, 3, 80000, 20 * S);
	add(1, 6, 80000, 20 * S);
	add(2, 12, 80000, 20 * S);
	run_for(600 * S);
	/* The best: half of the time each. */
	check_work(3, 600000, 45);
	ck_assert_uint_le(longest_wait(), 120000);
}
END_TEST

/* One on all devices, and one on each. */
START_TEST(four_against_ones)
{
	begin_world(3);
	add(0, 15, 90000, 20 * S);
	for (int j = 1; j <= 4; j++)
		add(j, 1u << (j - 1), 90000, 20 * S);
	run_for(600 * S);
	check_work(5, 600000, 45);
}
END_TEST

/* In a ring each shares a device with two; opposite ones go together. */
START_TEST(ring_of_gangs)
{
	begin_world(4);
	for (int j = 0; j < 4; j++)
		add(j, 1u << j | 1u << (j + 1) % 4, 80000, 20 * S);
	run_for(900 * S);
	check_work(4, 900000, 45);
}
END_TEST

/* Jobs of several processes, a device each, or two on one. */
START_TEST(ranks_go_together)
{
	begin_world(5);
	for (int r = 0; r < 4; r++)
		add(0, 1u << r, 80000, 10 * S);
	for (int r = 0; r < 2; r++)
		add(1, 1u << r, 80000, 10 * S);
	for (int r = 0; r < 2; r++)
		add(2, 1u << 2, 40000, 10 * S);
	run_for(20 * S);
	/* One more of a job that has its turn. */
	add(1, 1u << 1, 10000, 10 * S);
	run_for(400 * S);
	check_work(3, 420000, 45);
}
END_TEST

START_TEST(many_on_one_device)
{
	int jobs = 2 + _i * 2;

	begin_world(6 + (uint64_t)_i);
	for (int j = 0; j < jobs; j++)
		add(j, 1, 60000 + (int)random_below(35000), 30 * S);
	run_for(600 * S);
	/* With 12 a turn is 9 s, less than ten exchanges: it cannot be had. */
	if (jobs >= 12) {
		for (int j = 0; j < jobs; j++)
			ck_assert(process[j].gang.own.why == GANG_TOO_MANY ||
			          process[j].gang.own.why == GANG_FINE_BESIDE);
		ck_assert_uint_le(longest_wait(), 1000);
		return;
	}
	ck_assert_uint_le(longest_wait(), 120000);
	ck_assert_uint_ge(busy_ms[0], 600000 * 9 / 10);
	for (int j = 0; j < jobs; j++)
		ck_assert_uint_ge(worked_ms[j], 600000 / (uint64_t)jobs * 7 / 10);
}
END_TEST

START_TEST(too_many_run_fine)
{
	begin_world(7);
	link = 10; /* 9 s each way: no turn of less than 90 s */
	add(0, 1, 90000, 30 * S);
	add(1, 1, 90000, 30 * S);
	add(2, 1, 90000, 30 * S);
	run_for(300 * S);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(process[i].gang.own.state, GANG_FREE);
		ck_assert_uint_ne(process[i].gang.own.why, GANG_NOTHING);
	}
	ck_assert_uint_le(longest_wait(), 121000);
}
END_TEST

START_TEST(the_host_is_reserved_before)
{
	begin_world(8);
	host_room = 150000;
	struct process *a = add(0, 1, 90000, 10 * S);
	run_for(2 * S);
	struct process *b = add(1, 1, 90000, 10 * S);
	run_for(60 * S);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(process[i].gang.own.state, GANG_FREE);
		ck_assert(process[i].gang.own.why == GANG_HOST_FULL ||
		          process[i].gang.own.why == GANG_FINE_BESIDE);
	}
	/* Nothing has left for it. */
	ck_assert_int_eq(a->on_device[0], 90000);
	ck_assert_uint_ge(a->worked_ms, 61000);
	/* It is not tried again before long, but at once where there is nobody to exchange with. */
	b->is_there = false;
	run_for(S);
	ck_assert_uint_eq(a->gang.own.why, GANG_NOTHING);
}
END_TEST

START_TEST(beside_fine_turns_it_is_as_they_are)
{
	begin_world(9);
	struct process *a = add(0, 3, 50000, 10 * S), *b = add(1, 2, 50000, 10 * S);
	struct process *fine = add(2, 1, 10000, 10 * S);
	fine->gang.own.is_exclusive = false;
	run_for(20 * S);
	/* Through one beside it, too. */
	ck_assert_uint_eq(a->gang.own.why, GANG_FINE_BESIDE);
	ck_assert_uint_eq(b->gang.own.why, GANG_FINE_BESIDE);
	ck_assert_uint_ge(b->worked_ms, 18000);
	/* Once it does nothing for the length of a turn, turns are exclusive. */
	fine->is_busy = false;
	run_for(9 * S);
	ck_assert_uint_eq(b->gang.own.why, GANG_FINE_BESIDE);
	run_for(3 * S);
	ck_assert_uint_eq(a->gang.own.why, GANG_NOTHING);
	ck_assert_uint_eq(b->gang.own.why, GANG_NOTHING);
	a->worked_ms = b->worked_ms = 0;
	run_for(100 * S);
	ck_assert_uint_ge(a->worked_ms + b->worked_ms, 90000);
	ck_assert_uint_le(a->worked_ms + b->worked_ms, 101000);
}
END_TEST

START_TEST(idle_passes_on)
{
	begin_world(10);
	struct process *a = add(0, 1, 90000, 30 * S), *b = add(1, 1, 90000, 30 * S);
	run_for(2 * S);
	ck_assert_uint_eq(a->gang.own.state, GANG_HAS);
	a->is_busy = false;
	run_for(3 * S);
	ck_assert_uint_eq(b->gang.own.state, GANG_HAS);
	ck_assert_uint_eq(a->gang.own.state, GANG_RESTS);
	/* Nobody waits: it keeps it. */
	b->worked_ms = 0;
	run_for(100 * S);
	ck_assert_uint_ge(b->worked_ms, 99900);
	/* It wants it back: after the end of a turn, which has long passed. */
	a->is_busy = true;
	run_for(3 * S);
	ck_assert_uint_eq(a->gang.own.state, GANG_HAS);
}
END_TEST

/* --- what happens in the middle --- */

enum happening { KILLED, PAUSED, SET_FINE, FROZEN, HAPPENINGS };

/* At any moment of an exchange, to either: the other runs on within a second, and the exchange. */
START_TEST(at_any_moment)
{
	static const uint64_t exchange = 2 * 900 * MS;
	enum happening what = (enum happening)(_i % HAPPENINGS);

	for (uint64_t at = 0; at < 3000; at += 150) {
		for (int whom = 0; whom < 2; whom++) {
			begin_world(at + (uint64_t)whom);
			add(0, 1, 90000, 10 * S);
			add(1, 1, 90000, 10 * S);
			run_for(9 * S + at * MS);
			struct process *p = &process[whom], *other = &process[1 - whom];
			if (what == KILLED)
				p->is_there = false;
			else if (what == PAUSED)
				p->is_paused = true;
			else if (what == SET_FINE)
				p->gang.own.is_exclusive = false;
			else
				p->frozen_until = now + 60 * S;
			run_for((what == FROZEN ? GANG_SILENT_NS : 0) + S + exchange);
			ck_assert_msg(runs(other), "what %d, %d at %lu: %s", what, whom,
			              (unsigned long)at, gang_state_name(other->gang.own.state));
			other->worked_ms = 0;
			run_for(20 * S);
			ck_assert_uint_ge(other->worked_ms, 19900);
			if (what != FROZEN)
				continue;
			/* It goes on, and waits for its turn. */
			run_for(100 * S);
			ck_assert_uint_ge(worked_ms[0], 20000);
			ck_assert_uint_ge(worked_ms[1], 20000);
		}
	}
}
END_TEST

/* Gangs, ranks, freezes, deaths and newcomers, at random. */
START_TEST(anything_at_random)
{
	begin_world(100 + (uint64_t)_i);
	int jobs = 2 + (int)random_below(7);

	for (int j = 0; j < jobs; j++) {
		unsigned int devices = 1 + (unsigned int)random_below(15);

		if (random_below(3))
			add(j, devices, 40000 + (int)random_below(50000),
			    (5 + random_below(10)) * S);
		else
			for (unsigned int d = 0; d < DEVICES; d++)
				if (devices >> d & 1)
					add(j, 1u << d, 40000 + (int)random_below(50000), 10 * S);
		if (random_below(2))
			run_for(random_below(3000) * MS);
	}
	for (int i = 0; i < 60; i++) {
		struct process *p = &process[random_below((uint64_t)processes)];

		run_for(random_below(4000) * MS);
		switch (random_below(8)) {
		case 0:
			p->frozen_until = now + random_below(6000) * MS;
			break;
		case 1:
			p->is_paused = !p->is_paused;
			break;
		case 2:
			p->is_busy = !p->is_busy;
			break;
		case 3:
			if (random_below(4) == 0)
				p->is_there = false;
			break;
		default:
			break;
		}
	}
	ck_assert_uint_le(longest_wait(), 122000);
	for (int i = 0; i < processes; i++) {
		process[i].is_paused = false;
		process[i].is_busy = true;
		process[i].worked_ms = 0;
		/* With none that has given up. */
		process[i].gang.fine_until_ns = 0;
	}
	run_for(300 * S);
	for (int i = 0; i < processes; i++)
		if (process[i].is_there)
			ck_assert_msg(process[i].worked_ms >= 300000 / (uint64_t)jobs / 2,
			              "%d of job %d worked %lu, %s", i, process[i].job,
			              (unsigned long)process[i].worked_ms,
			              gang_state_name(process[i].gang.own.state));
}
END_TEST

/*
 * Whom another that leaves keeps from taking its turn has not lost its place, for 2 s or 20: the
 * next in line does not take its turn, and give it up again, at each look.
 */
START_TEST(who_is_kept_from_its_turn_is_not_passed_by)
{
	int takes;

	begin_world(12);
	struct process *a = add(0, 1, 90000, 10 * S);
	run_for(S);
	struct process *b = add(1, 1, 90000, 10 * S);
	run_for(S);
	struct process *c = add(2, 1, 90000, 10 * S);
	run_for(3 * S);
	a->is_stuck = true;
	while (b->gang.own.state != GANG_TAKES)
		tick();
	takes = c->takes;
	run_for(20 * S);
	ck_assert_uint_eq(a->gang.own.state, GANG_LEAVES);
	ck_assert_uint_eq(b->gang.own.state, GANG_TAKES);
	ck_assert_int_eq(c->takes, takes);
	ck_assert_int_eq(c->on_device[0], 0);
	a->is_stuck = false;
	run_for(4 * S);
	ck_assert_uint_eq(b->gang.own.state, GANG_HAS);
	run_for(60 * S);
	check_work(3, 60000, 20);
}
END_TEST

/* Memory that comes for longer than a place is kept is no reason to pass its job by either. */
START_TEST(a_long_exchange_is_no_lost_place)
{
	begin_world(13);
	link = 30; /* 3 s each way */
	for (int j = 0; j < 3; j++) {
		add(j, 1, 90000, 30 * S);
		run_for(S);
	}
	run_for(400 * S);
	for (int i = 0; i < 3; i++)
		ck_assert_int_le(process[i].takes, 6);
	check_work(3, 400000, 25);
}
END_TEST

/*
 * Who has waited too long, as on a machine that is too busy, goes on without exclusive turns once
 * the one whose turn it is has seen that; or has died, or stands still, for no longer than that
 * takes.
 */
START_TEST(who_gave_up_waits_for_an_answer)
{
	begin_world(14 + (uint64_t)_i);
	struct process *a = add(0, 1, 90000, 30 * S);
	run_for(S);
	struct process *b = add(1, 1, 90000, 30 * S);
	run_for(3 * S);
	ck_assert_uint_eq(a->gang.own.state, GANG_HAS);
	ck_assert_uint_eq(b->gang.own.state, GANG_WAITS);
	b->gang.own.ticket_ns -= GANG_WAIT_NS;
	if (_i % 3 == 1)
		a->frozen_until = now + 60 * S;
	if (_i % 3 == 2)
		a->is_there = false;
	for (uint64_t until = now + GANG_SILENT_NS + 200 * MS; !runs(b) && now < until;)
		tick();
	ck_assert(runs(b));
	if (_i % 3 == 0) {
		ck_assert_uint_eq(b->gang.own.why, GANG_WAITED);
		ck_assert_uint_eq(a->gang.own.why, GANG_FINE_BESIDE);
	}
}
END_TEST

/* Killed, or stopped for ever, in each of its states: whoever remains goes on. */
START_TEST(killed_or_stopped_in_each_state)
{
	static const uint32_t states[] = {GANG_WAITS, GANG_TAKES, GANG_HAS, GANG_LEAVES};
	const int jobs = 1 + 2 * _i;

	for (int k = 0; k < 8; k++) {
		struct process *victim;

		begin_world(100 + (uint64_t)k);
		for (int j = 0; j <= jobs; j++)
			add(j, 1, 60000 + (int)random_below(30000), 10 * S);
		link = 1000;
		for (int j = 0; j <= jobs; j++)
			process[j].gang.own.exchange_ns = 90 * MS;
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
		run_for(3 * S);
		for (int i = 0; i < jobs; i++)
			process[i].worked_ms = 0;
		run_for(120 * S);
		for (int i = 0; i < jobs; i++) {
			ck_assert_uint_eq(process[i].gang.own.why, GANG_NOTHING);
			ck_assert_uint_ge(process[i].worked_ms,
			                  120000u / (unsigned)jobs * 45 / 100);
		}
	}
}
END_TEST

/* An exchange of a minute, once, as on a machine at load, is waited for. */
START_TEST(a_slow_exchange_is_waited_for)
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
	for (int i = 0; i < jobs; i++)
		ck_assert_uint_eq(process[i].gang.own.why, GANG_NOTHING);
}
END_TEST

/*
 * Its memory never leaves, because what it runs never ends. The others wait until the deadline of
 * their turns, and go on by fine turns; by exclusive ones when they try again, if it has let go.
 */
START_TEST(one_that_never_leaves)
{
	begin_world(80);
	for (int j = 0; j < 3; j++)
		add(j, 1, 30000, 10 * S);
	run_for(5 * S);
	process[0].is_stuck = true;
	run_for(GANG_WAIT_NS + 20 * S);
	for (int i = 1; i < 3; i++) {
		ck_assert_uint_ne(process[i].gang.own.why, GANG_NOTHING);
		ck_assert(runs(&process[i]));
		ck_assert_uint_le(process[i].longest_ms, 122000);
	}
	process[0].is_stuck = false;
	run_for(GANG_AGAIN_NS);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(process[i].gang.own.why, GANG_NOTHING);
		process[i].worked_ms = 0;
	}
	run_for(120 * S);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_ge(process[i].worked_ms, 30000);
}
END_TEST

/* A process that shares no turn file with us is a job of fine turns, whatever it says. */
START_TEST(another_user_s_process_is_not_believed)
{
	struct peers_other other = {
	    .owner = 1001, .record = {.token = 5, .job = 9, .device = 1, .turn = TURN_EXCLUSIVE}};
	struct gang_member lie = {.device = {9, 10},
	                          .state = GANG_HAS,
	                          .is_exclusive = true,
	                          .ticket_ns = 1,
	                          .bytes = UINT64_MAX,
	                          .beat_ns = UINT64_MAX};
	struct gang_member m;

	member_tell(&lie, 5, &other.record);
	m = member_of(&other, true, now);
	ck_assert(m.is_exclusive && m.state == GANG_HAS && m.device[1] == 10);
	m = member_of(&other, false, now);
	ck_assert(!m.is_exclusive && !m.wants);
	ck_assert_uint_eq(m.state, GANG_FREE);
	ck_assert_uint_eq(m.device[0], member_device(&other.record));
	ck_assert_uint_eq(m.device[1] | m.bytes | m.ticket_ns, 0);
	ck_assert_uint_eq(m.beat_ns, now);
	other.record.working = PEER_WORKS;
	ck_assert(member_of(&other, false, now).wants);
}
END_TEST

START_TEST(what_may_come_back)
{
	ck_assert_uint_eq(gang_room(1000, 300, 100, 0, 200), 200);
	ck_assert_uint_eq(gang_room(1000, 300, 100, 500, 200), 600);
	ck_assert_uint_eq(gang_room(1000, 950, 100, 500, 200), 0);
	ck_assert_uint_eq(gang_room(1000, UINT64_MAX, 100, UINT64_MAX, 200), 0);
}
END_TEST

/*
 * A process is one member by all its peer records, to others and to itself, and another than those
 * of other users who write the same.
 */
START_TEST(a_process_is_one_member)
{
	struct peers_other record[2] = {
	    {.owner = 1000, .record = {.token = 5, .job = 9, .device = 1, .turn = TURN_EXCLUSIVE}},
	    {.owner = 1000, .record = {.token = 6, .job = 9, .device = 2, .turn = TURN_EXCLUSIVE}}};
	struct gang_member own = {
	    .process = member_number(1000, 5),
	    .job = member_number(1000, 9),
	    .device = {member_device(&record[0].record), member_device(&record[1].record)},
	    .is_exclusive = true,
	    .wants = true,
	    .beat_ns = now,
	    .bytes = 7};
	struct gang_facts facts = {.wants = true, .host_room = 10};
	struct gang gang = {.own = own};

	ck_assert_uint_eq(member_of(&record[0], true, now).device[0], 0);
	for (int i = 0; i < 2; i++) {
		member_tell(&own, 5, &record[i].record);
		struct gang_member told = member_of(&record[i], true, now);
		ck_assert_uint_eq(told.process, own.process);
		ck_assert_uint_eq(told.job, own.job);
		ck_assert_mem_eq(told.device, own.device, sizeof own.device);
		ck_assert_uint_eq(told.bytes, 7);
		record[i].owner = 1001;
		ck_assert_uint_ne(member_of(&record[i], true, now).process, own.process);
		ck_assert_uint_ne(member_of(&record[i], true, now).job, own.job);
		record[i].owner = 1000;
	}
	/* Beside another on its devices its own peer records are not counted with what it has
	 * itself. */
	struct gang_member others[3] = {member_of(&record[0], true, now),
	                                member_of(&record[1], true, now)};
	record[0].owner = 1001;
	others[2] = member_of(&record[0], true, now);
	others[2].bytes = 1;
	for (int i = 0; i < 3; i++)
		gang_step(&gang, now, &facts, others, 3);
	ck_assert_uint_eq(gang.own.why, GANG_NOTHING);
}
END_TEST

static const char *variables[4][2];

static char *get(const char *name)
{
	for (int i = 0; i < 4; i++)
		if (variables[i][0] && strcmp(variables[i][0], name) == 0)
			return (char *)variables[i][1];
	return NULL;
}

static const char *nodes(const char *a, const char *as, const char *b, const char *bs)
{
	variables[0][0] = a;
	variables[0][1] = as;
	variables[1][0] = b;
	variables[1][1] = bs;
	return gang_other_nodes(get);
}

START_TEST(launchers_tell_of_other_machines)
{
	ck_assert_ptr_null(nodes(NULL, NULL, NULL, NULL));
	ck_assert_ptr_null(nodes("WORLD_SIZE", "8", "LOCAL_WORLD_SIZE", "8"));
	ck_assert_str_eq(nodes("WORLD_SIZE", "16", "LOCAL_WORLD_SIZE", "8"), "WORLD_SIZE");
	/* One of them alone says nothing. */
	ck_assert_ptr_null(nodes("WORLD_SIZE", "16", NULL, NULL));
	ck_assert_str_eq(nodes("GROUP_WORLD_SIZE", "2", NULL, NULL), "GROUP_WORLD_SIZE");
	ck_assert_ptr_null(nodes("GROUP_WORLD_SIZE", "1", NULL, NULL));
	ck_assert_str_eq(nodes("OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
	                 "OMPI_COMM_WORLD_SIZE");
	ck_assert_str_eq(nodes("PMI_SIZE", "4", "MPI_LOCALNRANKS", "1"), "PMI_SIZE");
	ck_assert_str_eq(nodes("SLURM_STEP_NUM_NODES", "2", NULL, NULL), "SLURM_STEP_NUM_NODES");
	ck_assert_ptr_null(nodes("SLURM_STEP_NUM_NODES", "no number", NULL, NULL));
	for (uint32_t i = 0; i < GANG_WHYS + 2; i++)
		ck_assert_ptr_nonnull(gang_why_text(i));
	for (uint32_t i = 0; i < GANG_STATES + 2; i++)
		ck_assert_ptr_nonnull(gang_state_name(i));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("gang");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, two_jobs_go_by_turns);
	tcase_add_test(tests, overlapping_gangs);
	tcase_add_test(tests, four_against_ones);
	tcase_add_test(tests, ring_of_gangs);
	tcase_add_test(tests, ranks_go_together);
	suite_add_worlds(tests, many_on_one_device, 8);
	tcase_add_test(tests, too_many_run_fine);
	tcase_add_test(tests, the_host_is_reserved_before);
	tcase_add_test(tests, beside_fine_turns_it_is_as_they_are);
	tcase_add_test(tests, idle_passes_on);
	suite_add_worlds(tests, at_any_moment, HAPPENINGS);
	suite_add_worlds(tests, anything_at_random, 8);
	tcase_add_test(tests, who_is_kept_from_its_turn_is_not_passed_by);
	tcase_add_test(tests, a_long_exchange_is_no_lost_place);
	suite_add_worlds(tests, who_gave_up_waits_for_an_answer, 30);
	suite_add_worlds(tests, killed_or_stopped_in_each_state, 3);
	suite_add_worlds(tests, a_slow_exchange_is_waited_for, 2);
	tcase_add_test(tests, one_that_never_leaves);
	tcase_add_test(tests, another_user_s_process_is_not_believed);
	tcase_add_test(tests, what_may_come_back);
	tcase_add_test(tests, a_process_is_one_member);
	tcase_add_test(tests, launchers_tell_of_other_machines);
	return suite_run("gang", tests);
}
