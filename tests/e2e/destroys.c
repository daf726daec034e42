/* SPDX-License-Identifier: MIT */
/*
 * destroys --ini FILE [OPTIONS]: threads that make contexts, work in them and destroy them while
 * their memory moves. A thread of its own lowers and raises the job's limit in FILE, so that a move
 * is under way most of the time. The first thread releases and resets the primary context.
 *
 *   --threads N   (8)
 *   --ms N        goes on for so long (3000)
 *   --seed N      of its random numbers
 *   --faulty      any answer of the driver will do: calls fail as SOFTGPU_FAIL says
 *
 * Prints "ok contexts=N checked=N bad=0": how many contexts it destroyed, and how often
 * a block was read back right. Any call that fails, and any wrong byte, ends it with status 1.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

enum { THREADS_MAX = 16, BLOCKS = 3, BLOCK = 4 * MIB };

static struct {
	const char *ini;
	int threads, ms;
	unsigned int seed;
	bool is_faulty;
} options = {.threads = 8, .ms = 3000};

static atomic_bool is_over;
static _Atomic unsigned long destroyed, checked;

static CUresult expect(CUresult result, CUresult or, const char *call, int line)
{
	if (result == CUDA_SUCCESS || result == or || options.is_faulty)
		return result;
	fprintf(stderr, "destroys.c:%d: %s: error %d\n", line, call, (int)result);
	_exit(1);
}
#define RUN(call)            expect(call, CUDA_SUCCESS, #call, __LINE__)
#define RUN_OR(result, call) expect(call, result, #call, __LINE__)

static void nap(unsigned int *seed, int most_us)
{
	usleep((useconds_t)(rand_r(seed) % most_us));
}

/* A block is full of the number that it was given, wherever it lies. */
static void check_block(CUdeviceptr block, unsigned int number)
{
	unsigned int word[256];

	for (size_t at = 0; at < BLOCK; at += BLOCK / 4) {
		if (RUN(cuMemcpyDtoH_v2(word, block + at, sizeof word)) != CUDA_SUCCESS)
			return;
		for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
			if (word[i] == number)
				continue;
			fprintf(stderr, "destroys.c: %#x in place of %#x at %zu\n", word[i], number,
			        at + 4 * i);
			_exit(1);
		}
	}
	atomic_fetch_add(&checked, 1);
}

/* Works in the context that is current. */
static void work(unsigned int *seed)
{
	CUdeviceptr block[BLOCKS];
	unsigned int number[BLOCKS];
	int count = 0;

	for (int i = 0; i < BLOCKS; i++) {
		number[i] = (unsigned int)rand_r(seed);
		if (RUN_OR(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&block[count], BLOCK)) !=
		    CUDA_SUCCESS)
			continue;
		number[count] = number[i];
		if (RUN(cuMemsetD32_v2(block[count], number[i], BLOCK / 4)) == CUDA_SUCCESS)
			count++;
	}
	nap(seed, 60000);
	if (count && rand_r(seed) % 2)
		check_block(block[0], number[0]);
	if (count && rand_r(seed) % 3 == 0) {
		RUN(cuMemFree_v2(block[count - 1]));
		count--;
	}
	/* Work that is not done when the context goes. */
	if (count > 1 && rand_r(seed) % 2)
		RUN(cuMemcpyDtoDAsync_v2(block[0], block[1], BLOCK, NULL));
	if (count && rand_r(seed) % 2)
		RUN(cuMemsetD32Async(block[0], 0, BLOCK / 4, NULL));
	nap(seed, 5000);
}

static void *make_and_destroy(void *number)
{
	unsigned int seed = options.seed * 1000 + (unsigned int)(intptr_t)number;
	CUcontext context;

	while (!atomic_load(&is_over)) {
		if (RUN_OR(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate_v2(&context, 0, 0)) !=
		    CUDA_SUCCESS)
			continue;
		work(&seed);
		RUN(cuCtxDestroy_v2(context));
		atomic_fetch_add(&destroyed, 1);
	}
	return NULL;
}

static void *retain_and_release(void *number)
{
	unsigned int seed = options.seed * 1000 + (unsigned int)(intptr_t)number;
	CUcontext context;

	while (!atomic_load(&is_over)) {
		if (RUN_OR(CUDA_ERROR_OUT_OF_MEMORY, cuDevicePrimaryCtxRetain(&context, 0)) !=
		    CUDA_SUCCESS)
			continue;
		if (RUN(cuCtxSetCurrent(context)) == CUDA_SUCCESS)
			work(&seed);
		cuCtxSetCurrent(NULL);
		if (rand_r(&seed) % 2)
			RUN(cuDevicePrimaryCtxReset_v2(0));
		RUN(cuDevicePrimaryCtxRelease_v2(0));
		atomic_fetch_add(&destroyed, 1);
	}
	return NULL;
}

static void set_limit(int mib)
{
	char fresh[512];
	FILE *out;

	snprintf(fresh, sizeof fresh, "%s.next", options.ini);
	out = fopen(fresh, "w");
	fprintf(out, "[gpu]\nmemory = %dMiB\ndemote_deadline = 1ms\n", mib);
	fclose(out);
	rename(fresh, options.ini);
	elastic_ring();
}

static void *move(void *unused)
{
	unsigned int seed = options.seed;

	for (bool is_low = true; !atomic_load(&is_over); is_low = !is_low) {
		set_limit(is_low ? 8 + rand_r(&seed) % 32 : 256);
		usleep(100000);
		nap(&seed, 200000);
	}
	return unused;
}

static void parse(int argc, char **argv)
{
	static const struct option long_options[] = {
	    {"ini", required_argument, NULL, 'i'}, {"threads", required_argument, NULL, 't'},
	    {"ms", required_argument, NULL, 'm'},  {"seed", required_argument, NULL, 's'},
	    {"faulty", no_argument, NULL, 'f'},    {NULL, 0, NULL, 0}};

	for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		switch (c) {
		case 'i':
			options.ini = optarg;
			break;
		case 't':
			options.threads = atoi(optarg);
			break;
		case 'm':
			options.ms = atoi(optarg);
			break;
		case 's':
			options.seed = (unsigned int)atoi(optarg);
			break;
		case 'f':
			options.is_faulty = true;
			break;
		default:
			exit(2);
		}
	}
	if (!options.ini || options.threads > THREADS_MAX)
		exit(2);
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX], mover;

	parse(argc, argv);
	CHECK(cuInit(0));
	pthread_create(&mover, NULL, move, NULL);
	for (int i = 0; i < options.threads; i++)
		pthread_create(&thread[i], NULL, i ? make_and_destroy : retain_and_release,
		               (void *)(intptr_t)i);
	usleep((useconds_t)options.ms * 1000);
	atomic_store(&is_over, true);
	for (int i = 0; i < options.threads; i++)
		pthread_join(thread[i], NULL);
	pthread_join(mover, NULL);
	printf("ok contexts=%lu checked=%lu bad=0\n", atomic_load(&destroyed),
	       atomic_load(&checked));
	return 0;
}
