/* SPDX-License-Identifier: MIT */
/*
 * life_threads CASE: threads that come, call and go; prints "ok".
 *
 *   first      a thousand threads make their first call at once: one slot, one helper, right books
 *   cancel     threads are cancelled inside calls: what they held of ours is not held for ever
 *   wait       a thread is cancelled while it waits for the segment's lock, which LIFE_HOLDER holds
 *   slot       a thread is cancelled in an idle slot
 *   room       a thread that is to be cancelled waits for other memory to leave the device
 *   loading    a library that is being loaded, LIFE_LIBRARY, calls the driver while another thread
 *              makes the first call
 *   contexts   a context per task, hundreds of them: all are in the books, and out again
 */
#include "tests/e2e/life.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 1000, BLOCK = 64 << 10, STACK = 128 << 10, CANCELLED = 60, CONTEXTS = 300 };

static CUcontext context;
static CUfunction function;

static pthread_t start_thread(void *(*run)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	EXPECT(pthread_create(&thread, &attributes, run, NULL) == 0);
	pthread_attr_destroy(&attributes);
	return thread;
}

/* --- first --- */

static pthread_barrier_t together;

static void *call_first(void *cookie)
{
	CUdeviceptr kept, freed;

	(void)cookie;
	pthread_barrier_wait(&together);
	begin_cuda();
	CHECK(cuMemAlloc_v2(&kept, BLOCK));
	CHECK(cuMemAlloc_v2(&freed, BLOCK));
	CHECK(cuMemFree_v2(freed));
	return NULL;
}

static int threads_named(const char *name)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int count = 0;

	EXPECT(tasks);
	while ((entry = readdir(tasks))) {
		char path[300], line[64] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(line, sizeof(line), file))
			count += strcspn(line, "\n") == strlen(name) &&
			         strncmp(line, name, strlen(name)) == 0;
		fclose(file);
	}
	closedir(tasks);
	return count;
}

static void first(void)
{
	static pthread_t thread[THREADS];

	EXPECT(pthread_barrier_init(&together, NULL, THREADS) == 0);
	for (int i = 0; i < THREADS; i++)
		thread[i] = start_thread(call_first);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	EXPECT(threads_named("spillway") == 1);
	EXPECT(processes("live") == 1);
	EXPECT(book("allocations") == THREADS);
	/* In slabs of 2 MiB. */
	EVENTUALLY(mib_charged() == ((long long)THREADS * BLOCK + 2 * MIB - 1) / (2 * MIB) * 2);
}

/* --- cancel --- */

static void *call_over_and_over(void *cookie)
{
	(void)cookie;
	CHECK(cuCtxSetCurrent(context));
	for (;;) {
		CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
		CUmemGenericAllocationHandle handle;
		CUevent event;

		CHECK(cuMemFree_v2(take_mib(2)));
		CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
		CHECK(cuMemRelease(handle));
		CHECK(cuEventCreate(&event, 0));
		CHECK(cuEventDestroy_v2(event));
		CHECK(launch(function, NULL));
		pthread_testcancel();
	}
	return NULL;
}

/* All of them end, and only where they may: whatever was begun was ended. */
static void cancel(void)
{
	pthread_t thread[CANCELLED];

	context = begin_cuda();
	function = load_kernel();
	for (int i = 0; i < CANCELLED; i++)
		thread[i] = start_thread(call_over_and_over);
	for (int i = 0; i < CANCELLED; i++) {
		void *result;

		nap_ms(2);
		pthread_cancel(thread[i]);
		pthread_join(thread[i], &result);
		EXPECT(result == PTHREAD_CANCELED);
	}
	EVENTUALLY(mib_charged() == 0);
	EXPECT(book("allocations") == 0);
}

/* --- wait --- */

static CUmemGenericAllocationHandle handle_to_release;

static CUmemGenericAllocationHandle create(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;

	CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	return handle;
}

static void *release_and_wait(void *cookie)
{
	(void)cookie;
	CHECK(cuMemRelease(handle_to_release));
	for (;;)
		pause();
	return NULL;
}

