/* SPDX-License-Identifier: MIT */
/*
 * ipc CASE: one process gives memory to another by cuIpcGetMemHandle, as programs do that know
 * nothing of Spillway. The child, forked before either touches the driver, gives; the parent opens.
 *
 *   give FILE      writes a handle there and waits to be killed
 *   open FILE      prints what opening it answers
 *   give_small FIRST SECOND   the same of two small ones, one after the other
 *   open_small FILE           as open; its bytes are right
 */
#define __CUDA_API_VERSION_INTERNAL
#include <time.h>
#include <cuda.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

static int peer; /* a socket to the other process, with messages */
static pid_t other;
static CUcontext context;

static void expect(CUresult expected, CUresult got, const char *call, int line)
{
	if (expected == got)
		return;
	fprintf(stderr, "%s:%d: pid %d: %s: expected %d, got %d\n", __FILE__, line, (int)getpid(),
	        call, (int)expected, (int)got);
	_exit(1);
}
#define EXPECT(expected, call) expect(expected, call, #call, __LINE__)
#define OK(call)               EXPECT(CUDA_SUCCESS, call)

static void check(bool right, const char *what, int line)
{
	if (right)
		return;
	fprintf(stderr, "%s:%d: pid %d: %s\n", __FILE__, line, (int)getpid(), what);
	_exit(1);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

/* --- two processes --- */

static void put(const void *data, size_t size)
{
	CHECK(send(peer, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static void get(void *data, size_t size)
{
	CHECK(recv(peer, data, size, 0) == (ssize_t)size);
}

static void tell(void)
{
	put("x", 1);
}

static void await(void)
{
	char byte;

	get(&byte, 1);
}

static void start_cuda(int device)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
}

static void become_two(void (*child)(void))
{
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	other = fork();
	CHECK(other >= 0);
	peer = ends[other == 0];
	close(ends[other != 0]);
	if (other != 0)
		return;
	alarm(300);
	child();
	exit(0);
}

static void end_other(void)
{
	int status;

	CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && !WEXITSTATUS(status));
}

static void kill_other(void)
{
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

/* --- memory with words that say where they are --- */

static uint32_t *pattern(size_t size, uint32_t seed)
{
	uint32_t *words = malloc(size);

	CHECK(words != NULL);
	for (size_t i = 0; i < size / 4; i++)
		words[i] = (uint32_t)i * 2654435761u + seed;
	return words;
}

static void fill(CUdeviceptr address, size_t size, uint32_t seed)
{
	uint32_t *words = pattern(size, seed);

	OK(cuMemcpyHtoD_v2(address, words, size));
	free(words);
}

static bool has_pattern(CUdeviceptr address, size_t size, uint32_t seed)
{
	uint32_t *words = pattern(size, seed), *found = malloc(size);
	bool same;

	CHECK(found != NULL);
	OK(cuMemcpyDtoH_v2(found, address, size));
	same = memcmp(words, found, size) == 0;
	free(words);
	free(found);
	return same;
}

static void give(CUdeviceptr address)
{
	CUipcMemHandle handle;

	OK(cuIpcGetMemHandle(&handle, address));
	put(&handle, sizeof(handle));
}

static CUdeviceptr open_next(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	get(&handle, sizeof(handle));
	OK(cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	return address;
}

/*
 * Counts those that are neither the software GPU's, which keeps one for what it has imported, nor
 * of other processes' peer records, which come and go with them.
 */
static unsigned int descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	for (struct dirent *entry; (entry = readdir(directory));) {
		char target[PATH_MAX] = "";

		if (readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1) > 0)
			count += !strstr(target, "softgpu") && !strstr(target, "/card-");
	}
	closedir(directory);
	return count;
}

/*
 * Counts the descriptors that stay: other threads of the process may have a file open for a moment.
 */
static unsigned int lasting_descriptors(void)
{
	unsigned int least;

	least = descriptors();

	for (int looks = 0; looks < 20; looks++) {
		unsigned int now = descriptors();

		least = now < least ? now : least;
		usleep(5000);
	}
	return least;
}

/* Returns whether no more than `wanted` are left, waiting for them to go. */
static bool descriptors_become(unsigned int wanted)
{
	for (int tries = 0; descriptors() > wanted; tries++) {
		if (tries == 6000)
			return false;
		usleep(10000);
	}
	return true;
}

static size_t memory_left(void)
{
	size_t left, total;

	OK(cuMemGetInfo_v2(&left, &total));
	return left;
}

/* --- plain --- */

static void give_plainly(void)
{
	CUdeviceptr large, small, second, own;
	CUipcMemHandle handle, again;

	start_cuda(0);
	OK(cuMemAlloc_v2(&large, 50 * MIB + 4));
	OK(cuMemAlloc_v2(&small, 1000));
	OK(cuMemAlloc_v2(&second, 1000));
	fill(large, 50 * MIB + 4, 1);
	fill(small, 1000, 2);
	fill(second, 1000, 3);
	OK(cuIpcGetMemHandle(&handle, large));
	OK(cuIpcGetMemHandle(&again, large));
	CHECK(memcmp(&handle, &again, sizeof(handle)) == 0);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&own, handle, LAZY));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(NULL, large));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&again, 4096));
	put(&handle, sizeof(handle));
	give(small);
	give(second);
	await(); /* the other has written */
	CHECK(has_pattern(large, 50 * MIB + 4, 4));
	CHECK(has_pattern(small, 1000, 5));
	CHECK(has_pattern(second, 1000, 3));
	OK(cuMemFree_v2(large));
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(second));
	tell();
	await();
}

