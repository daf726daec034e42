/* SPDX-License-Identifier: MIT */
/* The tests of the executor share this: checks, device memory, launches, random numbers. */
#ifndef SOFTGPU_PTX_TESTS_HARNESS_H
#define SOFTGPU_PTX_TESTS_HARNESS_H

#include "tests/softgpu/ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES "tests/softgpu/ptx/samples/"

extern int failures, checks;

/* Counts, and prints the first failures. */
__attribute__((format(printf, 4, 5))) void check_at(bool ok, const char *file, int line,
                                                    const char *format, ...);

#define check(ok, ...) check_at(ok, __FILE__, __LINE__, __VA_ARGS__)
#define check_int(got, expected)                                              \
	do {                                                                  \
		long long g_ = (long long)(got), e_ = (long long)(expected);  \
		check(g_ == e_, "%s: expected %lld, got %lld", #got, e_, g_); \
	} while (0)

/* Device memory: a window that only the executor can reach, through its alias. */
enum { WINDOW = 64 << 20, PAGE = 4096 };

extern uint8_t *window;
extern size_t used; /* bytes of the window; a test may set it back */
extern struct ptx_memory memory;
extern void *host_low, *host_high; /* host memory that kernels may touch */

void set_up_memory(void);
void empty_memory(void); /* all buffers go, all pages are unmapped */
void *on_host(uint64_t address);
/* A device buffer with these contents (zeros when from is NULL), and no page after it. */
uint64_t buffer(const void *from, size_t size);

char *read_whole(const char *path, size_t *length);
struct ptx_module *load_text(const char *text, size_t length, const char *name);
struct ptx_module *load_file(const char *path);

extern struct ptx_fault fault;        /* of the last launch */
extern struct ptx_launch next_launch; /* extras for the next launch; reset by it */
/* Arguments: pointers to the parameters, in order. */
enum ptx_status launch(const struct ptx_module *module, const char *name, uint32_t grid_x,
                       uint32_t grid_y, uint32_t block_x, uint32_t block_y, ...);

#define run_ok(...)                                                                            \
	do {                                                                                   \
		enum ptx_status s_ = launch(__VA_ARGS__);                                      \
		check(s_ == PTX_OK, "status %d: %s (line %u)", s_, fault.message, fault.line); \
	} while (0)

/* Begins, and ends, to gather what is printed. */
void capture_begin(void);
void capture_end(char *text, size_t size);

uint32_t random_bits(void);
float random_float(void);       /* in [-1, 1) */
uint64_t interesting(int kind); /* bits that are likely to be special as some type */
uint32_t float_bits(float f);
uint64_t double_bits(double d);
uint32_t reverse_bits(uint32_t v);

void check_floats(const float *got, const float *expected, int n, float tolerance,
                  const char *what);

/* The tests, each of the module its name says. */
void test_training(const struct ptx_module *train);
void test_integers(const struct ptx_module *integer);
void test_control(const struct ptx_module *integer);
void test_sleep(void);
void test_runtime(const struct ptx_module *runtime);
void test_faults(const struct ptx_module *integer);
void catch_signals(void); /* before the first launch */
void test_foreign_signal(void);
void test_instructions(void);
void test_matrices(void);
void test_mbarriers(void);
void test_broad(const struct ptx_module *broad);
void test_mathematics(const struct ptx_module *functions);
void test_parallel(void);
void test_texts(void);
void test_garbage(const char *path);

#endif
