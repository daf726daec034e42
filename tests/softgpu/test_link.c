/* SPDX-License-Identifier: MIT */
/* Linking PTX: private names, single definitions, missing names, and the log. */
#include "tests/softgpu/test.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* A kernel that stores what the function `value` gives. */
#define STORE(name, function)                         \
	".visible .entry " name "(.param .u64 out)\n" \
	"{\n"                                         \
	"	.reg .b32 %r<2>;\n"                         \
	"	.reg .b64 %rd<2>;\n"                        \
	"	{ .param .b32 got;\n"                       \
	"	call.uni (got), " function ", ();\n"  \
	"	ld.param.b32 %r1, [got]; }\n"               \
	"	ld.param.u64 %rd1, [out];\n"                \
	"	st.global.u32 [%rd1], %r1;\n"               \
	"	ret;\n"                                     \
	"}\n"
#define DECLARE(linkage, name) linkage " .func (.param .b32 result) " name "();\n"
#define DEFINE(linkage, name, number)                      \
	linkage " .func (.param .b32 result) " name "()\n" \
	        "{ // value: \"" name "\" { not a brace\n" \
	        "	.reg .b32 %r<2>;\n"                      \
	        "	mov.u32 %r1, " number ";\n"        \
	        "	st.param.b32 [result], %r1;\n"           \
	        "	ret;\n"                                  \
	        "}\n"

static void add(CUlinkState link, const char *text)
{
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, "input", 0,
	                    NULL, NULL));
}

/* The module of the two texts linked. */
static CUmodule link_two(const char *first, const char *second)
{
	CUlinkState link;
	CUmodule module;
	void *image;
	size_t size;
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	add(link, first);
	add(link, second);
	OK(cuLinkComplete(link, &image, &size));
	CHECK(size == strlen(image) + 1);
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	return module;
}

static unsigned int run(CUmodule module, const char *name)
{
	CUfunction function;
	CUdeviceptr out;
	unsigned int value = 0;
	OK(cuModuleGetFunction(&function, module, name));
	OK(cuMemAlloc_v2(&out, sizeof(value)));
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 64, NULL, (void *[]){&out}, NULL));
	OK(cuMemcpyDtoH_v2(&value, out, sizeof(value)));
	OK(cuMemFree_v2(out));
	return value;
}

/* Answers of a link that fails, with the log. */
static void expect_failure(const char *first, const char *second, const char *complaint)
{
	char log[200] = "";
	CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};
	void *values[] = {(void *)sizeof(log), log};
	CUlinkState link;
	void *image = NULL;
	size_t size;
	OK(cuLinkCreate_v2(2, names, values, &link));
	add(link, first);
	if (second)
		add(link, second);
	EXPECT(CUDA_ERROR_UNKNOWN, cuLinkComplete(link, &image, &size));
	CHECK(strcmp(log, complaint) == 0 && (size_t)values[0] == strlen(log));
	OK(cuLinkDestroy(link));
}

static void names(void)
{
	start();
	/* Both texts have a helper for themselves, declared before it is defined. */
	CUmodule module =
	    link_two(HEAD DECLARE("", "helper") STORE("one", "helper") DEFINE("", "helper", "1"),
	             HEAD DECLARE("", "helper") STORE("two", "helper") DEFINE("", "helper", "2"));
	CHECK(run(module, "one") == 1 && run(module, "two") == 2);
	OK(cuModuleUnload(module));

	/* One's own helper beside another's public one, in either order. */
	static const char own[] = HEAD DEFINE("", "helper", "3") STORE("three", "helper");
	static const char public[] = HEAD DEFINE(".visible", "helper", "4") STORE("four", "helper");
	module = link_two(own, public);
	CHECK(run(module, "three") == 3 && run(module, "four") == 4);
	OK(cuModuleUnload(module));
	module = link_two(public, own);
	CHECK(run(module, "three") == 3 && run(module, "four") == 4);
	OK(cuModuleUnload(module));
}