static void expect_told(CUdeviceptr address, CUdeviceptr base, size_t size)
{
	unsigned int type = 0;
	CUcontext told = NULL;
	CUdeviceptr start = 0;
	size_t length = 0;
	int ordinal = -1;

	OK(cuMemGetAddressRange_v2(&start, &length, address));
	CHECK(start == base && length == size);
	start = length = 0;
	OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
	OK(cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	OK(cuPointerGetAttribute(&told, CU_POINTER_ATTRIBUTE_CONTEXT, address));
	CHECK(start == base && length == size && type == CU_MEMORYTYPE_DEVICE && ordinal == 0 &&
	      told == context);
}

static void plain(void)
{
	CUipcMemHandle handle;
	CUdeviceptr large, small, second, again;
	unsigned int open_before;
	size_t left, size;

	become_two(give_plainly);
	get(&handle, sizeof(handle));
	start_cuda(0);
	OK(cuCtxSetCurrent(NULL));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&large, handle, LAZY));
	OK(cuCtxSetCurrent(context));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&large, handle, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(NULL, handle, LAZY));
	OK(cuIpcOpenMemHandle_v2(&large, handle, LAZY));
	OK(cuIpcCloseMemHandle(large));
	/* From here on nothing is left behind, and its owner is charged for it. */
	open_before = lasting_descriptors();
	left = memory_left();
	OK(cuIpcOpenMemHandle(&large, handle, LAZY));
	OK(cuIpcOpenMemHandle_v2(&again, handle, LAZY));
	CHECK(again == large);
	small = open_next();
	second = open_next();
	CHECK(memory_left() == left);
	expect_told(large, large, 50 * MIB + 4);
	expect_told(large + 33 * MIB, large, 50 * MIB + 4);
	expect_told(small + 999, small, 1000);
	CHECK(has_pattern(large, 50 * MIB + 4, 1));
	CHECK(has_pattern(small, 1000, 2));
	CHECK(has_pattern(second, 1000, 3));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(large));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, large));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(large + 4));
	fill(large, 50 * MIB + 4, 4);
	fill(small, 1000, 5);
	tell();
	await(); /* the other has freed it all */
	CHECK(has_pattern(large, 50 * MIB + 4, 4));
	OK(cuIpcCloseMemHandle(large));
	CHECK(has_pattern(large, 50 * MIB + 4, 4)); /* it was opened twice */
	OK(cuIpcCloseMemHandle(large));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(large));
	CHECK(cuMemGetAddressRange_v2(&again, &size, large) != CUDA_SUCCESS);
	OK(cuIpcCloseMemHandle(small));
	OK(cuIpcCloseMemHandle(second));
	CHECK(descriptors_become(open_before));
	tell();
	end_other();
}

/* --- freed, killed --- */

static void give_and_free(void)
{
	CUdeviceptr first, second, third;

	start_cuda(0);
	OK(cuMemAlloc_v2(&first, 20 * MIB));
	OK(cuMemAlloc_v2(&second, 20 * MIB));
	fill(first, 20 * MIB, 1);
	give(first);
	give(second);
	await(); /* the other has opened the first */
	OK(cuMemFree_v2(first));
	OK(cuMemFree_v2(second));
	/* Where they were, others are. */
	OK(cuMemAlloc_v2(&third, 20 * MIB));
	fill(third, 20 * MIB, 9);
	OK(cuMemAlloc_v2(&second, 20 * MIB));
	fill(second, 20 * MIB, 9);
	give(third);
	tell();
	await();
}

