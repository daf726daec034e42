/*
 * Whether anything runs: what is asked, in which order, and how long an answer is waited for. The
 * test is the driver, its contexts and the clock.
 */
#include <check.h>
#include <errno.h>
#include <semaphore.h>
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

int main(void)
{
	TCase *tests = tcase_create("idle");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests, the_legacy_stream_is_asked_first);
	tcase_add_test(tests, what_has_no_name_is_waited_for);
	return suite_run("idle", tests);
}
