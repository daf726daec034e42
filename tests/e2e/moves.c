/* SPDX-License-Identifier: MIT */
/*
 * moves [OPTIONS]: works on many buffers as a training does, while its memory moves. Its result
 * depends on the options and the number of steps alone.
 *
 *   --mode one|four|threads|graphs|captures  (one)
 *   --mib N                                  working set (64)
 *   --until FILE                             goes on until this file exists
 *   --steps N,N,...                          of each lane, as an earlier run printed them
 *
 * A lane is a stream with buffers of its own. A step queues something on it: a kernel over two
 * buffers, copies of all kinds, fills, at times a free and an allocation. `four`: four lanes with
 * kernels that read each other's buffers at times; `threads`: eight lanes, each in a thread, every
 * other one a per-thread default stream; `graphs`: two lanes replay the graphs that they captured
 * at the start; `captures`: two lanes capture each step anew, in each mode, slowly.
 *
 * Prints "steps=N,N,... sum=X": a sum over everything that was read back and all buffers at the
 * end. Any call that fails ends it with status 1.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

enum { LANES_MAX = 8, BUFFERS = 6, QUEUED = 8, READ_BYTES = 64 << 10, GRAPH_NODES = 10 };

static struct {
	const char *mode, *until;
	size_t working_set;
	unsigned long steps[LANES_MAX];
	bool counted;
} options = {.mode = "one", .working_set = (size_t)64 * MIB};

struct lane {
	int number;
	CUstream stream;
	CUevent event;
	CUdeviceptr buffer[BUFFERS];
	size_t size[BUFFERS];
	CUgraphExec graph;
	char *pinned;       /* of the host: READ_BYTES for each step between two waits */
	unsigned int reads; /* of them */
	uint64_t random, sum;
	unsigned long step;
	pthread_t thread;
};

static struct elastic gpu;
static struct lane lanes[LANES_MAX];
static int lane_count = 1;
/* What is copied to the device; never changes. */
static char *pattern_pinned, pattern[4 * MIB];

static bool mode_is(const char *mode)
{
	return strcmp(options.mode, mode) == 0;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The lane's share of the working set, in parts from large to small. */
static size_t size_of(int buffer)
{
	static const size_t thousandths[BUFFERS] = {420, 250, 150, 100, 60, 20};

	return options.working_set / (size_t)lane_count * thousandths[buffer] / 1000 / 16 * 16;
}

static void allocate(struct lane *lane, int i)
{
	lane->size[i] = size_of(i);
	CHECK(cuMemAlloc_v2(&lane->buffer[i], lane->size[i]));
	CHECK(cuMemsetD32Async(lane->buffer[i], (unsigned int)elastic_random(&lane->random),
	                       lane->size[i] / 4, lane->stream));
}

static void open_lane(struct lane *lane, int number)
{
	lane->number = number;
	lane->random = (uint64_t)number + 1;
	if (mode_is("threads") && number % 2)
		lane->stream = CU_STREAM_PER_THREAD;
	else
		CHECK(cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&lane->event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuMemHostAlloc((void **)&lane->pinned, (size_t)READ_BYTES * QUEUED, 0));
	for (int i = 0; i < BUFFERS; i++)
		allocate(lane, i);
}

/* All that the lane queued is done; what it read is part of the sum. */
static void wait_for(struct lane *lane)
{
	CHECK(cuStreamSynchronize(lane->stream));
	lane->sum = elastic_hash(lane->sum, lane->pinned, (size_t)lane->reads * READ_BYTES);
	lane->reads = 0;
}

/* A range of a buffer, of whole words. */
struct part {
	CUdeviceptr address;
	size_t size;
};

static struct part draw_part(struct lane *lane, int buffer, size_t most)
{
	size_t words = lane->size[buffer] / 4, first = elastic_random(&lane->random) % words;
	size_t size = smaller((words - first) * 4, most);

	return (struct part){lane->buffer[buffer] + first * 4,
	                     4 + elastic_random(&lane->random) % (size / 4) * 4};
}

static void copy_within(struct lane *lane, int to, int from)
{
	struct part source = draw_part(lane, from, lane->size[from]);
	struct part target = draw_part(lane, to, source.size);

	CHECK(cuMemcpyDtoDAsync_v2(target.address, source.address, target.size, lane->stream));
}

/* Rows of a column in one buffer to a block in another. */
static void copy_box(struct lane *lane, int to, int from)
{
	size_t rows = 64, pitch = smaller(lane->size[to], lane->size[from]) / rows / 4 * 4;
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                     .srcDevice = lane->buffer[from],
	                     .srcPitch = pitch,
	                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                     .dstDevice = lane->buffer[to],
	                     .dstPitch = pitch,
	                     .WidthInBytes = pitch / 2,
	                     .Height = rows};

	CHECK(cuMemcpy2DAsync_v2(&box, lane->stream));
}

