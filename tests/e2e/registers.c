/* SPDX-License-Identifier: MIT */
/*
 * registers LIBRARY [DEVICE_FILE]: memory of a library that registers it for a network, memory that
 * the library or the program asks about as one does before registering it, and other memory, 4 MiB
 * each; DEVICE_FILE is opened first. Prints "ready", waits for the end of its input, and checks all
 * bytes.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "tests/e2e/elastic.h"
#include "tests/e2e/registers.h"

enum { BYTES = 4 * MIB, PIECES = 5 };

static __typeof__(&library_allocate) allocate;
static __typeof__(&library_create) create;
static __typeof__(&library_ask) ask;
static CUdeviceptr piece[PIECES];

static void *symbol(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;

	if (!found) {
		fprintf(stderr, "registers: %s\n", dlerror());
		exit(1);
	}
	return found;
}

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	allocate = (__typeof__(allocate))symbol(library, "library_allocate");
	create = (__typeof__(create))symbol(library, "library_create");
	ask = (__typeof__(ask))symbol(library, "library_ask");
}

static void map(CUdeviceptr *address)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	CHECK(create(&handle, BYTES, &prop));
	CHECK(cuMemAddressReserve(address, BYTES, 0, 0, 0));
	CHECK(cuMemMap(*address, BYTES, 0, handle, 0));
	CHECK(cuMemSetAccess(*address, BYTES, &access, 1));
	CHECK(cuMemRelease(handle));
}

static void check_bytes(void)
{
	static unsigned char back[BYTES];

	for (int i = 0; i < PIECES; i++) {
		CHECK(cuMemcpyDtoH_v2(back, piece[i], BYTES));
		for (size_t at = 0; at < BYTES; at++) {
			if (back[at] == i + 1)
				continue;
			fprintf(stderr, "registers: byte %zu of piece %d is %d\n", at, i, back[at]);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned int capable;
	CUcontext context;

	if (argc < 2 || (argc > 2 && open(argv[2], O_RDWR) < 0)) {
		perror("registers");
		return 1;
	}
	load(argv[1]);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc_v2(&piece[0], BYTES));
	CHECK(allocate(&piece[1], BYTES));
	map(&piece[2]);
	CHECK(cuMemAlloc_v2(&piece[3], BYTES));
	CHECK(ask(piece[3]));
	CHECK(cuMemAlloc_v2(&piece[4], BYTES));
	CHECK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
	                            piece[4]));
	for (int i = 0; i < PIECES; i++)
		CHECK(cuMemsetD8_v2(piece[i], (unsigned char)(i + 1), BYTES));
	CHECK(cuCtxSynchronize());
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	check_bytes();
	return 0;
}
