/* SPDX-License-Identifier: MIT */
/*
 * layouts MAJOR: asks libcudart.so.MAJOR (12 or 13) for each structure that differs between the
 * versions, and compares size and places with layouts.def. The figures there are from both headers.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/softgpu/test.h"

/* The newest column is the header's, which is there. */
#if CUDART_VERSION / 1000 == 13
#define STRUCTURE(name, v11, v12, v13) \
	_Static_assert(sizeof(struct name) == (v13), "the size of " #name);
#define FIELD(structure, field, o11, s11, o12, s12, o13, s13)             \
	_Static_assert(offsetof(struct structure, field) == (o13) &&      \
	                   sizeof(((struct structure *)0)->field) == s13, \
	               #structure " has " #field " elsewhere");
#define GONE(...)
#include "tests/softgpu/cudart/layouts.def"
#undef STRUCTURE
#undef FIELD
#undef GONE
#endif

static const struct row {
	const char *structure, *field;
	int offset[3], size[3];
} rows[] = {
#define STRUCTURE(name, v11, v12, v13) {#name, "", {0}, {v11, v12, v13}},
#define FIELD(structure, field, o11, s11, o12, s12, o13, s13) \
	{#structure, #field, {o11, o12, o13}, {s11, s12, s13}},
#define GONE FIELD
#include "tests/softgpu/cudart/layouts.def"
};

enum { OLDER = 0, TWELVE = 1, THIRTEEN = 2, UNTOUCHED = 0xA5 };

static const struct row *row_of(const char *structure, const char *field)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (strcmp(rows[i].structure, structure) == 0 && strcmp(rows[i].field, field) == 0)
			return &rows[i];
	}
	fprintf(stderr, "layouts.def has no %s.%s\n", structure, field);
	exit(1);
}

static void *library;

static void *function(const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "there is no %s\n", name);
		exit(1);
	}
	return found;
}

/* ROOM begins with SIZE bytes that were written, and no more were. */
static void check_size(const unsigned char *room, size_t room_size, int size)
{
	CHECK(size > 0 && room[size - 1] != UNTOUCHED);
	for (size_t i = (size_t)size; i < room_size; i++)
		CHECK(room[i] == UNTOUCHED);
}

/* Fields that moved, or that a version has alone; the values differ (test_layouts.sh). */
static const struct {
	const char *field;
	enum cudaDeviceAttr attribute;
} fields[] = {
    {"clockRate", cudaDevAttrClockRate},
    {"multiProcessorCount", cudaDevAttrMultiProcessorCount},
    {"kernelExecTimeoutEnabled", cudaDevAttrKernelExecTimeout},
    {"canMapHostMemory", cudaDevAttrCanMapHostMemory},
    {"computeMode", cudaDevAttrComputeMode},
    {"concurrentKernels", cudaDevAttrConcurrentKernels},
    {"pciBusID", cudaDevAttrPciBusId},
    {"asyncEngineCount", cudaDevAttrAsyncEngineCount},
    {"unifiedAddressing", cudaDevAttrUnifiedAddressing},
    {"memoryClockRate", cudaDevAttrMemoryClockRate},
    {"memoryBusWidth", cudaDevAttrGlobalMemoryBusWidth},
    {"l2CacheSize", cudaDevAttrL2CacheSize},
    {"maxThreadsPerMultiProcessor", cudaDevAttrMaxThreadsPerMultiProcessor},
    {"sharedMemPerMultiprocessor", cudaDevAttrMaxSharedMemoryPerMultiprocessor},
    {"regsPerMultiprocessor", cudaDevAttrMaxRegistersPerMultiprocessor},
    {"managedMemory", cudaDevAttrManagedMemory},
    {"singleToDoublePrecisionPerfRatio", cudaDevAttrSingleToDoublePrecisionPerfRatio},
    {"concurrentManagedAccess", cudaDevAttrConcurrentManagedAccess},
    {"cooperativeLaunch", cudaDevAttrCooperativeLaunch},
    {"sharedMemPerBlockOptin", cudaDevAttrMaxSharedMemoryPerBlockOptin},
    {"maxBlocksPerMultiProcessor", cudaDevAttrMaxBlocksPerMultiprocessor},
    {"hostRegisterSupported", cudaDevAttrHostRegisterSupported},
    {"memoryPoolsSupported", cudaDevAttrMemoryPoolsSupported},
    {"ipcEventSupported", cudaDevAttrIpcEventSupport},
    {"clusterLaunch", cudaDevAttrClusterLaunch},
};

static void check_properties(const char *name, int layout)
{
	cudaError_t (*get)(void *, int) = function(name);
	cudaError_t (*ask)(int *, enum cudaDeviceAttr, int) = function("cudaDeviceGetAttribute");
	unsigned char room[2048];
	memset(room, UNTOUCHED, sizeof(room));
	CHECK(get(room, 0) == cudaSuccess);
	check_size(room, sizeof(room), row_of("cudaDeviceProp", "")->size[layout]);
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		const struct row *row = row_of("cudaDeviceProp", fields[i].field);
		size_t got = 0;
		int wanted = 0;
		if (row->offset[layout] < 0)
			continue;
		memcpy(&got, room + row->offset[layout], (size_t)row->size[layout]);
		if (ask(&wanted, fields[i].attribute, 0) != cudaSuccess)
			wanted = 0;
		if (got != (size_t)wanted)
			fprintf(stderr, "%s: %s is %zu, not %d\n", name, fields[i].field, got,
			        wanted);
		CHECK(got == (size_t)wanted);
	}
}