static void freed(void)
{
	CUipcMemHandle first, second, third;
	CUdeviceptr address, again;

	become_two(give_and_free);
	start_cuda(0);
	get(&first, sizeof(first));
	get(&second, sizeof(second));
	OK(cuIpcOpenMemHandle_v2(&address, first, LAZY));
	tell();
	get(&third, sizeof(third));
	await();
	CHECK(has_pattern(address, 20 * MIB, 1));
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&again, second, LAZY));
	OK(cuIpcOpenMemHandle_v2(&again, third, LAZY));
	CHECK(again != address && has_pattern(again, 20 * MIB, 9));
	OK(cuIpcCloseMemHandle(again));
	OK(cuIpcCloseMemHandle(address));
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&again, first, LAZY));
	tell();
	end_other();
}

/* --- blocks of one slab --- */

enum { BLOCK = 1000, BLOCKS = 3 * (2 << 20) / 1024 };

static void give_blocks(void)
{
	static CUdeviceptr block[BLOCKS];
	CUdeviceptr first, second, last;

	start_cuda(0);
	OK(cuMemAlloc_v2(&first, BLOCK));
	OK(cuMemAlloc_v2(&second, BLOCK));
	OK(cuMemAlloc_v2(&last, BLOCK));
	fill(first, BLOCK, 1);
	fill(second, BLOCK, 2);
	give(first);
	give(second);
	await(); /* the other has opened both */
	OK(cuMemFree_v2(first));
	for (int i = 0; i < BLOCKS; i++) {
		OK(cuMemAlloc_v2(&block[i], BLOCK));
		fill(block[i], BLOCK, 9);
	}
	tell();
	await();
	OK(cuMemFree_v2(second));
	OK(cuMemFree_v2(last));
	for (int i = 0; i < BLOCKS; i++)
		OK(cuMemFree_v2(block[i]));
	for (int i = 0; i < BLOCKS; i++) {
		OK(cuMemAlloc_v2(&block[i], BLOCK));
		fill(block[i], BLOCK, 9);
	}
	tell();
	await();
}

static void blocks(void)
{
	CUdeviceptr first, second;

	become_two(give_blocks);
	start_cuda(0);
	first = open_next();
	second = open_next();
	tell();
	await(); /* the first is freed, its like are made */
	CHECK(has_pattern(first, BLOCK, 1));
	CHECK(has_pattern(second, BLOCK, 2));
	fill(first, BLOCK, 3);
	tell();
	await(); /* all of the slab is freed */
	CHECK(has_pattern(first, BLOCK, 3));
	CHECK(has_pattern(second, BLOCK, 2));
	OK(cuIpcCloseMemHandle(first));
	OK(cuIpcCloseMemHandle(second));
	tell();
	end_other();
}

/* --- blocks of a slab of the driver's memory --- */

enum { SHARED = 3, LATER = 4 };

static void give_in_slab(void)
{
	CUdeviceptr block[SHARED], later[LATER];

	start_cuda(0);
	for (uint32_t i = 0; i < SHARED; i++) {
		OK(cuMemAlloc_v2(&block[i], BLOCK));
		fill(block[i], BLOCK, i);
	}
	for (int i = 0; i < SHARED; i++) {
		CHECK(block[i] >> 21 == block[0] >> 21);
		give(block[i]);
	}
	await(); /* the other has opened and written them */
	for (uint32_t i = 0; i < SHARED; i++) {
		CHECK(has_pattern(block[i], BLOCK, i + 10));
		OK(cuMemFree_v2(block[i]));
	}
	for (int i = 0; i < LATER; i++) {
		OK(cuMemAlloc_v2(&later[i], BLOCK));
		fill(later[i], BLOCK, 9);
	}
	tell();
	give(later[0]); /* by the driver's own handle */
	await();
}

