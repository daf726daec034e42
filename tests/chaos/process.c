/* SPDX-License-Identifier: MIT */
/*
 * Forks, programs started and become, threads that are cancelled, contexts, modules and streams of
 * a moment.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

extern const char *worker_path;

/* In the child: it dies with us. */
static void follow(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static void await(pid_t child)
{
	int status;
	pid_t got;

	while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR)
		continue;
	if (got != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail("child %d: status %#x (%d)", child, status, got);
}

/* A forked child may not use CUDA, and harms its parent by nothing it does. */
void do_fork(struct dice *dice)
{
	uint32_t way = below(dice, 3);
	pid_t parent = getpid(), child = fork();
	CUdeviceptr at;

	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0) {
		follow(parent);
		if (way == 0)
			_exit(cuMemAlloc(&at, 4096) == CUDA_SUCCESS);
		if (way == 1)
			execl("/bin/true", "true", (char *)NULL);
		_exit(0);
	}
	await(child);
}

static void become(int number, uint64_t life)
{
	char slot[16], lives[24];

	snprintf(slot, sizeof(slot), "%d", number);
	snprintf(lives, sizeof(lives), "%llu", (unsigned long long)life);
	execl(worker_path, worker_path, slot, lives, (char *)NULL);
}

/* A CUDA program of the same job that runs for a while. */
void do_child(struct dice *dice)
{
	uint64_t life = below(dice, 1 << 20);
	pid_t parent = getpid(), child;

	if (worker.number >= WORKERS)
		return;
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0) {
		follow(parent);
		become(worker.number + WORKERS, life);
		_exit(1);
	}
	await(child);
}

/* Nothing is given back before. */
void do_exec(struct dice *dice)
{
	if (worker.number >= WORKERS || !one_in(dice, 2))
		return;
	become(worker.number, worker.life + 1);
	fail("%s: %s", worker_path, strerror(errno));
}

static void *call_over_and_over(void *cookie)
{
	_Atomic int *times = cookie;
	CUdeviceptr at;
	CUevent event;

	OK(cuCtxSetCurrent(worker.context));
	for (;;) {
		if (HAD(cuMemAlloc(&at, 64 << 10))) {
			block_launch(worker.affine, at, 4096, (struct pattern){3, 5},
			             worker.stream[1]);
			OK(cuMemFree(at));
		}
		OK(cuEventCreate(&event, 0));
		OK(cuEventRecord(event, worker.stream[1]));
		OK(cuEventDestroy(event));
		(*times)++;
		pthread_testcancel();
	}
	return NULL;
}

/* A thread that is cancelled somewhere in what it does. */
void do_thread(struct dice *dice)
{
	uint32_t most = 1 + below(dice, 8);
	_Atomic int times = 0;
	pthread_t thread;
	int error = pthread_create(&thread, NULL, call_over_and_over, &times);
	void *result;

	if (error)
		fail("pthread_create: %s", strerror(error));
	while ((uint32_t)times < most)
		sched_yield();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	if (result != PTHREAD_CANCELED)
		fail("a thread that was cancelled answers %p", result);
}

static void check_words(CUdeviceptr at, uint32_t term, const char *what)
{
	uint32_t words[256];
	size_t wrong;

	OK(cuMemcpyDtoH(words, at, sizeof(words)));
	wrong = pattern_compare((struct pattern){0, term}, words, 256);
	if (wrong < 256)
		fail("%s: word %zu is %#x, expected %#x", what, wrong, words[wrong], term);
}

/*
 * A context that ends with the memory it has; and the primary one, which is not to be destroyed so.
 */
void do_context(struct dice *dice)
{
	uint32_t term = (uint32_t)roll(dice);
	size_t size = any_size(dice);
	bool is_refused = one_in(dice, 4);
	CUcontext context;
	CUdeviceptr at;

	if (is_refused) {
		if (cuCtxDestroy(worker.context) == CUDA_SUCCESS)
			fail("a primary context was destroyed");
		return;
	}
	unrefused_comes(CONTEXT_MEMORY);
	OK(cuCtxCreate(&context, NULL, 0, worker.device));
	if (size < 1024)
		size = 1024;
	if (HAD(cuMemAlloc(&at, size))) {
		OK(cuMemsetD32(at, term, size / 4));
		check_words(at + (size - 1024) / 4 * 4, term, "memory of a second context");
	}
	OK(cuCtxDestroy(context));
	unrefused_went(CONTEXT_MEMORY);
	OK(cuCtxSetCurrent(worker.context));
}

/* Loads a module: no limit refuses what its variables take. */
void do_module(struct dice *dice)
{
	static const char image[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
	                            ".visible .global .align 8 .b8 table[3145728];\n"
	                            ".visible .entry nothing()\n{\n	ret;\n}\n";
	uint32_t term = (uint32_t)roll(dice);
	CUmodule module;
	CUdeviceptr at;
	size_t size;

	unrefused_comes(4 * MIB);
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetGlobal(&at, &size, module, "table"));
	OK(cuMemsetD32(at, term, size / 4));
	check_words(at + size - 1024, term, "a module's variable");
	OK(cuModuleUnload(module));
	unrefused_went(4 * MIB);
}

void do_streams(struct dice *dice)
{
	CUstream stream;
	struct block *block = block_any(dice, KINDS_ALL, true);

	OK(cuStreamCreate(&stream, one_in(dice, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	if (block) {
		block_add(block, (uint32_t)roll(dice), stream);
		block_on(block, worker.stream[1]);
	}
	OK(cuStreamDestroy(stream));
}
