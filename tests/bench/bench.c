/*
 * Nanoseconds per driver call, as "MEASURE NS" lines after a "device NAME" line. What stands
 * between this program and the driver is the caller's choice (LD_PRELOAD); see the script `run`.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_ROUNDS = 301, MIN_ROUNDS = 5, BUDGET_MS = 250 };

static CUfunction empty_kernel;
static CUstream stream;
static CUmodule module;

static void check(CUresult result, const char *call)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		name = "unknown error";
	fprintf(stderr, "bench: %s: %s\n", call, name);
	exit(1);
}
#define CU(call) check((call), #call)

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void launch(void)
{
	CU(cuLaunchKernel(empty_kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void drain(void)
{
	CU(cuStreamSynchronize(stream));
}

static void alloc_free(size_t size)
{
	CUdeviceptr pointer;

	CU(cuMemAlloc(&pointer, size));
	CU(cuMemFree(pointer));
}

static void alloc_free_4k(void)
{
	alloc_free(4096);
}

static void alloc_free_64m(void)
{
	alloc_free((size_t)64 << 20);
}

static CUdeviceptr copy_from, copy_to;

static void copy(void)
{
	CU(cuMemcpyDtoDAsync(copy_to, copy_from, 4, stream));
}

/* As libcudart does some four hundred times at its start. */
static void proc_address(void)
{
	void *function;

	CU(cuGetProcAddress("cuMemcpyDtoDAsync", &function, 12000, 0, NULL));
}

static void event_create_destroy(void)
{
	CUevent event;

	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuEventDestroy(event));
}

/* What these take of the device's memory is measured. */
static void stream_create_destroy(void)
{
	CUstream another;

	CU(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING));
	CU(cuStreamDestroy(another));
}

static void get_function(void)
{
	CU(cuModuleGetFunction(&empty_kernel, module, "empty"));
}

static void driver_version(void)
{
	int version;

	CU(cuDriverGetVersion(&version));
}

static const struct measure {
	const char *name;
	void (*operation)(void);
	void (*after_round)(void); /* not timed */
	int per_round;
} measures[] = {
    /* Fewer than a stream's queue holds, so that no launch waits for a kernel. */
    {"launch", launch, drain, 256},
    {"copy", copy, drain, 256},
    {"alloc_free_4KiB", alloc_free_4k, NULL, 64},
    {"alloc_free_64MiB", alloc_free_64m, NULL, 4},
    {"event", event_create_destroy, NULL, 64},
    {"stream", stream_create_destroy, NULL, 64},
    {"get_function", get_function, NULL, 64},
    {"proc_address", proc_address, NULL, 64},
    {"passthrough", driver_version, NULL, 4096},
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The median over rounds: one preempted round does not count. */
static double measure_ns(const struct measure *m)
{
	double rounds[MAX_ROUNDS];
	double until = now_ns() + BUDGET_MS * 1e6;
	int count = 0;

	for (int i = 0; i < m->per_round; i++) /* warm */
		m->operation();
	do {
		double start = now_ns();
		for (int i = 0; i < m->per_round; i++)
			m->operation();
		rounds[count++] = (now_ns() - start) / m->per_round;
		if (m->after_round)
			m->after_round();
	} while (count < MIN_ROUNDS || (count < MAX_ROUNDS && now_ns() < until));
	qsort(rounds, count, sizeof(*rounds), ascending);
	return rounds[count / 2];
}

int main(void)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	char name[256];
	CUdevice device;
	CUcontext context;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDeviceGetName(name, sizeof(name), device));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&empty_kernel, module, "empty"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemAlloc(&copy_from, 4096));
	CU(cuMemAlloc(&copy_to, 4096));
	printf("device %s\n", name);
	for (size_t i = 0; i < sizeof(measures) / sizeof(*measures); i++)
		printf("%s %.2f\n", measures[i].name, measure_ns(&measures[i]));
	CU(cuMemFree(copy_from));
	CU(cuMemFree(copy_to));
	CU(cuStreamDestroy(stream));
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
