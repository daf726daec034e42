/* SPDX-License-Identifier: MIT */
/*
 * asynchronous [graph LIMIT_FILE | held MIB HELD GO]: copies to and from spilled memory, of bytes,
 * rows and batches of both. The stream waits for the host. The copies come back at once and bring
 * the right bytes.
 *   graph: copies are captured. Then LIMIT_FILE allows all memory on the device, so that it may
 *   move, and the copies still bring the right bytes.
 *   held:  so many MiB of arrays, which cannot move, are on the device. 24 streams wait for the
 *          host, by a value or in a function of the host. Once copies in each have come back HELD
 *          is made, and all go on when GO is there.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

/* Since CUDA 13.2. */
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
                                     CUmemcpyAttributes *attributes, CUstream stream);
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                       CUstream stream);

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

enum { WIDTH = 3000, PITCH = 4096, ROWS = 600, LAYERS = 2, LAYER = PITCH * (ROWS + 8) };
#define PLACE(word) ((word)*4 % PITCH < WIDTH && (word)*4 % LAYER / PITCH < ROWS)

/* Rows and layers, some of which lie across the borders of units at one end or the other. */
static void rows(CUdeviceptr a, CUdeviceptr b, CUcontext context)
{
	const CUDA_MEMCPY2D there_2d = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                                .srcHost = there,
	                                .srcXInBytes = 8,
	                                .srcY = 1,
	                                .srcPitch = PITCH,
	                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                                .dstDevice = a,
	                                .dstXInBytes = 4,
	                                .dstY = 3,
	                                .dstPitch = PITCH - 512,
	                                .WidthInBytes = WIDTH,
	                                .Height = ROWS};
	const CUDA_MEMCPY2D back_2d = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                               .srcDevice = a,
	                               .srcXInBytes = 4,
	                               .srcY = 3,
	                               .srcPitch = PITCH - 512,
	                               .dstMemoryType = CU_MEMORYTYPE_HOST,
	                               .dstHost = back,
	                               .dstXInBytes = 8,
	                               .dstY = 1,
	                               .dstPitch = PITCH,
	                               .WidthInBytes = WIDTH,
	                               .Height = ROWS};
	const CUDA_MEMCPY3D there_3d = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                                .srcHost = there,
	                                .srcPitch = PITCH,
	                                .srcHeight = LAYER / PITCH,
	                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                                .dstDevice = b,
	                                .dstXInBytes = 256,
	                                .dstPitch = PITCH,
	                                .dstHeight = ROWS,
	                                .WidthInBytes = WIDTH,
	                                .Height = ROWS,
	                                .Depth = LAYERS};
	const CUDA_MEMCPY3D_PEER back_3d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                                    .srcDevice = b,
	                                    .srcContext = context,
	                                    .srcXInBytes = 256,
	                                    .srcPitch = PITCH,
	                                    .srcHeight = ROWS,
	                                    .dstMemoryType = CU_MEMORYTYPE_HOST,
	                                    .dstHost = back,
	                                    .dstContext = context,
	                                    .dstPitch = PITCH,
	                                    .dstHeight = LAYER / PITCH,
	                                    .WidthInBytes = WIDTH,
	                                    .Height = ROWS,
	                                    .Depth = LAYERS};

	fill(there, 21);
	memset(back, 0, BYTES);
	close_gate();
	CHECK(cuMemcpy2DAsync_v2(&there_2d, stream));
	CHECK(cuMemcpy2DAsync_v2(&back_2d, stream));
	open_gate();
	for (size_t i = 0; i < WORDS; i++) {
		size_t x = i * 4 % PITCH, y = i * 4 / PITCH;
		bool in = x >= 8 && x < 8 + WIDTH && y >= 1 && y < 1 + ROWS;

		if (back[i] != (in ? there[i] : 0))
			exit(4);
	}
	memset(back, 0, BYTES);
	close_gate();
	CHECK(cuMemcpy3DAsync_v2(&there_3d, stream));
	CHECK(cuMemcpy3DPeerAsync(&back_3d, stream));
	open_gate();
	for (size_t i = 0; i < (size_t)LAYER * LAYERS / 4; i++)
		if (back[i] != (PLACE(i) ? there[i] : 0))
			exit(5);
}

