/* SPDX-License-Identifier: MIT */
/*
 * Memory changes hands in virtual time. Jobs of random sizes and priorities on one device allocate,
 * free, fall idle, wake, are killed and freeze in mid exchange. Some peer records lie. Decisions
 * are the product's (core/sharing); the moves that follow from them happen at the speed of a link.
 */
#include "core/modules/sharing/grant.c" /* job_sums_make(), too */

#include "tests/unit/lending_world.h"
#include "tests/unit/suite.h"

/* --- who is entitled to what --- */

static void entitle(struct job_sums *sums)
{
	static struct peers others;

	others.count = 0;
	for (int i = 0; i < world.count; i++)
		fill_record(&world.job[i]);
	for (int i = 1; i < world.count; i++)
		others.other[others.count++] = (struct peers_other){.record = world.job[i].record};
	job_sums_make(sums, DEVICE, &world.job[0].record, 0, &others);
	job_sums_entitle(sums);
}

START_TEST(each_is_entitled_to_its_limit_and_those_without_one_to_equal_parts)
{
	const uint64_t margin = DEVICE / 32;
	struct job_sums sums;

	start();
	for (int i = 0; i < 3; i++)
		add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED)->on_host = DEVICE;
	entitle(&sums);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(sums.of[i].entitled, (DEVICE - margin) / 3);
	/* What one does not need counts for the others. */
	world.job[2].on_host = 1024 * MIB;
	entitle(&sums);
	ck_assert_uint_eq(sums.of[0].entitled, (DEVICE - margin - 1024 * MIB) / 2);
	/* Limits come first, as far as they are used; a lower class has what is left. */
	add_job(PRIORITY_NORMAL, 4096 * MIB)->on_host = 2048 * MIB;
	add_job(PRIORITY_OPPORTUNISTIC, CONFIG_UNLIMITED)->held = 512 * MIB;
	entitle(&sums);
	ck_assert_uint_eq(sums.of[3].entitled, 4096 * MIB);
	ck_assert_uint_eq(sums.of[0].entitled, (DEVICE - margin - 3072 * MIB) / 2);
	ck_assert_uint_eq(sums.of[4].entitled, 0);
	ck_assert_uint_eq(job_sum_borrows(&sums.of[4]), 512 * MIB);
	/* One that is idle needs nothing. */
	world.job[1].works = false;
	world.job[1].used_ns = world.now - 60 * SECOND;
	entitle(&sums);
	ck_assert_uint_eq(sums.of[0].entitled, DEVICE - margin - 3072 * MIB);
	/* Room for the contexts is left; a lie takes a 16th of all, and several a quarter. */
	world.job[2].record.context = 256 * MIB;
	world.job[3].record.context = 300 * MIB;
	entitle(&sums);
	ck_assert_uint_eq(sums.of[0].entitled, DEVICE - 556 * MIB - 3072 * MIB);
	world.job[3].record.context = UINT64_MAX;
	entitle(&sums);
	ck_assert_uint_eq(sums.margin, 256 * MIB + DEVICE / 16);
	for (int i = 0; i < world.count; i++)
		world.job[i].record.context = UINT64_MAX;
	entitle(&sums);
	ck_assert_uint_eq(sums.margin, DEVICE / 4);
}
END_TEST

/* --- what is asked for is had --- */

