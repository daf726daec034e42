/* SPDX-License-Identifier: MIT */
/*
 * Graphs that are captured, instantiated and launched, then and later, while the memory they are
 * over moves.
 */
#include "tests/chaos/blocks.h"
#include "tests/chaos/operations.h"

enum { GRAPHS = 6, OVER = 3 };

static struct {
	CUgraphExec exec; /* NULL: free */
	uint64_t number[OVER];
	uint32_t term[OVER];
	int count;
} graphs[GRAPHS];

static void destroy(int graph)
{
	OK(cuGraphExecDestroy(graphs[graph].exec));
	graphs[graph].exec = NULL;
}

/* The memory of the block goes: nothing that uses it stays. */
void graphs_forget(uint64_t number)
{
	for (int i = 0; i < GRAPHS; i++)
		for (int k = 0; graphs[i].exec && k < graphs[i].count; k++)
			if (graphs[i].number[k] == number)
				destroy(i);
}

void graphs_end(void)
{
	for (int i = 0; i < GRAPHS; i++)
		if (graphs[i].exec)
			destroy(i);
}

static CUstream own_stream(struct dice *dice)
{
	return worker.stream[1 + below(dice, STREAMS - 1)];
}

static CUgraphExec end_capture(CUstream stream)
{
	CUgraph graph;
	CUgraphExec exec;

	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return exec;
}

void do_capture(struct dice *dice)
{
	CUstream stream = own_stream(dice);
	uint32_t at = below(dice, GRAPHS), count = 1 + below(dice, OVER);
	CUstreamCaptureMode mode = (CUstreamCaptureMode)below(dice, 3);
	struct block *over[OVER];

	if (graphs[at].exec)
		destroy((int)at);
	graphs[at].count = 0;
	for (uint32_t i = 0; i < count; i++) {
		over[i] = block_any(dice, KINDS_ALL, true);
		if (!over[i])
			return;
		OK(cuStreamSynchronize(over[i]->stream));
	}
	OK(cuStreamBeginCapture(stream, mode));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t term = (uint32_t)roll(dice);

		block_launch(worker.add, over[i]->at, over[i]->size, (struct pattern){0, term},
		             stream);
		graphs[at].number[i] = over[i]->number;
		graphs[at].term[i] = term;
	}
	graphs[at].count = (int)count;
	graphs[at].exec = end_capture(stream);
}

void do_replay(struct dice *dice)
{
	CUstream stream = any_stream(dice);
	uint32_t at = below(dice, GRAPHS), times = 1 + below(dice, 4);

	if (!graphs[at].exec) {
		note(": none");
		return;
	}
	for (int i = 0; i < graphs[at].count; i++)
		block_on(block_numbered(graphs[at].number[i]), stream);
	for (uint32_t time = 0; time < times; time++) {
		OK(cuGraphLaunch(graphs[at].exec, stream));
		for (int i = 0; i < graphs[at].count; i++)
			block_numbered(graphs[at].number[i])->pattern.term += graphs[at].term[i];
	}
}

/* A copy by way of memory that the graph itself has. What it takes no limit refuses. */
void do_graph_memory(struct dice *dice)
{
	CUstream stream = own_stream(dice);
	uint32_t times = 1 + below(dice, 3);
	struct block *block = block_any(dice, KINDS_ALL, true);
	size_t reserved;
	CUdeviceptr between;
	CUgraphExec exec;
	cuuint64_t left = 0;

	if (!block)
		return;
	reserved = (block->size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	OK(cuStreamSynchronize(block->stream));
	unrefused_comes(reserved);
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAllocAsync(&between, block->size, stream));
	OK(cuMemcpyDtoDAsync(between, block->at, block->size, stream));
	block_launch(worker.add, between, block->size, (struct pattern){0, 7}, stream);
	OK(cuMemcpyDtoDAsync(block->at, between, block->size, stream));
	OK(cuMemFreeAsync(between, stream));
	exec = end_capture(stream);
	for (uint32_t i = 0; i < times; i++) {
		CUresult result = cuGraphLaunch(exec, stream);

		if (!HAD(result))
			break;
		block->pattern.term += 7;
	}
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(worker.device));
	OK(cuDeviceGetGraphMemAttribute(worker.device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
	                                &left));
	if (left != 0)
		fail("%llu bytes are reserved for graphs, of which there are none",
		     (unsigned long long)left);
	unrefused_went(reserved);
}
