/* SPDX-License-Identifier: MIT */
/*
 * slots CASE: actions of a program while one of its launches is held back, or around one. Prints
 * "ok".
 *
 * With SPILLWAY_SHARE=0.01% a launch sleeps for minutes in its idle slot; meanwhile
 *   return exit quick_exit pthread_exit   the process ends, with status 7
 *   fork         children come and end; the parent then exits with 7
 *   synchronise  another thread waits for the context, copies and asks
 *   destroy      another thread destroys the context; SPILLWAY_TOOL lets the sleeper go
 * With a share that lets it go on
 *   lock         launches are made with a lock held that host functions in the stream need
 *   need         what is in flight ends only after a launch that comes later
 *   timing       the program's own event timings: prints the lower quartile of each way
 */
#include "tests/e2e/life.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { STATUS = 7, ROUNDS = 20, LOCKED = 8, SLOW_S = 140 };

static CUcontext context;
static CUfunction function;

/* --- a sleeper --- */

static _Atomic unsigned begun, returned;
static _Atomic CUresult last_result;

static void *launch_over_and_over(void *cookie)
{
	CHECK(cuCtxSetCurrent(context));
	do {
		begun++;
		last_result = launch(function, NULL);
		returned++;
		nap_ms(1); /* else a busy machine queues 100,000 until the first is held back */
	} while (last_result == CUDA_SUCCESS);
	return cookie;
}

/* It is in one launch and stays there, though nothing runs. */
static bool is_asleep(void)
{
	unsigned before;

	CHECK(cuCtxSynchronize());
	before = returned;
	nap_ms(500);
	return before == returned && begun == returned + 1;
}

static pthread_t start_sleeper(void)
{
	pthread_t thread;

	EXPECT(pthread_create(&thread, NULL, launch_over_and_over, NULL) == 0);
	EVENTUALLY(returned > 0);
	EVENTUALLY(is_asleep());
	return thread;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* --- ends --- */

static void *exit_soon(void *cookie)
{
	(void)cookie;
	nap_ms(100);
	exit(STATUS);
}

static void leave(const char *how)
{
	pthread_t thread;

	if (strcmp(how, "quick_exit") == 0)
		quick_exit(STATUS);
	if (strcmp(how, "return") == 0)
		return;
	EXPECT(pthread_create(&thread, NULL, exit_soon, NULL) == 0);
	if (strcmp(how, "pthread_exit") == 0)
		pthread_exit(NULL);
	for (;;)
		pause();
}

static void make_children(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		int status;
		pid_t child = fork();

		EXPECT(child >= 0);
		if (child == 0) {
			alarm(SLOW_S);
			if (i % 2)
				exit(STATUS);
			/* The child's driver is not initialised, paced or not. */
			_exit(launch(function, NULL) == CUDA_SUCCESS ? 1 : STATUS);
		}
		EXPECT(waitpid(child, &status, 0) == child);
		EXPECT(status == STATUS << 8);
	}
	EVENTUALLY(is_asleep());
}

/* --- what others do meanwhile --- */

static void synchronise(void)
{
	CUdeviceptr memory = take_mib(1);
	unsigned word;
	double start;

	start_sleeper();
	start = now_s();
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamSynchronize(NULL));
	CHECK(cuMemsetD32_v2(memory, 5, 1));
	CHECK(cuMemcpyDtoH_v2(&word, memory, sizeof(word)));
	CHECK(cuMemFree_v2(memory));
	EXPECT(word == 5);
	EXPECT(now_s() - start < SLOW_S);
	EVENTUALLY(is_asleep());
}

