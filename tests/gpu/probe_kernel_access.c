/* SPDX-License-Identifier: MIT */
/* Questions on kernels that use host backing: do atomics count right, and how fast is it? */
#include "tests/gpu/probe.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 64, THREADS = 128 };

/* Every thread adds 1 to the counter; the attempt made the pointer. */
static void ask_counter(const char *question, const char *kernel, CUdeviceptr counter)
{
	union {
		uint32_t u32;
		uint64_t u64;
		float f32;
	} seen = {0};
	CUfunction function = gpu_kernel(kernel);

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

enum backing { VMM_HOST, MANAGED, PINNED, BACKINGS };

static void ask_counter_in(const char *question, const char *kernel, enum backing backing)
{
	struct range range;
	CUdeviceptr pointer = 0;
	void *host = NULL;

	attempt_begin();
	switch (backing) {
	case VMM_HOST:
		range_make(&range, "h", small_chunk);
		pointer = range.base;
		break;
	case MANAGED:
		ATTEMPT(cuMemAllocManaged(&pointer, small_chunk, CU_MEM_ATTACH_GLOBAL));
		break;
	case PINNED:
		ATTEMPT(cuMemHostAlloc(&host, small_chunk, CU_MEMHOSTALLOC_DEVICEMAP));
		ATTEMPT(cuMemHostGetDevicePointer(&pointer, host, 0));
		break;
	case BACKINGS:
		break;
	}
	ask_counter(question, kernel, pointer); /* the process ends with its memory */
}

void ask_atomics(void)
{
	static const char *const kernels[] = {"atomic_add_u32", "atomic_add_u64", "atomic_add_f32",
	                                      "atomic_cas_u32", "atomic_cas_u64"};
	static const char *const names[BACKINGS] = {"vmm_host", "managed", "pinned"};
	char question[64];

	for (enum backing b = 0; b < BACKINGS; b++) {
		for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
			snprintf(question, sizeof(question), "%s_%s", kernels[k], names[b]);
			ASK(question, ask_counter_in(question, kernels[k], b));
		}
	}
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

static void ask_rate(const char *question, const char *kernel, const char *backings)
{
	struct range range;
	CUdeviceptr sum = 0;

	attempt_begin();
	range_make(&range, backings, 4 * small_chunk);
	ATTEMPT(cuMemAlloc(&sum, sizeof(uint32_t)));
	ATTEMPT(cuMemsetD8(range.base, 0, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	unsigned count = range.reserved / 16;
	/* write_all() takes two of them. */
	float ms = fastest(gpu_kernel(kernel), (void *[]){&range.base, &count, &sum});
	answer_rate(question, ms, range.reserved);
	gpu.cuMemFree(sum);
	range_free(&range);
}

void ask_bandwidth(void)
{
	static const struct {
		const char *question, *kernel, *backings;
	} asked[] = {
	    {"kernel_read_device", "read_all", "dddd"},
	    {"kernel_write_device", "write_all", "dddd"},
	    {"kernel_read_host", "read_all", "hhhh"},
	    {"kernel_write_host", "write_all", "hhhh"},
	    {"kernel_read_mixed", "read_all", "dhdh"},
	    {"kernel_write_mixed", "write_all", "dhdh"},
	};

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		ASK(asked[i].question,
		    ask_rate(asked[i].question, asked[i].kernel, asked[i].backings));
}
