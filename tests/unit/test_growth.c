/* SPDX-License-Identifier: MIT */
/* Growth: the rule by itself, and jobs that share a device by it. */
#include "core/budget/device.h"
#include "core/cuda/driver.h"
#include "core/budget/growth.c" /* growth_is_due(), too */
#include "tests/unit/scratch.h"

struct driver driver; /* is not asked */

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct growth a_job(void)
{
	return (struct growth){.memory = 32 * GIB,
	                       .limit = 8 * GIB,
	                       .limit_max = 20 * GIB,
	                       .now = 8 * GIB,
	                       .used = 8 * GIB,
	                       .spilled = 10 * GIB,
	                       .free = 24 * GIB};
}

START_TEST(rises_in_steps_while_spilled)
{
	struct growth g = a_job();

	ck_assert_uint_eq(growth_limit(&g), 10 * GIB);
	/* What was gained is filled first. */
	g.now = 10 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 10 * GIB);
	g.used = 10 * GIB, g.spilled = 8 * GIB, g.free = 22 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 12 * GIB);
	/* No more than is spilled; nothing where nothing is. */
	g.spilled = 1 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 11 * GIB);
	g.spilled = 0;
	ck_assert_uint_eq(growth_limit(&g), 10 * GIB);
	/* Not beyond what is allowed. */
	g = a_job();
	g.now = g.used = 19 * GIB, g.free = 13 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 20 * GIB);
	g.limit_max = 0;
	ck_assert_uint_eq(growth_limit(&g), 8 * GIB);
	/* A small device: by two large chunks. */
	g = (struct growth){512 * MIB, 64 * MIB,  512 * MIB, 64 * MIB, 64 * MIB,
	                    256 * MIB, 448 * MIB, 0,         0};
	ck_assert_uint_eq(growth_limit(&g), 128 * MIB);
}
END_TEST

START_TEST(leaves_alone_what_others_are_owed)
{
	struct growth g = a_job();

	/* All but a margin of a 32nd. */
	g.owed = 22 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 9 * GIB);
	g.owed = 23 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 8 * GIB);
	g.owed = UINT64_MAX;
	ck_assert_uint_eq(growth_limit(&g), 8 * GIB);
	g = a_job();
	g.free = 0;
	ck_assert_uint_eq(growth_limit(&g), 8 * GIB);
}
END_TEST

START_TEST(falls_back_when_others_need_it)
{
	struct growth g = a_job();

	g.now = g.used = 18 * GIB, g.spilled = 0, g.free = 14 * GIB;
	g.owed = 14 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 18 * GIB);
	g.owed = 16 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 16 * GIB);
	g.owed = 30 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 8 * GIB);
	/* What is free but was allowed is given up, too. */
	g.used = 10 * GIB, g.free = 22 * GIB, g.owed = 16 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 16 * GIB);
	/* Less is allowed than was. */
	g.owed = 0, g.limit_max = 12 * GIB;
	ck_assert_uint_eq(growth_limit(&g), 12 * GIB);
}
END_TEST

/*
 * Jobs on one device, which allocate, free, are moved and have growth judged as the mover does it.
 */

enum { JOBS = 4, TICKS = 60 };

struct simulated {
	struct growth g; /* of it limit, limit_max, now, used, spilled */
	bool lives;
};

static struct simulated jobs[JOBS];
static uint64_t memory;

static uint64_t device_free(void)
{
	uint64_t used = 0;

	for (int i = 0; i < JOBS; i++)
		used += jobs[i].g.used;
	ck_assert_uint_le(used, memory);
	return memory - used;
}

static uint64_t owed_to_others(const struct simulated *job)
{
	uint64_t owed = 0;

	for (int i = 0; i < JOBS; i++)
		if (&jobs[i] != job && jobs[i].lives && jobs[i].g.limit > jobs[i].g.used)
			owed += jobs[i].g.limit - jobs[i].g.used;
	return owed;
}

static void move(struct growth *g)
{
	uint64_t room = g->now > g->used ? g->now - g->used : 0, left = device_free(), bytes;

	if (g->used > g->now) {
		g->spilled += g->used - g->now;
		g->used = g->now;
		return;
	}
	bytes = g->spilled < room ? g->spilled : room;
	bytes = bytes < left ? bytes : left;
	g->used += bytes;
	g->spilled -= bytes;
}

static void judge(struct simulated *job)
{
	struct growth *g = &job->g;
	uint64_t limit;

	g->memory = memory;
	g->free = device_free();
	g->owed = owed_to_others(job);
	limit = growth_limit(g);
	ck_assert_uint_ge(limit, g->limit);
	ck_assert_uint_le(limit, g->limit_max > g->limit ? g->limit_max : g->limit);
	/* Beyond what is the job's own it has only what nobody else is owed. */
	if (limit > g->limit)
		ck_assert_uint_le(limit + g->owed, g->used + g->free);
	if (limit > g->now)
		ck_assert_uint_gt(g->spilled, 0);
	g->now = limit;
	move(g);
}