START_TEST(an_idle_job_makes_room_and_has_it_back_when_it_works_again)
{
	const uint64_t bytes = DEVICE / 10 * 8 / CHUNK * CHUNK;
	struct world_job *idle, *new;
	uint64_t took, gave;

	start();
	idle = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(idle, bytes);
	run(SECOND);
	idle->works = false;
	run(60 * SECOND);
	/* Nobody claims: it keeps all. */
	ck_assert_uint_eq(idle->held, bytes);
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(new, bytes);
	took = until_all_is_there(new);
	ck_assert_uint_le(took, copies(bytes) * 3 / 2 + 100 * MS);
	/* No more than was needed has gone, and it has gone once. */
	ck_assert_uint_ge(idle->held + new->held, DEVICE - 2 * CHUNK);
	gave = idle->gave;
	run(60 * SECOND);
	ck_assert_uint_eq(new->on_host, 0);
	/* It works: what has room comes at once, and both have an equal part in the end. */
	idle->works = true;
	idle->woke_ns = world.now;
	run(60 * SECOND);
	ck_assert_uint_ge(idle->held, (DEVICE - DEVICE / 32) / 2 - CHUNK);
	ck_assert_uint_ge(new->held, (DEVICE - DEVICE / 32) / 2 - CHUNK);
	ck_assert_uint_le(idle->gave, gave + CHUNK);
	/* The other ends: all of it is back as soon as there is room. */
	new->lives = false;
	took = until_all_is_there(idle);
	ck_assert_uint_le(took, copies(bytes) * 3 / 2 + 100 * MS);
}
END_TEST

START_TEST(who_is_never_idle_keeps_what_it_is_entitled_to)
{
	struct world_job *keeps, *new;

	start();
	keeps = add_job(PRIORITY_NORMAL, 6144 * MIB);
	keeps->idle_yield = CONFIG_NEVER;
	grow_by(keeps, 6144 * MIB);
	keeps->works = false;
	run(60 * SECOND);
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(new, 4096 * MIB);
	run(60 * SECOND);
	ck_assert_uint_eq(keeps->gave, 0);
	ck_assert_uint_eq(new->held, 2048 * MIB);
}
END_TEST

START_TEST(a_guaranteed_job_takes_from_an_opportunistic_one)
{
	const uint64_t held = DEVICE / 10 * 9 / CHUNK * CHUNK, bytes = DEVICE / 2;
	struct world_job *best_effort, *job;

	start();
	best_effort = add_job(PRIORITY_OPPORTUNISTIC, CONFIG_UNLIMITED);
	grow_by(best_effort, held);
	run(10 * SECOND);
	job = add_job(PRIORITY_GUARANTEED, _i ? CONFIG_UNLIMITED : 4096 * MIB);
	job->idle_yield = CONFIG_NEVER;
	run(SECOND);
	ck_assert_uint_eq(best_effort->gave, 0);
	grow_by(job, bytes);
	ck_assert_uint_le(until_all_is_there(job), copies(bytes) * 3 / 2 + 100 * MS);
	run(60 * SECOND);
	ck_assert_uint_eq(job->gave, 0);
	/* It frees, allocates and frees: what it takes is held against the cooldown. */
	best_effort->moved = 0;
	for (int i = 0; i < 60; i++) {
		shrink_by(job, bytes);
		run(SECOND / 2);
		grow_by(job, bytes);
		run(SECOND / 2);
	}
	ck_assert_uint_le(copies(best_effort->moved), 60 * SECOND / 4);
}
END_TEST

/* Nobody waits for another claim where one grows while it is met. */
START_TEST(a_claim_that_grows_is_met_as_it_grows)
{
	const uint64_t held = DEVICE / 10 * 9 / CHUNK * CHUNK, bytes = DEVICE / 2;
	uint64_t began, got = 0;
	struct world_job *holder, *job;

	start();
	holder = add_job(_i ? PRIORITY_NORMAL : PRIORITY_OPPORTUNISTIC, CONFIG_UNLIMITED);
	grow_by(holder, held);
	run(SECOND);
	holder->works = !_i; /* else it is idle */
	run(40 * SECOND);
	job = add_job(PRIORITY_GUARANTEED, CONFIG_UNLIMITED);
	began = world.now;
	for (; got < bytes; got += 2 * CHUNK) {
		grow_by(job, 2 * CHUNK);
		tick();
	}
	until_all_is_there(job);
	ck_assert_uint_le(world.now - began, copies(bytes) * 3 / 2 + 100 * MS);
	/* No more than was needed has gone. */
	ck_assert_uint_ge(holder->held + job->held, DEVICE - 2 * CHUNK);
}
END_TEST

