/* SPDX-License-Identifier: MIT */
/*
 * free waits|deferred: frees memory that a kernel still uses, allocates as much again and writes it
 * at once. The kernel, on the legacy stream or on another, reads and then overwrites the freed
 * memory after that. Its result and the contents of the new memory must be right.
 *
 *   waits      the call waits for the kernel, as the driver's does: the kernel ends 100 ms after it
 *              began
 *   deferred   the call returns while the kernel waits for this very thread
 *
 * Ends with "ok".
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "tests/e2e/elastic.h"

enum { OLD = 1000, ADDED = 7, NEW = 5000, ROUNDS = 2, LATE_MS = 100 };

static struct elastic gpu;
static uint32_t *go; /* of the host */

static void *let_go(void *cookie)
{
	(void)cookie;
	elastic_sleep_ms(LATE_MS);
	__atomic_store_n(go, 1, __ATOMIC_RELEASE);
	return NULL;
}

static bool holds(CUdeviceptr memory, size_t size, uint32_t value)
{
	uint32_t *copy = malloc(size);
	size_t differ = 0;

	CHECK(cuMemcpyDtoH_v2(copy, memory, size));
	for (size_t i = 0; i < size / 4; i++)
		differ += copy[i] != value;
	free(copy);
	return differ == 0;
}

/*
 * Allocates as much as was freed and writes it; on a stream of its own where the kernel still
 * waits.
 */
static CUdeviceptr again(size_t size, CUstream stream, bool async)
{
	CUdeviceptr memory;

	CHECK(async ? cuMemAllocAsync(&memory, size, stream) : cuMemAlloc_v2(&memory, size));
	CHECK(cuMemsetD32Async(memory, NEW, size / 4, stream));
	CHECK(cuStreamSynchronize(stream));
	return memory;
}

static void one_case(size_t size, CUstream stream, CUstream writer, bool async, bool deferred)
{
	CUdeviceptr used, result, fresh[ROUNDS];
	pthread_t thread;

	*go = 0;
	CHECK(async ? cuMemAllocAsync(&used, size, stream) : cuMemAlloc_v2(&used, size));
	CHECK(cuMemAlloc_v2(&result, size));
	CHECK(cuMemsetD32_v2(used, OLD, size / 4));
	CHECK(cuMemsetD32_v2(result, 0, size / 4));
	CHECK(cuCtxSynchronize());
	CHECK(elastic_late(&gpu, result, used, size, go, ADDED, stream));
	if (!deferred && pthread_create(&thread, NULL, let_go, NULL) != 0)
		exit(1);
	CHECK(async ? cuMemFreeAsync(used, stream) : cuMemFree_v2(used));
	for (int i = 0; i < ROUNDS; i++)
		fresh[i] = again(size, writer, async);
	if (deferred)
		__atomic_store_n(go, 1, __ATOMIC_RELEASE);
	else
		pthread_join(thread, NULL);
	CHECK(cuCtxSynchronize());
	if (!holds(result, size, OLD + ADDED)) {
		printf("WRONG: what the kernel computed from %zu bytes\n", size);
		exit(1);
	}
	for (int i = 0; i < ROUNDS; i++) {
		if (!holds(fresh[i], size, NEW)) {
			printf("WRONG: new memory of %zu bytes\n", size);
			exit(1);
		}
		CHECK(cuMemFree_v2(fresh[i]));
	}
	CHECK(cuMemFree_v2(result));
	CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8 * MIB, MIB * 3 / 2, 64 << 10};
	bool deferred = argc > 1 && strcmp(argv[1], "deferred") == 0;
	CUstream own, writer;

	gpu = elastic_start();
	CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc((void **)&go, sizeof(*go), 0));
	for (int i = 0; i < 3; i++) {
		one_case(sizes[i], NULL, writer, false, deferred);
		one_case(sizes[i], own, writer, false, deferred);
		one_case(sizes[i], own, writer, true, deferred);
	}
	printf("ok\n");
	return 0;
}
