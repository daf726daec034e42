/* SPDX-License-Identifier: MIT */
/*
 * pools: memory of pools in stream order. Each line has a query and its answer, the same on any
 * driver. With "churn" as argument four threads have and give back memory of a pool. With "moves"
 * it fills memory of a pool, looks at it for each byte of input, and says whether it stayed right.
 * With "peer" a second device uses it. With "managed" the CPU and the device use managed memory of
 * two pools in turns. The program waits for input before the memory is freed, before its stream is
 * there, and after.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

enum { SIZE = 6 * MIB, SMALL = 40 << 10 };

static CUdevice device;
static CUcontext context;
static CUstream one, two;
static CUmemoryPool own;

static void say(const char *what, long long answer)
{
	printf("%s: %lld\n", what, answer);
}

/* --- a stream that waits for this program --- */

static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static void hold(CUstream stream, sem_t *semaphore)
{
	sem_init(semaphore, 0, 0);
	CHECK(cuLaunchHostFunc(stream, wait_for, semaphore));
}

static unsigned long long attribute(CUmemPool_attribute attribute)
{
	cuuint64_t value = 0;

	CHECK(cuMemPoolGetAttribute(own, attribute, &value));
	return value;
}

static void say_use(const char *when)
{
	printf("%s: used %llu, at most %llu; reserved as much: %d, at most as much: %d\n", when,
	       attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
	       attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH),
	       attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >=
	           attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
	       attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >=
	           attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
}

static CUdeviceptr from_own(size_t size, CUstream stream)
{
	CUdeviceptr p;

	CHECK(cuMemAllocFromPoolAsync(&p, size, own, stream));
	return p;
}