static void read_back(struct lane *lane, int from)
{
	struct part source = draw_part(lane, from, READ_BYTES);

	CHECK(cuMemcpyDtoHAsync_v2(lane->pinned + (size_t)lane->reads * READ_BYTES, source.address,
	                           source.size, lane->stream));
	lane->reads++;
}

static void upload(struct lane *lane, int to, const char *from)
{
	struct part target = draw_part(lane, to, sizeof(pattern));

	CHECK(cuMemcpyHtoDAsync_v2(target.address, from, target.size, lane->stream));
}

static void fill(struct lane *lane, int to, uint32_t value)
{
	struct part target = draw_part(lane, to, lane->size[to]);

	CHECK(cuMemsetD32Async(target.address, value, target.size / 4, lane->stream));
}

static void kernel(struct lane *lane, int to, int from, uint32_t salt)
{
	CHECK(elastic_mix(&gpu, lane->buffer[to], lane->buffer[from],
	                  smaller(lane->size[to], lane->size[from]), salt, lane->stream));
}

/* Two different ones. */
static void draw_two(uint64_t random, int *to, int *from)
{
	*to = (int)((random >> 8) % BUFFERS);
	*from = (*to + 1 + (int)((random >> 16) % (BUFFERS - 1))) % BUFFERS;
}

/* Only what may be captured. */
static void queue_kernels_and_copies(struct lane *lane)
{
	uint64_t random = elastic_random(&lane->random);
	int to, from;

	draw_two(random, &to, &from);
	switch (random % 8) {
	case 0:
		copy_within(lane, to, from);
		break;
	case 1:
		fill(lane, to, (uint32_t)(random >> 32));
		break;
	default:
		kernel(lane, to, from, (uint32_t)(random >> 32));
	}
}

static void queue_anything(struct lane *lane)
{
	uint64_t random = elastic_random(&lane->random);
	int to, from;

	draw_two(random, &to, &from);
	switch (random % 32) {
	case 0:
		copy_box(lane, to, from);
		break;
	case 1:
		upload(lane, to, pattern_pinned);
		break;
	case 2:
		upload(lane, to, pattern);
		break;
	case 3:
		CHECK(cuMemFree_v2(lane->buffer[to]));
		allocate(lane, to);
		break;
	case 4:
	case 5:
		read_back(lane, to);
		break;
	default:
		queue_kernels_and_copies(lane);
	}
}

static CUgraphExec capture(struct lane *lane, CUstreamCaptureMode mode, int nodes, long pause_ms)
{
	CUgraphExec executable;
	CUgraph graph;

	CHECK(cuStreamBeginCapture_v2(lane->stream, mode));
	for (int i = 0; i < nodes; i++) {
		queue_kernels_and_copies(lane);
		if (i == nodes / 2)
			elastic_sleep_ms(pause_ms);
	}
	CHECK(cuStreamEndCapture(lane->stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	CHECK(cuGraphDestroy(graph));
	return executable;
}

static void queue_step(struct lane *lane)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
	                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
	                                            CU_STREAM_CAPTURE_MODE_RELAXED};
	CUgraphExec executable;

	if (mode_is("graphs")) {
		if (!lane->graph)
			lane->graph = capture(lane, modes[lane->number % 3], GRAPH_NODES, 0);
		CHECK(cuGraphLaunch(lane->graph, lane->stream));
		queue_kernels_and_copies(lane);
		read_back(lane, (int)(lane->step % BUFFERS));
	} else if (mode_is("captures")) {
		queue_kernels_and_copies(lane);
		executable = capture(lane, modes[lane->step % 3], 4, lane->step % 8 ? 0 : 20);
		CHECK(cuGraphLaunch(executable, lane->stream));
		CHECK(cuGraphExecDestroy(executable));
		/* Lets the mover in: two captures in a row leave it no time. */
		if (lane->step % 8 == 7)
			elastic_sleep_ms(10);
	} else {
		queue_anything(lane);
	}
	lane->step++;
	if (lane->step % QUEUED == 0)
		wait_for(lane);
}

