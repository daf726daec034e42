/* SPDX-License-Identifier: MIT */
/* Tests of streams and events, with host functions as the work. */
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "tests/softgpu/test.h"

/* A host function that waits until the test lets it go on. */
static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static void count(void *counter)
{
	__atomic_fetch_add((int *)counter, 1, __ATOMIC_SEQ_CST);
}

static int read_counter(int *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static void pause_20_ms(void *data)
{
	(void)data;
	struct timespec time = {.tv_nsec = 20000000};
	nanosleep(&time, NULL);
}

static void order_and_query(void)
{
	start();
	sem_t gate;
	int counter = 0;
	CUstream stream;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamQuery(stream));
	OK(cuLaunchHostFunc(stream, wait_for, &gate));
	OK(cuLaunchHostFunc(stream, count, &counter));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	CHECK(read_counter(&counter) == 0);
	sem_post(&gate);
	OK(cuStreamSynchronize(stream));
	CHECK(read_counter(&counter) == 1);
	OK(cuStreamQuery(stream));
	OK(cuStreamDestroy_v2(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)0x1234));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 8));
}

/*
 * Looks at every kind of stream, one that is gone by name too; no stream waits for another by it.
 */
static void an_event_of_the_context_is_behind_every_stream(void)
{
	start();
	enum { STREAMS = 4 };
	CUstream streams[STREAMS] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
	CUcontext context, other;
	CUevent event;
	CUdevice device;
	int counter = 0;
	OK(cuCtxGetCurrent(&context));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < STREAMS; i++) {
		sem_t gate;
		sem_init(&gate, 0, 0);
		if (i >= 2)
			OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		OK(cuCtxRecordEvent(context, event));
		OK(cuEventSynchronize(event));
		OK(cuLaunchHostFunc(streams[i], wait_for, &gate));
		OK(cuEventQuery(event));
		OK(cuCtxRecordEvent(context, event));
		EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
		if (i == 2)
			OK(cuStreamDestroy_v2(streams[i]));
		if (i == 3) {
			CUstream free_one;
			OK(cuStreamCreate(&free_one, CU_STREAM_DEFAULT));
			OK(cuLaunchHostFunc(free_one, count, &counter));
			OK(cuStreamSynchronize(free_one));
			CHECK(read_counter(&counter) == 1);
			OK(cuStreamDestroy_v2(free_one));
		}
		EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
		sem_post(&gate);
		OK(cuEventSynchronize(event));
	}
	OK(cuStreamDestroy_v2(streams[3]));
	OK(cuCtxGetDevice(&device));
	OK(cuCtxCreate_v2(&other, 0, device));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(other, event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(context, (CUevent)0x1234));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxRecordEvent((CUcontext)0x1234, event));
	OK(cuCtxDestroy_v2(other));
}

static void destroy_runs_what_is_queued(void)
{
	start();
	sem_t gate;
	int counter = 0;
	CUstream stream;
	CUevent event;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	OK(cuLaunchHostFunc(stream, wait_for, &gate));
	OK(cuLaunchHostFunc(stream, count, &counter));
	OK(cuEventRecord(event, stream));
	OK(cuStreamDestroy_v2(stream));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	sem_post(&gate);
	OK(cuEventSynchronize(event));
	CHECK(read_counter(&counter) == 1);
	/* Waiting for the context includes streams that are gone by name. */
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(stream, pause_20_ms, NULL));
	OK(cuLaunchHostFunc(stream, count, &counter));
	OK(cuStreamDestroy_v2(stream));
	OK(cuCtxSynchronize());
	CHECK(read_counter(&counter) == 2);
}

