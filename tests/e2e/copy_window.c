/* SPDX-License-Identifier: MIT */
/*
 * copy_window CASE: does things that leave little time to move memory, as a program may. Before and
 * after it says so and waits for a line on its input, so that the test can ask for a move
 * meanwhile. A call that another thread's waiting depends on must return: no case ends otherwise.
 *
 *   value          a stream waits for a word that the main thread writes once it has used other
 *                  streams
 *   function       a host function waits until the main thread has made more calls
 *   inside         a thread stays inside a copy, behind a stream that waits; the main thread goes
 *                  on
 *   global, thread, relaxed   a capture in that mode stays open, then goes on and is replayed
 *
 * Ends with "ok" when all bytes are as they should be.
 */
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "tests/e2e/elastic.h"

enum { BYTES = 16 * MIB, LAUNCHES = 300 };

static struct elastic gpu;
static CUdeviceptr first, second;
static CUstream blocked, other;
static uint32_t *gate; /* of the host */
static sem_t posted;
static char copied[BYTES];

static void stop(const char *where)
{
	char line[16];

	printf("%s\n", where);
	if (!fgets(line, sizeof(line), stdin))
		exit(3);
}

/* Does what a program does elsewhere: launches, copies, fills, allocations. */
static void work_elsewhere(void)
{
	static uint32_t back[1024];

	for (uint32_t i = 0; i < LAUNCHES; i++) {
		CHECK(elastic_mix(&gpu, second, second, BYTES, i, other));
		if (i % 50 == 0) {
			CHECK(cuMemcpyDtoHAsync_v2(back, second, sizeof(back), other));
			CHECK(cuStreamSynchronize(other));
		}
	}
	CHECK(cuStreamSynchronize(other));
}

/* The same number of launches without anything in the way. */
static uint64_t expected(uint32_t launches)
{
	CUdeviceptr memory;
	uint64_t sum;

	CHECK(cuMemAlloc_v2(&memory, BYTES));
	CHECK(cuMemsetD32_v2(memory, 1, BYTES / 4));
	for (uint32_t i = 0; i < launches; i++)
		CHECK(elastic_mix(&gpu, memory, memory, BYTES, i, NULL));
	sum = elastic_hash_device(0, memory, BYTES);
	CHECK(cuMemFree_v2(memory));
	return sum;
}

static void expect(const char *what, CUdeviceptr memory, uint32_t launches)
{
	if (elastic_hash_device(0, memory, BYTES) == expected(launches))
		return;
	printf("WRONG: %s\n", what);
	exit(1);
}

static void a_value(void)
{
	CHECK(cuStreamWaitValue32_v2(blocked, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	CHECK(elastic_mix(&gpu, first, first, BYTES, 0, blocked));
	stop("open");
	work_elsewhere();
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	CHECK(cuStreamSynchronize(blocked));
}

static void wait_for_post(void *cookie)
{
	(void)cookie;
	while (sem_wait(&posted) != 0)
		;
}

static void a_function(void)
{
	CHECK(cuLaunchHostFunc(blocked, wait_for_post, NULL));
	CHECK(elastic_mix(&gpu, first, first, BYTES, 0, blocked));
	stop("open");
	work_elsewhere();
	sem_post(&posted);
	CHECK(cuStreamSynchronize(blocked));
}

static void *copy_behind(void *cookie)
{
	(void)cookie;
	CHECK(cuCtxSetCurrent(gpu.context));
	CHECK(cuMemcpyDtoH_v2(copied, first, BYTES));
	return NULL;
}

static void a_thread_inside(void)
{
	CUstream ordered; /* the copy on the legacy stream waits for it */
	pthread_t thread;

	CHECK(cuStreamCreate(&ordered, CU_STREAM_DEFAULT));
	CHECK(cuStreamWaitValue32_v2(ordered, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	CHECK(elastic_mix(&gpu, first, first, BYTES, 0, ordered));
	if (pthread_create(&thread, NULL, copy_behind, NULL) != 0)
		exit(1);
	elastic_sleep_ms(100);
	stop("open");
	work_elsewhere();
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	if (elastic_hash(0, copied, BYTES) != expected(1)) {
		printf("WRONG: what was copied\n");
		exit(1);
	}
	CHECK(cuStreamDestroy_v2(ordered));
}

static void a_capture(CUstreamCaptureMode mode)
{
	CUgraphExec executable;
	CUgraph graph = NULL;

	CHECK(elastic_mix(&gpu, second, second, BYTES, 0, other));
	CHECK(cuStreamBeginCapture_v2(blocked, mode));
	stop("open");
	/* Calls that are allowed while a capture is open, and one that is captured. */
	CHECK(elastic_mix(&gpu, first, first, BYTES, 0, blocked));
	CHECK(elastic_mix(&gpu, second, second, BYTES, 1, other));
	elastic_sleep_ms(300);
	CHECK(cuStreamEndCapture(blocked, &graph));
	CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	stop("replay");
	CHECK(cuGraphLaunch(executable, blocked));
	CHECK(cuStreamSynchronize(blocked));
	CHECK(cuGraphExecDestroy(executable));
	CHECK(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	uint32_t launches = 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&posted, 0, 0);
	gpu = elastic_start();
	CHECK(cuStreamCreate(&blocked, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc((void **)&gate, sizeof(*gate), 0));
	*gate = 0;
	CHECK(cuMemAlloc_v2(&first, BYTES));
	CHECK(cuMemAlloc_v2(&second, BYTES));
	CHECK(cuMemsetD32_v2(first, 1, BYTES / 4));
	CHECK(cuMemsetD32_v2(second, 1, BYTES / 4));
	CHECK(cuCtxSynchronize());
	if (strcmp(name, "value") == 0)
		a_value();
	else if (strcmp(name, "function") == 0)
		a_function();
	else if (strcmp(name, "inside") == 0)
		a_thread_inside();
	else if (strcmp(name, "global") == 0)
		a_capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
	else if (strcmp(name, "thread") == 0)
		a_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	else if (strcmp(name, "relaxed") == 0)
		a_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
	else
		return 2;
	if (strcmp(name, "value") == 0 || strcmp(name, "function") == 0 ||
	    strcmp(name, "inside") == 0)
		launches = LAUNCHES;
	stop("over");
	CHECK(cuCtxSynchronize());
	expect("the first buffer", first, 1);
	expect("the second buffer", second, launches);
	printf("ok\n");
	return 0;
}
