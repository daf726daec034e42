/* SPDX-License-Identifier: MIT */
/*
 * Conditional nodes: a loop with a length that only the device knows, and in it a switch. Each
 * round stirs the vector, and then once more by its first word: one of two ways, or none. Launched
 * six times, and then until the file that the argument names exists.
 */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 2 << 20, STRIDE = 512, THREADS = 256, USED = COUNT / STRIDE };

static CUdeviceptr vector, rounds;
static CUfunction stir, decide;

static CUgraphNode add(CUgraph graph, const CUgraphNode *after, CUfunction function,
                       unsigned threads, void **arguments)
{
	CUDA_KERNEL_NODE_PARAMS params = {.func = function,
	                                  .gridDimX = (threads + THREADS - 1) / THREADS,
	                                  .gridDimY = 1,
	                                  .gridDimZ = 1,
	                                  .blockDimX = threads < THREADS ? threads : THREADS,
	                                  .blockDimY = 1,
	                                  .blockDimZ = 1,
	                                  .kernelParams = arguments};
	CUgraphNode node;

	CU(cuGraphAddKernelNode(&node, graph, after, after != NULL, &params));
	return node;
}

static CUgraph *add_conditional(CUgraph graph, const CUgraphNode *after,
                                CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                                unsigned size)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
	                            .conditional = {.handle = handle, .type = type, .size = size}};
	CUgraphNode node;

	SAMPLE_NEEDS(cuGraphAddNode(&node, graph, after, NULL, after != NULL, &params));
	return params.conditional.phGraph_out;
}

static void stir_here(unsigned *x, unsigned salt)
{
	for (unsigned i = 0; i < USED; i++)
		x[i] = x[i] * 1664525u + i + salt;
}

int main(int argc, char **argv)
{
	static unsigned expected[USED], got[USED];
	unsigned launches = 0;
	unsigned used = USED, salts[] = {11, 22, 33}, taken[3] = {0};
	CUgraphConditionalHandle again, way;
	CUgraphExec exec;
	CUgraph graph;
	CUstream stream;
	bool all = true;

	CUmodule module = sample_open("conditional.ptx");
	stir = client_function(module, "stir");
	decide = client_function(module, "decide");
	/* Most of it is ballast: under a limit the vector is not all on the device. */
	vector = client_alloc((size_t)COUNT * sizeof(unsigned));
	rounds = client_alloc(sizeof(unsigned));
	CU(cuMemsetD32(vector, 1, COUNT));
	for (size_t i = 0; i < USED; i++)
		expected[i] = 1;
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

	CU(cuGraphCreate(&graph, 0));
	SAMPLE_NEEDS(
	    cuGraphConditionalHandleCreate(&again, graph, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	CU(cuGraphConditionalHandleCreate(&way, graph, NULL, 0, 0));
	CUgraph loop = add_conditional(graph, NULL, again, CU_GRAPH_COND_TYPE_WHILE, 1)[0];
	CUgraphNode first = add(loop, NULL, stir, USED, (void *[]){&vector, &used, &salts[2]});
	CUgraphNode decided =
	    add(loop, &first, decide, 1, (void *[]){&rounds, &vector, &again, &way});
	CUgraph *ways = add_conditional(loop, &decided, way, CU_GRAPH_COND_TYPE_SWITCH, 2);
	for (int i = 0; i < 2; i++)
		add(ways[i], NULL, stir, USED, (void *[]){&vector, &used, &salts[i]});
	CU(cuGraphInstantiate(&exec, graph, 0));

	for (; launches < 6 || (argc > 1 && access(argv[1], F_OK) != 0); launches++) {
		unsigned left = 1 + sample_random() % 20;
		CU(cuMemcpyHtoD(rounds, &left, sizeof(left)));
		CU(cuGraphLaunch(exec, stream));
		CU(cuStreamSynchronize(stream));
		sample_download(got, vector, sizeof(got));
		for (; left; left--) {
			stir_here(expected, salts[2]);
			unsigned choice = expected[0] % 3;
			taken[choice]++;
			if (choice < 2)
				stir_here(expected, salts[choice]);
		}
		all &= memcmp(expected, got, sizeof(got)) == 0;
	}
	sample_check(all, "%u launches of a loop", launches);
	sample_check(taken[0] && taken[1] && taken[2], "it went %u, %u and %u times each way",
	             taken[0], taken[1], taken[2]);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
	CU(cuStreamDestroy(stream));
	client_free(&vector, (size_t)COUNT * sizeof(unsigned));
	client_free(&rounds, sizeof(unsigned));
	CU(cuModuleUnload(module));
	return sample_end();
}
