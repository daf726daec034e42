/* SPDX-License-Identifier: MIT */
/*
 * A program as nvcc -cudart shared makes it, written by hand so that no nvcc is needed. It
 * registers a fat binary of nvcc's by the calls that nvcc's start-up code makes, and uses the CUDA
 * runtime.
 *
 * registered              every case, each in a process of its own
 * registered blocks MIB   holds MIB of device memory in blocks, uses all of it, prints a checksum
 */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>

#include "tests/softgpu/test.h"

/* Room for the structure of either version; the fields read here are at the same place in both. */
union properties {
	struct cudaDeviceProp p;
	char room[2048];
};

#define IMAGES "tests/clients/cudart/kernels."

void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *stub, const char *name,
                            int thread_limit, struct uint3 *tid, struct uint3 *bid,
                            struct dim3 *block, struct dim3 *grid, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                              size_t size, int constant, int global);
char __cudaInitModule(void **handle);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void *host, dim3 grid, dim3 block, void **arguments,
                                  size_t shared, cudaStream_t stream);
cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                                 cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);

#define WANT(wanted, call)                                                                         \
	do {                                                                                       \
		cudaError_t got_ = (call);                                                         \
		if (got_ != (wanted)) {                                                            \
			fprintf(stderr, "%s:%d: %s: %s, expected %s\n", __FILE__, __LINE__, #call, \
			        cudaGetErrorName(got_), cudaGetErrorName(wanted));                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define GOOD(call) WANT(cudaSuccess, call)

/* What the host has in place of each kernel and variable: an address to know it by. */
static char polynomial, total, stray, note, nobody;
static float coefficients[4];
static unsigned int launches, *notes;

static struct {
	uint32_t magic, version;
	const void *fatbin, *linked;
} wrapper = {0x466243b1U, 1, NULL, NULL};
static void **binary;

static void unregister(void)
{
	__cudaUnregisterFatBinary(binary);
}

static void register_kernel(const char *host, const char *name)
{
	__cudaRegisterFunction(binary, host, (char *)host, name, -1, NULL, NULL, NULL, NULL, NULL);
}

static void register_image(const char *packing)
{
	char path[128];
	snprintf(path, sizeof(path), IMAGES "%s.fatbin", packing);
	FILE *file = fopen(path, "rb");
	char *bytes = calloc(1, 1 << 16);
	CHECK(file && bytes && fread(bytes, 1, 1 << 16, file) > 64);
	fclose(file);
	wrapper.fatbin = bytes;
	binary = __cudaRegisterFatBinary(&wrapper);
	CHECK(binary);
	register_kernel(&polynomial, "polynomial");
	register_kernel(&total, "total");
	register_kernel(&stray, "stray");
	register_kernel(&note, "note");
	__cudaRegisterVar(binary, (char *)coefficients, (char *)coefficients, "coefficients", 0,
	                  sizeof(coefficients), 1, 0);
	__cudaRegisterVar(binary, (char *)&launches, (char *)&launches, "launches", 0,
	                  sizeof(launches), 0, 0);
	__cudaRegisterManagedVar(binary, (void **)&notes, (char *)&notes, "notes", 0,
	                         sizeof(*notes), 0, 0);
	__cudaRegisterFatBinaryEnd(binary);
	atexit(unregister);
}

static dim3 line(unsigned int x)
{
	return (dim3){x, 1, 1};
}

/* kernel<<<grid, block, shared, stream>>>(...), as nvcc 13 translates it. */
static cudaError_t launch(const char *host, unsigned int grid, unsigned int block, size_t shared,
                          cudaStream_t stream, void **arguments)
{
	if (__cudaPushCallConfiguration(line(grid), line(block), shared, stream) != 0)
		return cudaGetLastError();
	cudaKernel_t kernel = NULL;
	__cudaGetKernel(&kernel, host);
	dim3 popped_grid, popped_block;
	size_t popped_shared;
	cudaStream_t popped_stream;
	GOOD(__cudaPopCallConfiguration(&popped_grid, &popped_block, &popped_shared,
	                                &popped_stream));
	return __cudaLaunchKernel(kernel, popped_grid, popped_block, arguments, popped_shared,
	                          popped_stream);
}

static void devices(void)
{
	int version, count, device = -1, value;
	union properties room;
	struct cudaDeviceProp *properties = &room.p;
	GOOD(cudaRuntimeGetVersion(&version));
	CHECK(version / 1000 == CUDART_MAJOR);
	GOOD(cudaDriverGetVersion(&version));
	CHECK(version >= 13000);
	GOOD(cudaGetDeviceCount(&count));
	CHECK(count == 2);
	GOOD(cudaGetDevice(&device));
	CHECK(device == 0);
	GOOD(cudaGetDeviceProperties(properties, 1));
	GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 1));
	CHECK(value == properties->maxThreadsPerBlock && value >= 512);
	CHECK(strlen(properties->name) > 0 && properties->totalGlobalMem > MIB);
	CHECK(properties->warpSize == 32 && properties->major >= 5);
	GOOD(cudaSetDevice(1));
	GOOD(cudaGetDevice(&device));
	CHECK(device == 1);
	WANT(cudaErrorInvalidDevice, cudaSetDevice(2));
	WANT(cudaErrorInvalidDevice, cudaGetDeviceProperties(properties, -1));
	void *there, *here;
	unsigned char byte = 0;
	GOOD(cudaMalloc(&there, MIB));
	GOOD(cudaMemset(there, 7, MIB));
	GOOD(cudaSetDevice(0));
	GOOD(cudaMalloc(&here, MIB));
	GOOD(cudaMemcpyPeer(here, 0, there, 1, MIB));
	GOOD(cudaMemcpy(&byte, (char *)here + MIB - 1, 1, cudaMemcpyDeviceToHost));
	CHECK(byte == 7);
	struct cudaPointerAttributes attributes;
	GOOD(cudaPointerGetAttributes(&attributes, there));
	CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 1);
	GOOD(cudaPointerGetAttributes(&attributes, &byte));
	CHECK(attributes.type == cudaMemoryTypeUnregistered);
}

