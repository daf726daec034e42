/* SPDX-License-Identifier: MIT */
/*
 * malloc and free in kernels: their results, their refusals, the life of a block, and the cost of
 * the heap. `clients/samples/device_malloc.c` compares lists in it with the CPU.
 */
#include "tests/softgpu/test.h"

/*
 * take(out, size, align): out[i] = malloc(size), or the aligned form where align is not 0
 * give(in): free(in[i])      mark(in, value): *in[i] = value + i     look(in, out): out[i] = *in[i]
 */
#define HEAD                                                                                   \
	".version 7.0\n.target sm_70\n.address_size 64\n"                                      \
	".extern .func (.param .b64 result) malloc (.param .b64 size);\n"                      \
	".extern .func (.param .b64 result) __cuda_syscall_aligned_malloc (.param .b64 size, " \
	".param .b64 align);\n"                                                                \
	".extern .func free (.param .b64 address);\n"
#define ENTRY(name, parameters)                                    \
	".visible .entry " name "(.param .u64 at" parameters ")\n" \
	"{\n"                                                      \
	"	.reg .pred %p<2>;\n"                                     \
	"	.reg .b32 %r<6>;\n"                                      \
	"	.reg .b64 %rd<8>;\n"                                     \
	"	mov.u32 %r1, %ctaid.x;\n"                                \
	"	mov.u32 %r2, %ntid.x;\n"                                 \
	"	mov.u32 %r3, %tid.x;\n"                                  \
	"	mad.lo.u32 %r4, %r1, %r2, %r3;\n"                        \
	"	mul.wide.u32 %rd1, %r4, 8;\n"                            \
	"	ld.param.u64 %rd2, [at];\n"                              \
	"	add.u64 %rd2, %rd2, %rd1;\n"

static const char kernels[] = HEAD ENTRY(
    "take",
    ", .param .u64 size, .param .u64 align") "	ld.param.u64 %rd3, [size];\n"
                                             "	ld.param.u64 %rd4, [align];\n"
                                             "	setp.ne.u64 %p1, %rd4, 0;\n"
                                             "	@%p1 bra aligned;\n"
                                             "	{ .param .b64 a; .param .b64 got;\n"
                                             "	st.param.b64 [a], %rd3;\n"
                                             "	call.uni (got), malloc, (a);\n"
                                             "	ld.param.b64 %rd5, [got]; }\n"
                                             "	bra done;\n"
                                             "aligned:\n"
                                             "	{ .param .b64 a; .param .b64 b; .param .b64 got;\n"
                                             "	st.param.b64 [a], %rd3;\n"
                                             "	st.param.b64 [b], %rd4;\n"
                                             "	call.uni (got), __cuda_syscall_aligned_malloc, (a, "
                                             "b);\n"
                                             "	ld.param.b64 %rd5, [got]; }\n"
                                             "done:\n"
                                             "	st.global.u64 [%rd2], %rd5;\n"
                                             "	ret;\n}\n" ENTRY(
                                                 "give",
                                                 "") "	ld.global.u64 %rd3, [%rd2];\n"
                                                     "	{ .param .b64 a;\n"
                                                     "	st.param.b64 [a], %rd3;\n"
                                                     "	call.uni free, (a); }\n"
                                                     "	ret;\n}\n" ENTRY(
                                                         "mark",
                                                         ", .param .u64 value") "	ld.param."
                                                                                "u64 %rd3, "
                                                                                "[value];\n"
                                                                                "	add.u64 "
                                                                                "%rd3, %rd3, "
                                                                                "%rd1;\n"
                                                                                "	ld.global."
                                                                                "u64 %rd4, "
                                                                                "[%rd2];\n"
                                                                                "	st.u64 "
                                                                                "[%rd4], %rd3;\n"
                                                                                "	ret;\n}"
                                                                                "\n" ENTRY(
                                                                                    "look",
                                                                                    ", .param .u64 "
                                                                                    "out") "	ld."
                                                                                           "param."
                                                                                           "u64 "
                                                                                           "%rd3, "
                                                                                           "[out];"
                                                                                           "\n"
                                                                                           "	add"
                                                                                           ".u64 "
                                                                                           "%rd3, "
                                                                                           "%rd3, "
                                                                                           "%rd1;\n"
                                                                                           "	ld."
                                                                                           "global."
                                                                                           "u64 "
                                                                                           "%rd4, "
                                                                                           "[%rd2];"
                                                                                           "\n"
                                                                                           "	ld."
                                                                                           "u64 "
                                                                                           "%rd5, "
                                                                                           "[%rd4];"
                                                                                           "\n"
                                                                                           "	st."
                                                                                           "global."
                                                                                           "u64 "
                                                                                           "[%rd3],"
                                                                                           " %rd5;"
                                                                                           "\n"
                                                                                           "	ret"
                                                                                           ";\n}\n";

