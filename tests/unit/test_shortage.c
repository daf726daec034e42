/* SPDX-License-Identifier: MIT */
/*
 * Claims of calls that must have memory on the device. The sharing thread decides each once.
 * Without such a thread, in a capture or past the deadline, the call goes on without the memory.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/budget/shortage.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/reclaim.h"
#include "core/state/segment.h"
#include "suite.h"

#define MS 1000000ull

struct driver driver;

static struct device device = {.id.ordinal = 1}, other = {.id.ordinal = 2};
static _Atomic int begun, decided;
static _Atomic uint64_t seen;
static _Atomic bool is_able = true, is_deciding, stops;

static bool begin(const struct device *of)
{
	(void)of;
	begun++;
	errno = EBADF;
	return is_able;
}

static uint64_t bytes_claimed(const struct device *of)
{
	bool is_tried;
	uint64_t bytes = shortage_claimed(of, &is_tried);

	return is_tried ? 0 : bytes;
}

static uint64_t bytes_tried(const struct device *of)
{
	bool is_tried;
	uint64_t bytes = shortage_claimed(of, &is_tried);

	return is_tried ? bytes : 0;
}

/* Decides what is claimed, as soon as there is something. */
static void *decide(void *cookie)
{
	(void)cookie;
	while (!stops) {
		uint32_t called = shortage_called;
		uint64_t bytes = bytes_claimed(&device);

		if (bytes) {
			seen = bytes;
			is_deciding = true;
			decided++;
			shortage_decide(&device);
			while (bytes_claimed(&device) && !stops)
				sched_yield();
			is_deciding = false;
		} else {
			clock_in_use->wait(&shortage_called, called, clock_now() + 10 * MS);
		}
	}
	return NULL;
}

static bool claim(const struct device *of, uint64_t bytes, uint64_t patience_ns)
{
	return shortage_claim(of, bytes, false, &DEADLINE_IN(patience_ns));
}

START_TEST(nobody_waits_where_nobody_decides)
{
	shortage_serve(NULL);
	ck_assert(!claim(&device, 4096, UINT64_MAX / 2));
	shortage_say(&device);
	shortage_serve(begin);
	is_able = false;
	ck_assert(!claim(&device, 4096, UINT64_MAX / 2));
	ck_assert_int_eq(begun, 1);
	is_able = true;
	ck_assert(!claim(&device, 0, UINT64_MAX / 2));
	ck_assert_int_eq(begun, 1);
}
END_TEST

START_TEST(a_claim_is_decided_and_taken_back)
{
	pthread_t thread;

	shortage_serve(begin);
	ck_assert_int_eq(pthread_create(&thread, NULL, decide, NULL), 0);
	errno = EAGAIN;
	ck_assert(claim(&device, 8192, 1000000 * MS));
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(seen, 8192);
	ck_assert_uint_eq(bytes_claimed(&device), 0);
	ck_assert_uint_eq(bytes_tried(&device), 0);
	/* Of a device for which nobody decides the time is waited for, and no longer. */
	ck_assert(!claim(&other, 4096, 20 * MS));
	ck_assert_uint_eq(bytes_claimed(&other), 0);
	/* A call that takes long says when it has tried. */
	while (is_deciding)
		sched_yield();
	ck_assert(shortage_claim(&device, 4096, true, &DEADLINE_IN(1000000 * MS)));
	ck_assert_uint_eq(bytes_claimed(&device), 0);
	ck_assert_uint_eq(bytes_tried(&device), 4096);
	shortage_tried(&device, 4096);
	ck_assert_uint_eq(bytes_tried(&device), 0);
	stops = true;
	pthread_join(thread, NULL);
	ck_assert_int_eq(decided, 2);
}
END_TEST

static bool climb(bool may_demote, enum spill_reason why)
{
	const struct terms terms = {.limit = UINT64_MAX};
	const struct lack lack = {SEGMENT_ON_DEVICE, 4096, 4096, why};
	struct deadline until = DEADLINE_IN(1000000 * MS);
	struct reclaim r = {
	    .device = &device, .terms = &terms, .until = &until, .may_demote = may_demote};
	int before = decided;

	while (reclaim(&r, &lack))
		;
	return decided != before;
}

/*
 * The last reclaim step is for what must be on a device that is full, whatever the limit, and no
 * more.
 */
START_TEST(the_reclaim_steps_end_with_a_claim)
{
	pthread_t thread;

	device.segment = segment_make_private(1);
	ck_assert_ptr_nonnull(device.segment);
	shortage_serve(begin);
	ck_assert_int_eq(pthread_create(&thread, NULL, decide, NULL), 0);
	ck_assert(!climb(true, SPILL_LIMIT));
	ck_assert(!climb(false, SPILL_DEVICE_FULL));
	ck_assert(climb(true, SPILL_DEVICE_FULL));
	stops = true;
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("shortage");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, nobody_waits_where_nobody_decides);
	tcase_add_test(tests, a_claim_is_decided_and_taken_back);
	tcase_add_test(tests, the_reclaim_steps_end_with_a_claim);
	return suite_run("shortage", tests);
}