static void check_pointers(int layout)
{
	cudaError_t (*allocate)(void **, size_t) = function("cudaMalloc");
	cudaError_t (*describe)(void *, const void *) = function("cudaPointerGetAttributes");
	unsigned char room[256];
	const struct row *row = row_of("cudaPointerAttributes", "devicePointer");
	void *memory, *got;
	CHECK(allocate(&memory, 4096) == cudaSuccess);
	memset(room, UNTOUCHED, sizeof(room));
	CHECK(describe(room, memory) == cudaSuccess);
	check_size(room, sizeof(room), row_of("cudaPointerAttributes", "")->size[layout]);
	memcpy(&got, room + row->offset[layout], sizeof(got));
	CHECK(got == memory);
}

/* What CUDA 12 has under a plain name, and CUDA 13 has changed. */
static void check_older_forms(void)
{
	cudaError_t (*advise)(const void *, size_t, int, int) = function("cudaMemAdvise");
	cudaError_t (*prefetch)(const void *, size_t, int, void *) =
	    function("cudaMemPrefetchAsync");
	cudaError_t (*managed)(void **, size_t, unsigned int) = function("cudaMallocManaged");
	cudaError_t (*create)(cudaStream_t *) = function("cudaStreamCreate");
	cudaError_t (*begin)(cudaStream_t, int) = function("cudaStreamBeginCapture");
	cudaError_t (*end)(cudaStream_t, cudaGraph_t *) = function("cudaStreamEndCapture");
	cudaError_t (*info)(cudaStream_t, int *, unsigned long long *) =
	    function("cudaStreamGetCaptureInfo");
	cudaError_t (*info_2)(cudaStream_t, int *, unsigned long long *, cudaGraph_t *,
	                      const cudaGraphNode_t **, size_t *) =
	    function("cudaStreamGetCaptureInfo_v2");
	cudaError_t (*host_node)(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t) =
	    function("cudaGraphAddEmptyNode");
	cudaError_t (*depend)(cudaGraph_t, const cudaGraphNode_t *, const cudaGraphNode_t *,
	                      size_t) = function("cudaGraphAddDependencies");
	cudaError_t (*synchronize)(void) = function("cudaThreadSynchronize");
	void *memory;
	CHECK(managed(&memory, MIB, cudaMemAttachGlobal) == cudaSuccess);
	CHECK(advise(memory, MIB, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId) ==
	      cudaSuccess);
	CHECK(prefetch(memory, MIB, 0, NULL) == cudaSuccess);
	CHECK(prefetch(memory, MIB, cudaCpuDeviceId, NULL) == cudaSuccess);
	CHECK(prefetch(memory, MIB, 77, NULL) != cudaSuccess);
	CHECK(synchronize() == cudaSuccess);

	cudaStream_t stream;
	cudaGraph_t graph = NULL, ended;
	cudaGraphNode_t nodes[2];
	int status = -1;
	unsigned long long id = 0, id_2 = 0;
	size_t count = 7;
	CHECK(create(&stream) == cudaSuccess && begin(stream, 0) == cudaSuccess);
	CHECK(info(stream, &status, &id) == cudaSuccess);
	CHECK(status == cudaStreamCaptureStatusActive && id != 0);
	CHECK(info_2(stream, &status, &id_2, &graph, NULL, &count) == cudaSuccess);
	CHECK(id_2 == id && graph && count == 0);
	CHECK(end(stream, &ended) == cudaSuccess && ended == graph);
	CHECK(host_node(&nodes[0], graph, NULL, 0) == cudaSuccess);
	CHECK(host_node(&nodes[1], graph, NULL, 0) == cudaSuccess);
	CHECK(depend(graph, &nodes[0], &nodes[1], 1) == cudaSuccess);
	CHECK(depend(graph, &nodes[0], &nodes[1], 1) != cudaSuccess);
}

int main(int argc, char **argv)
{
	char name[32];
	bool older = argc == 2 && strcmp(argv[1], "12") == 0;
	CHECK(older || (argc == 2 && strcmp(argv[1], "13") == 0));
	snprintf(name, sizeof(name), "libcudart.so.%s", argv[1]);
	library = dlopen(name, RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	check_properties(older ? "cudaGetDeviceProperties_v2" : "cudaGetDeviceProperties",
	                 older ? TWELVE : THIRTEEN);
	check_pointers(older ? TWELVE : THIRTEEN);
	if (older) {
		check_properties("cudaGetDeviceProperties", OLDER);
		check_older_forms();
	}
	return 0;
}