enum { BLOCKS = 20, THREADS = 50, COUNT = BLOCKS * THREADS };

static CUmodule module;
static CUdeviceptr list;
static uint64_t addresses[COUNT];

static void begin(void)
{
	OK(cuModuleLoadData(&module, kernels));
	OK(cuMemAlloc_v2(&list, sizeof(addresses)));
	OK(cuMemsetD8_v2(list, 0, sizeof(addresses)));
}

static CUresult launch(const char *name, uint64_t a, uint64_t b)
{
	CUfunction function;
	OK(cuModuleGetFunction(&function, module, name));
	OK(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, (void *[]){&list, &a, &b},
	                  NULL));
	return cuCtxSynchronize();
}

/* Allocates in each thread, and returns how many got something. */
static int take(uint64_t size, uint64_t align)
{
	int got = 0;
	OK(launch("take", size, align));
	OK(cuMemcpyDtoH_v2(addresses, list, sizeof(addresses)));
	for (int i = 0; i < COUNT; i++)
		got += addresses[i] != 0;
	return got;
}

static void blocks(void)
{
	start();
	begin();
	static const uint64_t aligns[] = {0, 0, 8, 256, 4096};
	static const uint64_t sizes[] = {24, 1000, 8, 100, 16};
	for (int round = 0; round < 5; round++) {
		uint64_t align = aligns[round] < 16 ? 16 : aligns[round];
		CHECK(take(sizes[round], aligns[round]) == COUNT);
		for (int i = 0; i < COUNT; i++) {
			CHECK(addresses[i] % align == 0);
			for (int k = 0; k < i; k++)
				CHECK(addresses[i] >= addresses[k] + sizes[round] ||
				      addresses[k] >= addresses[i] + sizes[round]);
		}
		OK(launch("give", 0, 0));
	}
	/* All came back in one piece: the whole heap fits once more, in one block. */
	OK(cuMemsetD8_v2(list, 0, sizeof(addresses)));
	CHECK(take(8 * MIB, 0) == 1);
	OK(launch("give", 0, 0));
	CHECK(take(0, 0) == 0);
	CHECK(take(UINT64_MAX, 0) == 0);
	CHECK(take(16, 48) == 0);
}

/* Blocks live on between kernels and modules, until the context ends. */
static void lives(void)
{
	CUcontext context = start();
	CUdeviceptr out;
	uint64_t values[COUNT];
	uint64_t before = physical_bytes(0);
	begin();
	CHECK(physical_bytes(0) - before >= 8 * MIB);
	OK(cuMemAlloc_v2(&out, sizeof(values)));
	CHECK(take(64, 0) == COUNT);
	OK(launch("mark", 7000, 0));
	OK(cuModuleUnload(module));
	OK(cuModuleLoadData(&module, kernels));
	OK(launch("look", out, 0));
	OK(cuMemcpyDtoH_v2(values, out, sizeof(values)));
	for (uint64_t i = 0; i < COUNT; i++)
		CHECK(values[i] == 7000 + 8 * i);
	/* They are the kernels' alone. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(values, addresses[0], 8));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(addresses[0], 0, 8));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(addresses[0]));
	OK(cuMemFree_v2(out));
	OK(cuMemFree_v2(list));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	CHECK(physical_bytes(0) == before);
}

static void limits(void)
{
	start();
	size_t size = 0;
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 10));
	begin();
	OK(cuCtxGetLimit(&size, CU_LIMIT_MALLOC_HEAP_SIZE));
	CHECK(size == 64 << 10);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20));
	CHECK(take(1024, 0) == 64);
	OK(launch("give", 0, 0));
	CHECK(take(128, 0) == 512);
}

static void no_room(void)
{
	start();
	CUmodule unused;
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 200 * MIB));
	EXPECT(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, cuModuleLoadData(&unused, kernels));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 * MIB));
	OK(cuModuleLoadData(&unused, kernels));
}

static void wrong_free(void)
{
	start();
	begin();
	CHECK(take(64, 0) == COUNT);
	OK(launch("give", 0, 0));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, launch("give", 0, 0));
}

int main(void)
{
	int failed = 0;
	failed += RUN(blocks, NULL);
	failed += RUN(lives, NULL);
	failed += RUN(limits, NULL);
	failed += RUN(no_room, "SOFTGPU_MEMORY=64M SOFTGPU_QUIET=1");
	failed += RUN(wrong_free, "SOFTGPU_QUIET=1");
	return failed != 0;
}
