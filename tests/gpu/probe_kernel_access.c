/* Questions on kernels that use host backing: do atomics count right, and how fast is it? */
#include "tests/gpu/probe.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 64, THREADS = 128 };

/* Every thread adds 1 to the counter; the attempt made the pointer. */
static void ask_counter(const char *kernel, const char *backing, CUdeviceptr counter)
{
	char question[64];
	union {
		uint32_t u32;
		uint64_t u64;
		float f32;
	} seen = {0};
	CUfunction function = gpu_kernel(kernel);

	snprintf(question, sizeof(question), "%s_%s", kernel, backing);
	ATTEMPT(cuMemsetD8(counter, 0, sizeof(seen)));
	ATTEMPT(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, (void *[]){&counter},
	                       NULL));
	ATTEMPT(cuMemcpyDtoH(&seen, counter, sizeof(seen)));
	if (attempt_failed(question))
		return;
	double count = strstr(kernel, "f32")   ? (double)seen.f32
	               : strstr(kernel, "u64") ? (double)seen.u64
	                                       : (double)seen.u32;
	answer(question, count == BLOCKS * THREADS ? "yes" : "lost counts", "%.0f of %d counted",
	       count, BLOCKS * THREADS);
}

static void ask_counters(const char *backing, CUdeviceptr counter)
{
	static const char *const kernels[] = {"atomic_add_u32", "atomic_add_u64", "atomic_add_f32",
	                                      "atomic_cas_u32", "atomic_cas_u64"};
	struct attempt made = attempt;

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		attempt = made;
		ask_counter(kernels[i], backing, counter);
	}
}

void ask_atomics(void)
{
	struct range range;
	CUdeviceptr pointer = 0;
	void *host = NULL;

	attempt_begin();
	range_make(&range, "h", small_chunk);
	ask_counters("vmm_host", range.base);
	range_free(&range);

	attempt_begin();
	ATTEMPT(cuMemAllocManaged(&pointer, small_chunk, CU_MEM_ATTACH_GLOBAL));
	ask_counters("managed", pointer);
	gpu.cuMemFree(pointer);

	attempt_begin();
	ATTEMPT(cuMemHostAlloc(&host, small_chunk, CU_MEMHOSTALLOC_DEVICEMAP));
	ATTEMPT(cuMemHostGetDevicePointer(&pointer, host, 0));
	ask_counters("pinned", pointer);
	gpu.cuMemFreeHost(host);
}

/* The shortest of a few launches, in milliseconds. */
static float fastest(CUfunction kernel, void **arguments)
{
	float shortest = 0;
	CUevent start = NULL, stop = NULL;

	ATTEMPT(cuEventCreate(&start, CU_EVENT_DEFAULT));
	ATTEMPT(cuEventCreate(&stop, CU_EVENT_DEFAULT));
	for (int i = 0; i < 3; i++) {
		float ms = 0;
		ATTEMPT(cuEventRecord(start, stream));
		ATTEMPT(cuLaunchKernel(kernel, 1024, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
		ATTEMPT(cuEventRecord(stop, stream));
		ATTEMPT(cuEventSynchronize(stop));
		ATTEMPT(cuEventElapsedTime(&ms, start, stop));
		if (i == 0 || shortest > ms)
			shortest = ms;
	}
	gpu.cuEventDestroy(start);
	gpu.cuEventDestroy(stop);
	return shortest;
}

static void answer_rate(const char *question, float ms, size_t bytes)
{
	char reply[32];

	if (attempt_failed(question))
		return;
	snprintf(reply, sizeof(reply), "%.2f GB/s", (double)bytes / 1e6 / (double)ms);
	answer(question, reply, "%zu MiB in %.3f ms, best of 3", bytes >> 20, (double)ms);
}

static void ask_rates(const char *backings, const char *read_question, const char *write_question)
{
	struct range range;
	CUdeviceptr sum = 0;

	attempt_begin();
	range_make(&range, backings, 4 * small_chunk);
	ATTEMPT(cuMemAlloc(&sum, sizeof(uint32_t)));
	ATTEMPT(cuMemsetD8(range.base, 0, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	unsigned count = range.reserved / 16;
	struct attempt made = attempt;
	CUfunction read_all = gpu_kernel("read_all");
	float ms = fastest(read_all, (void *[]){&range.base, &count, &sum});
	answer_rate(read_question, ms, range.reserved);
	attempt = made;
	CUfunction write_all = gpu_kernel("write_all");
	ms = fastest(write_all, (void *[]){&range.base, &count});
	answer_rate(write_question, ms, range.reserved);
	gpu.cuMemFree(sum);
	range_free(&range);
}

void ask_bandwidth(void)
{
	ask_rates("dddd", "kernel_read_device", "kernel_write_device");
	ask_rates("hhhh", "kernel_read_host", "kernel_write_host");
	ask_rates("dhdh", "kernel_read_mixed", "kernel_write_mixed");
}
