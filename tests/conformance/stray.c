/* SPDX-License-Identifier: MIT */
/*
 * Accesses that go wrong, by copies and by kernels. Each is tried in a process of its own, because
 * a broken context stays broken.
 */
#include "tests/conformance/transcript.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static CUdeviceptr memory; /* 4 MIB of it */
static CUmodule module;

static void run_store(CUdeviceptr where)
{
	CLIENT_LAUNCH(client_function(module, "store"), 1, 1, 1, NULL, &where);
}

/* Tells what a copy or a fill gives at once, or when it is waited for. */
static void tell_work(const char *question, CUresult at_once)
{
	CUresult later = cuCtxSynchronize();

	tell(question, "%s", client_error_name(at_once != CUDA_SUCCESS ? at_once : later));
}

static void copy_to_address_0(void)
{
	unsigned value = 0;

	tell_work("copy to address 0", cuMemcpyHtoD(0, &value, sizeof(value)));
}

static void copy_from_no_host_memory(void)
{
	tell_work("copy from no host memory", cuMemcpyHtoD(memory, NULL, 4));
}

static void copy_beyond_the_end(void)
{
	tell_work("copy beyond the end", cuMemcpyDtoD(memory + 4 * MIB - 2, memory, 4));
}

static void fill_beyond_the_end(void)
{
	tell_work("fill beyond the end", cuMemsetD8(memory + 4 * MIB - 2, 0, 4));
}

static void copy_in_2d_from_nothing(void)
{
	tell_work("2D copy of nothing at all", cuMemcpy2D(NULL));
}

static void fill_freed_memory(void)
{
	CU(cuMemFree(memory));
	tell_work("fill freed memory", cuMemsetD8(memory, 0, 16));
}

static void copy_from_freed_memory(void)
{
	unsigned value;

	CU(cuMemFree(memory));
	tell_work("copy from freed memory", cuMemcpyDtoH(&value, memory, sizeof(value)));
}

/* A reservation of two units of which the first is mapped, with these rights. */
static CUdeviceptr make_mapping(CUmemAccess_flags rights, size_t *unit)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemAccessDesc access = {.location = properties.location, .flags = rights};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;

	CU(cuMemGetAllocationGranularity(unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CU(cuMemCreate(&handle, *unit, &properties, 0));
	CU(cuMemAddressReserve(&base, 2 * *unit, 0, 0, 0));
	CU(cuMemMap(base, *unit, 0, handle, 0));
	if (rights != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		CU(cuMemSetAccess(base, *unit, &access, 1));
	return base;
}

static void fill_without_access(void)
{
	size_t unit;
	CUdeviceptr base = make_mapping(CU_MEM_ACCESS_FLAGS_PROT_NONE, &unit);

	tell_work("fill a mapping without access", cuMemsetD8(base, 0, 16));
}

static void fill_beyond_a_mapping(void)
{
	size_t unit;
	CUdeviceptr base = make_mapping(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &unit);

	tell_work("fill beyond a mapping", cuMemsetD8(base, 0, unit + 1));
}

static void copy_after_unmapping(void)
{
	size_t unit;
	CUdeviceptr base = make_mapping(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &unit);
	unsigned value;

	CU(cuMemUnmap(base, unit));
	tell_work("copy after unmapping", cuMemcpyDtoH(&value, base, sizeof(value)));
}

static void store_without_access(void)
{
	size_t unit;
	CUdeviceptr base = make_mapping(CU_MEM_ACCESS_FLAGS_PROT_NONE, &unit);

	run_store(base);
	tell_status("kernel: store to a mapping without access", cuCtxSynchronize());
}

static void store_to_reserved(void)
{
	size_t unit;
	CUdeviceptr base = make_mapping(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &unit);

	run_store(base + unit);
	tell_status("kernel: store to a reserved address", cuCtxSynchronize());
}

static void store_to_read_only(void)
{
	size_t unit;
	CUdeviceptr base = make_mapping(CU_MEM_ACCESS_FLAGS_PROT_READ, &unit);

	run_store(base);
	tell_status("kernel: store to a mapping that may only be read", cuCtxSynchronize());
}

static void store_misaligned(void)
{
	run_store(memory + 2);
	tell_status("kernel: store of a word at an odd address", cuCtxSynchronize());
}

static void store_nowhere(void)
{
	CUdeviceptr more;
	CUstream stream;
	CUevent event;
	unsigned value;
	CUfunction store = client_function(module, "store");

	run_store(0x1000);
	tell_status("kernel: store to address 4096", cuCtxSynchronize());
	tell_status("then: wait again", cuCtxSynchronize());
	tell_status("then: copy", cuMemcpyDtoH(&value, memory, sizeof(value)));
	tell_status("then: allocate", cuMemAlloc(&more, 4096));
	tell_status("then: free", cuMemFree(memory));
	tell_status("then: create a stream", cuStreamCreate(&stream, 0));
	tell_status("then: create an event", cuEventCreate(&event, 0));
	tell_status("then: query the default stream", cuStreamQuery(NULL));
	tell_status("then: launch",
	            cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&memory}, NULL));
}

static void (*const tries[])(void) = {
    copy_to_address_0,       copy_from_no_host_memory, copy_beyond_the_end,    fill_beyond_the_end,
    copy_in_2d_from_nothing, fill_freed_memory,        copy_from_freed_memory, fill_without_access,
    fill_beyond_a_mapping,   copy_after_unmapping,     store_without_access,   store_to_reserved,
    store_to_read_only,      store_misaligned,         store_nowhere,
};

int main(void)
{
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		pid_t child = fork();
		int status;

		if (child < 0)
			program_die("fork failed");
		if (child == 0) {
			char name[256];

			client_open_device(name);
			module = client_load_module("kernels.ptx");
			CU(cuMemAlloc(&memory, 4 * MIB));
			tries[i]();
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child)
			program_die("waitpid failed");
		if (!WIFEXITED(status))
			tell("that try", "signal %d", WTERMSIG(status));
		else if (WEXITSTATUS(status))
			program_die("try %zu could not be made", i);
	}
	return 0;
}
