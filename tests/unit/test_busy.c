/* SPDX-License-Identifier: MIT */
/*
 * Busy time against a model device: streams run kernels in order, events complete with the work
 * before them.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda/idle.h"
#include "core/pace/busy.h"
#include "core/base/clock.h"
#include "suite.h"

struct driver driver;

enum { STREAMS = 4, EVENTS = 4096, KERNELS = 100000 };

struct event {
	bool recorded;
	double at_ms; /* when it completes */
};

/* The device: all times in milliseconds on one clock, which only the test moves. */
static struct {
	double now_ms;
	double tail_ms[STREAMS]; /* when the stream will have done everything */
	struct event event[EVENTS];
	int event_count;
	struct interval {
		double begin, end;
	} kernel[KERNELS];
	int kernel_count;
	int live_events;
	CUresult query_answer; /* CUDA_SUCCESS: the truth */
} model;

static struct event *event_of(CUevent event)
{
	return &model.event[(uintptr_t)event - 1];
}

static int stream_index(CUstream stream)
{
	return (int)(uintptr_t)stream - 100;
}

static CUstream stream_at(int i)
{
	return (CUstream)(uintptr_t)(i + 100);
}

static double stream_free_at(int i)
{
	return model.tail_ms[i] > model.now_ms ? model.tail_ms[i] : model.now_ms;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
	(void)flags;
	ck_assert_int_lt(model.event_count, EVENTS);
	*event = (CUevent)(uintptr_t)++model.event_count;
	model.live_events++;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	(void)event;
	model.live_events--;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	*event_of(event) = (struct event){true, stream_free_at(stream_index(stream))};
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	if (model.query_answer != CUDA_SUCCESS)
		return model.query_answer;
	return event_of(event)->at_ms <= model.now_ms ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult stream_query(CUstream stream)
{
	if (model.query_answer != CUDA_SUCCESS)
		return model.query_answer;
	return model.tail_ms[stream_index(stream)] <= model.now_ms ? CUDA_SUCCESS
	                                                           : CUDA_ERROR_NOT_READY;
}

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
	if (!event_of(begin)->recorded || !event_of(end)->recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	*ms = (float)(event_of(end)->at_ms - event_of(begin)->at_ms);
	return CUDA_SUCCESS;
}

static uint64_t now_ns(void)
{
	return (uint64_t)(model.now_ms * 1e6);
}

static CUresult is_busy(CUstream stream)
{
	(void)stream;
	return CUDA_ERROR_NOT_READY;
}

static const struct clock model_clock = {.now = now_ns};

static int recorded_at_once;

static CUresult record_at_once(CUevent event, CUstream stream)
{
	(void)event, (void)stream;
	recorded_at_once++;
	return CUDA_SUCCESS;
}

static void start(void)
{
	clock_in_use = &model_clock;
	memset(&model, 0, sizeof(model));
	model.now_ms = 1;
	driver.cuEventCreate = event_create;
	driver.cuEventDestroy_v2 = event_destroy;
	driver.cuEventRecord = event_record;
	driver.cuEventQuery = event_query;
	driver.cuEventElapsedTime = event_elapsed;
	driver.cuStreamQuery = stream_query;
}

static const CUcontext context = (CUcontext)(uintptr_t)0xc0de;

/* Launches something whose cost is known. */
static void launch(struct busy *busy, CUcontext in, int stream, double kernel_ms)
{
	uint64_t cost = (uint64_t)(kernel_ms * 1e6);
	struct burst *burst = busy_before(busy, in, stream_at(stream), 1, cost, now_ns());
	double begin;

	begin = stream_free_at(stream);
	model.tail_ms[stream] = begin + kernel_ms;
	ck_assert_int_lt(model.kernel_count, KERNELS);
	model.kernel[model.kernel_count++] = (struct interval){begin, begin + kernel_ms};
	busy_after(burst, cost, now_ns());
}

static int by_begin(const void *a, const void *b)
{
	double x = ((const struct interval *)a)->begin, y = ((const struct interval *)b)->begin;

	return x < y ? -1 : x > y;
}

/* The union of all kernels so far; then they are forgotten. */
static double model_busy_ms(void)
{
	double sum = 0, until = -1;

	qsort(model.kernel, (size_t)model.kernel_count, sizeof(*model.kernel), by_begin);
	for (int i = 0; i < model.kernel_count; i++) {
		double begin = model.kernel[i].begin > until ? model.kernel[i].begin : until;

		if (model.kernel[i].end > begin) {
			sum += model.kernel[i].end - begin;
			until = model.kernel[i].end;
		}
	}
	model.kernel_count = 0;
	return sum;
}

/* All that is done; whether anything is still running. */
static bool collect(struct busy *busy, uint64_t *busy_ns)
{
	struct busy_sum sum;

	while (busy_collect(busy, &sum)) {
		ck_assert(sum.tally.launches || !sum.busy_ns);
		*busy_ns += sum.busy_ns;
	}
	return busy_running(busy) > 0;
}

static double random_ms(unsigned int *seed, double most)
{
	return most * (double)(rand_r(seed) % 10000 + 1) / 10000;
}

static void drain(void)
{
	for (int i = 0; i < STREAMS; i++) {
		if (model.tail_ms[i] > model.now_ms)
			model.now_ms = model.tail_ms[i];
	}
}

/*
 * Random launches on several streams, with and without host gaps: busy time is the kernels' union.
 */
START_TEST(busy_time_is_the_union_of_the_kernels)
{
	struct busy *busy = busy_create();
	unsigned int seed = (unsigned int)_i + 1;

	start();
	for (int round = 0; round < 200; round++) {
		int launches = 1 + rand_r(&seed) % 12;
		uint64_t measured_ns = 0;
		double expected;

		for (int i = 0; i < launches; i++) {
			launch(busy, context, rand_r(&seed) % STREAMS, random_ms(&seed, 3));
			model.now_ms += random_ms(&seed, rand_r(&seed) % 3 ? 0.1 : 8);
		}
		ck_assert(busy_close_round(busy, context, now_ns()));
		drain();
		ck_assert(!collect(busy, &measured_ns));
		expected = model_busy_ms();
		ck_assert_msg(fabs((double)measured_ns * 1e-6 - expected) < 1e-3 * expected + 1e-3,
		              "round %d: measured %f ms, kernels took %f ms", round,
		              (double)measured_ns * 1e-6, expected);
	}
	free(busy);
}
END_TEST

/* What a stream waits for, and copies, are no work: before them the burst ends. */
START_TEST(what_is_not_a_launch_is_not_charged)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;

	start();
	for (int i = 0; i < 5; i++) {
		launch(busy, context, 0, 2);
		busy_end_bursts(busy, context, now_ns());
		model.tail_ms[0] += 30; /* a copy */
	}
	busy_close_round(busy, context, now_ns());
	drain();
	ck_assert(!collect(busy, &measured_ns));
	ck_assert_msg(measured_ns > 9990000 && measured_ns < 10010000, "%ju ns",
	              (uintmax_t)measured_ns);
	free(busy);
}
END_TEST