static void wait_for_the_lock(void)
{
	pthread_t thread;
	char word[8] = "";
	FILE *holder;

	begin_cuda();
	handle_to_release = create();
	holder = popen(getenv("LIFE_HOLDER"), "r");
	EXPECT(holder && fgets(word, sizeof(word), holder) && strcmp(word, "held\n") == 0);
	thread = start_thread(release_and_wait);
	nap_ms(50);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	EXPECT(pclose(holder) == 0);
	CHECK(cuMemRelease(create()));
	EVENTUALLY(mib_charged() == 0);
}

/* --- slot --- */

static _Atomic int launches;

static void *launch_over_and_over(void *cookie)
{
	(void)cookie;
	CHECK(cuCtxSetCurrent(context));
	for (;;) {
		CHECK(launch(function, NULL));
		launches++;
		pthread_testcancel();
	}
	return NULL;
}

static void slot(void)
{
	pthread_t thread;

	context = begin_cuda();
	function = load_kernel();
	thread = start_thread(launch_over_and_over);
	EVENTUALLY(book("idle_slots") > 0);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	CHECK(launch(function, NULL));
	EXPECT(book("launches") == launches + 1);
}

/* --- room --- */

static void make_exportable(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .requestedHandleTypes =
	                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;

	CHECK(cuMemCreate(&handle, 8 * MIB, &prop, 0));
}

/* With a cancellation pending it would end at the first wait that is no place to be cancelled. */
static void *make_and_end(void *returned)
{
	CHECK(cuCtxSetCurrent(context));
	pthread_cancel(pthread_self());
	make_exportable();
	*(bool *)returned = true;
	pthread_testcancel();
	return NULL;
}

static void room(void)
{
	bool returned = false;
	pthread_t thread;

	context = begin_cuda();
	take_mib(64); /* the limit */
	EXPECT(pthread_create(&thread, NULL, make_and_end, &returned) == 0);
	pthread_join(thread, NULL);
	EXPECT(returned);
	make_exportable(); /* who makes room is asked once more */
	EXPECT(book("demotions") > 0);
}

/* --- loading --- */

static void *load_library(void *cookie)
{
	EXPECT(dlopen(getenv("LIFE_LIBRARY"), RTLD_NOW));
	return cookie;
}

static void loading(void)
{
	char number[16];
	pthread_t thread;
	int ends[2];

	EXPECT(pipe(ends) == 0);
	snprintf(number, sizeof(number), "%d", ends[0]);
	setenv("LOADING_WAIT", number, 1);
	thread = start_thread(load_library);
	nap_ms(50); /* it is in the loader, and has its lock */
	EXPECT(write(ends[1], "!", 1) == 1);
	begin_cuda();
	pthread_join(thread, NULL);
	take_mib(2);
	EVENTUALLY(mib_charged() == 2);
}

/* --- contexts --- */

static void contexts(void)
{
	static CUcontext made[CONTEXTS];
	CUcontext popped;
	CUdeviceptr block;

	begin_cuda();
	for (int i = 0; i < CONTEXTS; i++) {
		CHECK(cuCtxCreate_v2(&made[i], 0, 0));
		CHECK(cuMemAlloc_v2(&block, BLOCK));
		CHECK(cuCtxPopCurrent_v2(&popped));
	}
	EXPECT(book("allocations") == CONTEXTS);
	for (int i = 0; i < CONTEXTS; i++)
		CHECK(cuCtxDestroy_v2(made[i]));
	EXPECT(book("allocations") == 0);
	EVENTUALLY(mib_charged() == 0);
}

int main(int argc, char **argv)
{
	EXPECT(argc == 2);
	alarm(300);
	if (strcmp(argv[1], "first") == 0)
		first();
	else if (strcmp(argv[1], "cancel") == 0)
		cancel();
	else if (strcmp(argv[1], "wait") == 0)
		wait_for_the_lock();
	else if (strcmp(argv[1], "room") == 0)
		room();
	else if (strcmp(argv[1], "loading") == 0)
		loading();
	else if (strcmp(argv[1], "contexts") == 0)
		contexts();
	else
		slot();
	printf("ok\n");
	return 0;
}
