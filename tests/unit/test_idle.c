/* SPDX-License-Identifier: MIT */
/*
 * Whether anything runs: the queries, their order, and the wait for an answer. The test is the
 * driver, its contexts and the clock.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/idle.h"
#include "suite.h"

#define CONTEXT ((CUcontext)0x100)
enum { STREAMS = 2, FIRST_STREAM = 0x200, LOOK_NS = 300000 };

struct driver driver;

static struct {
	CUstream asked[STREAMS + 2];
	int queries, waits;
	CUstream busy; /* NULL: none that can be asked */
	sem_t over;    /* the context's work */
	CUresult result;
	uint64_t now;
} world;

/* Each thread has a current context of its own. */
static _Thread_local int pushed;

CUresult context_push(CUcontext handle)
{
	ck_assert_ptr_eq(handle, CONTEXT);
	pushed++;
	return CUDA_SUCCESS;
}

void context_pop(CUcontext handle)
{
	ck_assert_ptr_eq(handle, CONTEXT);
	pushed--;
}

bool context_is_leaving(CUcontext handle)
{
	(void)handle;
	return false;
}

bool context_is_alone(CUcontext handle)
{
	(void)handle;
	return false;
}

unsigned int context_generation(void)
{
	return 1;
}

static struct context_device of;

bool context_at(size_t i, struct context *context)
{
	*context = (struct context){.handle = CONTEXT, .of = &of};
	return i == 0;
}

size_t registry_list_chained(struct registry *registry, const char *container, uint64_t *objects,
                             size_t n)
{
	(void)registry, (void)container;
	for (size_t i = 0; i < STREAMS && i < n; i++)
		objects[i] = FIRST_STREAM + i;
	return STREAMS;
}

static CUresult query(CUstream stream)
{
	ck_assert_int_lt(world.queries, STREAMS + 2);
	ck_assert_int_eq(pushed, 1);
	world.asked[world.queries++] = stream;
	return stream == world.busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
	__atomic_fetch_add(&world.waits, 1, __ATOMIC_RELAXED);
	while (sem_wait(&world.over) != 0)
		;
	return world.result;
}

static CUresult current(CUcontext *context)
{
	*context = NULL;
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	(void)mode;
	return CUDA_SUCCESS;
}

static void set_up(void)
{
	memset(&world, 0, sizeof(world));
	sem_init(&world.over, 0, 0);
	driver.cuStreamQuery = query;
	driver.cuCtxSynchronize = synchronize;
	driver.cuCtxGetCurrent = current;
	driver.cuThreadExchangeStreamCaptureMode = exchange_mode;
}

/* Most programs work in the legacy stream: nobody need wait for the context to learn that. */
START_TEST(the_legacy_stream_is_asked_first)
{
	world.busy = CU_STREAM_LEGACY;
	ck_assert_int_eq(idle_now(LOOK_NS), IDLE_BUSY);
	ck_assert_int_eq(world.queries, 1);
	ck_assert_ptr_eq(world.asked[0], CU_STREAM_LEGACY);
	ck_assert_int_eq(world.waits, 0);
	world.busy = (CUstream)(uintptr_t)(FIRST_STREAM + 1);
	ck_assert_int_eq(idle_now(LOOK_NS), IDLE_BUSY);
	ck_assert_int_eq(world.queries, 2 + STREAMS);
	ck_assert_int_eq(world.waits, 0);
}
END_TEST

/* What cannot be asked is waited for elsewhere; a late answer is not of the next question. */
START_TEST(what_has_no_name_is_waited_for)
{
	ck_assert_int_eq(idle_now(0), IDLE_BUSY);
	world.queries = 0;
	/* The thread still waits: nobody asks it again. */
	ck_assert_int_eq(idle_now(0), IDLE_BUSY);
	sem_post(&world.over);
	for (enum idle idle = IDLE_BUSY; idle != IDLE;) {
		world.queries = 0;
		sem_post(&world.over);
		idle = idle_now(1000000000);
	}
	world.queries = 0;
	world.result = CUDA_ERROR_ILLEGAL_ADDRESS;
	sem_post(&world.over);
	ck_assert_int_eq(idle_now(1000000000), IDLE_BROKEN);
}
END_TEST

/* --- streams that go --- */

static struct {
	sem_t inside, goes_on;
	_Atomic bool has_gone;
	bool is_seen;
} going;
static _Thread_local bool asks_slowly;

static CUresult query_slowly(CUstream stream)
{
	(void)stream;
	if (asks_slowly) {
		asks_slowly = false;
		sem_post(&going.inside);
		while (sem_wait(&going.goes_on) != 0)
			;
	}
	return CUDA_SUCCESS;
}

static void *ask_slowly(void *nothing)
{
	asks_slowly = true;
	going.is_seen = idle_is_seen();
	return nothing;
}

static void *destroy(void *nothing)
{
	idle_streams_leave();
	going.has_gone = true;
	idle_streams_left();
	return nothing;
}

/* No wait comes to its end by time. */
static uint64_t stands_still(void)
{
	return 1;
}

static void yields(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	(void)word, (void)seen, (void)deadline_ns;
	sched_yield();
}

static const struct clock no_clock = {.now = stands_still, .wait = yields};

/* A stream's handle is the driver's again once it is destroyed: until then nobody asks it. */
START_TEST(no_stream_goes_while_it_is_asked)
{
	pthread_t asker, destroyer;

	clock_in_use = &no_clock;
	driver.cuStreamQuery = query_slowly;
	sem_init(&going.inside, 0, 0);
	sem_init(&going.goes_on, 0, 0);
	ck_assert_int_eq(pthread_create(&asker, NULL, ask_slowly, NULL), 0);
	while (sem_wait(&going.inside) != 0)
		;
	ck_assert(idle_is_seen());
	ck_assert_int_eq(pthread_create(&destroyer, NULL, destroy, NULL), 0);
	while (idle_is_seen()) /* until it has begun */
		sched_yield();
	ck_assert(!idle_ask());
	ck_assert(!going.has_gone);
	sem_post(&going.goes_on);
	pthread_join(asker, NULL);
	pthread_join(destroyer, NULL);
	ck_assert(going.is_seen);
	ck_assert(going.has_gone);
	ck_assert(idle_is_seen());
	clock_in_use = &clock_of_kernel;
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("idle");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests, the_legacy_stream_is_asked_first);
	tcase_add_test(tests, what_has_no_name_is_waited_for);
	tcase_add_test(tests, no_stream_goes_while_it_is_asked);
	return suite_run("idle", tests);
}