/* Work of a stream in one round while that of another in the next runs: counted once. */
START_TEST(rounds_that_overlap_count_once)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;

	start();
	for (int i = 0; i < 100; i++) {
		launch(busy, context, i % 2, 10);
		busy_close_round(busy, context, now_ns());
		model.now_ms += 5;
		collect(busy, &measured_ns);
	}
	drain();
	collect(busy, &measured_ns);
	double expected = model_busy_ms();
	ck_assert_msg(fabs((double)measured_ns * 1e-6 - expected) < 1e-3 * expected,
	              "measured %f ms, kernels took %f ms", (double)measured_ns * 1e-6, expected);
	free(busy);
}
END_TEST

/* Without blocking streams the legacy stream is one like any other: two events a burst. */
START_TEST(legacy_work_alone_is_like_any_other)
{
	struct busy *busy = busy_create();

	start();
	driver.cuEventRecord = record_at_once;
	driver.cuStreamQuery = is_busy;
	recorded_at_once = 0;
	for (int i = 0; i < 10; i++) {
		struct burst *burst =
		    busy_before(busy, context, CU_STREAM_LEGACY, 1, 1000, now_ns());

		busy_after(burst, 1000, now_ns());
	}
	ck_assert_int_eq(recorded_at_once, 1);
	busy_close_round(busy, context, now_ns());
	ck_assert_int_eq(recorded_at_once, 2);
	free(busy);
}
END_TEST