START_TEST(three_equals_have_equal_parts_and_then_nothing_moves)
{
	struct world_job *job[3];
	uint64_t moved;

	start();
	for (int i = 0; i < 3; i++) {
		job[i] = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
		grow_by(job[i], DEVICE / 10 * 6);
		run(5 * SECOND);
	}
	run(120 * SECOND);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_ge(job[i]->held, (DEVICE - DEVICE / 32) / 3 - CHUNK);
	moved = world.moved;
	run(600 * SECOND);
	ck_assert_uint_eq(world.moved, moved);
}
END_TEST

/*
 * Whoever comes first, equals that want more than there is end with equal parts of all of it, and
 * those that want less have that. Memory moves in chunks.
 */
START_TEST(equals_end_equal_in_whatever_order_they_come)
{
	uint64_t part, most = 0, moved;
	int count, small;

	for (int i = 0; i < 100 * _i; i++)
		scratch_random();
	start();
	world.piece = CHUNK;
	count = 2 + (int)(scratch_random() % 7);
	small = (int)(scratch_random() % (uint64_t)count) / 2;
	part = DEVICE / (uint64_t)count;
	for (int i = 0; i < count; i++) {
		struct world_job *job = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
		/* Those that want less come at random, too. */
		bool is_small = scratch_random() % (uint64_t)(count - i) < (uint64_t)small;
		uint64_t all = is_small ? part / 3 : part * 5 / 4 + scratch_random() % part;

		small -= is_small;
		job->record.token = scratch_random();
		for (uint64_t had = 0; had + CHUNK <= all; had += CHUNK) {
			grow_by(job, CHUNK);
			if (scratch_random() % 8 == 0)
				tick();
		}
		run(scratch_random() % (3 * SECOND));
	}
	run(120 * SECOND);
	for (int i = 0; i < count; i++)
		most = world.job[i].held > most ? world.job[i].held : most;
	for (int i = 0; i < count; i++) {
		const struct world_job *job = &world.job[i];
		uint64_t wants = least(most, job->held + job->on_host);

		if (wants < part)
			ck_assert_uint_eq(job->on_host, 0);
		ck_assert_msg(wants - job->held <= 2 * CHUNK + most / 32,
		              "of %d one holds %llu MiB, one %llu", count,
		              (unsigned long long)(most / MIB),
		              (unsigned long long)(job->held / MIB));
	}
	ck_assert_uint_le(free_bytes(), (uint64_t)count * CHUNK);
	moved = world.moved;
	run(200 * SECOND);
	ck_assert_uint_eq(world.moved, moved);
}
END_TEST

/*
 * What is promised by a limit and lent to who grows is had back, and so is what must be on the
 * device.
 */
START_TEST(what_is_lent_is_called_back)
{
	struct world_job *borrower, *owner;

	start();
	owner = add_job(PRIORITY_NORMAL, 4096 * MIB);
	borrower = add_job(PRIORITY_NORMAL, DEVICE);
	borrower->record.limit = 2048 * MIB;
	borrower->limit = CONFIG_UNLIMITED; /* it has grown */
	grow_by(borrower, DEVICE);
	for (int i = 0; i < 20; i++)
		tick();
	ck_assert_uint_eq(free_bytes(), 0);
	if (_i) {
		/* One by one, so that each comes while the claim of the one before stands. */
		for (int call = 0; call < 3; call++) {
			owner->must = 512 * MIB;
			for (uint64_t began = world.now; owner->must;) {
				world.job[1].record.limit = 2048 * MIB;
				tick();
				ck_assert_uint_le(world.now - began,
				                  copies(512 * MIB) * 2 + 200 * MS);
			}
			ck_assert_msg(owner->must_was_had, "call %d is refused", call);
		}
	} else {
		grow_by(owner, 4096 * MIB);
		until_all_is_there(owner);
	}
}
END_TEST