static uint64_t random_below(uint64_t bound)
{
	return scratch_random() % bound / MIB * MIB;
}

static void change(struct simulated *job)
{
	struct growth *g = &job->g;

	switch (scratch_random() % 4) {
	case 0:
		*job = (struct simulated){0}; /* it ends */
		break;
	case 1: {
		uint64_t demand = g->used + g->spilled;

		/* All limits together fit the device. */
		*job = (struct simulated){.lives = true};
		g->limit = g->now = random_below(memory / JOBS) + MIB;
		g->limit_max = scratch_random() % 4 ? g->limit + random_below(memory) : 0;
		g->spilled = demand;
		break;
	}
	case 2:
		g->spilled += job->lives ? random_below(memory) : 0;
		break;
	default:
		g->used -= g->used ? random_below(g->used) : 0;
		g->spilled -= g->spilled ? random_below(g->spilled) : 0;
	}
	move(g);
}

START_TEST(jobs_share_a_device)
{
	uint64_t grown = 0;

	for (int round = 0; round < 3000; round++) {
		uint64_t before[JOBS];
		int first = (int)(scratch_random() % JOBS);

		if (round % 10 == 0) {
			memset(jobs, 0, sizeof jobs);
			memory = (scratch_random() % 63 + 2) * 256 * MIB;
		}
		for (int i = 0; i < 8; i++)
			change(&jobs[scratch_random() % JOBS]);
		for (int tick = 0; tick < TICKS; tick++)
			for (int i = 0; i < JOBS; i++)
				judge(&jobs[(first + i) % JOBS]);
		for (int i = 0; i < JOBS; i++) {
			const struct growth *g = &jobs[i].g;
			uint64_t demand = g->used + g->spilled;

			/* Whatever the others have grown to, what is its own it has. */
			ck_assert_uint_ge(g->used, demand < g->limit ? demand : g->limit);
			grown += g->used > g->limit;
			before[i] = g->now;
		}
		/* Nothing swings. */
		for (int i = 0; i < JOBS; i++) {
			judge(&jobs[i]);
			ck_assert_uint_eq(jobs[i].g.now, before[i]);
		}
	}
	ck_assert_uint_gt(grown, 100);
}
END_TEST

static struct device devices[2] = {{.id.ordinal = 0}, {.id.ordinal = 1}};

START_TEST(judged_where_steps_end)
{
	const struct config_gpu grows = {.memory = GIB, .memory_max = 2 * GIB};
	const struct config_gpu stays = {.memory = GIB};
	uint64_t now = 5 * GROWTH_STEPLESS_NS;

	publish_value(&devices[0].settings, &grows);
	publish_value(&devices[1].settings, &stays);
	/* Without steps at any time. */
	ck_assert(growth_is_due(&devices[0], now));
	ck_assert(growth_is_due(&devices[0], now));
	/* With steps once after each; the mover is woken for no more than what is judged. */
	ck_assert(growth_step_ended(&devices[0], now));
	ck_assert(!growth_step_ended(&devices[0], now + 1));
	ck_assert(growth_is_due(&devices[0], now + 2));
	ck_assert(!growth_is_due(&devices[0], now + 3));
	ck_assert(!growth_is_due(&devices[0], now + GROWTH_STEPLESS_NS));
	ck_assert(growth_step_ended(&devices[0], now + GROWTH_INTERVAL_NS));
	ck_assert(growth_is_due(&devices[0], now + GROWTH_INTERVAL_NS));
	/* A clock that another thread has read before is no long time. */
	ck_assert(!growth_is_due(&devices[0], now));
	/* Once steps stay away, at any time. */
	now += GROWTH_INTERVAL_NS + GROWTH_STEPLESS_NS;
	ck_assert(growth_is_due(&devices[0], now));
	ck_assert(growth_is_due(&devices[0], now));
	/* What cannot grow is nothing to wake for. */
	ck_assert(!growth_step_ended(&devices[1], now));
	ck_assert(growth_is_due(&devices[1], now));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("growth");
	TCase *tests = tcase_create("growth");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, rises_in_steps_while_spilled);
	tcase_add_test(tests, leaves_alone_what_others_are_owed);
	tcase_add_test(tests, falls_back_when_others_need_it);
	tcase_add_test(tests, jobs_share_a_device);
	tcase_add_test(tests, judged_where_steps_end);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