static void destroy(void)
{
	char command[600];
	CUcontext primary;
	pthread_t sleeper;
	double start;

	CHECK(cuCtxGetCurrent(&primary));
	CHECK(cuCtxCreate_v2(&context, 0, 0));
	function = load_kernel();
	sleeper = start_sleeper();
	start = now_s();
	CHECK(cuCtxDestroy_v2(context));
	EXPECT(now_s() - start < SLOW_S);
	snprintf(command, sizeof(command), "%s set %s --share 100 >/dev/null",
	         getenv("SPILLWAY_TOOL"), getenv("SPILLWAY_JOB"));
	EXPECT(system(command) == 0);
	pthread_join(sleeper, NULL);
	EXPECT(last_result != CUDA_SUCCESS);
	CHECK(cuCtxSetCurrent(primary));
	function = load_kernel();
	CHECK(launch(function, NULL));
	CHECK(cuCtxSynchronize());
}

/* --- launches that others wait for --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned locked;

static void take_lock(void *cookie)
{
	(void)cookie;
	pthread_mutex_lock(&lock);
	locked++;
	pthread_mutex_unlock(&lock);
}

static void launch_with_lock(void)
{
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < LOCKED; i++) {
		pthread_mutex_lock(&lock);
		CHECK(launch(function, stream));
		CHECK(cuLaunchHostFunc(stream, take_lock, NULL));
		CHECK(launch(function, stream));
		pthread_mutex_unlock(&lock);
	}
	CHECK(cuStreamSynchronize(stream));
	EXPECT(locked == LOCKED);
}

static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static void launch_what_is_needed(void)
{
	CUstream first, second;
	CUevent event;
	sem_t needed;

	sem_init(&needed, 0, 0);
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < ROUNDS; i++) {
		/*
		 * The first stream ends when the second has been launched into, and both wait for
		 * each other's past.
		 */
		CHECK(launch(function, first));
		CHECK(cuLaunchHostFunc(first, wait_for, &needed));
		CHECK(launch(function, first));
		CHECK(cuEventRecord(event, first));
		CHECK(launch(function, second));
		sem_post(&needed);
		CHECK(cuStreamWaitEvent(second, event, 0));
		CHECK(launch(function, second));
	}
	CHECK(cuCtxSynchronize());
}

/* --- timing --- */

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* A busy machine may hold up most of them. */
static double lower_quartile(float *values)
{
	qsort(values, ROUNDS, sizeof(*values), ascending);
	return (double)values[ROUNDS / 4];
}

static void time_kernels(void)
{
	CUevent start[ROUNDS], stop[ROUNDS];
	float waited[ROUNDS], queued[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cuEventCreate(&start[i], 0));
		CHECK(cuEventCreate(&stop[i], 0));
		CHECK(cuEventRecord(start[i], NULL));
		CHECK(launch(function, NULL));
		CHECK(cuEventRecord(stop[i], NULL));
		CHECK(cuEventSynchronize(stop[i]));
		CHECK(cuEventElapsedTime(&waited[i], start[i], stop[i]));
	}
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cuEventRecord(start[i], NULL));
		CHECK(launch(function, NULL));
		CHECK(cuEventRecord(stop[i], NULL));
	}
	CHECK(cuCtxSynchronize());
	for (int i = 0; i < ROUNDS; i++)
		CHECK(cuEventElapsedTime(&queued[i], start[i], stop[i]));
	printf("waited=%.2f queued=%.2f ", lower_quartile(waited), lower_quartile(queued));
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	context = begin_cuda();
	function = load_kernel();
	if (strcmp(argv[1], "timing") == 0) {
		time_kernels();
	} else if (strcmp(argv[1], "lock") == 0) {
		launch_with_lock();
	} else if (strcmp(argv[1], "need") == 0) {
		launch_what_is_needed();
	} else if (strcmp(argv[1], "synchronise") == 0) {
		synchronise();
	} else if (strcmp(argv[1], "destroy") == 0) {
		destroy();
	} else {
		start_sleeper();
		if (strcmp(argv[1], "fork") == 0)
			make_children();
		else
			leave(argv[1]);
		return STATUS;
	}
	printf("ok\n");
	fflush(stdout);
	return 0;
}
