/* SPDX-License-Identifier: MIT */
/*
 * One process of the chaos: its state, and its reports of faults. It knows CUDA, and nothing of
 * Spillway.
 */
#ifndef CHAOS_WORKER_H
#define CHAOS_WORKER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/chaos/board.h"
#include "tests/chaos/dice.h"
#include "tests/chaos/pattern.h"

enum { STREAMS = 4 }; /* the legacy stream is the first */

struct worker {
	int number; /* its process slot */
	struct slot *slot;
	uint64_t life;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction affine, add;
	CUstream stream[STREAMS];
	CUmemoryPool pool;
	int post; /* the socket on which others send it memory */
};

extern struct worker worker;

/* Takes the device as a program does at its start. */
void worker_begin(void);
/* Gives back all it has. */
void worker_end(void);

/* Adds to the last line of the journal. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says what was expected, and ends the process: it failed. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

void expect_ok(CUresult result, const char *call, const char *file, int line);
#define OK(call) expect_ok(call, #call, __FILE__, __LINE__)

/* Returns whether memory was had; being out of memory is noted and no failure, anything else is. */
bool had(CUresult result, const char *call, const char *file, int line);
#define HAD(call) had(call, #call, __FILE__, __LINE__)

/* Device memory that no limit refuses is about to come, or has gone. */
void unrefused_comes(size_t bytes);
void unrefused_went(size_t bytes);

CUstream any_stream(struct dice *dice);

#endif
