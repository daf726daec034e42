/* SPDX-License-Identifier: MIT */
/*
 * Do kernels of many threads count right in memory of the host, by each kind of atomic, and do bulk
 * copies reach it?
 */
#include "tests/gpu/questions/question.h"

#include <stdint.h>
#include <string.h>

static const char kernels_90[] = "kernels_90.ptx";
enum { BLOCKS = 64, THREADS = 128 };
enum counter { U32, U64, F32, F64, F16X2, BF16X2, SYS_U32, SYS_F32, CAS16, V4F32, INC, SYS_U64 };

static const struct {
	const char *kernel;
	bool from_90;
	unsigned blocks;
	double wanted;
} counters[] = {
    [U32] = {"atom_u32", false, BLOCKS, BLOCKS *THREADS},
    [U64] = {"atom_u64", false, BLOCKS, BLOCKS *THREADS},
    [F32] = {"atom_f32", false, BLOCKS, BLOCKS *THREADS},
    [F64] = {"atom_f64", false, BLOCKS, BLOCKS *THREADS},
    [F16X2] = {"atom_f16x2", false, 8, 8 * THREADS},  /* halves count to 2048 */
    [BF16X2] = {"atom_bf16x2", true, 2, 2 * THREADS}, /* and these to 256 */
    [SYS_U32] = {"atom_sys_u32", false, BLOCKS, BLOCKS *THREADS},
    [SYS_F32] = {"atom_sys_f32", false, BLOCKS, BLOCKS *THREADS},
    [CAS16] = {"atom_cas16", false, BLOCKS, BLOCKS *THREADS},
    [V4F32] = {"red_v4f32", true, BLOCKS, BLOCKS *THREADS},
    [INC] = {"atom_inc", false, BLOCKS, BLOCKS *THREADS},
    [SYS_U64] = {"red_sys_u64", false, BLOCKS, BLOCKS *THREADS},
};

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* A half, for the whole numbers that are counted here. */
static double half_of(uint16_t bits)
{
	int exponent = (bits >> 10 & 31) - 15;

	return bits ? (double)(1024 + (bits & 1023)) / 1024 * (1 << (exponent > 0 ? exponent : 0))
	            : 0;
}

static double count_in(enum counter counter, const uint64_t words[2])
{
	double wide;

	switch (counter) {
	case U64:
	case SYS_U64:
		return (double)words[0];
	case F32:
	case SYS_F32:
	case V4F32:
		return (double)float_of((uint32_t)words[0]);
	case F64:
		memcpy(&wide, words, sizeof(wide));
		return wide;
	case F16X2:
		return half_of((uint16_t)words[0]);
	case BF16X2:
		return (double)float_of((uint32_t)words[0] << 16);
	case CAS16:
		return (double)(uint16_t)words[0];
	case U32:
	case SYS_U32:
	case INC:
		break;
	}
	return (double)(uint32_t)words[0];
}

/* False with an answer where the device is older than 9.0. */
static bool is_new_enough(const struct question *q)
{
	int major = 0;

	gpu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	if (major < 9)
		answer(q->name, "not asked", "it wants compute capability 9.0, this is %d", major);
	return major >= 9;
}

static void ask_counter(const struct question *q)
{
	enum counter counter = (enum counter)q->form;
	const char *file = counters[counter].from_90 ? kernels_90 : KERNELS;
	uint64_t seen[2] = {0};
	struct range range;

	if (counters[counter].from_90 && !is_new_enough(q))
		return;
	range_make(&range, q->kinds, small_chunk);
	ATTEMPT(cuMemsetD8(range.base, 0, 64));
	gpu_kernel_of(file, counters[counter].kernel);
	if (not_asked(q))
		return;
	launch(file, counters[counter].kernel, counters[counter].blocks, THREADS, NULL,
	       (void *[]){&range.base});
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemcpyDtoH(seen, range.base, sizeof(seen)));
	if (refused(q))
		return;
	double count = count_in(counter, seen);
	answer(q->name, count == counters[counter].wanted ? "yes" : "lost counts",
	       "%.0f of %.0f counted", count, counters[counter].wanted);
}

