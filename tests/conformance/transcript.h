/* SPDX-License-Identifier: MIT */
/*
 * The transcript programs share this. Each prints the driver's answers, as lines of "question:
 * answer". No line depends on the machine, so that transcripts of two drivers can be compared line
 * by line. They know CUDA alone: they run on any driver, changed by nothing.
 *
 * question  a name that stays, and is asked once in a program
 * answer    a status by its name, yes or no, or a value that every device gives alike
 *
 * Calls that only prepare a question are made with CU() of client.h: they must succeed.
 */
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/clients/client.h"
#include "tests/clients/program.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* Prints one line. */
void tell(const char *question, const char *answer, ...) __attribute__((format(printf, 2, 3)));
void tell_status(const char *question, CUresult status);
void tell_bool(const char *question, bool yes);

/* The status, and the value too if the call succeeded. */
#define TELL_VALUE(question, call, format, ...)                              \
	do {                                                                 \
		CUresult told = (call);                                      \
		if (told == CUDA_SUCCESS)                                    \
			tell(question, "CUDA_SUCCESS " format, __VA_ARGS__); \
		else                                                         \
			tell_status(question, told);                         \
	} while (0)

/* Ends the program with 77: the questions cannot be put on this machine. */
void cannot_ask(const char *reason) __attribute__((noreturn));

/*
 * Work that lasts until it is told to end: a host function in the stream. What is queued behind it
 * has certainly not run, however slow this machine is. The function has begun when hold_stream()
 * returns.
 */
struct hold {
	atomic_bool begun, ended;
};
void hold_stream(struct hold *hold, CUstream stream);
void hold_end(struct hold *hold);

/* A kernel of kernels.ptx, loaded into the current context, that adds up for so many loops. */
CUfunction spin_kernel(void);
/* Queues a kernel that takes several milliseconds on any device; `sink` holds one unsigned. */
void spin(CUfunction kernel, CUdeviceptr sink, CUstream stream);

#endif
