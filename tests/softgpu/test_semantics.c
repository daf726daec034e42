/* SPDX-License-Identifier: MIT */
/*
 * Tests of behaviour that shims over the driver tend to get wrong: default streams of several
 * threads, the wait of a free, events beside other processes, reference counts and stacks of
 * contexts.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static void count(void *counter)
{
	__atomic_fetch_add((int *)counter, 1, __ATOMIC_SEQ_CST);
}

static int counted(int *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static void in_thread(void *(*function)(void *), void *data)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, function, data) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static CUcontext context;
static sem_t gate;
static int first_done, second_done, legacy_done;

static void *other_threads_stream(void *data)
{
	(void)data;
	OK(cuCtxSetCurrent(context));
	/* This thread's stream waits neither for the other's, which is held, ... */
	OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count, &second_done));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CHECK(counted(&second_done) == 1 && counted(&first_done) == 0);
	/* ... but for the legacy stream, which waits for that. */
	OK(cuLaunchHostFunc(CU_STREAM_LEGACY, count, &legacy_done));
	OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count, &second_done));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
	CHECK(counted(&legacy_done) == 0 && counted(&second_done) == 1);
	sem_post(&gate);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CHECK(counted(&first_done) == 1 && counted(&legacy_done) == 1);
	CHECK(counted(&second_done) == 2);
	return NULL;
}

static void default_streams(void)
{
	context = start();
	sem_init(&gate, 0, 0);
	OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, wait_for, &gate));
	OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count, &first_done));
	in_thread(other_threads_stream, NULL);
}

static void *release_soon(void *semaphore)
{
	usleep(20000);
	sem_post(semaphore);
	return NULL;
}

/* cuMemFree waits for all streams of the context, cuMemFreeAsync for nothing. */
static void what_a_free_waits_for(void)
{
	CUstream used, idle;
	CUdeviceptr memory, pooled;
	int done = 0;
	start();
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&used, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	OK(cuMemAllocAsync(&pooled, MIB, used));
	OK(cuStreamSynchronize(used));
	OK(cuLaunchHostFunc(used, wait_for, &gate));
	OK(cuLaunchHostFunc(used, count, &done));
	OK(cuMemFreeAsync(pooled, used));
	CHECK(counted(&done) == 0);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, release_soon, &gate) == 0);
	OK(cuMemFree_v2(memory)); /* not that the stream used it */
	CHECK(counted(&done) == 1);
	pthread_join(thread, NULL);
	OK(cuStreamQuery(idle));
	/* A free of memory made under another context waits for that one's work. */
	CUcontext own = NULL, current;
	OK(cuCtxGetCurrent(&current));
	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	OK(cuLaunchHostFunc(NULL, wait_for, &gate));
	OK(cuLaunchHostFunc(NULL, count, &done));
	OK(cuCtxSetCurrent(current));
	CHECK(pthread_create(&thread, NULL, release_soon, &gate) == 0);
	OK(cuMemFree_v2(memory));
	CHECK(counted(&done) == 2);
	pthread_join(thread, NULL);
	OK(cuCtxDestroy_v2(own));
}