static void keep(unsigned long long bytes)
{
	cuuint64_t threshold = bytes;

	CHECK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

/* --- what belongs to whom --- */

static void ask_pointer(void)
{
	CUdeviceptr p = from_own(SIZE, one), q, start = 0;
	CUmemoryPool of = NULL, current;
	CUcontext no_context = NULL;
	unsigned int type = 0;
	size_t size = 0;

	CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	say("a pointer's pool is its own", of == own);
	say("its context",
	    cuPointerGetAttribute(&no_context, CU_POINTER_ATTRIBUTE_CONTEXT, p + SIZE / 2));
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	say("its type", type);
	CHECK(cuMemGetAddressRange_v2(&start, &size, p + SIZE - 1));
	say("its range", start == p && size == SIZE);
	CHECK(cuMemAllocAsync(&q, SMALL, one));
	CHECK(cuDeviceGetMemPool(&current, device));
	CHECK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
	say("without a name it is of the current pool", of == current);
	CHECK(cuMemFreeAsync(p, one));
	say("freed, its range", cuMemGetAddressRange_v2(&start, &size, p));
	say("freed, again", cuMemFreeAsync(p, one));
	CHECK(cuMemFreeAsync(q, one));
	CHECK(cuStreamSynchronize(one));
}

static void ask_use(void)
{
	CUdeviceptr p, q;
	cuuint64_t reset = 0;

	say_use("at first");
	p = from_own(SIZE, one);
	q = from_own(3 * SMALL, one);
	say_use("two");
	CHECK(cuMemFreeAsync(p, one));
	say_use("one freed");
	CHECK(cuStreamSynchronize(one));
	CHECK(cuMemFree_v2(q));
	CHECK(cuStreamSynchronize(one));
	say_use("both freed");
	say("and given back", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	CHECK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &reset));
	CHECK(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reset));
	say_use("the marks set back");

	keep(UINT64_MAX);
	say("the threshold", attribute(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == UINT64_MAX);
	p = from_own(SIZE, one);
	CHECK(cuMemFreeAsync(p, one));
	CHECK(cuStreamSynchronize(one));
	say_use("freed and kept");
	say("kept", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= SIZE);
	q = from_own(SIZE, two);
	say("and used again", p == q);
	CHECK(cuMemPoolTrimTo(own, 0));
	say("what is in use stays", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= SIZE);
	CHECK(cuMemsetD8Async(q, 1, SIZE, two));
	CHECK(cuMemFreeAsync(q, two));
	CHECK(cuStreamSynchronize(two));
	CHECK(cuMemPoolTrimTo(own, SIZE));
	say("trimmed to what it has", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= SIZE);
	CHECK(cuMemPoolTrimTo(own, 0));
	say("trimmed", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/* --- the order of streams --- */

static void ask_order(size_t size)
{
	CUdeviceptr p, q, r;
	CUevent behind;
	sem_t semaphore;

	keep(UINT64_MAX);
	CHECK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
	p = from_own(size, one);
	CHECK(cuStreamSynchronize(one));
	hold(one, &semaphore);
	CHECK(cuMemsetD8Async(p, 7, size, one));
	CHECK(cuMemFreeAsync(p, one));
	CHECK(cuEventRecord(behind, one));
	say("a free does not wait", cuEventQuery(behind));
	q = from_own(size, two);
	say("another stream has other memory", q != p);
	r = from_own(size, one);
	say("the same stream has it again", r == p);
	/* What the other stream writes at once, the first one's fill does not reach. */
	CHECK(cuMemsetD8Async(q, 9, size, two));
	CHECK(cuStreamSynchronize(two));
	sem_post(&semaphore);
	CHECK(cuStreamSynchronize(one));
	CHECK(cuMemFreeAsync(r, one));
	CHECK(cuMemFreeAsync(q, two));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemPoolTrimTo(own, 0));
	CHECK(cuEventDestroy_v2(behind));
}

/* Another stream gets its name, perhaps, and not its memory. */
static void ask_streams_that_go(void)
{
	CUdeviceptr p, q;
	CUstream gone, next;
	sem_t semaphore;

	keep(0);
	CHECK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
	p = from_own(SIZE, gone);
	hold(gone, &semaphore);
	CHECK(cuMemsetD8Async(p, 7, SIZE, gone));
	CHECK(cuMemFreeAsync(p, gone));
	CHECK(cuStreamDestroy_v2(gone));
	CHECK(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
	q = from_own(SIZE, next);
	say("a new stream has other memory", q != p);
	sem_post(&semaphore);
	CHECK(cuMemFreeAsync(q, next));
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamDestroy_v2(next));
	say("all of it is given back", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/* Default streams of threads have one name and are not one stream. */
static void *in_another_thread(void *cookie)
{
	CUdeviceptr *q = cookie;

	CHECK(cuCtxSetCurrent(context));
	*q = from_own(SIZE, CU_STREAM_PER_THREAD);
	CHECK(cuMemFreeAsync(*q, CU_STREAM_PER_THREAD));
	CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

static void ask_threads(void)
{
	CUdeviceptr p = from_own(SIZE, CU_STREAM_PER_THREAD), q;
	sem_t semaphore;
	pthread_t thread;

	hold(CU_STREAM_PER_THREAD, &semaphore);
	CHECK(cuMemFreeAsync(p, CU_STREAM_PER_THREAD));
	if (pthread_create(&thread, NULL, in_another_thread, &q) != 0)
		exit(1);
	pthread_join(thread, NULL);
	say("another thread has other memory", q != p);
	sem_post(&semaphore);
	CHECK(cuCtxSynchronize());
	say("all of it is given back", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/* The memory is the pool's, not the context's in whose stream it was freed. */
static void ask_contexts(void)
{
	CUcontext other;
	CUstream stream;
	CUdeviceptr p;

	CHECK(cuCtxCreate_v2(&other, 0, device));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 4; i++) {
		p = from_own(SIZE, stream);
		CHECK(cuMemsetD8Async(p, 7, SIZE, stream));
		CHECK(cuMemFreeAsync(p, stream));
	}
	p = from_own(SIZE, stream);
	CHECK(cuMemFreeAsync(p, stream));
	CHECK(cuCtxDestroy_v2(other));
	CHECK(cuCtxSetCurrent(context));
	p = from_own(SIZE, one);
	CHECK(cuMemsetD8Async(p, 7, SIZE, one));
	CHECK(cuMemFreeAsync(p, one));
	CHECK(cuCtxSynchronize());
	say("all of it is given back", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/* --- captures --- */

static void ask_capture(void)
{
	CUdeviceptr p = from_own(SIZE, one), q, captured;
	CUgraphExec launchable;
	CUgraph graph = NULL;

	CHECK(cuCtxSynchronize());
	CHECK(cuStreamBeginCapture_v2(two, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemAllocAsync(&captured, SIZE, two));
	CHECK(cuMemsetD8Async(captured, 3, SIZE, two));
	CHECK(cuMemFreeAsync(captured, two));
	CHECK(cuMemFreeAsync(p, one));
	q = from_own(SIZE, one);
	CHECK(cuMemFreeAsync(q, one));
	say("a capture beside frees", cuStreamEndCapture(two, &graph));
	CHECK(cuGraphInstantiateWithFlags(&launchable, graph, 0));
	CHECK(cuGraphLaunch(launchable, two));
	CHECK(cuGraphLaunch(launchable, two));
	CHECK(cuCtxSynchronize());
	CHECK(cuGraphExecDestroy(launchable));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuDeviceGraphMemTrim(device));
	CHECK(cuCtxSynchronize());
	say("all of it is given back", attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
}

/* --- what becomes of it --- */

static void ask_destroyed(void)
{
	CUdeviceptr p = from_own(SIZE, one), q = from_own(SMALL, one);

	keep(UINT64_MAX);
	CHECK(cuMemFreeAsync(q, one));
	CHECK(cuMemPoolDestroy(own));
	CHECK(cuMemsetD8Async(p, 1, SIZE, one));
	CHECK(cuMemFreeAsync(p, one));
	say("memory outlives its pool", cuStreamSynchronize(one));
}

/*
 * Many sizes and streams: each piece holds what was put there until it is freed, and the next has
 * its own.
 */
static long churn(unsigned int seed)
{
	enum { LIVE = 24, ROUNDS = 600 };
	struct {
		CUdeviceptr p;
		size_t words;
		uint32_t value;
		CUstream stream;
	} live[LIVE] = {{0}};
	const CUstream streams[] = {one, two, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
	long wrong = 0;

	for (int round = 0; round < ROUNDS; round++) {
		int i = rand_r(&seed) % LIVE;

		if (live[i].p) {
			uint32_t first = 0, last = 0;

			CHECK(cuMemcpyDtoHAsync_v2(&first, live[i].p, 4, live[i].stream));
			CHECK(cuMemcpyDtoHAsync_v2(&last, live[i].p + 4 * (live[i].words - 1), 4,
			                           live[i].stream));
			CHECK(cuMemFreeAsync(live[i].p, live[i].stream));
			CHECK(cuStreamSynchronize(live[i].stream));
			wrong += first != live[i].value || last != live[i].value;
			live[i].p = 0;
			continue;
		}
		live[i].words = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 2 ? 9000 : MIB);
		live[i].value = (uint32_t)round;
		live[i].stream = streams[rand_r(&seed) % 4];
		CHECK(cuMemAllocAsync(&live[i].p, 4 * live[i].words, live[i].stream));
		CHECK(cuMemsetD32Async(live[i].p, live[i].value, live[i].words, live[i].stream));
		if (rand_r(&seed) % 4 == 0) { /* and away with it, unseen */
			CHECK(cuMemFreeAsync(live[i].p, live[i].stream));
			live[i].p = 0;
		}
	}
	for (int i = 0; i < LIVE; i++) {
		if (live[i].p)
			CHECK(cuMemFreeAsync(live[i].p, live[i].stream));
	}
	CHECK(cuCtxSynchronize());
	return wrong;
}

/* --- while its memory moves --- */

static bool has_input(void)
{
	char c;

	return read(STDIN_FILENO, &c, 1) > 0;
}

static void fill_and_look(void)
{
	enum { PIECES = 8 };
	CUdeviceptr p[PIECES];
	static uint32_t words[SIZE / 4];
	long wrong = 0;

	for (int i = 0; i < PIECES; i++) {
		CHECK(cuMemAllocAsync(&p[i], SIZE, one));
		CHECK(cuMemsetD32Async(p[i], (unsigned int)i, SIZE / 4, one));
	}
	CHECK(cuStreamSynchronize(one));
	printf("filled\n");
	while (has_input()) {
		for (int i = 0; i < PIECES; i++) {
			CHECK(cuMemcpyDtoHAsync_v2(words, p[i], SIZE, one));
			CHECK(cuStreamSynchronize(one));
			for (size_t w = 0; w < SIZE / 4; w++)
				wrong += words[w] != (uint32_t)i;
		}
		printf("looked\n");
	}
	for (int i = 0; i < PIECES; i++)
		CHECK(cuMemFreeAsync(p[i], one));
	CHECK(cuStreamSynchronize(one));
	say("wrong words", wrong);
}

/*
 * Another device that has rights to a pool reaches what it gives out, whether it was given out
 * before or after.
 */
static void ask_peer(void)
{
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct elastic peer = {0};
	CUmodule module;
	CUdeviceptr before = from_own(SIZE, one), after;
	uint32_t words[2] = {0};

	CHECK(cuDeviceGet(&peer.device, 1));
	access.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer.device};
	CHECK(cuMemPoolSetAccess(own, &access, 1));
	after = from_own(SIZE, one);
	CHECK(cuMemsetD32Async(before, 1, SIZE / 4, one));
	CHECK(cuMemsetD32Async(after, 2, SIZE / 4, one));
	CHECK(cuStreamSynchronize(one));
	CHECK(cuDevicePrimaryCtxRetain(&peer.context, peer.device));
	CHECK(cuCtxSetCurrent(peer.context));
	CHECK(cuModuleLoadData(&module, elastic_kernels));
	CHECK(cuModuleGetFunction(&peer.mix, module, "mix"));
	CHECK(elastic_mix(&peer, before, after, SIZE, 0, NULL));
	CHECK(elastic_mix(&peer, after, before, SIZE, 0, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemcpyDtoH_v2(&words[0], before, 4));
	CHECK(cuMemcpyDtoH_v2(&words[1], after, 4));
	say("a peer wrote there", words[0]);
	say("and there", words[1]);
	CHECK(cuMemFreeAsync(before, one));
	CHECK(cuMemFreeAsync(after, one));
	CHECK(cuStreamSynchronize(one));
}

static void *churn_on(void *cookie)
{
	unsigned int seed = (unsigned int)(uintptr_t)cookie;

	CHECK(cuCtxSetCurrent(context));
	return (void *)(uintptr_t)churn(seed);
}

static void churn_in_threads(void)
{
	enum { THREADS = 4 };
	pthread_t thread[THREADS];
	long wrong = 0;

	for (uintptr_t i = 0; i < THREADS; i++) {
		if (pthread_create(&thread[i], NULL, churn_on, (void *)(i + 1)) != 0)
			exit(1);
	}
	for (int i = 0; i < THREADS; i++) {
		void *answer;

		pthread_join(thread[i], &answer);
		wrong += (long)(uintptr_t)answer;
	}
	say("wrong words", wrong);
}

/* --- managed memory --- */

/* Does on the CPU as elastic_mix() does. */
static void mix_here(uint32_t *to, const uint32_t *from, size_t bytes, uint32_t salt)
{
	size_t words = bytes / 4, stride = words / 4096 + 1;

	for (size_t i = salt % stride; i < words; i += stride)
		to[i] = to[i] * 1664525 + from[i] + salt;
}

static void use_managed(const struct elastic *elastic)
{
	static const CUmemLocationType places[] = {CU_MEM_LOCATION_TYPE_NONE,
	                                           CU_MEM_LOCATION_TYPE_DEVICE};
	enum { BYTES = 12 * MIB };
	uint32_t *model[2] = {malloc(BYTES), malloc(BYTES)};
	CUmemoryPool pool[2];
	CUdeviceptr memory[2];
	uint64_t state = 1;
	sem_t semaphore;
	long wrong = 0;

	for (int i = 0; i < 2; i++) {
		const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		                                   .location = {.type = places[i], .id = 0}};

		CHECK(cuMemPoolCreate(&pool[i], &properties));
		CHECK(cuMemAllocFromPoolAsync(&memory[i], BYTES, pool[i], one));
		for (size_t k = 0; k < BYTES / 4; k++)
			model[i][k] = (uint32_t)elastic_random(&state);
	}
	CHECK(cuStreamSynchronize(one));
	for (int i = 0; i < 2; i++)
		memcpy((void *)(uintptr_t)memory[i], model[i], BYTES);
	for (int round = 0; round < 12; round++) {
		uint32_t salt = (uint32_t)elastic_random(&state);
		int to = round % 2;

		CHECK(elastic_mix(elastic, memory[to], memory[1 - to], BYTES, salt, one));
		mix_here(model[to], model[1 - to], BYTES, salt);
	}
	CHECK(cuStreamSynchronize(one));
	for (int i = 0; i < 2; i++)
		wrong += memcmp((void *)(uintptr_t)memory[i], model[i], BYTES) != 0;
	say("wrong buffers", wrong);
	getchar();
	hold(one, &semaphore);
	for (int i = 0; i < 2; i++) {
		CHECK(cuMemFreeAsync(memory[i], one));
		say("freed again", cuMemFreeAsync(memory[i], one));
		CHECK(cuMemPoolDestroy(pool[i]));
		free(model[i]);
	}
	puts("to be freed");
	getchar();
	sem_post(&semaphore);
	CHECK(cuStreamSynchronize(one));
	CHECK(cuCtxSynchronize()); /* the books follow with the calls of the program */
	CHECK(cuCtxSynchronize());
	puts("freed");
	getchar();
}

static void post(void *semaphore)
{
	sem_post(semaphore);
}

/*
 * Managed memory at an address that the driver has freed in the order of a stream, before the
 * program waits for that stream.
 */
static void ask_managed_again(void)
{
	const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
	                                   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;
	sem_t semaphore;
	int failed = 0;

	CHECK(cuMemPoolCreate(&pool, &properties));
	sem_init(&semaphore, 0, 0);
	for (int i = 0; i < 8; i++) {
		CUdeviceptr memory, again, base;
		unsigned int is_managed = 0;
		size_t size;

		CHECK(cuMemAllocFromPoolAsync(&memory, SIZE, pool, one));
		CHECK(cuMemFreeAsync(memory, one));
		CHECK(cuLaunchHostFunc(one, post, &semaphore));
		wait_for(&semaphore);
		CHECK(cuMemAllocManaged(&again, SIZE, CU_MEM_ATTACH_GLOBAL));
		failed += cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		                                again) != CUDA_SUCCESS ||
		          !is_managed;
		failed += cuMemGetAddressRange_v2(&base, &size, again) != CUDA_SUCCESS;
		failed += cuMemFree_v2(again) != CUDA_SUCCESS;
	}
	CHECK(cuMemPoolDestroy(pool));
	say("managed memory that is not known", failed);
}

int main(int argc, char **argv)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

	setvbuf(stdout, NULL, _IOLBF, 0);
	const struct elastic elastic = elastic_start();
	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuCtxGetDevice(&device));
	CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
	if (argc > 1 && strcmp(argv[1], "moves") == 0) {
		fill_and_look();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "churn") == 0) {
		churn_in_threads();
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "managed") == 0) {
		use_managed(&elastic);
		return 0;
	}
	properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CHECK(cuMemPoolCreate(&own, &properties));
	if (argc > 1 && strcmp(argv[1], "peer") == 0) {
		ask_peer();
		return 0;
	}
	ask_pointer();
	ask_use();
	ask_order(SIZE);
	ask_order(SMALL);
	ask_streams_that_go();
	ask_threads();
	ask_contexts();
	ask_capture();
	say("wrong words", churn(5));
	ask_destroyed();
	ask_managed_again();
	return 0;
}