static void definitions(void)
{
	start();
	static const char user[] = HEAD DECLARE(".extern", "value") STORE("use", "value");
	static const char weak[] = HEAD DEFINE(".weak", "value", "5");
	static const char strong[] = HEAD DEFINE(".visible", "value", "6") STORE("same", "value");
	CUmodule module = link_two(user, strong);
	CHECK(run(module, "use") == 6 && run(module, "same") == 6);
	OK(cuModuleUnload(module));
	module = link_two(weak, strong);
	CHECK(run(module, "same") == 6);
	OK(cuModuleUnload(module));
	module = link_two(strong, weak);
	CHECK(run(module, "same") == 6);
	OK(cuModuleUnload(module));
	module = link_two(user, weak);
	CHECK(run(module, "use") == 5);
	OK(cuModuleUnload(module));

	/* A function that is declared with a result and has none is called all the same. */
	module = link_two(user, HEAD ".visible .func value()\n{\n	ret;\n}\n");
	run(module, "use");
	OK(cuModuleUnload(module));

	expect_failure(user, NULL, "undefined reference to 'value'");
	expect_failure(strong, HEAD DEFINE(".visible", "value", "7"),
	               "multiple definition of 'value'");
	expect_failure(HEAD ".extern .global .u32 missing;\n", HEAD,
	               "undefined reference to 'missing'");
}

static void variables(void)
{
	start();
	/*
	 * A table of a text's own functions, a variable used before it is defined, shared memory.
	 */
	static const char first[] =
	    HEAD ".extern .global .align 4 .u32 late;\n"
	         ".extern .shared .align 16 .b8 cells[];\n"
	         ".global .align 4 .u32 own = 10;\n" DEFINE(
	             "", "helper", "0") ".global .align 8 .u64 table[1] = {helper};\n"
	                                ".visible .entry sum(.param .u64 out)\n"
	                                "{\n"
	                                "	.reg .b32 %r<5>;\n"
	                                "	.reg .b64 %rd<5>;\n"
	                                "	ld.param.u64 %rd1, [out];\n"
	                                "	ld.global.u32 %r1, [late];\n"
	                                "	ld.global.u32 %r2, [own];\n"
	                                "	add.u32 %r3, %r1, %r2;\n"
	                                "	st.shared.u32 [cells+16], %r3;\n"
	                                "	ld.shared.u32 %r4, [cells+16];\n"
	                                "	st.global.u32 [%rd1], %r4;\n"
	                                "	ret;\n"
	                                "}\n";
	static const char second[] =
	    HEAD ".extern .shared .align 16 .b8 cells[];\n"
	         ".visible .global .align 4 .u32 late = 32;\n"
	         ".global .align 4 .u32 own = 20;\n" DEFINE(
	             "", "helper", "99") ".global .align 8 .u64 table[1] = {helper};\n"
	                                 ".visible .entry through_table(.param .u64 out)\n"
	                                 "{\n"
	                                 "	.reg .b32 %r<4>;\n"
	                                 "	.reg .b64 %rd<3>;\n"
	                                 "	ld.global.u64 %rd2, [table];\n"
	                                 "	{ .param .b32 got;\n"
	                                 "	prototype: .callprototype (.param .b32 _) _ ();\n"
	                                 "	call (got), %rd2, (), prototype;\n"
	                                 "	ld.param.b32 %r1, [got]; }\n"
	                                 "	ld.global.u32 %r2, [own];\n"
	                                 "	st.shared.u32 [cells], %r2;\n"
	                                 "	add.u32 %r3, %r1, %r2;\n"
	                                 "	ld.param.u64 %rd1, [out];\n"
	                                 "	st.global.u32 [%rd1], %r3;\n"
	                                 "	ret;\n"
	                                 "}\n";
	CUmodule module = link_two(first, second);
	CHECK(run(module, "sum") == 42);
	CHECK(run(module, "through_table") == 119);
	CUdeviceptr late;
	size_t size;
	unsigned int value = 0;
	OK(cuModuleGetGlobal_v2(&late, &size, module, "late"));
	OK(cuMemcpyDtoH_v2(&value, late, sizeof(value)));
	CHECK(size == 4 && value == 32);
	OK(cuModuleUnload(module));
}

