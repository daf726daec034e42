/* SPDX-License-Identifier: MIT */
/*
 * The clients of the tests of elastic memory share this: checked calls, a device, kernels as text,
 * sums of bytes. They know nothing of Spillway.
 */
#ifndef E2E_ELASTIC_H
#define E2E_ELASTIC_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { MIB = 1 << 20 };

static inline void check(CUresult result, const char *call, const char *file, int line)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s:%d: %s: error %d\n", file, line, call, (int)result);
	exit(1);
}
#define CHECK(call) check(call, #call, __FILE__, __LINE__)

/*
 * Of a kernel: its word's place in bytes is %d3, salt is %r4; threads past the last word are done.
 */
#define ELASTIC_PLACE                       \
	"	ld.param.u32 %r1, [words];\n"     \
	"	ld.param.u32 %r2, [first];\n"     \
	"	ld.param.u32 %r3, [stride];\n"    \
	"	ld.param.u32 %r4, [salt];\n"      \
	"	mov.u32 %r5, %ctaid.x;\n"         \
	"	mov.u32 %r6, %ntid.x;\n"          \
	"	mov.u32 %r7, %tid.x;\n"           \
	"	mad.lo.s32 %r8, %r5, %r6, %r7;\n" \
	"	mad.lo.s32 %r8, %r8, %r3, %r2;\n" \
	"	setp.ge.u32 %p1, %r8, %r1;\n"     \
	"	@%p1 bra done;\n"                 \
	"	mul.wide.u32 %d3, %r8, 4;\n"

/*
 * mix(to, from, words, first, stride, salt): of every stride-th word from `first` on, to = to *
 * 1664525 + from + salt;
 *     one thread for each
 * mix_table(table, count, words, first, stride, salt): the same in place for `count` buffers whose
 * addresses lie in
 *     `table`
 * late(to, from, words, go, value): waits until the word `go` is not 0, then of each word to = from
 * + value and
 *     from = 0xffffffff; one block
 */