static void ask_bulk_load(const struct question *q)
{
	struct range range;
	CUdeviceptr sum = 0;
	unsigned seen = 0;

	if (!is_new_enough(q))
		return;
	range_make(&range, "h", small_chunk);
	ATTEMPT(cuMemAlloc(&sum, sizeof(seen)));
	ATTEMPT(cuMemsetD32(range.base, 3, 4096));
	ATTEMPT(cuMemsetD32(sum, 0, 1));
	gpu_kernel_of(kernels_90, "bulk_in");
	if (not_asked(q))
		return;
	launch(kernels_90, "bulk_in", 1, 32, NULL, (void *[]){&range.base, &sum});
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemcpyDtoH(&seen, sum, sizeof(seen)));
	if (!refused(q))
		answer(q->name, seen == 3072 ? "yes" : "wrong bytes", "a sum of %u, 3072 written",
		       seen);
}

static void ask_bulk_reduce(const struct question *q)
{
	struct range range;
	unsigned seen = 0;

	if (!is_new_enough(q))
		return;
	range_make(&range, "h", small_chunk);
	ATTEMPT(cuMemsetD32(range.base, 0, 256));
	gpu_kernel_of(kernels_90, "bulk_reduce");
	if (not_asked(q))
		return;
	launch(kernels_90, "bulk_reduce", BLOCKS, 256, NULL, (void *[]){&range.base});
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemcpyDtoH(&seen, range.base, sizeof(seen)));
	if (!refused(q))
		answer(q->name, seen == BLOCKS ? "yes" : "lost counts", "%u of %d counted", seen,
		       BLOCKS);
}

#define THEN "memory that kernels count in may be spilled"
#define COUNTER(given, what, counter, number, change)                                       \
	{.name = given "_device",                                                           \
	 .risk = number,                                                                    \
	 .asks = "Do " what " count right on the device?",                                  \
	 .counted_on = "yes",                                                               \
	 .then = "it is what spilled memory is compared with",                              \
	 .otherwise = "the question is wrong, or the device is: look at the kernel",        \
	 .ask = ask_counter,                                                                \
	 .kinds = "d",                                                                      \
	 .form = counter},                                                                  \
	{                                                                                   \
		.name = given "_spilled", .risk = number, .asks = "And in spilled memory?", \
		.counted_on = "yes", .then = THEN, .otherwise = change, .ask = ask_counter, \
		.kinds = "h", .form = counter                                               \
	}
#define PLAIN                                                                                      \
	"results go wrong silently where such memory is spilled: keep on the device what kernels " \
	"with this instruction were launched with, and say so in README"
#define SYSTEM "say in README that atomics of system scope want memory that is not spilled"

const struct question atomic_questions[] = {
    COUNTER("atom_u32", "32-bit additions", U32, "18", PLAIN),
    COUNTER("atom_u64", "64-bit additions", U64, "18", PLAIN),
    COUNTER("atom_f32", "additions of floats", F32, "18", PLAIN),
    COUNTER("atom_f64", "additions of doubles", F64, "18", PLAIN),
    COUNTER("atom_f16x2", "additions of pairs of halves", F16X2, "18", PLAIN),
    COUNTER("atom_bf16x2", "additions of pairs of bf16", BF16X2, "18", PLAIN),
    COUNTER("atom_sys_u32", "32-bit additions of system scope", SYS_U32, "18", SYSTEM),
    COUNTER("atom_sys_f32", "additions of floats of system scope", SYS_F32, "18", SYSTEM),
    COUNTER("atom_cas16", "16-bit compare-and-swaps", CAS16, "18", PLAIN),
    COUNTER("red_v4f32", "additions of four floats at once", V4F32, "18", PLAIN),
    COUNTER("atom_inc", "increments", INC, "18", PLAIN),
    COUNTER("red_sys_u64", "64-bit reductions of system scope", SYS_U64, "18", SYSTEM),
    {.name = "tma_load_spilled",
     .risk = "18",
     .asks = "Does a bulk copy bring spilled memory to a kernel?",
     .counted_on = "yes",
     .then = THEN,
     .otherwise = "kernels with bulk copies fail on spilled memory: keep theirs on the device",
     .ask = ask_bulk_load},
    {.name = "tma_reduce_spilled",
     .risk = "18",
     .asks = "Does a bulk reduction count right in spilled memory?",
     .counted_on = "yes",
     .then = THEN,
     .otherwise = "kernels with bulk copies fail on spilled memory: keep theirs on the device",
     .ask = ask_bulk_reduce},
    {0},
};
