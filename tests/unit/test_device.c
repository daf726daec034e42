/* SPDX-License-Identifier: MIT */
/* Devices: their statistics about a limit, noted by any process, while anything changes. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/budget/applied.h"
#include "core/cuda/driver.h"
#include "core/budget/terms.h"
#include "tests/unit/devices.h"
#include "tests/unit/state_directory.h"
#include "tests/unit/test_job.h"

struct driver driver; /* is not asked */

#define GIB (UINT64_C(1) << 30)

/* In the job's books, or in none. */
static struct device *device_in(struct segment *segment, const struct config_gpu *settings)
{
	static const struct segment_device gpu = {.uuid = "GPU-1"};
	struct device *device = calloc(1, sizeof(*device));

	static struct segment *apart; /* of one device at a time */

	if (!segment) {
		segment_leave(apart);
		apart = segment_make_private(1);
	}
	device->segment = segment ? segment : apart;
	device->is_in_books = segment != NULL;
	ck_assert_ptr_nonnull(device->segment);
	ck_assert_int_eq(segment_device(device->segment, &gpu), 0);

	lock_init(&device->lock);
	device->statistics = segment_own(device->segment, 0).counters;
	device->ledger = segment_own(device->segment, 0).ledger;
	device->id.memory = 32 * GIB;
	device_note_elastic(device, ELASTIC_YES);
	device_apply(device, settings);
	return device;
}

static struct device *device_of(const struct config_gpu *settings)
{
	return device_in(test_job(), settings);
}

START_TEST(what_is_held_is_said_of_its_own_settings)
{
	struct config_gpu settings = {.memory = 4 * GIB};
	struct device *device = device_of(&settings);
	uint64_t turn;

	ck_assert_int_eq(device_charge(device, 2 * GIB), 0);
	ck_assert_uint_eq(device_verdict(device).held, HELD_NONE);
	settings.memory = GIB;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(device_verdict(device).held, HELD_PENDING);
	ck_assert_uint_eq(device_verdict(device).limit_held, 2 * GIB);
	turn = terms_of(device).generation;
	device_note_blocker(device, turn, MOVE_HOST_LIMIT);
	ck_assert_uint_eq(device_verdict(device).held, HELD_HOST_FULL);

	/* Nobody has tried what is allowed now. */
	settings.host_memory = GIB;
	settings.host_limit_of_moves = GIB;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(device_verdict(device).held, HELD_PENDING);
	device_note_blocker(device, turn, MOVE_HOST_LIMIT);
	ck_assert_uint_eq(device_verdict(device).held, HELD_PENDING);
	device_note_pinned(device, GIB);
	device_note_blocker(device, terms_of(device).generation, MOVE_PINNED);
	ck_assert_uint_eq(device_verdict(device).held, HELD_PINNED);

	device_uncharge(device, SEGMENT_ON_DEVICE, 2 * GIB);
	ck_assert_uint_eq(device_verdict(device).held, HELD_NONE);
	ck_assert_uint_eq(device_verdict(device).limit_held, GIB);
	free(device);
}
END_TEST

/*
 * Who notes the limit stops here while a test wants it: after it has seen what is in force, and
 * before it says so.
 */
static _Atomic bool stops, stands;

uint64_t __real_segment_charged(struct segment *segment, int device, enum segment_tier tier);
uint64_t __wrap_segment_charged(struct segment *segment, int device, enum segment_tier tier);

uint64_t __wrap_segment_charged(struct segment *segment, int device, enum segment_tier tier)
{
	if (stops && !stands) {
		stands = true;
		while (stops)
			pause_ms(1);
	}
	return __real_segment_charged(segment, device, tier);
}

static void *note(void *cookie)
{
	device_note_limit(cookie);
	return NULL;
}

static const struct config_gpu evicted = {.memory = 3 * GIB, .evict = true};
static _Atomic bool is_applied;

static void *apply(void *cookie)
{
	device_apply(cookie, &evicted);
	is_applied = true;
	return NULL;
}

/* Whoever noted it last, what was in force before is not said any more. */
START_TEST(the_newest_settings_are_told)
{
	struct config_gpu settings = {.memory = 4 * GIB};
	struct device *device = device_of(&settings);
	pthread_t noting, applying;

	ck_assert_int_eq(device_charge(device, GIB), 0);
	stops = true;
	pthread_create(&noting, NULL, note, device);
	while (!stands)
		pause_ms(1);
	pthread_create(&applying, NULL, apply, device);
	for (int waited_ms = 0; !is_applied && waited_ms < 100; waited_ms++)
		pause_ms(1); /* in vain where one waits for the other */
	stops = false;
	pthread_join(noting, NULL);
	pthread_join(applying, NULL);
	ck_assert_uint_eq(device_verdict(device).limit, 3 * GIB);
	ck_assert_uint_eq(device_verdict(device).evicted, 1);
	ck_assert_uint_eq(device_verdict(device).held, HELD_PENDING);
	free(device);
}
END_TEST

START_TEST(growth_is_of_the_limit_it_was_judged_for)
{
	struct config_gpu settings = {.memory = 2 * GIB, .memory_max = 16 * GIB};
	struct device *device = device_of(&settings);

	segment_set_grown(device->segment, device->index, 2 * GIB, GIB);
	ck_assert_uint_eq(terms_of(device).limit, 3 * GIB);
	settings.memory = 4 * GIB;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(terms_of(device).limit, 4 * GIB);
	/* It was judged before the limit changed. */
	segment_set_grown(device->segment, device->index, 2 * GIB, 3 * GIB);
	ck_assert_uint_eq(terms_of(device).limit, 4 * GIB);
	segment_set_grown(device->segment, device->index, 4 * GIB, GIB);
	ck_assert_uint_eq(terms_of(device).limit, 5 * GIB);
	free(device);
}
END_TEST

