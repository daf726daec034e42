/*
 * asynchronous [graph LIMIT_FILE]: copies to and from memory that was spilled, in a stream that
 * waits for the host, come back at once and bring the right bytes. graph: a copy that was captured
 * brings them after its memory could have moved, because LIMIT_FILE allows all of it on the device.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

#define BYTES ((size_t)7 * MIB + 4096)
#define WORDS (BYTES / 4)

static CUstream stream;
static uint32_t *gate, *there, *back; /* of the host */

static void fill(uint32_t *words, uint32_t salt)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = (uint32_t)i * 2654435761u + salt;
}

static void expect(const uint32_t *words, uint32_t salt, const char *what)
{
	for (size_t i = 0; i < WORDS; i++) {
		if (words[i] != (uint32_t)i * 2654435761u + salt) {
			fprintf(stderr, "%s: word %zu is %#x\n", what, i, words[i]);
			exit(1);
		}
	}
}

/* The stream waits for this thread, which goes on only if no copy waits for the stream. */
static void close_gate(void)
{
	__atomic_store_n(gate, 0, __ATOMIC_RELEASE);
	CHECK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)gate, 1,
	                             CU_STREAM_WAIT_VALUE_EQ));
}

static void open_gate(void)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	CHECK(cuStreamSynchronize(stream));
}

static CUdeviceptr address(const void *pointer)
{
	return (CUdeviceptr)(uintptr_t)pointer;
}

static void round_trips(CUdeviceptr a, CUdeviceptr b, CUcontext context)
{
	for (uint32_t salt = 1; salt < 4; salt++) {
		fill(there, salt);
		memset(back, 0, BYTES);
		close_gate();
		CHECK(cuMemcpyHtoDAsync_v2(a, there, BYTES, stream));
		CHECK(cuMemcpyDtoDAsync_v2(b + 256, a, BYTES - 256, stream));
		CHECK(cuMemcpyDtoDAsync_v2(b, a, 256, stream));
		CHECK(cuMemcpyDtoDAsync_v2(b, b + 256, 0, stream));
		/* back is now as `there`, but moved on by 256 bytes */
		CHECK(cuMemcpyDtoHAsync_v2(back, b + 256, BYTES - 256, stream));
		open_gate();
		if (memcmp(back, there, BYTES - 256) != 0)
			expect(back, salt, "moved on");
		close_gate();
		CHECK(cuMemcpyPeerAsync(b, context, a, context, BYTES, stream));
		CHECK(cuMemcpyAsync(address(back), b, BYTES, stream));
		open_gate();
		expect(back, salt, "there and back");
	}
}

/* A copy that goes beyond its memory is refused whole, and at once, however long it says it is. */
static void too_long(CUdeviceptr a)
{
	static const size_t sizes[] = {(size_t)1 << 62, SIZE_MAX, SIZE_MAX / 2};

	memset(back, 7, BYTES);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (cuMemcpyDtoHAsync_v2(back, a, sizes[i], stream) != CUDA_ERROR_INVALID_VALUE)
			exit(2);
	CHECK(cuStreamSynchronize(stream));
	for (size_t i = 0; i < BYTES; i++)
		if (((const unsigned char *)back)[i] != 7)
			exit(3);
}

static void write_limit(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "[gpu]\nmemory_limit = 512MiB\n") < 0 || fclose(file) != 0)
		exit(1);
}

static void captured(CUdeviceptr a, const char *limit_file)
{
	CUgraph graph;
	CUgraphExec exec;

	fill(there, 9);
	CHECK(cuMemcpyHtoDAsync_v2(a, there, BYTES, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemcpyDtoHAsync_v2(back, a, BYTES, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	write_limit(limit_file);
	/* Launched until the mover has had the time to bring to the device what it may. */
	for (int i = 0; i < 60; i++) {
		memset(back, 0, BYTES);
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuStreamSynchronize(stream));
		expect(back, 9, "captured");
		elastic_sleep_ms(50);
	}
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdeviceptr a, b;

	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemHostAlloc((void **)&gate, 4096, 0));
	CHECK(cuMemHostAlloc((void **)&there, BYTES, 0));
	CHECK(cuMemHostAlloc((void **)&back, BYTES, 0));
	CHECK(cuMemAlloc_v2(&a, BYTES));
	CHECK(cuMemAlloc_v2(&b, BYTES));
	if (argc == 3 && strcmp(argv[1], "graph") == 0)
		captured(a, argv[2]);
	else {
		round_trips(a, b, context);
		too_long(a);
	}
	return 0;
}
