/* SPDX-License-Identifier: MIT */
/*
 * capture_free: frees memory while another thread captures, once in each mode, by cuMemFree and
 * cuMemFreeAsync.
 *
 * Prints per case the answer of the free, and whether the address is still known. Then come the
 * answers of the capture's end and of a second free. They are the same with memory on the device
 * and on the host. With "held" as argument the last case stops before the capture ends, for a line
 * on stdin, and again after the next wait.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE ((size_t)8 << 20)

static CUcontext context;
static sem_t begun, freed;
static CUstreamCaptureMode mode;
static CUresult ended;

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "capture_free: %s: error %d\n", what, (int)result);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

static void *capture(void *cookie)
{
	CUstream stream;
	CUgraph graph = NULL;

	(void)cookie;
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture_v2(stream, mode));
	sem_post(&begun);
	sem_wait(&freed);
	ended = cuStreamEndCapture(stream, &graph);
	if (graph)
		CHECK(cuGraphDestroy(graph));
	CHECK(cuStreamDestroy_v2(stream));
	return NULL;
}

static CUresult free_it(CUdeviceptr address, CUstream stream)
{
	return stream ? cuMemFreeAsync(address, stream) : cuMemFree_v2(address);
}

static void stop(const char *where)
{
	char line[16];

	printf("%s\n", where);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void one_case(const char *name, CUstream stream, int hold)
{
	CUresult result, known;
	CUdeviceptr address, base;
	pthread_t thread;

	if (stream)
		CHECK(cuMemAllocAsync(&address, SIZE, stream));
	else
		CHECK(cuMemAlloc_v2(&address, SIZE));
	CHECK(cuCtxSynchronize());
	CHECK(pthread_create(&thread, NULL, capture, NULL));
	sem_wait(&begun);
	result = free_it(address, stream);
	known = cuMemGetAddressRange_v2(&base, NULL, address);
	if (hold)
		stop("captured");
	sem_post(&freed);
	pthread_join(thread, NULL);
	CHECK(cuCtxSynchronize());
	if (hold)
		stop("waited");
	printf("%s: free=%d known=%d end=%d ", name, result, known, ended);
	/* What was refused is freed now; what was not is freed already. */
	printf("again=%d\n", free_it(address, stream));
	CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		CUstreamCaptureMode mode;
	} modes[] = {{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
	             {"thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	             {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};
	CUstream stream;
	CUdevice device;

	(void)argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sem_init(&begun, 0, 0);
	sem_init(&freed, 0, 0);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++) {
		mode = modes[i].mode;
		one_case(modes[i].name, stream, 0);
		one_case(modes[i].name, NULL, i == 2 && argc > 1);
	}
	CHECK(cuDevicePrimaryCtxRelease_v2(device));
	return 0;
}
