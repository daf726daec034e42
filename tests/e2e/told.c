/* SPDX-License-Identifier: MIT */
/*
 * told: asks the driver everything it tells of memory, with every NULL, of memory of each kind, and
 * prints the answers.
 *
 * Addresses are printed as offsets into the memory, contexts and pools as whether they are the ones
 * used. An output that was not written is "-". Amounts of free memory are left out; that they were
 * written is not.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE      ((size_t)4 << 20)
#define UNTOUCHED 0xa5

static CUcontext context;
static CUdevice device;
static CUmemoryPool pool;
static CUdeviceptr memory;
static const char *kind;

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "told: %s: error %d\n", what, (int)result);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

union answer {
	unsigned char bytes[64];
	uint64_t number;
	uint32_t half;
	void *pointer;
};

static union answer untouched(void)
{
	union answer answer;

	memset(&answer, UNTOUCHED, sizeof(answer));
	return answer;
}

static const char *told(const union answer *answer)
{
	static char text[64];
	const union answer none = untouched();

	if (memcmp(answer->bytes, none.bytes, sizeof(none.bytes)) == 0)
		return "-";
	if (answer->pointer == (void *)context)
		return "context";
	if (answer->pointer == (void *)pool)
		return "pool";
	/* An int alone was written. */
	if (memcmp(answer->bytes + 4, none.bytes + 4, 4) == 0) {
		snprintf(text, sizeof(text), "%u", answer->half);
	} else if (answer->bytes[1] == UNTOUCHED && answer->bytes[2] == UNTOUCHED) {
		snprintf(text, sizeof(text), "%u", answer->bytes[0]); /* a bool */
	} else if (answer->number - memory < SIZE) {
		snprintf(text, sizeof(text), "memory+%llu",
		         (unsigned long long)(answer->number - memory));
	} else {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)answer->number);
	}
	return text;
}

/* --- pointers --- */

#define ATTRIBUTES(X)                 \
	X(CONTEXT)                    \
	X(MEMORY_TYPE)                \
	X(DEVICE_POINTER)             \
	X(HOST_POINTER)               \
	X(SYNC_MEMOPS)                \
	X(IS_MANAGED)                 \
	X(DEVICE_ORDINAL)             \
	X(IS_LEGACY_CUDA_IPC_CAPABLE) \
	X(RANGE_START_ADDR)           \
	X(RANGE_SIZE)                 \
	X(MAPPED)                     \
	X(ALLOWED_HANDLE_TYPES)       \
	X(IS_GPU_DIRECT_RDMA_CAPABLE) \
	X(ACCESS_FLAGS)               \
	X(MEMPOOL_HANDLE)             \
	X(MAPPING_SIZE)               \
	X(MAPPING_BASE_ADDR)

static const struct {
	const char *name;
	CUpointer_attribute attribute;
} attributes[] = {
#define X(name) {#name, CU_POINTER_ATTRIBUTE_##name},
    ATTRIBUTES(X)
#undef X
        {"none", (CUpointer_attribute)0},
    {"unknown", (CUpointer_attribute)9999},
};

enum { ATTRIBUTE_COUNT = sizeof(attributes) / sizeof(*attributes) };

static void pointers(size_t offset)
{
	CUpointer_attribute names[ATTRIBUTE_COUNT];
	union answer answers[ATTRIBUTE_COUNT];
	void *data[ATTRIBUTE_COUNT];
	CUresult result;

	for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
		union answer answer = untouched();

		result = cuPointerGetAttribute(&answer, attributes[i].attribute, memory + offset);
		printf("%s+%zu %s: %d %s\n", kind, offset, attributes[i].name, result,
		       told(&answer));
		names[0] = attributes[i].attribute;
		answers[0] = untouched();
		data[0] = &answers[0];
		result = cuPointerGetAttributes(1, names, data, memory + offset);
		printf("%s+%zu %s, in a list: %d %s\n", kind, offset, attributes[i].name, result,
		       told(&answers[0]));
		printf("%s+%zu %s, NULL: %d\n", kind, offset, attributes[i].name,
		       cuPointerGetAttribute(NULL, attributes[i].attribute, memory + offset));
		data[0] = NULL;
		printf("%s+%zu %s, NULL in a list: %d\n", kind, offset, attributes[i].name,
		       cuPointerGetAttributes(1, names, data, memory + offset));
	}
	/* All that are known, at once. */
	for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
		names[i] = attributes[i].attribute;
		answers[i] = untouched();
		data[i] = &answers[i];
	}
	result = cuPointerGetAttributes(ATTRIBUTE_COUNT - 2, names, data, memory + offset);
	for (int i = 0; i < ATTRIBUTE_COUNT - 2; i++)
		printf("%s+%zu all: %d %s %s\n", kind, offset, result, attributes[i].name,
		       told(&answers[i]));
	printf("%s no attributes: %d\n", kind, cuPointerGetAttributes(0, names, data, memory));
	printf("%s no list: %d\n", kind, cuPointerGetAttributes(1, NULL, data, memory));
	printf("%s no answers: %d\n", kind, cuPointerGetAttributes(1, names, NULL, memory));
}