static void legacy_stream(void)
{
	start();
	sem_t gate;
	int blocking_done = 0, legacy_done = 0, free_done = 0;
	CUstream blocking, non_blocking;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&blocking, 0));
	OK(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(blocking, wait_for, &gate));
	OK(cuLaunchHostFunc(NULL, count, &legacy_done)); /* after `blocking` */
	OK(cuLaunchHostFunc(non_blocking, count, &free_done));
	OK(cuStreamSynchronize(non_blocking));
	CHECK(read_counter(&free_done) == 1 && read_counter(&legacy_done) == 0);
	OK(cuLaunchHostFunc(blocking, count, &blocking_done)); /* after the legacy stream */
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
	sem_post(&gate);
	OK(cuStreamSynchronize(blocking));
	CHECK(read_counter(&legacy_done) == 1 && read_counter(&blocking_done) == 1);
	/* Waiting for the legacy stream is waiting for the blocking ones. */
	OK(cuLaunchHostFunc(blocking, wait_for, &gate));
	OK(cuLaunchHostFunc(blocking, count, &blocking_done));
	sem_post(&gate);
	OK(cuStreamSynchronize(NULL));
	CHECK(read_counter(&blocking_done) == 2);
}

static unsigned long long own_id;

static void *other_thread(void *context)
{
	unsigned long long id;
	int counter = 0;
	OK(cuCtxSetCurrent(context));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &id));
	CHECK(id != own_id);
	OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, count, &counter));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	CHECK(read_counter(&counter) == 1);
	return NULL;
}

typedef CUresult (*get_id_function)(CUstream, unsigned long long *);

static void per_thread_stream(void)
{
	CUcontext context = start();
	unsigned long long legacy_id, id;
	void *function;
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own_id));
	OK(cuStreamGetId(NULL, &legacy_id));
	CHECK(own_id != legacy_id);
	OK(cuGetProcAddress("cuStreamGetId", &function, 12000,
	                    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
	OK(((get_id_function)function)(NULL, &id));
	CHECK(id == own_id);
	pthread_t thread;
	pthread_create(&thread, NULL, other_thread, context);
	pthread_join(thread, NULL);
}

static void properties(void)
{
	CUcontext context = start(), found;
	CUstream stream;
	unsigned int flags;
	int least, greatest, priority;
	CUstreamCaptureStatus status;
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	CHECK(greatest < least);
	OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
	OK(cuStreamGetPriority(stream, &priority));
	CHECK(priority == greatest);
	OK(cuStreamGetFlags(stream, &flags));
	CHECK(flags == CU_STREAM_NON_BLOCKING);
	OK(cuStreamGetCtx(stream, &found));
	CHECK(found == context);
	OK(cuStreamIsCapturing(stream, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
}

static void events(void)
{
	start();
	CUstream first, second;
	CUevent begin, end, plain;
	float milliseconds;
	sem_t gate;
	int counter = 0;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&plain, CU_EVENT_INTERPROCESS));
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
	OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	OK(cuEventQuery(begin)); /* never recorded counts as done */
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, begin, end));
	OK(cuEventRecord(begin, first));
	OK(cuLaunchHostFunc(first, pause_20_ms, NULL));
	OK(cuLaunchHostFunc(first, wait_for, &gate));
	OK(cuEventRecord(end, first));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&milliseconds, begin, end));
	sem_post(&gate);
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&milliseconds, begin, end));
	CHECK(milliseconds >= 19.9f && milliseconds < 60000);
	OK(cuEventElapsedTime_v2(&milliseconds, begin, end));
	OK(cuEventRecord(plain, first));
	OK(cuStreamSynchronize(first));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, begin, plain));
	/* One stream waits for another. */
	OK(cuLaunchHostFunc(first, wait_for, &gate));
	OK(cuEventRecord(plain, first));
	OK(cuStreamWaitEvent(second, plain, 0));
	OK(cuLaunchHostFunc(second, count, &counter));
	OK(cuEventDestroy_v2(plain)); /* while it is waited for */
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
	CHECK(read_counter(&counter) == 0);
	sem_post(&gate);
	OK(cuStreamSynchronize(second));
	CHECK(read_counter(&counter) == 1);
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(plain));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord((CUevent)0x1234, first));
	OK(cuEventDestroy_v2(begin));
	OK(cuEventDestroy_v2(end));
}

static CUresult called_with = CUDA_ERROR_UNKNOWN, driver_answer;