/* A giver that freezes in mid exchange is passed over, and the next gives. */
START_TEST(who_freezes_or_dies_delays_the_others_by_a_bound_and_once)
{
	struct world_job *first, *second, *new;
	uint64_t began;

	start();
	first = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	second = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(first, 4096 * MIB);
	grow_by(second, 4096 * MIB);
	run(SECOND);
	first->works = second->works = false;
	run(40 * SECOND);
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(new, 2048 * MIB);
	began = world.now;
	while (!first->gave && !second->gave)
		tick();
	if (_i == 0)
		(first->gave ? first : second)->frozen_until = world.now + 3600 * SECOND;
	else
		(first->gave ? first : second)->lives = false;
	until_all_is_there(new);
	ck_assert_uint_le(world.now - began, copies(2048 * MIB) * 3 / 2 + 300 * MS);
}
END_TEST

/*
 * A slice that was under way when the claim ended leaves all the same, and counts; what is freed
 * then does not. It was told to nobody, and came back at once.
 */
START_TEST(what_leaves_after_the_claim_has_ended_was_given)
{
	struct world_job *idle, *new;
	uint64_t cooldown_until_ns;

	start();
	idle = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(idle, 6144 * MIB);
	run(SECOND);
	idle->works = false;
	run(40 * SECOND);
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(new, 6144 * MIB);
	while (_i ? idle->gave < 512 * MIB : !idle->grant.gives)
		tick();
	new->lives = false;
	fill_record(idle);
	decide();
	ck_assert(!idle->grant.gives);
	ck_assert_uint_eq(idle->told_gave, idle->gave);
	cooldown_until_ns = idle->grant.takes_after_ns;
	idle->held -= 64 * MIB;
	idle->on_host += 64 * MIB;
	world.now += TICK_MS * MS;
	fill_record(idle);
	decide();
	ck_assert_uint_eq(idle->told_gave, idle->gave + 64 * MIB);
	ck_assert_uint_gt(idle->grant.takes_after_ns, cooldown_until_ns);
	ck_assert_uint_eq(idle->answer.bound, idle->held);
	idle->held -= 64 * MIB; /* freed */
	world.now += TICK_MS * MS;
	fill_record(idle);
	decide();
	ck_assert_uint_eq(idle->told_gave, idle->gave + 64 * MIB);
}
END_TEST

/* A claimant that freezes lets the others go on. */
START_TEST(a_frozen_claimant_is_passed_over)
{
	struct world_job *idle, *frozen, *new;

	start();
	idle = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(idle, DEVICE);
	run(SECOND);
	idle->works = false;
	run(40 * SECOND);
	frozen = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(frozen, 2048 * MIB);
	run(30 * MS);
	frozen->frozen_until = world.now + 3600 * SECOND;
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(new, 2048 * MIB);
	ck_assert_uint_le(until_all_is_there(new), 2 * SECOND);
}
END_TEST

/* --- lies --- */

START_TEST(a_record_that_lies_costs_a_bounded_part_of_the_time)
{
	struct world_job *honest, *other;

	for (int i = 0; i < 100 * _i; i++)
		scratch_random();
	start();
	honest = add_job(PRIORITY_NORMAL, 4096 * MIB);
	other = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(honest, 4096 * MIB);
	grow_by(other, 2048 * MIB);
	add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED)->is_liar = true;
	run(120 * SECOND);
	/*
	 * What a limit promises is not lent, and a borrower gives what it borrowed and no more
	 * often than cooldowns allow.
	 */
	ck_assert_uint_eq(honest->gave, 0);
	ck_assert_uint_le(copies(other->moved), 120 * SECOND / 5);
	/* Who claims still has its own, in time. */
	grow_by(other, 1024 * MIB);
	shrink_by(honest, 4096 * MIB);
	run(60 * SECOND);
	grow_by(honest, 4096 * MIB);
	run(60 * SECOND);
	ck_assert_uint_eq(honest->on_host, 0);
}
END_TEST

/* --- whatever happens --- */

enum { RUNS = 30, LONG_RUNS = 90, EVENTS = 60 };