static void batch_of_rows(CUdeviceptr a, bool has_attributes)
{
	CUDA_MEMCPY3D_BATCH_OP op = {
	    .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
	    .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
	    .extent = {WIDTH, ROWS, LAYERS},
	    .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
	};
	size_t failed;

	fill(there, 41 + has_attributes);
	memset(back, 0, BYTES);
	op.src.op.ptr.ptr = address(there);
	op.src.op.ptr.rowLength = PITCH;
	op.src.op.ptr.layerHeight = LAYER / PITCH;
	op.dst.op.ptr.ptr = a + 64; /* one row behind the other */
	close_gate();
	CHECK(has_attributes ? cuMemcpy3DWithAttributesAsync(&op, 0, stream)
	                     : cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
	op.dst = op.src;
	op.dst.op.ptr.ptr = address(back);
	op.src.op.ptr.ptr = a + 64;
	op.src.op.ptr.rowLength = op.src.op.ptr.layerHeight = 0;
	CHECK(has_attributes ? cuMemcpy3DWithAttributesAsync(&op, 0, stream)
	                     : cuMemcpy3DBatchAsync(1, &op, &failed, 0, stream));
	open_gate();
	for (size_t i = 0; i < (size_t)LAYER * LAYERS / 4; i++)
		if (back[i] != (PLACE(i) ? there[i] : 0))
			exit(6);
}

static void batches(CUdeviceptr a, CUdeviceptr b)
{
	CUmemcpyAttributes order = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr to[] = {a, b}, from[] = {address(there), address(there) + MIB};
	CUdeviceptr then[] = {address(back), address(back) + MIB};
	size_t sizes[] = {MIB, BYTES - MIB}, first = 0, failed = 0;

	fill(there, 31);
	memset(back, 0, BYTES);
	close_gate();
	CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &order, &first, 1, &failed, stream));
	CHECK(cuMemcpyBatchAsync_v2(then, to, sizes, 2, &order, &first, 1, stream));
	open_gate();
	expect(back, 31, "batch");
	fill(there, 32);
	close_gate();
	CHECK(cuMemcpyWithAttributesAsync(a, address(there), BYTES, &order, stream));
	CHECK(cuMemcpyWithAttributesAsync(b, a, BYTES, &order, stream));
	CHECK(cuMemcpyWithAttributesAsync(address(back), b, BYTES, &order, stream));
	open_gate();
	expect(back, 32, "with attributes");
	/* What is refused is refused with its number, in a busy stream, too. */
	sizes[1] = SIZE_MAX / 2;
	close_gate();
	if (cuMemcpyBatchAsync(to, from, sizes, 2, &order, &first, 1, &failed, stream) !=
	        CUDA_ERROR_INVALID_VALUE ||
	    failed != 1)
		exit(7);
	open_gate();
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

	if (!file || fprintf(file, "[gpu]\nmemory = 512MiB\n") < 0 || fclose(file) != 0)
		exit(1);
}