static void callback(CUstream stream, CUresult status, void *data)
{
	CUdeviceptr memory;
	(void)stream;
	called_with = status;
	driver_answer = cuMemAlloc_v2(&memory, 16);
	count(data);
}

static void callbacks(void)
{
	start();
	CUstream stream;
	int counter = 0;
	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamAddCallback(stream, callback, &counter, 0));
	OK(cuStreamSynchronize(stream));
	CHECK(counter == 1 && called_with == CUDA_SUCCESS);
	CHECK(driver_answer == CUDA_ERROR_NOT_PERMITTED);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, NULL, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, NULL, NULL));
}

/* cuMemFree waits for work that was queued before it. */
static void free_waits(void)
{
	start();
	CUstream stream;
	CUdeviceptr memory;
	int counter = 0;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&memory, MIB));
	OK(cuLaunchHostFunc(stream, pause_20_ms, NULL));
	OK(cuMemsetD8Async(memory, 1, MIB, stream));
	OK(cuLaunchHostFunc(stream, count, &counter));
	OK(cuMemFree_v2(memory));
	CHECK(read_counter(&counter) == 1);
	OK(cuCtxSynchronize());
}

/* Memory that is unmapped under a copy is an illegal address, and the context stays broken. */
static void unmap_under_work(void)
{
	start();
	CUdeviceptr base;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = wanted.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUstream stream;
	sem_t gate;
	int counter = 0;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&stream, 0));
	OK(cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
	OK(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	OK(cuMemMap(base, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
	OK(cuLaunchHostFunc(stream, wait_for, &gate));
	OK(cuMemsetD8Async(base, 1, 2 * MIB, stream));
	OK(cuStreamAddCallback(stream, callback, &counter, 0));
	OK(cuMemUnmap(base, 2 * MIB));
	sem_post(&gate);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	CHECK(called_with == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(stream));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&base, 16));
	CUcontext context;
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&base, 16));
}

/* A copy between devices on the legacy stream is ordered among the work of both. */
static void copy_between_devices(void)
{
	CUcontext contexts[2];
	CUdeviceptr first, second, third;
	sem_t gate;
	uint8_t got = 0;
	sem_init(&gate, 0, 0);
	OK(cuInit(0));
	for (int i = 0; i < 2; i++) {
		OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
		OK(cuCtxSetCurrent(contexts[i]));
		OK(cuMemAlloc_v2(i == 0 ? &first : &second, MIB));
	}
	OK(cuMemAlloc_v2(&third, MIB));
	OK(cuLaunchHostFunc(NULL, wait_for, &gate));
	OK(cuMemsetD8Async(second, 2, MIB, NULL));
	OK(cuCtxSetCurrent(contexts[0]));
	OK(cuMemsetD8Async(first, 1, MIB, NULL));
	OK(cuMemcpyDtoDAsync_v2(second, first, MIB, NULL)); /* after the fill of the other device */
	OK(cuCtxSetCurrent(contexts[1]));
	OK(cuMemcpyDtoDAsync_v2(third, second, MIB, NULL)); /* after that copy, with no event */
	OK(cuCtxSetCurrent(contexts[0]));
	pause_20_ms(NULL);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	sem_post(&gate);
	OK(cuCtxSetCurrent(contexts[1]));
	OK(cuMemcpyDtoH_v2(&got, third + MIB - 1, 1));
	CHECK(got == 1);
}

int main(void)
{
	int failed = 0;
	failed += RUN(order_and_query, NULL);
	failed += RUN(destroy_runs_what_is_queued, NULL);
	failed += RUN(an_event_of_the_context_is_behind_every_stream, NULL);
	failed += RUN(legacy_stream, NULL);
	failed += RUN(per_thread_stream, NULL);
	failed += RUN(properties, NULL);
	failed += RUN(events, NULL);
	failed += RUN(callbacks, NULL);
	failed += RUN(free_waits, NULL);
	failed += RUN(unmap_under_work, NULL);
	failed += RUN(copy_between_devices, "SOFTGPU_DEVICES=2");
	return failed != 0;
}