static bool is_over(const struct lane *lane)
{
	if (options.counted)
		return lane->step >= options.steps[lane->number];
	return lane->step % QUEUED == 0 && options.until && access(options.until, F_OK) == 0;
}

/* Every lane waits for what all queued, reads its neighbour's buffer, and all wait again. */
static void exchange(void)
{
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < lane_count; i++)
			CHECK(cuEventRecord(lanes[i].event, lanes[i].stream));
		for (int i = 0; i < lane_count; i++)
			for (int j = 0; j < lane_count; j++)
				CHECK(cuStreamWaitEvent(lanes[i].stream, lanes[j].event, 0));
		if (pass > 0)
			break;
		/* The second largest is written, the largest of the neighbour is read. */
		for (int i = 0; i < lane_count; i++)
			CHECK(elastic_mix(&gpu, lanes[i].buffer[1],
			                  lanes[(i + 1) % lane_count].buffer[0], lanes[i].size[1],
			                  (uint32_t)lanes[i].step, lanes[i].stream));
	}
}

static void run_in_turns(void)
{
	for (int i = 0; i < lane_count; i++)
		open_lane(&lanes[i], i);
	while (!is_over(&lanes[0])) {
		for (int i = 0; i < lane_count; i++)
			queue_step(&lanes[i]);
		if (mode_is("four") && lanes[0].step % 5 == 0)
			exchange();
	}
}

static void *run_lane(void *cookie)
{
	struct lane *lane = cookie;

	CHECK(cuCtxSetCurrent(gpu.context));
	open_lane(lane, (int)(lane - lanes));
	while (!is_over(lane))
		queue_step(lane);
	wait_for(lane);
	return NULL;
}

static void run_in_threads(void)
{
	for (int i = 0; i < lane_count; i++)
		if (pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) != 0)
			exit(1);
	for (int i = 0; i < lane_count; i++)
		pthread_join(lanes[i].thread, NULL);
}

static void close_lane(struct lane *lane)
{
	for (int i = 0; i < BUFFERS; i++) {
		lane->sum = elastic_hash_device(lane->sum, lane->buffer[i], lane->size[i]);
		CHECK(cuMemFree_v2(lane->buffer[i]));
	}
	if (lane->graph)
		CHECK(cuGraphExecDestroy(lane->graph));
	CHECK(cuMemFreeHost(lane->pinned));
	CHECK(cuEventDestroy_v2(lane->event));
	if (lane->stream != CU_STREAM_PER_THREAD)
		CHECK(cuStreamDestroy_v2(lane->stream));
}

static void parse(int argc, char **argv)
{
	static const struct option names[] = {{"mode", required_argument, NULL, 'm'},
	                                      {"mib", required_argument, NULL, 'w'},
	                                      {"until", required_argument, NULL, 'u'},
	                                      {"steps", required_argument, NULL, 's'},
	                                      {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'm':
			options.mode = optarg;
			break;
		case 'w':
			options.working_set = strtoull(optarg, NULL, 10) * MIB;
			break;
		case 'u':
			options.until = optarg;
			break;
		case 's':
			options.counted = true;
			for (int i = 0; i < LANES_MAX && *optarg; i++) {
				options.steps[i] = strtoul(optarg, &optarg, 10);
				optarg += *optarg == ',';
			}
			break;
		default:
			exit(2);
		}
	}
	if (mode_is("four"))
		lane_count = 4;
	else if (mode_is("threads"))
		lane_count = 8;
	else if (!mode_is("one"))
		lane_count = 2;
}

int main(int argc, char **argv)
{
	uint64_t sum = 0;

	parse(argc, argv);
	gpu = elastic_start();
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (char)(i * 7 + (i >> 12));
	CHECK(cuMemHostAlloc((void **)&pattern_pinned, sizeof(pattern), 0));
	memcpy(pattern_pinned, pattern, sizeof(pattern));
	if (mode_is("threads"))
		run_in_threads();
	else
		run_in_turns();
	CHECK(cuCtxSynchronize());
	printf("steps=");
	for (int i = 0; i < lane_count; i++) {
		if (!mode_is("threads"))
			wait_for(&lanes[i]);
		printf("%s%lu", i ? "," : "", lanes[i].step);
		close_lane(&lanes[i]);
		sum = sum * 31 + lanes[i].sum;
	}
	printf(" sum=%016llx\n", (unsigned long long)sum);
	CHECK(cuMemFreeHost(pattern_pinned));
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu.device));
	return 0;
}