static void captured(CUdeviceptr a, const char *limit_file)
{
	const CUDA_MEMCPY2D rest = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                            .srcDevice = a + BYTES / 2,
	                            .srcPitch = 1024,
	                            .dstMemoryType = CU_MEMORYTYPE_HOST,
	                            .dstHost = back + WORDS / 2,
	                            .dstPitch = 1024,
	                            .WidthInBytes = 1024,
	                            .Height = BYTES / 2 / 1024};
	CUgraph graph;
	CUgraphExec exec;

	fill(there, 9);
	CHECK(cuMemcpyHtoDAsync_v2(a, there, BYTES, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemcpyDtoHAsync_v2(back, a, BYTES / 2, stream));
	CHECK(cuMemcpy2DAsync_v2(&rest, stream));
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

/* --- many streams that are held, beside memory that cannot move --- */

enum { STREAMS = 24, PART = 256 << 10, SMALL = 1000 };

static struct queue {
	CUstream stream;
	uint32_t *source, *result; /* pinned; the result has the small one behind it */
	CUdeviceptr a, b;
} queues[STREAMS];

/* Runs in the stream's order; the driver may have one thread for all of these. */
static void CUDA_CB wait_for_gate(void *cookie)
{
	(void)cookie;
	while (!__atomic_load_n(gate, __ATOMIC_ACQUIRE))
		elastic_sleep_ms(1);
}

static void hold(const struct queue *queue, int number)
{
	if (number % 2)
		CHECK(cuLaunchHostFunc(queue->stream, wait_for_gate, NULL));
	else
		CHECK(cuStreamWaitValue32_v2(queue->stream, address(gate), 1,
		                             CU_STREAM_WAIT_VALUE_EQ));
}

/* From pinned and, at the end, from pageable memory that is changed at once, there and back. */
static void copy_in(const struct queue *queue, int number)
{
	static unsigned char small[SMALL];

	CHECK(cuMemcpyHtoDAsync_v2(queue->a, queue->source, PART, queue->stream));
	CHECK(cuMemcpyDtoDAsync_v2(queue->b, queue->a, PART, queue->stream));
	memset(small, number + 1, SMALL);
	CHECK(cuMemcpyHtoDAsync_v2(queue->a + 4, small, SMALL, queue->stream));
	memset(small, 0xee, SMALL);
	CHECK(cuMemcpyDtoHAsync_v2(queue->result, queue->b, PART, queue->stream));
	CHECK(
	    cuMemcpyDtoHAsync_v2((char *)queue->result + PART, queue->a + 4, SMALL, queue->stream));
}

static void expect_of(const struct queue *queue, int number)
{
	const unsigned char *small = (const unsigned char *)queue->result + PART;

	CHECK(cuStreamSynchronize(queue->stream));
	if (memcmp(queue->result, queue->source, PART) != 0)
		exit(8);
	for (int i = 0; i < SMALL; i++)
		if (small[i] != number + 1)
			exit(9);
}

static void held(int mib, const char *is_held, const char *go)
{
	/* 2 MiB each: the driver takes whole blocks of that, so they fill a limit to its end. */
	const CUDA_ARRAY_DESCRIPTOR shape = {
	    .Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUdeviceptr all;
	CUarray array;
	FILE *file;

	for (int i = 0; i < mib / 2; i++)
		CHECK(cuArrayCreate_v2(&array, &shape));
	CHECK(cuMemAlloc_v2(&all, 2 * STREAMS * PART));
	__atomic_store_n(gate, 0, __ATOMIC_RELEASE);
	for (int i = 0; i < STREAMS; i++) {
		struct queue *queue = &queues[i];

		CHECK(cuStreamCreate(&queue->stream, CU_STREAM_NON_BLOCKING));
		CHECK(cuMemHostAlloc((void **)&queue->source, PART, 0));
		CHECK(cuMemHostAlloc((void **)&queue->result, PART + SMALL, 0));
		for (size_t word = 0; word < PART / 4; word++)
			queue->source[word] = (uint32_t)(word * 2654435761u + (uint32_t)i);
		queue->a = all + (size_t)(2 * i) * PART;
		queue->b = queue->a + PART;
		hold(queue, i);
		copy_in(queue, i);
	}
	file = fopen(is_held, "w");
	if (!file || fclose(file) != 0)
		exit(1);
	while (access(go, F_OK) != 0)
		elastic_sleep_ms(5);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < STREAMS; i++)
		expect_of(&queues[i], i);
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
	if (argc == 5 && strcmp(argv[1], "held") == 0) {
		held(atoi(argv[2]), argv[3], argv[4]);
		return 0;
	}
	CHECK(cuMemHostAlloc((void **)&there, BYTES, 0));
	CHECK(cuMemHostAlloc((void **)&back, BYTES, 0));
	CHECK(cuMemAlloc_v2(&a, BYTES));
	CHECK(cuMemAlloc_v2(&b, BYTES));
	if (argc == 3 && strcmp(argv[1], "graph") == 0)
		captured(a, argv[2]);
	else {
		round_trips(a, b, context);
		rows(a, b, context);
		batches(a, b);
		batch_of_rows(a, false);
		batch_of_rows(a, true);
		too_long(a);
	}
	return 0;
}