static void in_slab(void)
{
	CUdeviceptr block[SHARED], later;
	size_t left = 0;

	become_two(give_in_slab);
	start_cuda(0);
	for (uint32_t i = 0; i < SHARED; i++) {
		block[i] = open_next();
		left = i ? left : memory_left();
		expect_told(block[i] + 999, block[i], BLOCK);
		CHECK(has_pattern(block[i], BLOCK, i));
		fill(block[i], BLOCK, i + 10);
	}
	CHECK(memory_left() == left); /* the job has it already */
	tell();
	await(); /* all of them are freed, and their like are made */
	for (uint32_t i = 0; i < SHARED; i++) {
		CHECK(has_pattern(block[i], BLOCK, i + 10));
		OK(cuIpcCloseMemHandle(block[i]));
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(block[i]));
	}
	later = open_next();
	CHECK(has_pattern(later, BLOCK, 9));
	OK(cuIpcCloseMemHandle(later));
	tell();
	end_other();
}

static void give_and_hang(void)
{
	CUdeviceptr memory, unopened;

	start_cuda(0);
	OK(cuMemAlloc_v2(&memory, 20 * MIB));
	OK(cuMemAlloc_v2(&unopened, 20 * MIB));
	fill(memory, 20 * MIB, 1);
	give(memory);
	give(unopened);
	for (;;)
		pause();
}

static void killed(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address, never;

	become_two(give_and_hang);
	start_cuda(0);
	address = open_next();
	get(&handle, sizeof(handle));
	kill_other();
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&never, handle, LAZY));
	CHECK(has_pattern(address, 20 * MIB, 1));
	OK(cuIpcCloseMemHandle(address));
}

static bool is_stopped(const char *task)
{
	char path[64], text[256];
	const char *state;
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)other, task);
	file = fopen(path, "r");
	if (!file)
		return true; /* it ended */
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = '\0';
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'T';
}

/* Each thread stops by itself, some time after the signal was sent. */
static void stop_other(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	bool stopped = false;
	char path[32];

	kill(other, SIGSTOP);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)other);
	for (int i = 0; i < 5000 && !stopped; i++) {
		DIR *tasks = opendir(path);
		const struct dirent *task;

		CHECK(tasks != NULL);
		stopped = true;
		while ((task = readdir(tasks)) != NULL)
			stopped &= task->d_name[0] == '.' || is_stopped(task->d_name);
		closedir(tasks);
		nanosleep(&moment, NULL);
	}
	CHECK(stopped);
}

/* Stopped, it cannot answer; killed while it is asked, it can no more. */
static void silent(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	become_two(give_and_hang);
	start_cuda(0);
	get(&handle, sizeof(handle));
	stop_other();
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	kill(other, SIGCONT);
	OK(cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	CHECK(has_pattern(address, 20 * MIB, 1));
	kill_other();
}

/* --- beyond the limit, of 64 MiB --- */

static void give_what_was_demoted(void)
{
	CUdeviceptr first, second;
	CUipcMemHandle handle;

	start_cuda(0);
	OK(cuMemAlloc_v2(&first, 40 * MIB));
	OK(cuMemAlloc_v2(&second, 40 * MIB)); /* partly on the host */
	fill(first, 40 * MIB, 1);
	fill(second, 40 * MIB, 2);
	give(second);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuIpcGetMemHandle(&handle, first));
	await();
	CHECK(has_pattern(first, 40 * MIB, 1));
	CHECK(has_pattern(second, 40 * MIB, 3));
	OK(cuMemFree_v2(second));
	give(first);
	await();
}

static void demoted(void)
{
	CUdeviceptr address;

	become_two(give_what_was_demoted);
	start_cuda(0);
	address = open_next();
	CHECK(has_pattern(address, 40 * MIB, 2));
	fill(address, 40 * MIB, 3);
	tell();
	OK(cuIpcCloseMemHandle(address));
	address = open_next();
	CHECK(has_pattern(address, 40 * MIB, 1));
	OK(cuIpcCloseMemHandle(address));
	tell();
	end_other();
}

/* --- in exchange for as much, in many copy windows --- */

static void exchanged(void)
{
	enum { SIZE = 254 }; /* MiB, in more chunks than a copy window could be tried */
	CUdeviceptr first, second;
	CUipcMemHandle handle;

	start_cuda(0);
	OK(cuMemAlloc_v2(&first, SIZE * MIB));
	OK(cuMemAlloc_v2(&second, SIZE * MIB));
	fill(first, SIZE * MIB, 1);
	fill(second, SIZE * MIB, 2);
	OK(cuIpcGetMemHandle(&handle, second));
	CHECK(has_pattern(first, SIZE * MIB, 1));
	CHECK(has_pattern(second, SIZE * MIB, 2));
	/* What must stay leaves no room for the other, however often it is tried. */
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuIpcGetMemHandle(&handle, first));
	CHECK(has_pattern(first, SIZE * MIB, 1));
}

