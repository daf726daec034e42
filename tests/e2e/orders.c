/* SPDX-License-Identifier: MIT */
/*
 * orders: the queries of other hardware about memory, asked about memory that moves.
 *
 *   orders [host]     CU_POINTER_ATTRIBUTE_SYNC_MEMOPS can be set and is kept; BUFFER_ID is the
 *                     allocation's; host: of memory that is there
 *   orders forms      forms of calls that take memory and are newer than CUDA 13.0: which of them
 *                     there are
 */
#include <stdbool.h>
#include <string.h>

#include "tests/e2e/elastic.h"
#include "tests/softgpu/waits.h"

#define SIZE ((size_t)8 * MIB)
#define HOLDS(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

/* Is true if the call need not wait; with memory of the host all but "Async" fills do. */
static bool on_host;
#define GOES_ON(call) (!WAITS(NULL, call) || on_host)

static unsigned long long id_of(CUdeviceptr address)
{
	unsigned long long id = 0;

	CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
	HOLDS(id != 0);
	return id;
}

static unsigned int in_order(CUdeviceptr address)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	unsigned int one = 7, list = 7;
	void *data[] = {&list};

	CHECK(cuPointerGetAttribute(&one, attribute, address));
	CHECK(cuPointerGetAttributes(1, &attribute, data, address));
	HOLDS(one == list);
	return one;
}

static void keep_order(CUdeviceptr address, unsigned int on)
{
	CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
}

static void orders(void)
{
	CUdeviceptr a, b, c, small, other;

	CHECK(cuMemAlloc_v2(&a, SIZE));
	CHECK(cuMemAlloc_v2(&b, SIZE));
	CHECK(cuMemAlloc_v2(&c, SIZE));
	CHECK(cuMemAlloc_v2(&small, 512));
	CHECK(cuMemAlloc_v2(&other, 512));
	HOLDS(id_of(a) == id_of(a + SIZE - 1) && id_of(a) != id_of(b));
	HOLDS(id_of(small) != id_of(other) && id_of(small) == id_of(small + 511));

	HOLDS(in_order(a) == 0);
	HOLDS(GOES_ON(cuMemcpyDtoD_v2(a, b, SIZE)) && GOES_ON(cuMemsetD8_v2(a, 1, SIZE)));
	keep_order(a + 4096, 1);
	HOLDS(in_order(a) == 1 && in_order(a + SIZE - 1) == 1 && in_order(b) == 0);
	HOLDS(WAITS(NULL, cuMemcpyDtoD_v2(a, b, SIZE)) && WAITS(NULL, cuMemcpyDtoD_v2(b, a, SIZE)));
	HOLDS(WAITS(NULL, cuMemcpy(a, b, SIZE)) && WAITS(NULL, cuMemcpyDtoD_v2_ptds(a, b, SIZE)));
	HOLDS(WAITS(NULL, cuMemsetD8_v2(a, 1, SIZE)) &&
	      WAITS(NULL, cuMemsetD32_v2(a + 1024, 1, 1)));
	HOLDS(GOES_ON(cuMemcpyDtoD_v2(b, c, SIZE)) && GOES_ON(cuMemsetD8_v2(b, 1, SIZE)));
	HOLDS(!WAITS(NULL, cuMemsetD8Async(a, 1, SIZE, NULL)));
	keep_order(a, 0);
	HOLDS(in_order(a) == 0 && GOES_ON(cuMemsetD8_v2(a, 1, SIZE)));

	/* What takes the address later begins anew. */
	unsigned long long before = id_of(a);
	keep_order(a, 1);
	CHECK(cuMemFree_v2(a));
	CHECK(cuMemAlloc_v2(&a, SIZE));
	HOLDS(id_of(a) != before && in_order(a) == 0);
}

static void forms(void)
{
	static const char *const names[] = {"cuMulticastBindMem", "cuMulticastBindAddr", "cuMemMap",
	                                    "cuMemcpyAsync"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CUdriverProcAddressQueryResult status;
		void *function = NULL, *kept = &function;

		CHECK(cuGetProcAddress_v2(names[i], &function, 13010, 0, &status));
		printf("%s %s %d", names[i], function ? "yes" : "no", (int)status);
		printf(" %d", (int)cuGetProcAddress(names[i], &kept, 13010, 0));
		printf(" %s\n", kept == (void *)&function ? "kept" : "set");
	}
}

int main(int argc, char **argv)
{
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	on_host = argc == 2 && strcmp(argv[1], "host") == 0;
	if (argc == 2 && strcmp(argv[1], "forms") == 0)
		forms();
	else
		orders();
	return 0;
}