/* Beside blocking streams the end is recorded with each launch: later it would bind them. */
START_TEST(legacy_work_ends_where_it_was_launched)
{
	struct busy *busy = busy_create();
	struct burst *burst;

	start();
	driver.cuEventRecord = record_at_once;
	driver.cuStreamQuery = is_busy;
	blocking_stream_is_used();
	recorded_at_once = 0;
	for (int i = 0; i < 10; i++) {
		burst = busy_before(busy, context, CU_STREAM_LEGACY, 1, 1000, now_ns());
		busy_after(burst, 1000, now_ns());
		ck_assert_int_eq(recorded_at_once, i + 2);
	}
	busy_close_round(busy, context, now_ns());
	ck_assert_int_eq(recorded_at_once, 11);
	/* On a stream with a name two events are enough. */
	for (int i = 0; i < 10; i++) {
		burst = busy_before(busy, context, stream_at(0), 1, 1000, now_ns());
		busy_after(burst, 1000, now_ns());
	}
	busy_close_round(busy, context, now_ns());
	ck_assert_int_eq(recorded_at_once, 13);
	free(busy);
}
END_TEST

START_TEST(a_running_round_is_not_charged_yet)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;

	start();
	launch(busy, context, 0, 50);
	ck_assert(busy_close_round(busy, context, now_ns()));
	ck_assert(collect(busy, &measured_ns));
	ck_assert_uint_eq(measured_ns, 0);
	model.now_ms += 50;
	ck_assert(!collect(busy, &measured_ns));
	ck_assert_uint_eq(measured_ns, 50000000);
	free(busy);
}
END_TEST

/* More rounds than can be held: the open one goes on, nothing is lost, nothing waits. */
START_TEST(rounds_that_cannot_be_closed_go_on)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;

	start();
	for (int i = 0; i < 3 * BUSY_ROUNDS; i++) {
		launch(busy, context, 0, 10);
		busy_close_round(busy, context, now_ns());
	}
	ck_assert(!busy_close_round(busy, context, now_ns()));
	drain();
	ck_assert(!collect(busy, &measured_ns));
	ck_assert(busy_close_round(busy, context, now_ns()));
	ck_assert(!collect(busy, &measured_ns));
	ck_assert_uint_eq(measured_ns, 3ull * BUSY_ROUNDS * 10000000);
	free(busy);
}
END_TEST

START_TEST(more_streams_than_places_are_bounded)
{
	struct busy *busy = busy_create();

	start();
	/* One kernel per stream, on more streams than a round has bursts. */
	for (int i = 0; i < 2 * BUSY_BURSTS; i++) {
		launch(busy, context, 0, 1);
		busy_forget_stream(busy, stream_at(0)); /* the handle comes again */
	}
	ck_assert(busy_is_full(busy));
	ck_assert_int_le(model.live_events, 2 * BUSY_BURSTS);
	free(busy);
}
END_TEST

START_TEST(a_context_that_goes_takes_its_events_along)
{
	struct busy *busy = busy_create();
	CUcontext other = (CUcontext)(uintptr_t)0xbeef;
	uint64_t measured_ns = 0;

	start();
	launch(busy, context, 0, 2);
	launch(busy, other, 1, 3);
	busy_end_bursts(busy, other, now_ns());
	busy_end_context(busy, context, CONTEXT_LEAVES);
	drain();
	busy_close_round(busy, other, now_ns());
	ck_assert(collect(busy, &measured_ns)); /* its events go with it, so they are not asked */
	ck_assert_uint_eq(measured_ns, 0);
	ck_assert_int_eq(model.live_events, 4);
	busy_end_context(busy, context, CONTEXT_IS_GONE);
	ck_assert_int_eq(model.live_events, 4); /* two of them went with it */
	ck_assert(!collect(busy, &measured_ns));
	ck_assert_uint_eq(measured_ns, 3000000);
	free(busy);
}
END_TEST

START_TEST(a_context_that_stays_has_lost_nothing)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;

	start();
	launch(busy, context, 0, 2);
	busy_end_context(busy, context, CONTEXT_LEAVES);
	ck_assert(!busy_open_round_is_done(busy));
	busy_end_context(busy, context, CONTEXT_STAYS);
	busy_end_bursts(busy, context, now_ns());
	busy_close_round(busy, context, now_ns());
	drain();
	ck_assert(!collect(busy, &measured_ns));
	ck_assert_uint_eq(measured_ns, 2000000);
	ck_assert_int_eq(model.live_events, 2);
	free(busy);
}
END_TEST

/* A broken context answers every query with its error: that must not hold launches up for ever. */
static CUresult no_such_stream(CUstream stream)
{
	(void)stream;
	ck_abort_msg("a stream is asked that may be gone");
}