/* --- large --- */

static void give_much(void)
{
	CUdeviceptr address;

	start_cuda(0);
	OK(cuMemAlloc_v2(&address, 1024 * MIB));
	for (size_t at = 0; at < 1024; at += 2)
		OK(cuMemsetD32_v2(address + at * MIB, (unsigned int)at, 2 * MIB / 4));
	OK(cuCtxSynchronize());
	give(address);
	await();
}

static void much(void)
{
	CUdeviceptr address, base;
	size_t size;

	become_two(give_much);
	start_cuda(0);
	address = open_next();
	for (size_t at = 0; at < 1024; at += 2) {
		uint32_t words[2] = {0, 0};

		OK(cuMemcpyDtoH_v2(&words[0], address + at * MIB, 4));
		OK(cuMemcpyDtoH_v2(&words[1], address + (at + 2) * MIB - 4, 4));
		CHECK(words[0] == at && words[1] == at);
	}
	OK(cuMemGetAddressRange_v2(&base, &size, address + 1023 * MIB));
	CHECK(base == address && size == 1024 * MIB);
	OK(cuIpcCloseMemHandle(address));
	tell();
	end_other();
}

/* --- many at once --- */

enum { THREADS = 8, ROUNDS = 40 };

static CUipcMemHandle handles[THREADS];

static void give_several(void)
{
	start_cuda(0);
	for (uint32_t i = 0; i < THREADS; i++) {
		CUdeviceptr address;

		OK(cuMemAlloc_v2(&address, i % 2 ? 3 * MIB : 5000));
		fill(address, 5000, i);
		give(address);
	}
	await();
}

static void *open_and_close(void *cookie)
{
	uint32_t first = (uint32_t)(uintptr_t)cookie;

	OK(cuCtxSetCurrent(context));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		/* Half of the time all the same one. */
		uint32_t which = i % 2 ? 1 : (first + i) % THREADS;
		CUdeviceptr address;

		OK(cuIpcOpenMemHandle_v2(&address, handles[which], LAZY));
		CHECK(has_pattern(address, 5000, which));
		OK(cuIpcCloseMemHandle(address));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	unsigned int open_before;

	become_two(give_several);
	start_cuda(0);
	for (int i = 0; i < THREADS; i++)
		get(&handles[i], sizeof(handles[i]));
	open_and_close((void *)1);
	open_before = lasting_descriptors();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, open_and_close, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK(descriptors_become(open_before));
	tell();
	end_other();
}

/* --- captures, contexts, devices --- */

static void give_one(void)
{
	CUdeviceptr address;

	start_cuda(0);
	OK(cuMemAlloc_v2(&address, 20 * MIB));
	fill(address, 20 * MIB, 1);
	give(address);
	await();
}

/*
 * What cannot be waited for while a stream is captured is refused where the driver refuses it;
 * where it does not, it goes afterwards, and the capture is none the worse.
 */
static void captured(void)
{
	CUdeviceptr address;
	CUipcMemHandle handle;
	CUstream stream;
	CUgraph graph;

	become_two(give_one);
	start_cuda(0);
	get(&handle, sizeof(handle));
	OK(cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuIpcCloseMemHandle(address));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
	CHECK(has_pattern(address, 20 * MIB, 1));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(address, 7, 100, stream));
	OK(cuIpcCloseMemHandle(address));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	CHECK(has_pattern(address, 20 * MIB, 1));
	OK(cuIpcCloseMemHandle(address));
	OK(cuGraphDestroy(graph));
	tell();
	end_other();
}

static void with_its_context(void)
{
	CUdeviceptr address, again, base;
	CUipcMemHandle handle;
	CUcontext own;
	size_t size;

	become_two(give_one);
	start_cuda(0);
	get(&handle, sizeof(handle));
	OK(cuIpcOpenMemHandle_v2(&again, handle, LAZY));
	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	CHECK(address != again);
	CHECK(has_pattern(address, 20 * MIB, 1));
	OK(cuCtxDestroy_v2(own));
	OK(cuCtxSetCurrent(context));
	CHECK(cuMemGetAddressRange_v2(&base, &size, address) != CUDA_SUCCESS);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
	CHECK(has_pattern(again, 20 * MIB, 1));
	OK(cuIpcCloseMemHandle(again));
	tell();
	end_other();
}

