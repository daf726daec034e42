/* SPDX-License-Identifier: MIT */
/*
 * refused: destroys objects that the driver does not destroy, and looks at the rest. They are the
 * device's own context, which goes by release and reset alone, from this thread and another. Then a
 * context that is gone, and the default pool. Then one context goes with memory in it, and the
 * device's own one is reset.
 *
 * Prints each answer and whether all bytes are unchanged. The output is the same with and without
 * Spillway. With "hold" it stops before each destruction that is not refused, and after it, for a
 * line on stdin.
 */
#include "tests/e2e/elastic.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCKS = 5 };

/*
 * On the device, beyond a small limit, in a slab, in stream order, freed in stream order and kept.
 */
static const size_t sizes[BLOCKS] = {8 * (size_t)MIB, 24 * (size_t)MIB, 1000, 4 * (size_t)MIB,
                                     4 * (size_t)MIB};
static CUdeviceptr blocks[BLOCKS];
static bool holds;

static void stop(const char *where)
{
	char line[16];

	if (!holds)
		return;
	printf("%s\n", where);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void make(CUstream stream, unsigned int salt)
{
	for (unsigned int i = 0; i < BLOCKS; i++) {
		if (i < 3)
			CHECK(cuMemAlloc_v2(&blocks[i], sizes[i]));
		else
			CHECK(cuMemAllocAsync(&blocks[i], sizes[i], stream));
		CHECK(cuMemsetD32Async(blocks[i], salt + i, sizes[i] / 4, stream));
	}
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemFreeAsync(blocks[BLOCKS - 1], stream));
}

/* Returns whether each word is what was written; the answer of the first copy that fails. */
static CUresult intact(unsigned int salt, int *differing)
{
	static unsigned int words[24 * MIB / 4];

	*differing = 0;
	for (unsigned int i = 0; i < BLOCKS - 1; i++) {
		CUresult result = cuMemcpyDtoH_v2(words, blocks[i], sizes[i]);

		if (result != CUDA_SUCCESS)
			return result;
		for (size_t w = 0; w < sizes[i] / 4; w++)
			*differing += words[w] != salt + i;
	}
	return CUDA_SUCCESS;
}

static void say(const char *call, CUresult result, unsigned int salt)
{
	int differing;
	CUresult copied = intact(salt, &differing);

	printf("%s: answered %d, then copies %d, %d words differ\n", call, (int)result, (int)copied,
	       differing);
}

static void *destroy_elsewhere(void *context)
{
	static CUresult result;

	result = cuCtxDestroy_v2(context);
	return &result;
}

static void check_refused(CUcontext primary, CUstream stream)
{
	const CUresult *elsewhere;
	CUcontext own, popped;
	CUmemoryPool pool;
	pthread_t thread;
	void *answer;

	make(stream, 7);
	say("the device's own context", cuCtxDestroy_v2(primary), 7);
	if (pthread_create(&thread, NULL, destroy_elsewhere, primary) != 0 ||
	    pthread_join(thread, &answer) != 0)
		exit(1);
	elsewhere = answer;
	say("the same from another thread", *elsewhere, 7);
	CHECK(cuCtxCreate_v2(&own, 0, 0));
	CHECK(cuCtxPopCurrent_v2(&popped));
	CHECK(cuCtxDestroy_v2(own));
	say("a context that is gone", cuCtxDestroy_v2(own), 7);
	CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
	printf("the default pool is %sdestroyed\n",
	       cuMemPoolDestroy(pool) == CUDA_SUCCESS ? "" : "not ");
	say("the default pool", CUDA_SUCCESS, 7);
	/* In stream order again: the pool is what it was. */
	CHECK(cuMemAllocAsync(&blocks[BLOCKS - 1], sizes[BLOCKS - 1], stream));
	CHECK(cuMemFreeAsync(blocks[BLOCKS - 1], stream));
	for (int i = 0; i < BLOCKS - 1; i++) {
		CUresult freed = cuMemFree_v2(blocks[i]);

		printf("free: %d, and again: %d\n", (int)freed, (int)cuMemFree_v2(blocks[i]));
	}
	CHECK(cuCtxSynchronize());
}

static void check_destroyed(void)
{
	CUcontext own;

	CHECK(cuCtxCreate_v2(&own, 0, 0));
	make(NULL, 70);
	say("made in another context", CUDA_SUCCESS, 70);
	stop("another context");
	CHECK(cuCtxDestroy_v2(own));
	stop("destroyed");
}

int main(int argc, char **argv)
{
	CUcontext primary;
	CUstream stream;

	holds = argc > 1 && strcmp(argv[1], "hold") == 0;
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
	CHECK(cuCtxSetCurrent(primary));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	check_refused(primary, stream);
	check_destroyed();
	CHECK(cuCtxSetCurrent(primary));
	make(stream, 700);
	say("made once more", CUDA_SUCCESS, 700);
	CHECK(cuDevicePrimaryCtxReset_v2(0));
	stop("reset");
	CHECK(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