static uint64_t host_memory(struct device *device)
{
	const struct terms terms = terms_of(device);

	return terms_host_limit(&terms, device);
}

static uint64_t limit_of_movable(struct device *device)
{
	const struct terms terms = terms_of(device);

	return terms_limit_of_movable(&terms);
}

/* What the others of the job hold it cannot know: any quota may be used up. */
START_TEST(without_the_books_any_limit_is_zero)
{
	struct config_gpu settings = {.memory = CONFIG_UNLIMITED, .host_memory = CONFIG_AUTO};
	struct device *device = device_in(NULL, &settings);

	ck_assert_uint_eq(terms_of(device).limit, CONFIG_UNLIMITED);
	ck_assert_int_eq(device_charge(device, 20 * GIB), 0);
	ck_assert_uint_eq(device_charged(device, SEGMENT_ON_DEVICE), 20 * GIB);
	ck_assert_uint_gt(host_memory(device), 0);

	/* Limited while it runs: what can move is to go. */
	settings.memory = 40 * GIB;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(terms_of(device).limit, 0);
	ck_assert_uint_eq(limit_of_movable(device), 0);
	ck_assert_uint_eq(device_verdict(device).limit, 0);
	ck_assert_uint_eq(device_verdict(device).limit_held, 20 * GIB);
	ck_assert_uint_eq(device_verdict(device).grown, 0);
	ck_assert_int_eq(device_charge(device, 1), -ENOSPC);

	/* Nor does it rise, and what the host may hold is a quota, too, where it is a number. */
	settings.memory_max = 60 * GIB;
	ck_assert(device_apply(device, &settings));
	segment_set_grown(device->segment, device->index, 40 * GIB, 10 * GIB);
	ck_assert_uint_eq(terms_of(device).limit, 0);
	ck_assert_uint_gt(host_memory(device), 0);
	settings.host_memory = 8 * GIB;
	settings.host_limit_of_moves = 8 * GIB;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(host_memory(device), 0);
	settings.host_memory = CONFIG_UNLIMITED;
	settings.host_limit_of_moves = CONFIG_UNLIMITED;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(host_memory(device), CONFIG_UNLIMITED);

	settings.memory = CONFIG_UNLIMITED;
	settings.memory_max = 0;
	ck_assert(device_apply(device, &settings));
	ck_assert_uint_eq(terms_of(device).limit, CONFIG_UNLIMITED);
	ck_assert_uint_eq(device_verdict(device).held, HELD_NONE);
	free(device);
}
END_TEST

/* Whatever was known before: what counts is the limit at the charge. */
START_TEST(a_charge_is_within_the_limit_in_force)
{
	static const struct segment_device gpu = {.uuid = "GPU-1"};
	struct config_gpu settings = {.memory = 2 * GIB, .memory_max = 4 * GIB};
	struct segment *segment = test_job();
	struct device *device;

	/* Before it knows of a limit there is none to be within. */
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	ck_assert_int_eq(segment_charge(segment, 0, 1, CONFIG_UNLIMITED, false), -ENOSPC);
	device = device_in(segment, &settings);
	ck_assert_int_eq(device_charge(device, 2 * GIB + 1), -ENOSPC);
	ck_assert_int_eq(device_charge(device, 2 * GIB), 0);
	segment_set_grown(device->segment, device->index, 2 * GIB, GIB);
	ck_assert_int_eq(device_charge_moved(device, GIB, 3 * GIB - 1), -ENOSPC);
	ck_assert_int_eq(device_charge_moved(device, GIB, 3 * GIB), 0);
	segment_set_grown(device->segment, device->index, 2 * GIB, 0);
	device_uncharge(device, SEGMENT_ON_DEVICE, GIB);
	ck_assert_int_eq(device_charge(device, 1), -ENOSPC);
	settings.memory = GIB;
	settings.memory_max = 0;
	ck_assert(device_apply(device, &settings));
	device_uncharge(device, SEGMENT_ON_DEVICE, GIB);
	ck_assert_int_eq(device_charge(device, 1), -ENOSPC);
	/* Evicted, the mover brings nothing, and the program may have what its limit allows. */
	settings.memory = 2 * GIB;
	settings.evict = true;
	ck_assert(device_apply(device, &settings));
	ck_assert_int_eq(device_charge_moved(device, 1, CONFIG_UNLIMITED), -ENOSPC);
	ck_assert_int_eq(device_charge(device, GIB), 0);
	ck_assert_int_eq(device_charge(device, 1), -ENOSPC);
	/* What the driver has taken already is charged all the same. */
	ck_assert_int_eq(device_charge_taken(device, GIB), 0);
	ck_assert_uint_eq(device_charged(device, SEGMENT_ON_DEVICE), 3 * GIB);
	free(device);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("device");
	TCase *tests = tcase_create("device");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, state_directory_make, state_directory_remove);
	tcase_add_test(tests, what_is_held_is_said_of_its_own_settings);
	tcase_add_test(tests, the_newest_settings_are_told);
	tcase_add_test(tests, growth_is_of_the_limit_it_was_judged_for);
	tcase_add_test(tests, without_the_books_any_limit_is_zero);
	tcase_add_test(tests, a_charge_is_within_the_limit_in_force);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
