/* SPDX-License-Identifier: MIT */
/* A stream that is kept busy; see pace_load.h. */
#include "tests/clients/pace_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/clients/client.h"
#include "tests/clients/program.h"

enum { LONGEST_NAP_US = 1000, TRIES = 3 };

uint64_t load_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

CUmodule load_module(void)
{
	return client_load_module("busy_kernels.ptx");
}

static void launch_kernel(struct queue *queue, unsigned us)
{
	unsigned loops, nap_ns = 0;

	if (load_options.asleep) {
		loops = (us + LONGEST_NAP_US - 1) / LONGEST_NAP_US;
		nap_ns = us * 1000 / loops;
	} else {
		loops = (unsigned)(load_options.loops_per_ms * us / 1e3) + 1;
	}
	CLIENT_LAUNCH(queue->work, 1, 1, 1, queue->stream, &queue->done, &loops, &nap_ns);
}

static CUgraphExec make_graph(struct queue *queue, unsigned us)
{
	CUgraphExec executable;
	CUgraph graph;
	CUstream stream = queue->stream, captured;

	/* Not every stream can be captured. */
	CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
	CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	queue->stream = captured;
	for (unsigned i = 0; i < load_options.nodes; i++)
		launch_kernel(queue, us);
	queue->stream = stream;
	CU(cuStreamEndCapture(captured, &graph));
	CU(cuGraphInstantiateWithFlags(&executable, graph, 0));
	CU(cuGraphDestroy(graph));
	CU(cuStreamDestroy(captured));
	return executable;
}

void queue_open(struct queue *queue, CUmodule module, CUstream stream, unsigned seed)
{
	memset(queue, 0, sizeof(*queue));
	queue->work = client_function(module, "work");
	queue->random = seed * 2654435761u + 1;
	queue->stream = stream;
	if (!stream)
		CU(cuStreamCreate(&queue->stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemAlloc(&queue->done, 2 * sizeof(unsigned)));
	CU(cuMemsetD32(queue->done, 0, 2));
	CU(cuCtxSynchronize());
	for (unsigned i = 0; i < QUEUE_MARKS; i++)
		CU(cuEventCreate(&queue->marks[i], CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; load_options.nodes && i < load_options.length_count; i++)
		queue->graphs[i] = make_graph(queue, load_options.lengths_us[i]);
}

void queue_mark(struct queue *queue)
{
	CUevent mark = queue->marks[queue->mark % QUEUE_MARKS];

	if (queue->mark++ >= QUEUE_MARKS)
		CU(cuEventSynchronize(mark));
	CU(cuEventRecord(mark, queue->stream));
	queue->unmarked_ms = 0;
}

void queue_launch(struct queue *queue)
{
	unsigned choice, kernels = load_options.nodes ? load_options.nodes : 1;

	queue->random = queue->random * 1664525u + 1013904223u;
	choice = (queue->random >> 16) % load_options.length_count;
	if (load_options.nodes)
		CU(cuGraphLaunch(queue->graphs[choice], queue->stream));
	else
		launch_kernel(queue, load_options.lengths_us[choice]);
	double ms = load_options.lengths_us[choice] / 1e3 * kernels;
	queue->counts.launches++;
	queue->counts.kernels += kernels;
	queue->counts.work_ms += ms;
	queue->unmarked_ms += ms;
	if (load_options.wait)
		CU(cuStreamSynchronize(queue->stream));
	else if (queue->unmarked_ms * QUEUE_MARKS >= load_options.ahead_ms)
		queue_mark(queue);
}

void queue_close(struct queue *queue)
{
	unsigned done;

	CU(cuStreamSynchronize(queue->stream));
	CU(cuMemcpyDtoH(&done, queue->done, sizeof(done)));
	if (done != (unsigned)queue->counts.kernels)
		program_die("%u kernels have run, not %lu", done, queue->counts.kernels);
	for (unsigned i = 0; load_options.nodes && i < load_options.length_count; i++)
		CU(cuGraphExecDestroy(queue->graphs[i]));
	for (unsigned i = 0; i < QUEUE_MARKS; i++)
		CU(cuEventDestroy(queue->marks[i]));
	CU(cuMemFree(queue->done));
	if (queue->stream != CU_STREAM_PER_THREAD)
		CU(cuStreamDestroy(queue->stream));
}

static double milliseconds_of(CUfunction work, CUdeviceptr done, unsigned loops)
{
	CUevent start, stop;
	float ms, least = 1e30f;
	unsigned nap_ns = 0;

	CU(cuEventCreate(&start, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&stop, CU_EVENT_DEFAULT));
	for (int i = 0; i < TRIES; i++) {
		CU(cuEventRecord(start, NULL));
		CLIENT_LAUNCH(work, 1, 1, 1, NULL, &done, &loops, &nap_ns);
		CU(cuEventRecord(stop, NULL));
		CU(cuEventSynchronize(stop));
		CU(cuEventElapsedTime(&ms, start, stop));
		if (least > ms)
			least = ms;
	}
	CU(cuEventDestroy(start));
	CU(cuEventDestroy(stop));
	return least;
}

double load_calibrate(CUmodule module)
{
	CUfunction work = client_function(module, "work");
	CUdeviceptr done;
	unsigned loops = 1024;
	double ms;

	CU(cuMemAlloc(&done, 2 * sizeof(unsigned)));
	while ((ms = milliseconds_of(work, done, loops)) < 10 && loops < 1u << 30)
		loops *= 2;
	CU(cuMemFree(done));
	return loops / ms;
}
