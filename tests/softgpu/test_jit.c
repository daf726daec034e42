/* SPDX-License-Identifier: MIT */
/* The options of compiling and linking: registers, logs, times, and refusals. */
#include "tests/softgpu/test.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
/* Of many registers; and of few, by itself. */
static const char kernels[] = HEAD
    ".visible .entry many(.param .u64 out)\n{\n	.reg .b32 %r<100>;\n	ret;\n}\n"
    ".visible .entry few(.param .u64 out)\n.maxnreg 24\n{\n	.reg .b32 %r<100>;\n	ret;\n}\n";
static const char broken[] = HEAD ".visible .entry wrong()\n{\n	frobnicate;\n}\n";

static int registers(CUmodule module, const char *name)
{
	CUfunction function;
	int value;
	OK(cuModuleGetFunction(&function, module, name));
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	return value;
}

/* Registers of both kernels, loaded with one option. */
static void check_registers(CUjit_option option, uintptr_t wanted, int many, int few)
{
	CUjit_option names[] = {option};
	void *values[] = {(void *)wanted};
	CUmodule module;
	CUlibrary library;
	CUlinkState link;
	void *image;
	size_t size;
	OK(cuModuleLoadDataEx(&module, kernels, 1, names, values));
	CHECK(registers(module, "many") == many && registers(module, "few") == few);
	CHECK(values[0] == (void *)wanted);
	OK(cuModuleUnload(module));
	OK(cuLibraryLoadData(&library, kernels, names, values, 1, NULL, NULL, 0));
	OK(cuLibraryGetModule(&module, library));
	CHECK(registers(module, "many") == many && registers(module, "few") == few);
	OK(cuLibraryUnload(library));
	/* What is linked with a bound keeps it. */
	OK(cuLinkCreate_v2(1, names, values, &link));
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)kernels, sizeof(kernels), NULL, 0, NULL,
	                    NULL));
	OK(cuLinkComplete(link, &image, &size));
	OK(cuModuleLoadData(&module, image));
	CHECK(registers(module, "many") == many && registers(module, "few") == few);
	OK(cuLinkDestroy(link));
}

static void bounds(void)
{
	start();
	check_registers(CU_JIT_OPTIMIZATION_LEVEL, 4, 104, 24);
	check_registers(CU_JIT_MAX_REGISTERS, 57, 57, 24);
	check_registers(CU_JIT_MAX_REGISTERS, 20, 20, 24); /* its own bound wins */
	check_registers(CU_JIT_MAX_REGISTERS, 200, 104, 24);
	check_registers(CU_JIT_THREADS_PER_BLOCK, 1000, 64, 24);
	check_registers(CU_JIT_THREADS_PER_BLOCK, 32, 104, 24);
}

static void logs(void)
{
	start();
	char error[300] = "x", info[300] = "x";
	float ms = -1;
	CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
	                        CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	                        CU_JIT_WALL_TIME,        CU_JIT_LOG_VERBOSE};
	void *values[] = {error, (void *)sizeof(error), info, (void *)sizeof(info), NULL, NULL};
	CUmodule module;
	OK(cuModuleLoadDataEx(&module, kernels, 6, names, values));
	CHECK(!error[0] && !info[0] && !values[1] && !values[3]);
	memcpy(&ms, &values[4], sizeof(ms));
	CHECK(ms > 0 && ms < 60000);
	values[1] = (void *)sizeof(error);
	values[3] = (void *)sizeof(info);
	values[5] = (void *)1;
	OK(cuModuleLoadDataEx(&module, kernels, 6, names, values));
	CHECK(strstr(info, "many: 104 registers") && (size_t)values[3] == strlen(info));
	/* A log that is too long is cut. */
	values[1] = (void *)10;
	values[3] = (void *)10;
	CHECK(cuModuleLoadDataEx(&module, broken, 6, names, values) != CUDA_SUCCESS);
	CHECK(strlen(error) == 9 && (size_t)values[1] == 9 && !info[0] && !values[3]);
}

static void mistakes(void)
{
	start();
	CUmodule module;
	CUlinkState link;
	CUlibrary library;
	CUjit_option both[] = {CU_JIT_THREADS_PER_BLOCK, CU_JIT_TARGET};
	CUjit_option wrong[] = {CU_JIT_NUM_OPTIONS}, level[] = {CU_JIT_OPTIMIZATION_LEVEL};
	void *values[] = {(void *)128, (void *)80}, *five[] = {(void *)5};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, kernels, 2, both, values));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, kernels, 1, wrong, values));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, kernels, 1, level, five));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, kernels, 1, NULL, values));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLinkCreate_v2(1, level, five, &link));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLibraryLoadData(&library, kernels, level, five, 1, NULL, NULL, 0));
}

int main(void)
{
	int failed = 0;
	failed += RUN(bounds, NULL);
	failed += RUN(logs, "SOFTGPU_QUIET=1");
	failed += RUN(mistakes, NULL);
	return failed != 0;
}