static void driver_functions(void)
{
	CUresult (*total_memory)(size_t * bytes, CUdevice device) = NULL;
	enum cudaDriverEntryPointQueryResult status;
	void *function = &status;
	size_t bytes = 0;
	GOOD(cudaGetDriverEntryPointByVersion("cuDeviceTotalMem", (void **)&total_memory, 12000,
	                                      cudaEnableDefault, &status));
	CHECK(status == cudaDriverEntryPointSuccess && total_memory);
	CHECK(total_memory(&bytes, 0) == CUDA_SUCCESS && bytes > MIB);
	GOOD(cudaGetDriverEntryPointByVersion("cuNothing", &function, 13000, cudaEnableDefault,
	                                      &status));
	CHECK(status == cudaDriverEntryPointSymbolNotFound && !function);
}

static void errors(void)
{
	void *pointer = &polynomial;
	register_image("none");
	CHECK(strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") ==
	      0);
	CHECK(strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0);
	CHECK(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);
	CHECK(cudaGetLastError() == cudaSuccess);
	WANT(cudaErrorMemoryAllocation, cudaMalloc(&pointer, 1ULL << 46));
	CHECK(pointer == &polynomial);
	CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
	GOOD(cudaDeviceSynchronize()); /* a success does not forget it */
	CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
	CHECK(cudaGetLastError() == cudaSuccess);
	WANT(cudaErrorInvalidMemcpyDirection, cudaMemcpy(&pointer, &pointer, 1, 9));
	WANT(cudaErrorInvalidConfiguration, launch(&total, 1, 4096, 0, NULL, NULL));
	WANT(cudaErrorInvalidConfiguration, launch(&total, 0, 1, 0, NULL, NULL));
	(void)cudaGetLastError();
	WANT(cudaErrorInvalidDeviceFunction, launch(&nobody, 1, 1, 0, NULL, NULL));
	CHECK(cudaGetLastError() == cudaErrorInvalidDeviceFunction);
	WANT(cudaErrorInvalidDeviceFunction,
	     cudaLaunchKernel(&nobody, line(1), line(1), NULL, 0, NULL));
	WANT(cudaErrorInvalidSymbol,
	     cudaMemcpyToSymbol(&nobody, "x", 1, 0, cudaMemcpyHostToDevice));
	WANT(cudaErrorInvalidValue,
	     cudaMemcpyToSymbol(coefficients, coefficients, 8, 12, cudaMemcpyHostToDevice));
	WANT(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(NULL, NULL, NULL, NULL));
	WANT(cudaErrorNotSupported, cudaCtxResetPersistingL2Cache());
	GOOD(cudaMalloc(&pointer, 0));
	CHECK(pointer == NULL);
	GOOD(cudaFree(NULL));
	WANT(cudaErrorInvalidValue, cudaFree(&pointer));
}

static void check_polynomial(void)
{
	enum { COUNT = 1000 };
	const float factors[4] = {1, 2, 3, 4};
	float in[COUNT], out[COUNT];
	void *numbers, *results, *address;
	size_t size;
	int count = COUNT;
	unsigned int seen = 0;

	for (int i = 0; i < COUNT; i++)
		in[i] = (float)(i % 100);
	GOOD(cudaMalloc(&numbers, sizeof(in)));
	GOOD(cudaMalloc(&results, sizeof(out)));
	GOOD(cudaMemcpyToSymbol(coefficients, factors, 8, 0, cudaMemcpyHostToDevice));
	GOOD(cudaMemcpyToSymbol(coefficients, factors + 2, 8, 8, cudaMemcpyDefault));
	GOOD(cudaMemcpy(numbers, in, sizeof(in), cudaMemcpyHostToDevice));
	void *arguments[] = {&results, &numbers, &count};
	GOOD(launch(&polynomial, (COUNT + 127) / 128, 128, 0, NULL, arguments));
	GOOD(cudaMemcpy(out, results, sizeof(out), cudaMemcpyDefault));
	for (int i = 0; i < COUNT; i++)
		CHECK(out[i] == 1 + in[i] * (2 + in[i] * (3 + in[i] * 4)));
	GOOD(cudaMemcpyFromSymbol(&seen, &launches, sizeof(seen), 0, cudaMemcpyDeviceToHost));
	CHECK(seen == 6);
	GOOD(cudaGetSymbolSize(&size, coefficients));
	CHECK(size == sizeof(factors));
	GOOD(cudaGetSymbolAddress(&address, &launches));
	GOOD(cudaMemset(address, 0, sizeof(seen)));
	GOOD(cudaMemcpyFromSymbol(&seen, &launches, sizeof(seen), 0, cudaMemcpyDeviceToHost));
	CHECK(seen == 0);
	GOOD(cudaFree(numbers));
	GOOD(cudaFree(results));
}

