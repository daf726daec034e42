/* SPDX-License-Identifier: MIT */
/*
 * The mover's mailbox: each request is answered or taken back. No process wakes a mover that cannot
 * move memory.
 */
#include <check.h>
#include <pthread.h>

#include "core/budget/wanted.h"
#include "suite.h"

#define MS 1000000ull

struct driver driver;

static struct device device = {.id.ordinal = 1}, other = {.id.ordinal = 2};
static _Atomic int started, opened, taken;
static _Atomic bool is_busy;

static void note_opened(void)
{
	opened++;
}

/* Answers that there is room for an even number of bytes, and pins what is asked for. */
static void *serve(void *cookie)
{
	struct wanted_request *r;

	(void)cookie;
	started++;
	while (!wanted_is_closed()) {
		while (!is_busy && (r = wanted_take()) != NULL) {
			CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

			taken++;
			if (r->pin ? r->is_exportable : r->room % 2 == 0)
				result = CUDA_SUCCESS;
			wanted_answer(r, result);
		}
		wanted_sleep(0);
	}
	return NULL;
}

static bool has_room(struct device *on, uint64_t bytes, uint64_t patience_ns)
{
	return wanted_room(on, bytes, &DEADLINE_IN(patience_ns));
}

static void *ask_for_room(void *bytes)
{
	return (void *)(uintptr_t)has_room(&device, (uintptr_t)bytes, WANTED_ANSWER_NS);
}

START_TEST(nobody_asks_where_nobody_moves)
{
	ck_assert(!has_room(&device, 2, WANTED_ANSWER_NS));
	wanted_serve(serve, note_opened);
	wanted_wake(&device);
	ck_assert(!has_room(&device, 2, WANTED_ANSWER_NS));
	ck_assert_int_eq(started, 0);
	ck_assert_int_eq(opened, 0);
}
END_TEST

START_TEST(each_request_has_its_own_answer)
{
	enum { THREADS = 8 };
	pthread_t thread[THREADS];
	void *answer;

	wanted_serve(serve, note_opened);
	wanted_open(&device);
	ck_assert_int_eq(opened, 1);
	ck_assert_int_eq(started, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, ask_for_room, (void *)i), 0);
	for (uintptr_t i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(thread[i], &answer), 0);
		ck_assert_int_eq((uintptr_t)answer, i % 2 == 0);
	}
	ck_assert_int_eq(started, 1);
	ck_assert_int_eq(wanted_pin(&device, 4096, true, &DEADLINE_IN(WANTED_ANSWER_NS)),
	                 CUDA_SUCCESS);
	ck_assert_int_eq(wanted_pin(&device, 4096, false, &DEADLINE_IN(WANTED_ANSWER_NS)),
	                 CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert(!has_room(&other, 2, WANTED_ANSWER_NS));
	ck_assert_int_eq(taken, THREADS + 2);
}
END_TEST

START_TEST(what_is_not_begun_in_time_is_taken_back)
{
	wanted_serve(serve, NULL);
	wanted_open(&device);
	is_busy = true;
	ck_assert(!has_room(&device, 2, MS));
	ck_assert(!has_room(&device, 4, 0));
	ck_assert_ptr_null(wanted_take());
	is_busy = false;
	ck_assert(has_room(&device, 2, WANTED_ANSWER_NS));
	ck_assert_int_eq(taken, 1);
}
END_TEST

START_TEST(at_the_end_nothing_is_wanted)
{
	wanted_serve(serve, NULL);
	wanted_open(&device);
	ck_assert(has_room(&device, 2, WANTED_ANSWER_NS));
	wanted_close();
	ck_assert(wanted_is_closed());
	ck_assert(!has_room(&device, 2, WANTED_ANSWER_NS));
	ck_assert_int_eq(wanted_pin(&device, 4096, true, &DEADLINE_IN(0)), CUDA_ERROR_NOT_READY);
	ck_assert_ptr_null(wanted_take());
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("wanted");

	tcase_add_test(tests, nobody_asks_where_nobody_moves);
	tcase_add_test(tests, each_request_has_its_own_answer);
	tcase_add_test(tests, what_is_not_begun_in_time_is_taken_back);
	tcase_add_test(tests, at_the_end_nothing_is_wanted);
	return suite_run("wanted", tests);
}
