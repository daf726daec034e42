/* SPDX-License-Identifier: MIT */
/*
 * Calls that must have memory on a full device, in the world of lending. Jobs start at once and
 * have not published their memory yet. Some memory is never published, and some has just changed
 * hands.
 */
#include "core/modules/sharing/grant.h"
#include "tests/unit/lending_world.h"
#include "tests/unit/suite.h"

/* Returns how long a call of this job waits that must have so much on the device. */
static uint64_t call(struct world_job *job, uint64_t bytes)
{
	uint64_t began = world.now;

	job->must = bytes;
	job->must_since = began;
	while (job->must && world.now - began < 60 * SECOND)
		tick();
	return world.now - began;
}

/*
 * Jobs that start at once on a full device: who would be refused waits for those that hold memory
 * and have no peer record yet, or have not written on it what they hold.
 */
START_TEST(who_holds_memory_and_has_not_told_yet_is_waited_for)
{
	struct world_job *new, *first, *second;

	start();
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	new->is_blind = _i & 1;
	first = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	second = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	if (_i & 2)
		first->starts_until = world.now + 300 * MS;
	else
		first->hidden_until = world.now + 300 * MS;
	if (_i & 4)
		second->hidden_until = world.now + 500 * MS;
	grow_by(first, DEVICE / 10 * 6);
	grow_by(second, DEVICE / 10 * 6);
	ck_assert_uint_lt(free_bytes(), CHUNK);
	ck_assert_uint_le(call(new, 64 * MIB), SECOND);
	ck_assert(new->must_was_had);
	/* It has its part in the end, as all who start beside it. */
	new->fixed = 0;
	grow_by(new, DEVICE / 10 * 6);
	run(60 * SECOND);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_ge(world.job[i].held, (DEVICE - DEVICE / 32) / 3 - 3 * CHUNK);
}
END_TEST

/* Memory of a process of which nobody ever tells delays one call, by a bound. */
START_TEST(what_is_never_told_is_waited_for_once)
{
	struct world_job *job, *stranger, *other;

	start();
	job = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	job->is_blind = _i & 1;
	stranger = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	stranger->hidden_until = UINT64_MAX;
	grow_by(stranger, DEVICE);
	if (_i & 2) {
		other = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
		stranger->held -= 64 * MIB;
		grow_by(other, 64 * MIB);
		run(SECOND);
	}
	ck_assert_uint_le(call(job, 64 * MIB), SECOND + 100 * MS);
	ck_assert(!job->must_was_had);
	ck_assert_uint_le(call(job, 64 * MIB), 50 * MS);
	ck_assert(!job->must_was_had);
	/* Somebody else has more of it: he may tell. */
	stranger->held -= 2048 * MIB;
	other = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(other, 2048 * MIB);
	run(SECOND);
	other->works = false;
	run(40 * SECOND);
	ck_assert_uint_le(call(job, 64 * MIB), 200 * MS);
	ck_assert(job->must_was_had);
}
END_TEST

/* Who has just been given memory gives what it borrows to a call that would be refused. */
START_TEST(what_is_borrowed_goes_to_a_call_in_the_cooldown)
{
	struct world_job *first, *second, *new;

	start();
	first = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	second = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	grow_by(first, DEVICE / 10 * 7);
	grow_by(second, DEVICE / 10 * 7);
	run(60 * SECOND);
	for (int i = 0; i < 2; i++)
		world.job[i].record.cooldown_until_ns = world.now + 60 * SECOND;
	new = add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
	call(new, 256 * MIB);
	ck_assert(new->must_was_had);
	ck_assert_uint_ge(first->held + second->held, DEVICE - 256 * MIB - CHUNK);
}
END_TEST

/* Starts a job beside three of 60 %, which have come to rest. */
static struct world_job *start_beside_three(void)
{
	start();
	for (int i = 0; i < 3; i++)
		grow_by(add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED), DEVICE / 10 * 6);
	run(60 * SECOND);
	return add_job(PRIORITY_NORMAL, CONFIG_UNLIMITED);
}

/* A context takes a while to be made: the room that others made for it is there until then. */
START_TEST(room_is_left_to_a_call_until_it_has_been_tried)
{
	struct world_job *new = start_beside_three();

	new->takes_ns = 300 * MS;
	ck_assert_uint_le(call(new, 64 * MIB), SECOND);
	ck_assert(new->must_was_had);
	/* It asked for no more than it needed, and the others have the rest again. */
	run(10 * SECOND);
	ck_assert_uint_le(free_bytes(), 4 * CHUNK);
}
END_TEST

/* One that never comes back from its call keeps the others' memory for a bound. */
START_TEST(a_call_that_never_ends_leaves_the_room_to_others)
{
	struct world_job *new = start_beside_three();

	new->takes_ns = UINT64_MAX / 2;
	new->must = 256 * MIB;
	run(10 * SECOND);
	ck_assert_uint_le(free_bytes(), 4 * CHUNK);
	ck_assert_uint_eq(new->record.claim, 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("lending_start");

	tcase_set_timeout(tests, 120);
	suite_add_worlds(tests, who_holds_memory_and_has_not_told_yet_is_waited_for, 8);
	suite_add_worlds(tests, what_is_never_told_is_waited_for_once, 4);
	tcase_add_test(tests, what_is_borrowed_goes_to_a_call_in_the_cooldown);
	tcase_add_test(tests, room_is_left_to_a_call_until_it_has_been_tried);
	tcase_add_test(tests, a_call_that_never_ends_leaves_the_room_to_others);
	return suite_run("lending_start", tests);
}