/* A kernel that calls the device runtime: kind of call, results in out[rank]. */
static const char grid_kernels[] =
    HEAD ".extern .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope);\n"
         ".extern .func (.param .b32 result) cudaCGSynchronize(.param .b64 h, .param .b32 f);\n"
         ".extern .func (.param .b32 result) cudaCGGetSize(.param .b64 t, .param .b64 g, .param "
         ".b64 h);\n"
         ".extern .func (.param .b32 result) cudaCGGetRank(.param .b64 t, .param .b64 g, .param "
         ".b64 h);\n"
         /* rounds of to[i] = from[i] + from[(i + 1) % size], from and to in turns */
         ".visible .entry ring(.param .u64 cells, .param .u64 scratch, .param .u32 rounds, .param "
         ".u64 failed)\n"
         "{\n"
         "	.reg .pred %p;\n"
         "	.reg .b32 %r<10>;\n"
         "	.reg .b64 %rd<10>;\n"
         "	.local .align 4 .b8 answers[16];\n"
         "	ld.param.u64 %rd1, [cells];\n"
         "	ld.param.u64 %rd2, [scratch];\n"
         "	ld.param.u32 %r1, [rounds];\n"
         "	{ .param .b32 a; .param .b64 got;\n"
         "	st.param.b32 [a], 1;\n"
         "	call.uni (got), cudaCGGetIntrinsicHandle, (a);\n"
         "	ld.param.b64 %rd3, [got]; }\n"
         "	mov.u64 %rd4, answers;\n"
         "	cvta.local.u64 %rd4, %rd4;\n"
         "	add.u64 %rd5, %rd4, 4;\n"
         "	add.u64 %rd6, %rd4, 8;\n"
         "	{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 got;\n"
         "	st.param.b64 [a], %rd4;\n"
         "	st.param.b64 [b], %rd5;\n"
         "	st.param.b64 [c], %rd3;\n"
         "	call.uni (got), cudaCGGetSize, (a, b, c);\n"
         "	ld.param.b32 %r2, [got]; }\n"
         "	setp.ne.u32 %p, %r2, 0;\n"
         "	@%p bra fail;\n"
         "	{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 got;\n"
         "	st.param.b64 [a], %rd6;\n"
         "	st.param.b64 [b], 0;\n"
         "	st.param.b64 [c], %rd3;\n"
         "	call.uni (got), cudaCGGetRank, (a, b, c);\n"
         "	ld.param.b32 %r2, [got]; }\n"
         "	ld.local.u32 %r3, [answers];\n"   /* the size */
         "	ld.local.u32 %r4, [answers+8];\n" /* the rank */
         "	add.u32 %r5, %r4, 1;\n"
         "	setp.eq.u32 %p, %r5, %r3;\n"
         "	selp.u32 %r5, 0, %r5, %p;\n"
         "again:\n"
         "	mul.wide.u32 %rd7, %r4, 4;\n"
         "	add.u64 %rd8, %rd1, %rd7;\n"
         "	add.u64 %rd9, %rd2, %rd7;\n"
         "	ld.global.u32 %r6, [%rd8];\n"
         "	mul.wide.u32 %rd7, %r5, 4;\n"
         "	add.u64 %rd8, %rd1, %rd7;\n"
         "	ld.global.u32 %r7, [%rd8];\n"
         "	add.u32 %r6, %r6, %r7;\n"
         "	st.global.u32 [%rd9], %r6;\n"
         "	{ .param .b64 a; .param .b32 b; .param .b32 got;\n"
         "	st.param.b64 [a], %rd3;\n"
         "	st.param.b32 [b], 0;\n"
         "	call.uni (got), cudaCGSynchronize, (a, b);\n"
         "	ld.param.b32 %r2, [got]; }\n"
         "	mov.u64 %rd7, %rd1;\n"
         "	mov.u64 %rd1, %rd2;\n"
         "	mov.u64 %rd2, %rd7;\n"
         "	sub.u32 %r1, %r1, 1;\n"
         "	setp.ne.u32 %p, %r1, 0;\n"
         "	@%p bra again;\n"
         "	ld.local.u32 %r2, [answers+4];\n" /* of grids there is one */
         "	sub.u32 %r2, %r2, 1;\n"
         "fail:\n"
         "	ld.param.u64 %rd1, [failed];\n"
         "	red.global.or.b32 [%rd1], %r2;\n"
         "	ret;\n"
         "}\n";

enum { CELLS = 5 * 2 * 2 * 8 * 3 * 2, ROUNDS = 9 };