static const char elastic_kernels[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n"
    ".visible .entry mix(.param .u64 to, .param .u64 from, .param .u32 words,\n"
    "	.param .u32 first, .param .u32 stride, .param .u32 salt)\n"
    "{\n"
    "	.reg .pred %p<2>;\n"
    "	.reg .b32 %r<12>;\n"
    "	.reg .b64 %d<6>;\n"
    "	ld.param.u64 %d1, [to];\n"
    "	ld.param.u64 %d2, [from];\n" ELASTIC_PLACE "	add.s64 %d4, %d1, %d3;\n"
    "	add.s64 %d5, %d2, %d3;\n"
    "	ld.global.u32 %r9, [%d5];\n"
    "	ld.global.u32 %r10, [%d4];\n"
    "	mad.lo.s32 %r11, %r10, 1664525, %r9;\n"
    "	add.s32 %r11, %r11, %r4;\n"
    "	st.global.u32 [%d4], %r11;\n"
    "done:\n"
    "	ret;\n"
    "}\n"
    ".visible .entry mix_table(.param .u64 table, .param .u32 count, .param .u32 words,\n"
    "	.param .u32 first, .param .u32 stride, .param .u32 salt)\n"
    "{\n"
    "	.reg .pred %p<3>;\n"
    "	.reg .b32 %r<12>;\n"
    "	.reg .b64 %d<6>;\n"
    "	ld.param.u64 %d1, [table];\n"
    "	ld.param.u32 %r9, [count];\n" ELASTIC_PLACE "next:\n"
    "	ld.global.u64 %d2, [%d1];\n"
    "	add.s64 %d4, %d2, %d3;\n"
    "	ld.global.u32 %r10, [%d4];\n"
    "	mad.lo.s32 %r11, %r10, 1664525, %r4;\n"
    "	st.global.u32 [%d4], %r11;\n"
    "	add.s64 %d1, %d1, 8;\n"
    "	sub.s32 %r9, %r9, 1;\n"
    "	setp.ne.u32 %p2, %r9, 0;\n"
    "	@%p2 bra next;\n"
    "done:\n"
    "	ret;\n"
    "}\n"
    ".visible .entry late(.param .u64 to, .param .u64 from, .param .u32 words,\n"
    "	.param .u64 go, .param .u32 value)\n"
    "{\n"
    "	.reg .pred %p<3>;\n"
    "	.reg .b32 %r<9>;\n"
    "	.reg .b64 %d<7>;\n"
    "	ld.param.u64 %d1, [to];\n"
    "	ld.param.u64 %d2, [from];\n"
    "	ld.param.u32 %r1, [words];\n"
    "	ld.param.u64 %d3, [go];\n"
    "	ld.param.u32 %r2, [value];\n"
    "	mov.u32 %r3, %ntid.x;\n"
    "	mov.u32 %r4, %tid.x;\n"
    "	mov.u32 %r5, 0xffffffff;\n"
    "again:\n"
    "	ld.volatile.global.u32 %r6, [%d3];\n"
    "	setp.eq.u32 %p1, %r6, 0;\n"
    "	@%p1 bra again;\n"
    "write:\n"
    "	setp.ge.u32 %p2, %r4, %r1;\n"
    "	@%p2 bra done;\n"
    "	mul.wide.u32 %d4, %r4, 4;\n"
    "	add.s64 %d5, %d1, %d4;\n"
    "	add.s64 %d6, %d2, %d4;\n"
    "	ld.global.u32 %r7, [%d6];\n"
    "	add.s32 %r8, %r7, %r2;\n"
    "	st.global.u32 [%d5], %r8;\n"
    "	st.global.u32 [%d6], %r5;\n"
    "	add.s32 %r4, %r4, %r3;\n"
    "	bra write;\n"
    "done:\n"
    "	ret;\n"
    "}\n";

#include "elastic_fat.h"

struct elastic {
	CUdevice device;
	CUcontext context;
	CUfunction mix, mix_table, late;
};

/* Takes the kernels of a library by their own handles, which launches take like functions'. */
static inline void elastic_kernels_of_library(struct elastic *elastic)
{
	CUlibrary library;

	CHECK(cuLibraryLoadData(&library, elastic_kernels, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernel((CUkernel *)&elastic->mix, library, "mix"));
	CHECK(cuLibraryGetKernel((CUkernel *)&elastic->mix_table, library, "mix_table"));
	CHECK(cuLibraryGetKernel((CUkernel *)&elastic->late, library, "late"));
}

/*
 * Device 0 with its primary context, current, and the kernels: as text, or where ELASTIC_FAT is set
 * in a fat binary; where ELASTIC_LIBRARY is, a library's.
 */
static inline struct elastic elastic_start(void)
{
	struct elastic elastic;
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&elastic.device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&elastic.context, elastic.device));
	CHECK(cuCtxSetCurrent(elastic.context));
	if (getenv("ELASTIC_LIBRARY")) {
		elastic_kernels_of_library(&elastic);
		return elastic;
	}
	CHECK(cuModuleLoadData(&module,
	                       getenv("ELASTIC_FAT") ? elastic_fat_image() : elastic_kernels));
	CHECK(cuModuleGetFunction(&elastic.mix, module, "mix"));
	CHECK(cuModuleGetFunction(&elastic.mix_table, module, "mix_table"));
	CHECK(cuModuleGetFunction(&elastic.late, module, "late"));
	return elastic;
}

/*
 * Every stride-th word, so many that the software GPU is done soon; which of them, the salt says.
 */
