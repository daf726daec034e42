/* SPDX-License-Identifier: MIT */
/* Modules, functions and launches: look-ups, attributes, refusals. */
#include "tests/conformance/transcript.h"

#include <stdlib.h>
#include <string.h>

static CUmodule module;
static CUfunction parameters, add_one;
static CUdeviceptr value;

static void ask_modules(void)
{
	CUmodule bad;
	CUfunction function;
	CUdeviceptr address = 0;
	size_t bytes = 0;
	unsigned count = 0;

	tell_status("load NULL", cuModuleLoadData(&bad, NULL));
	tell_status("load what is no code", cuModuleLoadData(&bad, "This is no code at all."));
	tell_status("load PTX with a mistake",
	            cuModuleLoadData(&bad, ".version 6.4\n.target sm_75\n.address_size 64\n"
	                                   ".visible .entry k() { mov.u32 %r1, 1; ret; }\n"));
	tell_status("load a file that is not there", cuModuleLoad(&bad, "/no/such/file.ptx"));
	tell_status("unload NULL", cuModuleUnload(NULL));
	tell_status("function that is not there",
	            cuModuleGetFunction(&function, module, "nothing"));
	tell_status("function without a name", cuModuleGetFunction(&function, module, NULL));
	tell_status("global that is not there",
	            cuModuleGetGlobal(&address, &bytes, module, "nothing"));
	TELL_VALUE("size of a global", cuModuleGetGlobal(NULL, &bytes, module, "variable"), "%zu",
	           bytes);
	TELL_VALUE("address of a global alone",
	           cuModuleGetGlobal(&address, NULL, module, "constant"), "%s",
	           address ? "some" : "none");
	tell_status("neither address nor size", cuModuleGetGlobal(NULL, NULL, module, "variable"));
	double constant = 0;
	TELL_VALUE("a constant's value", cuMemcpyDtoH(&constant, address, sizeof(constant)), "%g",
	           constant);
	TELL_VALUE("functions of a module", cuModuleGetFunctionCount(&count, module), "%u", count);
}

static void tell_attribute(const char *question, CUfunction_attribute attribute)
{
	int got = -1;

	TELL_VALUE(question, cuFuncGetAttribute(&got, attribute, parameters), "%d", got);
}

static void ask_functions(void)
{
	int got = -1;
	size_t offset = 0, size = 0;
	CUmodule of = NULL;
	const char *name = NULL;

	tell_attribute("static shared memory", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
	tell_attribute("PTX version", CU_FUNC_ATTRIBUTE_PTX_VERSION);
	CU(cuFuncGetAttribute(&got, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, parameters));
	tell_bool("a block may have some threads", got > 0 && got <= 1024);
	CU(cuFuncGetAttribute(&got, CU_FUNC_ATTRIBUTE_NUM_REGS, parameters));
	tell_bool("it uses registers", got > 0 && got < 256);
	tell_status("an unknown attribute",
	            cuFuncGetAttribute(&got, (CUfunction_attribute)1000, parameters));
	tell_status("attribute into NULL",
	            cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, parameters));
	tell_status("set a read-only attribute",
	            cuFuncSetAttribute(parameters, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
	tell_status(
	    "set dynamic shared memory to -1",
	    cuFuncSetAttribute(parameters, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
	TELL_VALUE("module of a function", cuFuncGetModule(&of, parameters), "%s",
	           of == module ? "its own" : "another");
	TELL_VALUE("name of a function", cuFuncGetName(&name, parameters), "%s", name);
	for (size_t i = 0; i < 6; i++) {
		char question[] = "parameter 0";
		question[10] = (char)('0' + i);
		TELL_VALUE(question, cuFuncGetParamInfo(parameters, i, &offset, &size),
		           "offset %zu, size %zu", offset, size);
	}
}

static CUresult launch(unsigned grid_x, unsigned grid_z, unsigned block_x, unsigned block_z,
                       unsigned shared, void **arguments, void **extra)
{
	return cuLaunchKernel(add_one, grid_x, 1, grid_z, block_x, 1, block_z, shared, NULL,
	                      arguments, extra);
}

static void ask_launches(void)
{
	void *arguments[] = {&value};
	size_t size = sizeof(value);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &value, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
	                 CU_LAUNCH_PARAM_END};
	unsigned got = 0;
	int blocks = 0;

	tell_status("launch a grid of 0 blocks", launch(0, 1, 1, 1, 0, arguments, NULL));
	tell_status("launch blocks of 0 threads", launch(1, 1, 0, 1, 0, arguments, NULL));
	tell_status("launch blocks of 1025 threads", launch(1, 1, 1025, 1, 0, arguments, NULL));
	tell_status("launch blocks of 65 layers", launch(1, 1, 1, 65, 0, arguments, NULL));
	tell_status("launch a grid of 65536 layers", launch(1, 65536, 1, 1, 0, arguments, NULL));
	tell_status("launch with 1 GiB of shared memory",
	            launch(1, 1, 1, 1, 1u << 30, arguments, NULL));
	tell_status("launch with arguments given twice", launch(1, 1, 1, 1, 0, arguments, extra));
	tell_status("launch no function",
	            cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CU(cuCtxSynchronize());
	CU(cuMemcpyDtoH(&got, value, sizeof(got)));
	tell("launches so far", "%u", got);
	tell_status("launch", launch(1, 1, 1, 1, 0, arguments, NULL));
	tell_status("launch with arguments in a buffer", launch(1, 1, 1, 1, 0, NULL, extra));
	CU(cuCtxSynchronize());
	CU(cuMemcpyDtoH(&got, value, sizeof(got)));
	tell("launches then", "%u", got);
	tell_status("occupancy of blocks of 0 threads",
	            cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 0, 0));
	TELL_VALUE("occupancy of blocks of 1024 threads",
	           cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 1024, 0), "%s",
	           blocks >= 1 ? "some" : "none");
}

static void ask_libraries(void)
{
	char *ptx = program_read_beside("kernels.ptx");
	CUlibrary library;
	CUkernel kernel, again;
	CUmodule of_library;
	CUfunction function;
	unsigned got = 0;

	CU(cuMemsetD32(value, 0, 1));
	tell_status("load a library of NULL",
	            cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
	CU(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	free(ptx);
	tell_status("kernel that is not there", cuLibraryGetKernel(&kernel, library, "nothing"));
	CU(cuLibraryGetKernel(&kernel, library, "add_one"));
	CU(cuLibraryGetKernel(&again, library, "add_one"));
	tell_bool("the same kernel each time", kernel == again);
	CLIENT_LAUNCH((CUfunction)kernel, 1, 1, 1, NULL, &value);
	CU(cuKernelGetFunction(&function, kernel));
	CLIENT_LAUNCH(function, 1, 1, 1, NULL, &value);
	CU(cuCtxSynchronize());
	CU(cuMemcpyDtoH(&got, value, sizeof(got)));
	tell("launches by kernel and by function", "%u", got);
	CU(cuLibraryGetModule(&of_library, library));
	tell_status("unload a library's module", cuModuleUnload(of_library));
	tell_status("unload a library", cuLibraryUnload(library));
}

int main(void)
{
	char name[256];

	client_open_device(name);
	module = client_load_module("kernels.ptx");
	parameters = client_function(module, "parameters");
	add_one = client_function(module, "add_one");
	CU(cuMemAlloc(&value, 4));
	CU(cuMemsetD32(value, 0, 1));
	ask_modules();
	ask_functions();
	ask_launches();
	ask_libraries();
	client_close_device(0);
	return 0;
}
