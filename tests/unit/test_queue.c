/* SPDX-License-Identifier: MIT */
/* The queue: order, room, and many threads at both ends. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>

#include "tools/view/queue.h"
#include "tests/unit/scratch.h"

enum { THREADS = 4, EACH = 5000 };
#define LONG 60000000000ull

static void *item(uintptr_t number)
{
	return (void *)number;
}

START_TEST(items_come_in_order_and_no_more_than_there_is_room)
{
	struct queue *queue = queue_create(3);
	void *got;

	for (uintptr_t round = 0; round < 5; round++) {
		for (uintptr_t i = 1; i <= 3; i++)
			ck_assert_int_eq(queue_put(queue, item(10 * round + i), 0), 0);
		ck_assert_int_eq(queue_put(queue, item(99), 1000000), -ETIMEDOUT);
		ck_assert_uint_eq(queue_count(queue), 3);
		for (uintptr_t i = 1; i <= 3; i++) {
			ck_assert_int_eq(queue_take(queue, &got, 0), 0);
			ck_assert_ptr_eq(got, item(10 * round + i));
		}
		ck_assert_int_eq(queue_take(queue, &got, 1000000), -ETIMEDOUT);
	}
	queue_destroy(queue, NULL);
	ck_assert_ptr_null(queue_create(0));
	ck_assert_ptr_null(queue_create(SIZE_MAX / 2));
}
END_TEST

static int released;

static void release(void *item)
{
	released += (int)(uintptr_t)item;
}

START_TEST(what_is_left_is_released_with_the_queue)
{
	struct queue *queue = queue_create(4);
	void *got;

	for (uintptr_t i = 1; i <= 4; i++)
		ck_assert_int_eq(queue_put(queue, item(i), 0), 0);
	ck_assert_int_eq(queue_take(queue, &got, 0), 0);
	queue_destroy(queue, release);
	ck_assert_int_eq(released, 2 + 3 + 4);
}
END_TEST

static void *put_many(void *queue)
{
	for (uintptr_t i = 1; i <= EACH; i++)
		if (queue_put(queue, item(i), LONG) != 0)
			return item(1);
	return NULL;
}

static void *take_many(void *queue)
{
	uintptr_t sum = 0;
	void *got;

	while (queue_take(queue, &got, LONG) == 0 && got)
		sum += (uintptr_t)got;
	return item(sum);
}

START_TEST(each_item_is_taken_once)
{
	struct queue *queue = queue_create(7);
	pthread_t putter[THREADS], taker[THREADS];
	uintptr_t sum = 0;
	void *result;

	for (int i = 0; i < THREADS; i++) {
		pthread_create(&taker[i], NULL, take_many, queue);
		pthread_create(&putter[i], NULL, put_many, queue);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(putter[i], &result);
		ck_assert_ptr_null(result);
	}
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(queue_put(queue, NULL, LONG), 0); /* each taker ends at one */
	for (int i = 0; i < THREADS; i++) {
		pthread_join(taker[i], &result);
		sum += (uintptr_t)result;
	}
	ck_assert_uint_eq(sum, (uintptr_t)THREADS * EACH * (EACH + 1) / 2);
	queue_destroy(queue, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("queue");
	TCase *tests = tcase_create("queue");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, items_come_in_order_and_no_more_than_there_is_room);
	tcase_add_test(tests, what_is_left_is_released_with_the_queue);
	tcase_add_test(tests, each_item_is_taken_once);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