static void kernels_and_symbols(void)
{
	register_image("lz4");
	check_polynomial();
	/* After a reset everything is as at the start. */
	GOOD(cudaDeviceReset());
	check_polynomial();
	struct cudaFuncAttributes attributes;
	int blocks = 0;
	GOOD(cudaFuncGetAttributes(&attributes, &total));
	CHECK(attributes.maxThreadsPerBlock == 1024 && attributes.ptxVersion >= 75);
	GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &total, 256, 1024));
	CHECK(blocks >= 1);
	GOOD(cudaFuncSetAttribute(&total, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
	GOOD(cudaFuncGetAttributes(&attributes, &total));
	CHECK(attributes.maxDynamicSharedSizeBytes == 65536);
}

static void no_code_that_fits(void)
{
	register_image("machine");
	WANT(cudaErrorNoKernelImageForDevice, launch(&total, 1, 1, 0, NULL, NULL));
	CHECK(cudaGetLastError() == cudaErrorNoKernelImageForDevice);
	void *pointer;
	GOOD(cudaMalloc(&pointer, MIB));
}

/* Sums 0..count-1 on a stream: filled by `copy`, launched by `start`. */
static void streams_and_events(void)
{
	enum { COUNT = 100000 };
	unsigned int *numbers, *sum, expected = 0;
	void *in, *out;
	cudaStream_t copies, kernels;
	cudaEvent_t copied, begin, end;
	float milliseconds = -1;
	int count = COUNT;

	register_image("lz4");
	GOOD(cudaMallocHost((void **)&numbers, COUNT * sizeof(*numbers)));
	GOOD(cudaHostAlloc((void **)&sum, sizeof(*sum), cudaHostAllocDefault));
	for (unsigned int i = 0; i < COUNT; i++)
		expected += numbers[i] = i * 7;
	GOOD(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
	GOOD(cudaStreamCreate(&kernels));
	GOOD(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
	GOOD(cudaEventCreate(&begin));
	GOOD(cudaEventCreate(&end));
	GOOD(cudaMallocAsync(&in, COUNT * sizeof(*numbers), copies));
	GOOD(cudaMallocAsync(&out, sizeof(*sum), copies));
	GOOD(
	    cudaMemcpyAsync(in, numbers, COUNT * sizeof(*numbers), cudaMemcpyHostToDevice, copies));
	GOOD(cudaMemsetAsync(out, 0, sizeof(*sum), copies));
	GOOD(cudaEventRecord(copied, copies));
	GOOD(cudaStreamWaitEvent(kernels, copied, 0));
	GOOD(cudaEventRecord(begin, kernels));
	void *arguments[] = {&out, &in, &count};
	GOOD(launch(&total, 4, 128, 128 * sizeof(*sum), kernels, arguments));
	GOOD(cudaEventRecord(end, kernels));
	GOOD(cudaMemcpyAsync(sum, out, sizeof(*sum), cudaMemcpyDeviceToHost, kernels));
	GOOD(cudaStreamSynchronize(kernels));
	CHECK(*sum == expected);
	GOOD(cudaEventElapsedTime(&milliseconds, begin, end));
	CHECK(milliseconds >= 0);
	WANT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, copied, end));
	GOOD(cudaStreamQuery(kernels));
	GOOD(cudaFreeAsync(in, kernels));
	GOOD(cudaFreeAsync(out, kernels));
	GOOD(cudaStreamDestroy(copies));
	GOOD(cudaStreamDestroy(kernels));
	GOOD(cudaEventDestroy(copied));
	GOOD(cudaFreeHost(numbers));
	GOOD(cudaFreeHost(sum));
}

static void pitched_copies(void)
{
	enum { WIDTH = 100, HEIGHT = 7, DEPTH = 3 };
	unsigned char in[DEPTH][HEIGHT][WIDTH], out[DEPTH][HEIGHT][WIDTH];
	void *device;
	size_t pitch;

	for (size_t i = 0; i < sizeof(in); i++)
		((unsigned char *)in)[i] = (unsigned char)(i * 31);
	GOOD(cudaMallocPitch(&device, &pitch, WIDTH, HEIGHT));
	CHECK(pitch >= WIDTH);
	GOOD(cudaMemcpy2D(device, pitch, in[0], WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
	GOOD(cudaMemset2D(device, pitch, 9, 10, 2));
	memset(in[0][0], 9, 10);
	memset(in[0][1], 9, 10);
	GOOD(cudaMemcpy2D(out[0], WIDTH, device, pitch, WIDTH, HEIGHT, cudaMemcpyDefault));
	CHECK(memcmp(in[0], out[0], sizeof(in[0])) == 0);
	WANT(cudaErrorInvalidPitchValue,
	     cudaMemcpy2D(device, WIDTH - 1, in[0], WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
	GOOD(cudaFree(device));

	struct cudaPitchedPtr cube;
	struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
	GOOD(cudaMalloc3D(&cube, extent));
	struct cudaMemcpy3DParms parms = {
	    .srcPtr = {in, WIDTH, WIDTH, HEIGHT},
	    .dstPtr = cube,
	    .extent = extent,
	    .kind = cudaMemcpyHostToDevice,
	};
	GOOD(cudaMemcpy3D(&parms));
	parms.srcPtr = cube;
	parms.dstPtr = (struct cudaPitchedPtr){out, WIDTH, WIDTH, HEIGHT};
	parms.kind = cudaMemcpyDeviceToHost;
	memset(out, 0, sizeof(out));
	GOOD(cudaMemcpy3D(&parms));
	CHECK(memcmp(in, out, sizeof(in)) == 0);
	GOOD(cudaFree(cube.ptr));
}

/* Batches of one range, for a stream that is not the legacy one */
static void batches(void *memory, size_t size)
{
#if CUDART_MAJOR != 12
	struct cudaMemLocation host = {cudaMemLocationTypeHost, 0};
	size_t first = 0;
	int where = 7;
	cudaStream_t stream;
	GOOD(cudaStreamCreate(&stream));
	WANT(cudaErrorInvalidValue,
	     cudaMemPrefetchBatchAsync(&memory, &size, 1, &host, &first, 1, 0, NULL));
	GOOD(cudaMemPrefetchBatchAsync(&memory, &size, 1, &host, &first, 1, 0, stream));
	GOOD(cudaMemRangeGetAttribute(&where, sizeof(where),
	                              cudaMemRangeAttributeLastPrefetchLocation, memory, size));
	CHECK(where == cudaCpuDeviceId);
	*(unsigned int *)memory = 5;
	GOOD(cudaMemDiscardBatchAsync(&memory, &size, 1, 0, stream));
	GOOD(cudaMemDiscardAndPrefetchBatchAsync(&memory, &size, 1, &host, &first, 1, 0, stream));
	GOOD(cudaStreamSynchronize(stream));
	CHECK(*(unsigned int *)memory != 5);
	GOOD(cudaStreamDestroy(stream));
#else
	(void)memory;
	(void)size;
#endif
}

static void managed_memory(void)
{
	enum { COUNT = 5000 };
	unsigned int *numbers, *sum;
	int count = COUNT;
	register_image("none");
	GOOD(cudaMallocManaged((void **)&numbers, COUNT * sizeof(*numbers), cudaMemAttachGlobal));
	GOOD(cudaMallocManaged((void **)&sum, sizeof(*sum), cudaMemAttachGlobal));
	for (unsigned int i = 0; i < COUNT; i++)
		numbers[i] = i;
	*sum = 0;
	struct cudaMemLocation there = {cudaMemLocationTypeDevice, 0};
	GOOD(cudaMemPrefetchAsync(numbers, COUNT * sizeof(*numbers), there, 0, NULL));
	batches(numbers, COUNT * sizeof(*numbers));
	for (unsigned int i = 0; i < COUNT; i++)
		numbers[i] = i;
	void *arguments[] = {&sum, &numbers, &count};
	GOOD(launch(&total, 2, 64, 64 * sizeof(*sum), NULL, arguments));
	GOOD(cudaDeviceSynchronize());
	CHECK(*sum == COUNT * (COUNT - 1) / 2);
	struct cudaPointerAttributes attributes;
	GOOD(cudaPointerGetAttributes(&attributes, sum));
	CHECK(attributes.type == cudaMemoryTypeManaged);
	GOOD(cudaFree(numbers));
	GOOD(cudaFree(sum));

	/* A variable of that kind, whose place the program is told when it asks. */
	CHECK(__cudaInitModule(binary) && notes);
	CHECK(*notes == 3);
	*notes = 40;
	unsigned int by = 2;
	void *more[] = {&by};
	GOOD(launch(&note, 1, 1, 0, NULL, more));
	GOOD(cudaDeviceSynchronize());
	CHECK(*notes == 42);
	GOOD(cudaMemcpyFromSymbol(&by, notes, sizeof(by), 0, cudaMemcpyDeviceToHost));
	CHECK(by == 42);
	GOOD(cudaPointerGetAttributes(&attributes, notes));
	CHECK(attributes.type == cudaMemoryTypeManaged);
	WANT(cudaErrorInvalidValue, cudaFree(notes));
}

/* Each thread has its own default stream; all work on memory of their own. */
static void *work_on_own_stream(void *number)
{
	enum { COUNT = 20000 };
	unsigned int *numbers = malloc(COUNT * sizeof(*numbers)), sum = 0, expected = 0;
	void *in, *out;
	int count = COUNT;
	CHECK(numbers);
	for (unsigned int i = 0; i < COUNT; i++)
		expected += numbers[i] = i + (unsigned int)(uintptr_t)number;
	GOOD(cudaMalloc(&in, COUNT * sizeof(*numbers)));
	GOOD(cudaMalloc(&out, sizeof(sum)));
	GOOD(cudaMemcpyAsync_ptsz(in, numbers, COUNT * sizeof(*numbers), cudaMemcpyHostToDevice,
	                          NULL));
	GOOD(cudaMemcpyAsync_ptsz(out, &sum, sizeof(sum), cudaMemcpyHostToDevice, NULL));
	void *arguments[] = {&out, &in, &count};
	GOOD(cudaLaunchKernel_ptsz(&total, line(2), line(64), arguments, 64 * sizeof(sum), NULL));
	GOOD(cudaMemcpyAsync_ptsz(&sum, out, sizeof(sum), cudaMemcpyDeviceToHost, NULL));
	GOOD(cudaStreamSynchronize_ptsz(NULL));
	CHECK(sum == expected);
	GOOD(cudaFree(in));
	GOOD(cudaFree(out));
	free(numbers);
	return NULL;
}

static void per_thread_streams(void)
{
	pthread_t threads[4];
	register_image("lz4");
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, work_on_own_stream, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* Declared in cuda_profiler_api.h, which is not everywhere. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

/* Without a profiler both do nothing, as a program's first calls, in any order, while it works. */
static void profiler_control(void)
{
	void *memory;

	GOOD(cudaProfilerStop());
	GOOD(cudaProfilerStart());
	GOOD(cudaProfilerStart());
	GOOD(cudaMalloc(&memory, MIB));
	GOOD(cudaMemsetAsync(memory, 7, MIB, NULL));
	GOOD(cudaProfilerStop());
	GOOD(cudaFree(memory));
	GOOD(cudaGetLastError());
}

static void what_a_kernel_breaks_stays_broken(void)
{
	unsigned int *nowhere = NULL;
	void *pointer;
	register_image("none");
	void *arguments[] = {&nowhere};
	GOOD(launch(&stray, 1, 1, 0, NULL, arguments));
	WANT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
	CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
	WANT(cudaErrorIllegalAddress, cudaMalloc(&pointer, MIB));
	WANT(cudaErrorIllegalAddress, launch(&stray, 1, 1, 0, NULL, arguments));
	(void)cudaGetLastError();
	WANT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
}

static int hold_blocks(int mib)
{
	enum { WORDS = (1 << 20) / sizeof(unsigned int) };
	void **blocks = calloc((size_t)mib, sizeof(*blocks)), *sums;
	unsigned int *words = malloc(MIB), checksum = 0;
	int count = WORDS;
	CHECK(blocks && words);
	register_image("none");
	GOOD(cudaMalloc(&sums, sizeof(unsigned int)));
	for (int b = 0; b < mib; b++) {
		GOOD(cudaMalloc(&blocks[b], MIB));
		for (unsigned int i = 0; i < WORDS; i++)
			words[i] = i * 2654435761U + (unsigned int)b;
		GOOD(cudaMemcpy(blocks[b], words, MIB, cudaMemcpyHostToDevice));
	}
	for (int b = 0; b < mib; b++) {
		unsigned int sum, expected = 0;
		void *arguments[] = {&sums, &blocks[b], &count};
		GOOD(cudaMemset(sums, 0, sizeof(sum)));
		GOOD(launch(&total, 8, 128, 128 * sizeof(sum), NULL, arguments));
		GOOD(cudaMemcpy(&sum, sums, sizeof(sum), cudaMemcpyDeviceToHost));
		for (unsigned int i = 0; i < WORDS; i++)
			expected += i * 2654435761U + (unsigned int)b;
		CHECK(sum == expected);
		checksum = checksum * 31 + sum;
		GOOD(cudaFree(blocks[b]));
	}
	GOOD(cudaFree(sums));
	free(blocks);
	free(words);
	printf("blocks=%d checksum=%08x\n", mib, checksum);
	return 0;
}

static struct cudaKernelNodeParams summing(void **arguments)
{
	return (struct cudaKernelNodeParams){
	    .func = &total,
	    .gridDim = line(2),
	    .blockDim = line(64),
	    .sharedMemBytes = 64 * sizeof(unsigned int),
	    .kernelParams = arguments,
	};
}

/* A graph that takes memory, fills it, sums it up and gives it back. Then its nodes change. */
static void graph_nodes(void)
{
	enum { COUNT = 1000 };
	struct cudaMemAllocNodeParams memory = {
	    .poolProps = {.allocType = cudaMemAllocationTypePinned,
	                  .location = {cudaMemLocationTypeDevice, 0}},
	    .bytesize = COUNT * sizeof(unsigned int),
	};
	struct cudaMemAllocNodeParams told;
	cudaGraphNode_t allocate, fill, sum_up, release, nodes[8];
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	enum cudaGraphNodeType type;
	unsigned int *sum;
	uint64_t used = 0;
	void *freed;
	int count = COUNT;
	size_t found = 8;

	register_image("none");
	GOOD(cudaStreamCreate(&stream));
	GOOD(cudaMallocManaged((void **)&sum, sizeof(*sum), cudaMemAttachGlobal));
	*sum = 0;
	GOOD(cudaGraphCreate(&graph, 0));
	WANT(cudaErrorInvalidValue, cudaGraphAddMemAllocNode(&allocate, graph, NULL, 0, NULL));
	GOOD(cudaGraphAddMemAllocNode(&allocate, graph, NULL, 0, &memory));
	CHECK(memory.dptr);
	struct cudaMemsetParams filling = {
	    .dst = memory.dptr, .elementSize = 4, .value = 3, .width = COUNT, .height = 1};
	GOOD(cudaGraphAddMemsetNode(&fill, graph, &allocate, 1, &filling));
	void *arguments[] = {&sum, &memory.dptr, &count};
	struct cudaKernelNodeParams params = summing(arguments);
	GOOD(cudaGraphAddKernelNode(&sum_up, graph, &fill, 1, &params));
	GOOD(cudaGraphAddMemFreeNode(&release, graph, &sum_up, 1, memory.dptr));
	GOOD(cudaGraphMemAllocNodeGetParams(allocate, &told));
	CHECK(told.dptr == memory.dptr && told.bytesize == memory.bytesize);
	GOOD(cudaGraphMemFreeNodeGetParams(release, &freed));
	CHECK(freed == memory.dptr);
	GOOD(cudaGraphNodeGetType(allocate, &type));
	CHECK(type == cudaGraphNodeTypeMemAlloc);
	GOOD(cudaGraphGetRootNodes(graph, nodes, &found));
	CHECK(found == 1 && nodes[0] == allocate);
	found = 8;
	GOOD(cudaGraphNodeGetDependentNodes(fill, nodes, NULL, &found));
	CHECK(found == 1 && nodes[0] == sum_up);

	GOOD(cudaGraphInstantiate(&exec, graph, 0));
	GOOD(cudaGraphLaunch(exec, stream));
	GOOD(cudaStreamSynchronize(stream));
	CHECK(*sum == 3 * COUNT);
	GOOD(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
	CHECK(used >= memory.bytesize);

	/* The executable graph alone changes, then the graph. */
	*sum = 0;
	count = COUNT / 2;
	filling.value = 5;
	GOOD(cudaGraphExecKernelNodeSetParams(exec, sum_up, &params));
	GOOD(cudaGraphExecMemsetNodeSetParams(exec, fill, &filling));
	GOOD(cudaGraphLaunch(exec, stream));
	GOOD(cudaStreamSynchronize(stream));
	CHECK(*sum == 5 * COUNT / 2);
	params.func = NULL;
	WANT(cudaErrorInvalidDeviceFunction,
	     cudaGraphExecKernelNodeSetParams(exec, sum_up, &params));
	WANT(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(exec, sum_up, NULL));
	params.func = &total;
	count = 10;
	*sum = 0;
	GOOD(cudaGraphKernelNodeSetParams(sum_up, &params));
	GOOD(cudaGraphExecDestroy(exec));
	GOOD(cudaGraphInstantiate(&exec, graph, 0));
	GOOD(cudaGraphLaunch(exec, stream));
	GOOD(cudaStreamSynchronize(stream));
	CHECK(*sum == 3 * 10);
	GOOD(cudaGraphExecDestroy(exec));
	GOOD(cudaGraphDestroy(graph));
	GOOD(cudaDeviceGraphMemTrim(0));
	GOOD(cudaStreamDestroy(stream));
}

#if CUDART_MAJOR == 12
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph,
                                const cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
                                size_t count, struct cudaGraphNodeParams *params);
#define ADD_NODE cudaGraphAddNode_v2
#define CREATE_HANDLE(handle, graph, initial) \
	cudaGraphConditionalHandleCreate(handle, graph, initial, cudaGraphCondAssignDefault)
#else
/* Of CUDA 13.1 */
cudaError_t cudaGraphConditionalHandleCreate_v2(cudaGraphConditionalHandle *handle,
                                                cudaGraph_t graph, void *context,
                                                unsigned int initial, unsigned int flags);
cudaError_t cudaDeviceGetDevResource(int device, void *resource, int type);
#define ADD_NODE cudaGraphAddNode
#define CREATE_HANDLE(handle, graph, initial)                                        \
	(initial ? cudaGraphConditionalHandleCreate(handle, graph, initial,          \
	                                            cudaGraphCondAssignDefault)      \
	         : cudaGraphConditionalHandleCreate_v2(handle, graph, NULL, initial, \
	                                               cudaGraphCondAssignDefault))
#endif

/*
 * A graph of nodes by their general form: allocate, fill, an if node whose body sums up, free. The
 * body runs with the initial value 1, and not with 0.
 */
static void general_nodes(void)
{
	enum { COUNT = 1000 };
	for (unsigned int initial = 0; initial < 2; initial++) {
		struct cudaGraphNodeParams allocating = {.type = cudaGraphNodeTypeMemAlloc};
		struct cudaGraphNodeParams filling = {.type = cudaGraphNodeTypeMemset};
		struct cudaGraphNodeParams deciding = {.type = cudaGraphNodeTypeConditional};
		struct cudaGraphNodeParams adding = {.type = cudaGraphNodeTypeKernel};
		struct cudaGraphNodeParams freeing = {.type = cudaGraphNodeTypeMemFree};
		struct cudaGraphNodeParams copying = {.type = cudaGraphNodeTypeMemcpy};
		cudaGraphNode_t allocate, fill, decide, add, copy, release;
		cudaGraphConditionalHandle handle;
		cudaGraph_t graph;
		cudaGraphExec_t exec;
		unsigned int *sum, first = 0;
		int count = COUNT;
		if (!initial)
			register_image("none");
		GOOD(cudaMallocManaged((void **)&sum, sizeof(*sum), cudaMemAttachGlobal));
		*sum = 0;
		GOOD(cudaGraphCreate(&graph, 0));
		WANT(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(
		                                NULL, graph, initial, cudaGraphCondAssignDefault));
		WANT(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, graph, 1, 2));
		GOOD(CREATE_HANDLE(&handle, graph, initial));
		WANT(cudaErrorInvalidValue, ADD_NODE(&allocate, graph, NULL, NULL, 0, NULL));
		allocating.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
		allocating.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
		allocating.alloc.bytesize = COUNT * sizeof(unsigned int);
		GOOD(ADD_NODE(&allocate, graph, NULL, NULL, 0, &allocating));
		CHECK(allocating.alloc.dptr);
		filling.memset.dst = allocating.alloc.dptr;
		filling.memset.elementSize = 4;
		filling.memset.value = 3;
		filling.memset.width = COUNT;
		filling.memset.height = 1;
		GOOD(ADD_NODE(&fill, graph, &allocate, NULL, 1, &filling));
		deciding.conditional.handle = handle;
		deciding.conditional.type = cudaGraphCondTypeIf;
		deciding.conditional.size = 1;
		GOOD(ADD_NODE(&decide, graph, &fill, NULL, 1, &deciding));
		CHECK(deciding.conditional.phGraph_out);
		void *arguments[] = {&sum, &allocating.alloc.dptr, &count};
		struct cudaKernelNodeParams params = summing(arguments);
		adding.kernel.func = params.func;
		adding.kernel.gridDim = params.gridDim;
		adding.kernel.blockDim = params.blockDim;
		adding.kernel.sharedMemBytes = params.sharedMemBytes;
		adding.kernel.kernelParams = arguments;
		GOOD(ADD_NODE(&add, deciding.conditional.phGraph_out[0], NULL, NULL, 0, &adding));
		copying.memcpy.copyParams.srcPtr =
		    (struct cudaPitchedPtr){allocating.alloc.dptr, 4, 4, 1};
		copying.memcpy.copyParams.dstPtr = (struct cudaPitchedPtr){&first, 4, 4, 1};
		copying.memcpy.copyParams.extent = (struct cudaExtent){4, 1, 1};
		copying.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
		GOOD(ADD_NODE(&copy, graph, &decide, NULL, 1, &copying));
		freeing.free.dptr = allocating.alloc.dptr;
		GOOD(ADD_NODE(&release, graph, &copy, NULL, 1, &freeing));
		GOOD(cudaGraphInstantiate(&exec, graph, 0));
		GOOD(cudaGraphLaunch(exec, NULL));
		GOOD(cudaDeviceSynchronize());
		CHECK(*sum == initial * 3 * COUNT && first == 3);
		GOOD(cudaGraphExecDestroy(exec));
		GOOD(cudaGraphDestroy(graph));
	}
}

#if CUDART_MAJOR != 12
/* All multiprocessors are one resource. */
static void resources(void)
{
	unsigned int resource[36]; /* its type, padding up to 96 bytes, the multiprocessors */
	int count;
	GOOD(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
	GOOD(cudaDeviceGetDevResource(0, resource, 1));
	CHECK(resource[0] == 1 && resource[24] == (unsigned int)count);
	WANT(cudaErrorInvalidDevice, cudaDeviceGetDevResource(9, resource, 1));
}

static void log_count(void *data, cudaLogLevel level, char *message, size_t length)
{
	CHECK(level == cudaLogLevelError && strlen(message) == length);
	++*(int *)data;
}

/* The driver's log, which a kernel without code writes to. */
static void logs(void)
{
	cudaLogsCallbackHandle handle;
	cudaLogIterator begin, end;
	char text[4096];
	size_t size = sizeof(text);
	int count = 0;
	WANT(cudaErrorInvalidValue, cudaLogsCurrent(NULL, 0));
	GOOD(cudaLogsCurrent(&begin, 0));
	WANT(cudaErrorInvalidValue, cudaLogsRegisterCallback(NULL, NULL, &handle));
	GOOD(cudaLogsRegisterCallback(log_count, &count, &handle));
	register_image("machine");
	CHECK(launch(&total, 1, 32, 0, NULL, NULL) != cudaSuccess);
	cudaGetLastError();
	GOOD(cudaLogsCurrent(&end, 0));
	CHECK(end > begin && count > 0);
	GOOD(cudaLogsDumpToMemory(&begin, text, &size, 0));
	CHECK(begin == end && size > 0 && strlen(text) == size);
	GOOD(cudaLogsUnregisterCallback(handle));
	WANT(cudaErrorInvalidValue, cudaLogsDumpToFile(NULL, NULL, 0));
}
#endif

/* What a process tells another one of a pool and of an allocation in it. */
struct offer {
	int descriptor;
	struct cudaMemPoolPtrExportData pointer;
};

/* A process that never used CUDA before it was forked takes an allocation of its parent's pool. */
static int take_offer(int from_parent)
{
	struct offer offer;
	char path[64], text[8] = "";
	cudaMemPool_t pool;
	void *memory;
	CHECK(read(from_parent, &offer, sizeof(offer)) == sizeof(offer));
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getppid(), offer.descriptor);
	int file = open(path, O_RDWR | O_CLOEXEC);
	CHECK(file >= 0);
	GOOD(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)file,
	                                          cudaMemHandleTypePosixFileDescriptor, 0));
	GOOD(cudaMemPoolImportPointer(&memory, pool, &offer.pointer));
	GOOD(cudaMemcpy(text, memory, sizeof(text), cudaMemcpyDeviceToHost));
	CHECK(strcmp(text, "shared") == 0);
	GOOD(cudaFreeAsync(memory, NULL));
	GOOD(cudaDeviceSynchronize());
	return 0;
}

static void shared_pools(void)
{
	struct cudaMemPoolProps properties = {
	    .allocType = cudaMemAllocationTypePinned,
	    .handleTypes = cudaMemHandleTypePosixFileDescriptor,
	    .location = {cudaMemLocationTypeDevice, 0},
	};
	struct cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
	enum cudaMemAccessFlags access;
	struct offer offer = {0};
	cudaMemPool_t pool, own;
	void *memory;
	int pipes[2], status;
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(take_offer(pipes[0]));

	GOOD(cudaMemPoolCreate(&pool, &properties));
	GOOD(cudaMemPoolGetAccess(&access, pool, &here));
	CHECK(access == cudaMemAccessFlagsProtReadWrite);
	GOOD(cudaMallocFromPoolAsync(&memory, MIB, pool, NULL));
	GOOD(cudaMemcpy(memory, "shared", 7, cudaMemcpyHostToDevice));
	GOOD(cudaMemPoolExportToShareableHandle(&offer.descriptor, pool,
	                                        cudaMemHandleTypePosixFileDescriptor, 0));
	GOOD(cudaMemPoolExportPointer(&offer.pointer, memory));
	CHECK(write(pipes[1], &offer, sizeof(offer)) == sizeof(offer));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	GOOD(cudaFreeAsync(memory, NULL));
	GOOD(cudaMemPoolDestroy(pool));

	GOOD(cudaDeviceGetDefaultMemPool(&own, 0));
	WANT(cudaErrorInvalidValue,
	     cudaMemPoolExportToShareableHandle(&offer.descriptor, own,
	                                        cudaMemHandleTypePosixFileDescriptor, 0));
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "blocks") == 0 && atoi(argv[2]) > 0)
		return hold_blocks(atoi(argv[2]));
	int failed = 0;
	failed += RUN(devices, "SOFTGPU_DEVICES=2");
	failed += RUN(driver_functions, NULL);
	failed += RUN(errors, NULL);
	failed += RUN(kernels_and_symbols, NULL);
	failed += RUN(no_code_that_fits, "SOFTGPU_QUIET=1");
	failed += RUN(streams_and_events, NULL);
	failed += RUN(pitched_copies, NULL);
	failed += RUN(managed_memory, NULL);
	failed += RUN(per_thread_streams, NULL);
	failed += RUN(graph_nodes, NULL);
	failed += RUN(general_nodes, NULL);
#if CUDART_MAJOR != 12
	failed += RUN(logs, "SOFTGPU_QUIET=1");
	failed += RUN(resources, NULL);
#endif
	failed += RUN(shared_pools, NULL);
	failed += RUN(profiler_control, NULL);
	failed += RUN(what_a_kernel_breaks_stays_broken, "SOFTGPU_QUIET=1");
	return failed != 0;
}