static inline CUresult elastic_mix(const struct elastic *elastic, CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, uint32_t salt, CUstream stream)
{
	uint32_t words = (uint32_t)(bytes / 4), stride = words / 4096 + 1, first = salt % stride;
	void *parameters[] = {&to, &from, &words, &first, &stride, &salt};

	return cuLaunchKernel(elastic->mix, words / stride / 128 + 1, 1, 1, 128, 1, 1, 0, stream,
	                      parameters, NULL);
}

static inline CUresult elastic_mix_table(const struct elastic *elastic, CUdeviceptr table,
                                         uint32_t count, size_t bytes, uint32_t salt,
                                         CUstream stream)
{
	uint32_t words = (uint32_t)(bytes / 4), stride = words / 4096 + 1, first = salt % stride;
	void *parameters[] = {&table, &count, &words, &first, &stride, &salt};

	return cuLaunchKernel(elastic->mix_table, words / stride / 128 + 1, 1, 1, 128, 1, 1, 0,
	                      stream, parameters, NULL);
}

static inline CUresult elastic_late(const struct elastic *elastic, CUdeviceptr to, CUdeviceptr from,
                                    size_t bytes, const uint32_t *go, uint32_t value,
                                    CUstream stream)
{
	uint32_t words = (uint32_t)(bytes / 4);
	void *parameters[] = {&to, &from, &words, &go, &value};

	return cuLaunchKernel(elastic->late, 1, 1, 1, 128, 1, 1, 0, stream, parameters, NULL);
}

/* SplitMix64. */
static inline uint64_t elastic_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline uint64_t elastic_hash_word(uint64_t hash, uint64_t word)
{
	hash ^= word;
	return (hash << 29 | hash >> 35) * 0x9e3779b97f4a7c15;
}

/* Of whole words; four sums side by side, as one would wait for each of its multiplications. */
static inline uint64_t elastic_hash(uint64_t hash, const void *bytes, size_t size)
{
	uint64_t sums[4] = {hash, 1, 2, 3}, word;
	const char *at = bytes;

	for (; size >= sizeof(sums); size -= sizeof(sums))
		for (int i = 0; i < 4; i++, at += sizeof(word)) {
			memcpy(&word, at, sizeof(word));
			sums[i] = elastic_hash_word(sums[i], word);
		}
	for (word = 0; size >= 4; size -= 4, at += 4) {
		memcpy(&word, at, 4);
		sums[0] = elastic_hash_word(sums[0], word);
	}
	for (int i = 1; i < 4; i++)
		sums[0] = elastic_hash_word(sums[0], sums[i]);
	return sums[0];
}

/* Bytes of device memory, hashed; waits for work of the legacy stream alone. */
static inline uint64_t elastic_hash_device(uint64_t hash, CUdeviceptr address, size_t size)
{
	void *copy = malloc(size);

	if (!copy)
		exit(1);
	CHECK(cuMemcpyDtoH_v2(copy, address, size));
	hash = elastic_hash(hash, copy, size);
	free(copy);
	return hash;
}

static inline void elastic_sleep_ms(long milliseconds)
{
	struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	while (nanosleep(&left, &left) != 0)
		;
}

/* Has jobs look at their files now (ring.c), in a child without the shim. Returns 0 on success. */
static inline int elastic_ring(void)
{
	char *const argv[] = {getenv("ELASTIC_RING"), NULL};
	char state[4096], node[4096];
	char *const environment[] = {state, node, NULL};
	const char *directory = getenv("SPILLWAY_STATE_DIR"),
	           *of_node = getenv("SPILLWAY_NODE_DIR");
	int status;
	pid_t child;

	if (!argv[0] || !directory || !of_node)
		return 0;
	snprintf(state, sizeof(state), "SPILLWAY_STATE_DIR=%s", directory);
	snprintf(node, sizeof(node), "SPILLWAY_NODE_DIR=%s", of_node);
	if (posix_spawn(&child, argv[0], NULL, NULL, argv, environment) != 0)
		return 1;
	return waitpid(child, &status, 0) != child || status != 0;
}

static inline double elastic_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

#endif