START_TEST(a_stream_that_goes_is_not_asked_any_more)
{
	struct busy *busy = busy_create();
	struct busy_sum sum;

	start();
	launch(busy, context, 0, 0.01);
	model.now_ms += 1;
	/* It ran dry long ago, so no event is recorded. */
	busy_end_bursts(busy, context, now_ns());
	busy_forget_stream(busy, stream_at(0));
	driver.cuStreamQuery = no_such_stream;
	ck_assert(busy_open_round_is_done(busy));
	ck_assert(busy_collect(busy, &sum));
	ck_assert_uint_eq(sum.busy_ns, 10000);
	free(busy);
}
END_TEST

START_TEST(errors_count_as_done)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;

	start();
	launch(busy, context, 0, 50);
	busy_close_round(busy, context, now_ns());
	model.query_answer = CUDA_ERROR_ILLEGAL_ADDRESS;
	ck_assert(!collect(busy, &measured_ns));
	free(busy);
}
END_TEST

static struct burst *follow(struct busy *busy, int stream)
{
	return busy_follow(busy, context, stream_at(stream), 1, 10000, now_ns());
}

static CUresult no_query(CUevent event)
{
	(void)event;
	ck_abort_msg("an event is asked");
}

static CUresult no_record(CUevent event, CUstream stream)
{
	(void)event, (void)stream;
	ck_abort_msg("an event is recorded");
}

/* Only right behind another launch, and only one at a time. */
START_TEST(who_follows_calls_no_driver)
{
	struct busy *busy = busy_create();
	struct burst *first, *second;

	start();
	ck_assert_ptr_null(follow(busy, 0));
	first = busy_before(busy, context, stream_at(0), 1, 10000, now_ns());
	ck_assert_ptr_null(follow(busy, 0));
	busy_after(first, 10000, now_ns());
	driver.cuEventQuery = no_query;
	driver.cuStreamQuery = no_such_stream;
	driver.cuEventRecord = no_record;
	second = follow(busy, 0);
	ck_assert_ptr_eq(second, first);
	ck_assert_ptr_null(follow(busy, 0));
	ck_assert_ptr_null(follow(busy, 1));
	busy_followed(second);
	ck_assert_ptr_nonnull(follow(busy, 0));
	busy_followed(first);
	ck_assert_uint_eq(busy_open_round(busy)->tally.launches, 3);
	model.now_ms += 0.02;
	ck_assert_ptr_null(follow(busy, 0));
	free(busy);
}
END_TEST

/* What is on its way to the driver runs, for whoever asks, and is charged in the end. */
START_TEST(who_follows_has_not_run_dry_meanwhile)
{
	struct busy *busy = busy_create();
	uint64_t measured_ns = 0;
	struct burst *burst;

	start();
	launch(busy, context, 0, 0.01);
	burst = follow(busy, 0);
	ck_assert_ptr_nonnull(burst);
	model.now_ms += 1;
	ck_assert(!busy_open_round_is_done(busy));
	ck_assert(busy_close_round(busy, context, now_ns()));
	ck_assert(collect(busy, &measured_ns));
	busy_followed(burst);
	ck_assert(!collect(busy, &measured_ns));
	ck_assert_uint_eq(measured_ns, 20000);
	free(busy);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("busy");

	tcase_set_timeout(tests, 60);
	tcase_add_loop_test(tests, busy_time_is_the_union_of_the_kernels, 0, 20);
	tcase_add_test(tests, what_is_not_a_launch_is_not_charged);
	tcase_add_test(tests, rounds_that_overlap_count_once);
	tcase_add_test(tests, legacy_work_alone_is_like_any_other);
	tcase_add_test(tests, legacy_work_ends_where_it_was_launched);
	tcase_add_test(tests, a_running_round_is_not_charged_yet);
	tcase_add_test(tests, rounds_that_cannot_be_closed_go_on);
	tcase_add_test(tests, more_streams_than_places_are_bounded);
	tcase_add_test(tests, a_context_that_goes_takes_its_events_along);
	tcase_add_test(tests, a_context_that_stays_has_lost_nothing);
	tcase_add_test(tests, a_stream_that_goes_is_not_asked_any_more);
	tcase_add_test(tests, errors_count_as_done);
	tcase_add_test(tests, who_follows_calls_no_driver);
	tcase_add_test(tests, who_follows_has_not_run_dry_meanwhile);
	return suite_run("busy", tests);
}