static void happen(void)
{
	struct world_job *job = &world.job[scratch_random() % (uint64_t)world.count];
	uint64_t bytes;

	if (!job->lives || is_frozen(job))
		return;
	switch (scratch_random() % 9) {
	case 0:
		if (scratch_random() % 4 == 0)
			job->lives = false;
		break;
	case 1:
		if (scratch_random() % 4 == 0)
			job->frozen_until = world.now + scratch_random() % (10 * SECOND);
		break;
	case 2:
	case 3:
		job->works = !job->works;
		job->woke_ns = job->works ? world.now : job->woke_ns;
		break;
	case 4:
		shrink_by(job, scratch_random() % 2048 * MIB / CHUNK * CHUNK);
		break;
	case 5:
		bytes = (1 + scratch_random() % 32) * CHUNK;
		if (job->must || !job->works || job->held + bytes > job->limit)
			break;
		job->must = bytes;
		job->must_since = world.now;
		break;
	default:
		if (job->held + job->on_host < DEVICE)
			grow_by(job, scratch_random() % 2048 * MIB / CHUNK * CHUNK);
	}
}

/*
 * Each that works has what it needs and is entitled to, as far as it is not in somebody's hands who
 * cannot give.
 */
static void check_that_claims_are_met(void)
{
	for (int i = 0; i < world.count; i++) {
		struct world_job *job = &world.job[i];

		if (!job->lives || !job->works)
			continue;
		ck_assert_msg(
		    !job->on_host || job->held + CHUNK >= least(job->limit, job->record.entitled) ||
		        job->answer.why == CLAIM_NOBODY,
		    "job %d of %d holds %llu, has %llu on the host, is entitled to %llu: %d", i,
		    world.count, (unsigned long long)(job->held / MIB),
		    (unsigned long long)(job->on_host / MIB),
		    (unsigned long long)(job->record.entitled / MIB), (int)job->answer.why);
	}
}

START_TEST(whatever_happens_claims_are_met_one_at_a_time_with_cooldowns)
{
	uint64_t moved;

	for (int i = 0; i < 1000 * _i; i++)
		scratch_random();
	start();
	for (int i = 2 + (int)(scratch_random() % (JOBS_MAX - 1)); i; i--)
		add_job((uint8_t)(scratch_random() % 3),
		        scratch_random() % 2 ? CONFIG_UNLIMITED
		                             : (1 + scratch_random() % 64) * 128 * MIB)
		    ->idle_yield = scratch_random() % 3 ? 5 * SECOND : CONFIG_NEVER;
	for (int i = 0; i < EVENTS; i++) {
		happen();
		run(scratch_random() % (4 * SECOND));
	}
	/* All who live go on: claims are met, and then nothing moves any more. */
	run(240 * SECOND);
	check_that_claims_are_met();
	moved = world.moved;
	run(120 * SECOND);
	ck_assert_uint_eq(world.moved, moved);
	ck_assert_uint_le(world.longest_claim, 2 * copies(DEVICE) + 5 * SECOND);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("lending");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, each_is_entitled_to_its_limit_and_those_without_one_to_equal_parts);
	tcase_add_test(tests, an_idle_job_makes_room_and_has_it_back_when_it_works_again);
	tcase_add_test(tests, who_is_never_idle_keeps_what_it_is_entitled_to);
	suite_add_worlds(tests, a_guaranteed_job_takes_from_an_opportunistic_one, 2);
	suite_add_worlds(tests, a_claim_that_grows_is_met_as_it_grows, 2);
	tcase_add_test(tests, three_equals_have_equal_parts_and_then_nothing_moves);
	suite_add_worlds(tests, equals_end_equal_in_whatever_order_they_come, 24);
	suite_add_worlds(tests, what_is_lent_is_called_back, 2);
	suite_add_worlds(tests, who_freezes_or_dies_delays_the_others_by_a_bound_and_once, 2);
	suite_add_worlds(tests, what_leaves_after_the_claim_has_ended_was_given, 2);
	tcase_add_test(tests, a_frozen_claimant_is_passed_over);
	suite_add_worlds(tests, a_record_that_lies_costs_a_bounded_part_of_the_time, 10);
	suite_add_worlds(tests, whatever_happens_claims_are_met_one_at_a_time_with_cooldowns,
	                 suite_is_long() ? LONG_RUNS : RUNS);
	return suite_run("lending", tests);
}