static void give_of_second(void)
{
	CUdeviceptr address;

	start_cuda(1);
	OK(cuMemAlloc_v2(&address, 20 * MIB));
	fill(address, 20 * MIB, 1);
	give(address);
	await();
}

static void devices(void)
{
	CUdeviceptr address;
	int ordinal = -1;

	become_two(give_of_second);
	start_cuda(0);
	address = open_next();
	CHECK(has_pattern(address, 20 * MIB, 1));
	OK(cuMemsetD8_v2(address, 0, 100));
	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	CHECK(ordinal == 1);
	OK(cuIpcCloseMemHandle(address));
	tell();
	end_other();
}

/* --- not to be reached --- */

static void give_elsewhere(void)
{
	const char *directory = getenv("ELSEWHERE_STATE");

	CHECK(directory && setenv("SPILLWAY_STATE_DIR", directory, 1) == 0);
	give_one();
}

static void elsewhere(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	become_two(give_elsewhere);
	start_cuda(0);
	get(&handle, sizeof(handle));
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle_v2(&address, handle, LAZY));
	tell();
	end_other();
}

static void refused(void)
{
	CUdeviceptr address;
	CUipcMemHandle handle;

	start_cuda(0);
	OK(cuMemAlloc_v2(&address, 20 * MIB));
	fill(address, 20 * MIB, 1);
	EXPECT(CUDA_ERROR_MAP_FAILED, cuIpcGetMemHandle(&handle, address));
	CHECK(has_pattern(address, 20 * MIB, 1));
}

static void write_handle(CUdeviceptr address, const char *file)
{
	char unfinished[4096];
	CUipcMemHandle handle;
	FILE *out;

	OK(cuIpcGetMemHandle(&handle, address));
	snprintf(unfinished, sizeof(unfinished), "%s.unfinished", file);
	out = fopen(unfinished, "w");
	CHECK(out && fwrite(&handle, sizeof(handle), 1, out) == 1 && fclose(out) == 0);
	CHECK(rename(unfinished, file) == 0);
}

static void give_to_file(const char *file)
{
	CUdeviceptr address;

	start_cuda(0);
	OK(cuMemAlloc_v2(&address, 20 * MIB));
	write_handle(address, file);
	for (;;)
		pause();
}

static void give_small(const char *first, const char *second)
{
	CUdeviceptr address;

	start_cuda(0);
	OK(cuMemAlloc_v2(&address, BLOCK));
	OK(cuMemAlloc_v2(&address, BLOCK));
	fill(address, BLOCK, 1);
	write_handle(address, first);
	OK(cuMemAlloc_v2(&address, BLOCK));
	fill(address, BLOCK, 1);
	write_handle(address, second);
	for (;;)
		pause();
}

/* Prints what opening it answers, and of a small one (seed not 0) whether the bytes are right. */
static void open_from_file(const char *file, uint32_t seed)
{
	FILE *in = fopen(file, "r");
	CUipcMemHandle handle;
	CUdeviceptr address;
	CUresult result;

	CHECK(in && fread(&handle, sizeof(handle), 1, in) == 1);
	fclose(in);
	start_cuda(0);
	result = cuIpcOpenMemHandle_v2(&address, handle, LAZY);
	printf("%d\n", (int)result);
	CHECK(result != CUDA_SUCCESS || !seed || has_pattern(address, BLOCK, seed));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
	    {"plain", plain},         {"freed", freed},     {"blocks", blocks},
	    {"in_slab", in_slab},     {"killed", killed},   {"silent", silent},
	    {"demoted", demoted},     {"much", much},       {"threads", threads},
	    {"captured", captured},   {"devices", devices}, {"with_its_context", with_its_context},
	    {"elsewhere", elsewhere}, {"refused", refused}, {"exchanged", exchanged}};

	if (argc == 3 && strcmp(argv[1], "give") == 0)
		give_to_file(argv[2]);
	if (argc == 4 && strcmp(argv[1], "give_small") == 0)
		give_small(argv[2], argv[3]);
	if (argc == 3 && strncmp(argv[1], "open", 4) == 0) {
		open_from_file(argv[2], strcmp(argv[1], "open_small") == 0);
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "ipc: which case?\n");
	return 2;
}