static CUfunction kernel(const char *name)
{
	CUmodule module;
	CUfunction function;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static double busy_ms_of(pid_t pid)
{
	struct softgpu_truth truth[4];
	int found = softgpu_truth(0, truth, 4);
	for (int i = 0; i < found && i < 4; i++)
		if (truth[i].pid == pid)
			return (double)truth[i].busy_ns / 1e6;
	return 0;
}

/* Events tell wall time: what another process had of the device between them is in it. */
static void events_beside_another_process(void)
{
	int go[2];
	char byte;
	CHECK(pipe(go) == 0);
	pid_t other = fork_bound();
	if (other == 0) {
		uint64_t forever = UINT64_MAX;
		void *parameters[] = {&forever};
		CHECK(read(go[0], &byte, 1) == 1);
		start();
		OK(cuLaunchKernel(kernel("spin"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
		for (;;)
			pause();
	}
	start();
	CUfunction bump = kernel("bump");
	CUevent begin, end;
	float milliseconds;
	double own, others;
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	OK(cuEventRecord(begin, NULL));
	OK(cuEventSynchronize(begin));
	CHECK(write(go[1], "x", 1) == 1);
	do {
		OK(cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		OK(cuCtxSynchronize());
		own = busy_ms_of(getpid());
		others = busy_ms_of(other);
	} while (own < 100 || others < 50);
	OK(cuEventRecord(end, NULL));
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&milliseconds, begin, end));
	printf("      the device was here for %.0f ms and there for %.0f; between the events were "
	       "%.0f ms\n",
	       own, others, (double)milliseconds);
	CHECK((double)milliseconds > own + others - 0.01);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static void *retain_and_release(void *data)
{
	CUcontext found;
	(void)data;
	for (int i = 0; i < 100; i++) {
		OK(cuDevicePrimaryCtxRetain(&found, 0));
		CHECK(found == context);
		OK(cuDevicePrimaryCtxRelease_v2(0));
	}
	return NULL;
}

/* The primary context lives while anybody retains it, in whatever thread, and no longer. */
static void primary_references(void)
{
	CUcontext again;
	CUdeviceptr memory;
	unsigned int flags;
	int active;
	context = start();
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, retain_and_release, NULL) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	OK(cuMemsetD8_v2(memory, 0, 4 * MIB));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK(physical_bytes(0) == 12 * MIB);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK(physical_bytes(0) == 0);
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(!active);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFree_v2(memory));
	/* A reset ends it whoever retains it; it is not destroyed as other contexts are. */
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(again));
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(physical_bytes(0) == 0);
}

static CUcontext second;

static void *own_stack(void *data)
{
	CUcontext found;
	(void)data;
	OK(cuCtxGetCurrent(&found));
	CHECK(found == NULL);
	OK(cuCtxPushCurrent_v2(context));
	OK(cuCtxPushCurrent_v2(second));
	OK(cuCtxPushCurrent_v2(context));
	OK(cuCtxSetCurrent(second)); /* takes the place of the top */
	OK(cuCtxPopCurrent_v2(&found));
	CHECK(found == second);
	OK(cuCtxPopCurrent_v2(&found));
	CHECK(found == second);
	OK(cuCtxGetCurrent(&found));
	CHECK(found == context);
	OK(cuCtxDestroy_v2(second)); /* current in the other thread */
	OK(cuCtxPopCurrent_v2(NULL));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&found));
	return NULL;
}

static void context_stacks(void)
{
	CUcontext found;
	CUdeviceptr memory;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuCtxCreate_v2(&second, 0, 0));
	in_thread(own_stack, NULL);
	OK(cuCtxGetCurrent(&found));
	CHECK(found == second); /* what other threads do changes no stack of this one */
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&memory, 16));
	OK(cuCtxPopCurrent_v2(&found));
	OK(cuMemAlloc_v2(&memory, 16));
	OK(cuCtxPopCurrent_v2(&found));
	CHECK(found == context);
}

/* Each process holds a context and MIB bytes; all see the same free memory. */
static void memory_of_several_processes(void)
{
	int ready[2], go[3][2];
	char byte;
	size_t available, total;
	CHECK(pipe(ready) == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(pipe(go[i]) == 0);
		if (fork_bound() != 0)
			continue;
		CUdeviceptr memory;
		start();
		OK(cuMemAlloc_v2(&memory, 4 * MIB));
		CHECK(write(ready[1], "x", 1) == 1 && read(go[i][0], &byte, 1) == 1);
		OK(cuMemGetInfo_v2(&available, &total));
		CHECK(total == 128 * MIB && available == 128 * MIB - 3 * 12 * MIB - 8 * MIB);
		CHECK(write(ready[1], "x", 1) == 1 && read(go[i][0], &byte, 1) == 1);
		OK(cuMemFree_v2(memory));
		CHECK(write(ready[1], "x", 1) == 1 && read(go[i][0], &byte, 1) == 1);
		exit(0);
	}
	start();
	static const uint64_t each[] = {12 * MIB, 12 * MIB, 8 * MIB};
	for (int step = 0; step < 3; step++) {
		for (int i = 0; i < 3; i++)
			CHECK(read(ready[0], &byte, 1) == 1);
		OK(cuMemGetInfo_v2(&available, &total));
		CHECK(available == 128 * MIB - 3 * each[step] - 8 * MIB);
		for (int i = 0; i < 3; i++)
			CHECK(write(go[i][1], "x", 1) == 1);
	}
	for (int i = 0, status; i < 3; i++) {
		CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	OK(cuMemGetInfo_v2(&available, &total));
	CHECK(available == 120 * MIB);
}

int main(void)
{
	int failed = 0;
	failed += RUN(default_streams, NULL);
	failed += RUN(what_a_free_waits_for, NULL);
	failed += RUN(events_beside_another_process, "SOFTGPU_KERNEL_TIME_US=20000");
	failed += RUN(primary_references, NULL);
	failed += RUN(context_stacks, NULL);
	failed += RUN(memory_of_several_processes, "SOFTGPU_MEMORY=128M");
	return failed != 0;
}
