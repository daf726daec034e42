/* SPDX-License-Identifier: MIT */
/*
 * Questions on captured graphs. A graph is instantiated while a chunk is in one place. Does it do
 * its work after the chunk was moved, to the host and back, under the same address?
 */
#include "tests/gpu/probe.h"

#include <stdint.h>
#include <stdlib.h>

/* One graph that adds 1 to, copies or fills the range; `copy` is plain memory of the same size. */
enum node { KERNEL, MEMCPY, MEMSET };

static CUgraphExec capture(enum node node, const struct range *range, CUdeviceptr copy)
{
	CUgraph graph = NULL;
	CUgraphExec executable = NULL;
	CUdeviceptr base = range->base;
	unsigned words = range->reserved / sizeof(uint32_t), one = 1;
	CUfunction add = gpu_kernel("add_to_words");

	ATTEMPT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	switch (node) {
	case KERNEL:
		ATTEMPT(cuLaunchKernel(add, 64, 1, 1, 128, 1, 1, 0, stream,
		                       (void *[]){&base, &words, &one}, NULL));
		break;
	case MEMCPY:
		ATTEMPT(cuMemcpyDtoDAsync(copy, base, range->reserved, stream));
		break;
	case MEMSET:
		ATTEMPT(cuMemsetD32Async(base, 7, words, stream));
		break;
	}
	ATTEMPT(cuStreamEndCapture(stream, &graph));
	ATTEMPT(cuGraphInstantiate(&executable, graph, 0));
	if (graph)
		gpu.cuGraphDestroy(graph);
	return executable;
}

static void set_all(uint32_t *words, size_t count, uint32_t value)
{
	for (size_t i = 0; i < count; i++)
		words[i] = value;
}

/* Fills the range with `before`, replays, and counts the words that are not `after` then. */
static size_t replay(CUgraphExec executable, struct range *range, CUdeviceptr result,
                     uint32_t *words, uint32_t before, uint32_t after)
{
	size_t count = range->reserved / sizeof(*words), wrong = 0;

	set_all(words, count, before);
	range_write(range, words);
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuGraphLaunch(executable, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	if (result == range->base)
		range_read(range, words);
	else
		ATTEMPT(cuMemcpyDtoH(words, result, range->reserved));
	for (size_t i = 0; i < count; i++)
		wrong += words[i] != after;
	return wrong;
}

static void ask_node(const char *question, enum node node)
{
	struct range range;
	CUdeviceptr copy = 0;
	size_t wrong = 0;

	attempt_begin();
	range_make(&range, "dd", small_chunk);
	uint32_t *words = calloc(1, range.reserved);
	ATTEMPT(cuMemAlloc(&copy, range.reserved));
	CUgraphExec executable = capture(node, &range, copy);
	CUdeviceptr result = node == MEMCPY ? copy : range.base;

	/* Where the chunk is: device as captured, host, device again but elsewhere. */
	for (uint32_t round = 0; round < 3 && words && !attempt_failed(NULL); round++) {
		uint32_t before = 100 * round;
		if (round > 0)
			range_move(&range, 0, round == 1 ? 'h' : 'd');
		wrong += replay(executable, &range, result, words, before,
		                node == KERNEL   ? before + 1
		                : node == MEMCPY ? before
		                                 : 7);
	}
	if (!attempt_failed(question))
		answer(question, wrong ? "wrong bytes" : "yes",
		       "%zu wrong words; a chunk moved device -> host -> device", wrong);
	if (executable)
		gpu.cuGraphExecDestroy(executable);
	gpu.cuMemFree(copy);
	free(words);
	range_free(&range);
}

void ask_graphs(void)
{
	ASK("graph_kernel_after_move", ask_node("graph_kernel_after_move", KERNEL));
	ASK("graph_copy_after_move", ask_node("graph_copy_after_move", MEMCPY));
	ASK("graph_fill_after_move", ask_node("graph_fill_after_move", MEMSET));
}
