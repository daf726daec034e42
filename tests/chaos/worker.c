/* SPDX-License-Identifier: MIT */
/*
 * chaos_worker SLOT LIFE: does random operations on the software GPU, in the working directory of
 * the conductor's board. It ends by itself or is killed. chaos_worker --plan SEED SLOT LIFE STEPS
 * prints which.
 */
#include "tests/chaos/worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

struct worker worker;
const char *worker_path;

void note(const char *format, ...)
{
	char *line = worker.slot->journal[worker.slot->step % JOURNAL];
	size_t length = strlen(line);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line + length, LINE - length, format, arguments);
	va_end(arguments);
}

void fail(const char *format, ...)
{
	struct slot *slot = worker.slot;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(slot->failure, sizeof(slot->failure), format, arguments);
	va_end(arguments);
	slot->has_failed = 1;
	_exit(3);
}

void expect_ok(CUresult result, const char *call, const char *file, int line)
{
	if (result != CUDA_SUCCESS)
		fail("%s:%d: %s: expected 0, got %d", file, line, call, result);
}

bool had(CUresult result, const char *call, const char *file, int line)
{
	if (result == CUDA_SUCCESS)
		return true;
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		fail("%s:%d: %s: expected 0 or 2, got %d", file, line, call, result);
	note(": out of memory");
	worker.slot->refused++;
	return false;
}

void unrefused_comes(size_t bytes)
{
	worker.slot->unrefused += bytes;
}

void unrefused_went(size_t bytes)
{
	worker.slot->unrefused -= bytes;
}

CUstream any_stream(struct dice *dice)
{
	return worker.stream[below(dice, STREAMS)];
}

void worker_begin(void)
{
	OK(cuInit(0));
	OK(cuDeviceGet(&worker.device, 0));
	unrefused_comes(CONTEXT_MEMORY);
	OK(cuDevicePrimaryCtxRetain(&worker.context, worker.device));
	OK(cuCtxSetCurrent(worker.context));
	OK(cuModuleLoadData(&worker.module, pattern_kernels));
	OK(cuModuleGetFunction(&worker.affine, worker.module, "affine"));
	OK(cuModuleGetFunction(&worker.add, worker.module, "add"));
	for (int i = 1; i < STREAMS; i++)
		OK(cuStreamCreate(&worker.stream[i],
		                  i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

void worker_end(void)
{
	struct dice dice = dice_of(board->seed, (uint64_t)worker.number, worker.life, UINT64_MAX);
	struct block *block;

	graphs_end();
	while (block_count() > 0) {
		block = block_any(&dice, KINDS_ALL, false);
		block_verify(block);
		block_free(block);
	}
	OK(cuCtxSynchronize());
	if (worker.pool)
		OK(cuMemPoolDestroy(worker.pool));
	for (int i = 1; i < STREAMS; i++)
		OK(cuStreamDestroy(worker.stream[i]));
	OK(cuModuleUnload(worker.module));
	OK(cuDevicePrimaryCtxRelease(worker.device));
}

/* How a life ends: with all given back, by exit() with all it has, or without that. */
enum ending { END_CLEAN, END_EXIT, END_AT_ONCE, ENDINGS };

static struct dice dice_of_step(uint64_t step)
{
	return dice_of(board->seed, (uint64_t)worker.number, worker.life, step);
}

/* Step 0 draws for how long the life is and how it ends. */
static uint64_t length_of_life(struct dice *dice)
{
	return worker.number < WORKERS ? 20 + below(dice, 600) : 5 + below(dice, 40);
}

static void live(uint64_t steps)
{
	struct slot *slot = worker.slot;

	for (uint64_t step = 1; step <= steps && !board->is_ending; step++) {
		struct dice dice = dice_of_step(step);
		const struct operation *operation = operation_at(&dice);

		/* The line first: who reads it never sees that of 32 steps ago. */
		snprintf(slot->journal[step % JOURNAL], LINE, "%llu: %s", (unsigned long long)step,
		         operation->name);
		slot->step = step;
		operation->run(&dice);
		slot->operations++;
	}
}

static int plan(char **argv)
{
	static struct board planned;

	board = &planned;
	board->seed = strtoull(argv[2], NULL, 0);
	worker.number = atoi(argv[3]);
	worker.life = strtoull(argv[4], NULL, 10);
	for (uint64_t step = 1, last = strtoull(argv[5], NULL, 10); step <= last; step++) {
		struct dice dice = dice_of_step(step);

		printf("%llu: %s", (unsigned long long)step, operation_at(&dice)->name);
		printf(" %016llx\n", (unsigned long long)roll(&dice));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct dice dice;
	uint64_t steps;
	enum ending ending;

	if (argc == 6 && strcmp(argv[1], "--plan") == 0)
		return plan(argv);
	if (argc != 3)
		return 2;
	board_open(false);
	worker_path = argv[0];
	worker.number = atoi(argv[1]);
	worker.life = strtoull(argv[2], NULL, 10);
	worker.slot = &board->slot[worker.number];
	worker.slot->unrefused = 0;
	worker.slot->life = worker.life;
	snprintf(worker.slot->journal[0], LINE, "0: begin");
	worker.slot->step = 0;
	worker.slot->pid = getpid();
	dice = dice_of_step(0);
	steps = length_of_life(&dice);
	ending = (enum ending)below(&dice, ENDINGS);
	virtual_begin();
	worker_begin();
	live(steps);
	if (board->is_ending)
		ending = END_CLEAN;
	if (ending == END_CLEAN)
		worker_end();
	if (ending == END_AT_ONCE)
		_exit(0);
	return 0;
}