static void ranges(size_t offset)
{
	union answer base = untouched(), size = untouched();
	CUresult result =
	    cuMemGetAddressRange_v2((CUdeviceptr *)&base, (size_t *)&size, memory + offset);

	printf("%s+%zu range: %d %s", kind, offset, result, told(&base));
	printf(" %s\n", told(&size));
	base = size = untouched();
	result = cuMemGetAddressRange_v2((CUdeviceptr *)&base, NULL, memory + offset);
	printf("%s+%zu base alone: %d %s\n", kind, offset, result, told(&base));
	result = cuMemGetAddressRange_v2(NULL, (size_t *)&size, memory + offset);
	printf("%s+%zu size alone: %d %s\n", kind, offset, result, told(&size));
	printf("%s+%zu neither: %d\n", kind, offset,
	       cuMemGetAddressRange_v2(NULL, NULL, memory + offset));
}

static void memory_is(const char *name)
{
	kind = name;
	pointers(0);
	pointers(12345);
	ranges(0);
	ranges(12345);
	ranges(SIZE - 1);
}

/* --- devices --- */

static void amounts(void)
{
	static const char *const names[] = {"neither", "free", "total", "both"};

	for (int which = 0; which < 4; which++) {
		union answer free_bytes = untouched(), total = untouched();
		CUresult result = cuMemGetInfo_v2(which & 1 ? (size_t *)&free_bytes : NULL,
		                                  which & 2 ? (size_t *)&total : NULL);

		printf("info, %s: %d %d", names[which], result, *told(&free_bytes) != '-');
		printf(" %d\n", *told(&total) != '-');
	}
	printf("total, NULL: %d\n", cuDeviceTotalMem_v2(NULL, device));
	printf("total, no device: %d\n", cuDeviceTotalMem_v2(&(size_t){0}, 99));
}

static void granularities(const CUmemAllocationProp *prop)
{
	for (int option = 0; option < 3; option++) {
		union answer answer = untouched();
		CUresult result = cuMemGetAllocationGranularity(
		    (size_t *)&answer, prop, (CUmemAllocationGranularity_flags)option);

		printf("granularity %d: %d %s\n", option, result, told(&answer));
		printf("granularity %d, NULL: %d\n", option,
		       cuMemGetAllocationGranularity(NULL, prop,
		                                     (CUmemAllocationGranularity_flags)option));
	}
	printf("granularity of nothing: %d\n",
	       cuMemGetAllocationGranularity(&(size_t){0}, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void properties(CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop;
	CUresult result;

	memset(&prop, UNTOUCHED, sizeof(prop));
	result = cuMemGetAllocationPropertiesFromHandle(&prop, handle);
	printf("properties: %d type %d location %d %d handles %d flags %d %d %d\n", result,
	       prop.type, prop.location.type, prop.location.id, prop.requestedHandleTypes,
	       prop.allocFlags.compressionType, prop.allocFlags.gpuDirectRDMACapable,
	       prop.allocFlags.usage);
	printf("properties, NULL: %d\n", cuMemGetAllocationPropertiesFromHandle(NULL, handle));
	printf("properties of nothing: %d\n", cuMemGetAllocationPropertiesFromHandle(&prop, 0));
}

static void pool_attributes(CUmemoryPool of)
{
	for (int attribute = 0; attribute < 12; attribute++) {
		CUmemPool_attribute name = (CUmemPool_attribute)attribute;
		union answer answer = untouched();
		CUresult result = cuMemPoolGetAttribute(of, name, &answer);

		printf("%s pool attribute %d: %d %s\n", kind, attribute, result, told(&answer));
		printf("%s pool attribute %d, NULL: %d\n", kind, attribute,
		       cuMemPoolGetAttribute(of, name, NULL));
		printf("%s pool attribute %d, set to NULL: %d\n", kind, attribute,
		       cuMemPoolSetAttribute(of, name, NULL));
		answer.number = 1;
		result = cuMemPoolSetAttribute(of, name, &answer);
		printf("%s pool attribute %d, set to 1: %d\n", kind, attribute, result);
		answer.number = 0;
		result = cuMemPoolSetAttribute(of, name, &answer);
		printf("%s pool attribute %d, set to 0: %d\n", kind, attribute, result);
	}
}

static void created(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;

	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = access.location.id = device;
	granularities(&prop);
	if (cuMemCreate(&handle, SIZE, &prop, 0) != CUDA_SUCCESS) {
		printf("no virtual memory\n");
		return;
	}
	properties(handle);
	CHECK(cuMemRelease(handle));
}

int main(int argc, char **argv)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	kind = "no context:";
	printf("info without a context: %d\n", cuMemGetInfo_v2(&(size_t){0}, NULL));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	amounts();
	CHECK(cuMemAlloc_v2(&memory, SIZE));
	memory_is("plain");
	CHECK(cuMemFree_v2(memory));
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = device;
	CHECK(cuMemPoolCreate(&pool, &props));
	CHECK(cuMemAllocFromPoolAsync(&memory, SIZE, pool, NULL));
	CHECK(cuCtxSynchronize());
	memory_is("pooled");
	pool_attributes(pool);
	CHECK(cuMemFreeAsync(memory, NULL));
	CHECK(cuCtxSynchronize());
	kind = "emptied";
	pool_attributes(pool);
	CHECK(cuMemPoolDestroy(pool));
	pool = NULL;
	if (argc < 2 || strcmp(argv[1], "no-vmm") != 0)
		created();
	return 0;
}