static void grids(void)
{
	start();
	/* Of the library nothing but its name is read; the name is in the head of a member. */
	static const char library[] =
	    "!<arch>\ncuda_device_runtime.o/0           0     0     644     "
	    "0         `\n\0machine code";
	static const char other[] =
	    "!<arch>\nmathematics.o/  0           0     0     644     0       "
	    "  `\n\0machine code";
	CUlinkState link;
	CUmodule module;
	CUfunction ring;
	void *image;
	size_t size;
	/* Without the library the names mean nothing. */
	expect_failure(grid_kernels, NULL, "undefined reference to 'cudaCGGetIntrinsicHandle'");
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	add(link, grid_kernels);
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
	       cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, (void *)other, sizeof(other), NULL, 0,
	                        NULL, NULL));
	char path[] = "/tmp/softgpu-library-XXXXXX";
	int file = mkstemp(path);
	CHECK(file >= 0 && write(file, library, sizeof(library)) == sizeof(library));
	close(file);
	OK(cuLinkAddFile_v2(link, CU_JIT_INPUT_LIBRARY, path, 0, NULL, NULL));
	unlink(path);
	/* Twice is once. */
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_LIBRARY, (void *)library, sizeof(library), NULL, 0,
	                    NULL, NULL));
	OK(cuLinkComplete(link, &image, &size));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	OK(cuModuleGetFunction(&ring, module, "ring"));

	unsigned int cells[2][CELLS], got[CELLS], failed = 0, rounds = ROUNDS;
	CUdeviceptr device[3];
	for (int i = 0; i < CELLS; i++)
		cells[0][i] = (unsigned int)rand();
	for (int i = 0; i < 3; i++)
		OK(cuMemAlloc_v2(&device[i], sizeof(cells[0])));
	OK(cuMemcpyHtoD_v2(device[0], cells[0], sizeof(cells[0])));
	OK(cuMemsetD8_v2(device[2], 0, 4));
	void *arguments[] = {&device[0], &device[1], &rounds, &device[2]};
	OK(cuLaunchCooperativeKernel(ring, 5, 2, 2, 8, 3, 2, 0, NULL, arguments));
	OK(cuMemcpyDtoH_v2(got, device[ROUNDS % 2], sizeof(got)));
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < CELLS; i++)
			cells[1 - round % 2][i] =
			    cells[round % 2][i] + cells[round % 2][(i + 1) % CELLS];
	CHECK(memcmp(got, cells[ROUNDS % 2], sizeof(got)) == 0);
	OK(cuMemcpyDtoH_v2(&failed, device[2], 4));
	CHECK(failed == 0);
	/* An ordinary launch has no grid to wait for. */
	OK(cuLaunchKernel(ring, 5, 2, 2, 8, 3, 2, 0, NULL, arguments, NULL));
	OK(cuMemcpyDtoH_v2(&failed, device[2], 4));
	CHECK(failed == 1);
}

static void mistakes(void)
{
	start();
	CUlinkState link;
	CUmodule module;
	void *image;
	size_t size;
	char garbage[] = "no code", text[] = HEAD DEFINE(".visible", "value", "1");
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkCreate_v2(0, NULL, NULL, NULL));
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkComplete(link, &image, &size));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, NULL, 5, NULL, 0, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_PTX, cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, garbage,
	                                                sizeof(garbage), NULL, 0, NULL, NULL));
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
	       cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, text, sizeof(text), NULL, 0, NULL, NULL));
	EXPECT(CUDA_ERROR_FILE_NOT_FOUND,
	       cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/no/such/file", 0, NULL, NULL));
	add(link, text);
	OK(cuLinkComplete(link, &image, &size));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, sizeof(text), NULL, 0, NULL, NULL));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link));

	/* Texts that end too early neither crash nor link to something that loads. */
	static const char *const broken[] = {
	    ".version",      ".version 7.0",           HEAD ".visible",
	    HEAD ".func (",  HEAD ".func f() {",       HEAD ".global .u32 x = {",
	    HEAD "/* never", HEAD ".visible .entry e", HEAD ".section .debug {",
	    HEAD ".file \"", HEAD ".extern .func f",   HEAD "}",
	};
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		OK(cuLinkCreate_v2(0, NULL, NULL, &link));
		add(link, broken[i]);
		add(link, text);
		if (cuLinkComplete(link, &image, &size) == CUDA_SUCCESS &&
		    cuModuleLoadData(&module, image) == CUDA_SUCCESS)
			OK(cuModuleUnload(module));
		OK(cuLinkDestroy(link));
	}
}

int main(void)
{
	int failed = 0;
	failed += RUN(names, NULL);
	failed += RUN(definitions, NULL);
	failed += RUN(variables, NULL);
	failed += RUN(grids, "SOFTGPU_QUIET=1");
	failed += RUN(mistakes, "SOFTGPU_QUIET=1");
	return failed != 0;
}
