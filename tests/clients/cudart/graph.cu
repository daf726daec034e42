/* SPDX-License-Identifier: MIT */
/* Graphs: a step recorded from two streams, run again and again; and one made node by node. */
#include <vector>

#include "check.h"

__global__ void scale(float *values, int count, float by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		values[i] *= by;
}

__global__ void add(float *to, const float *from, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		to[i] += from[i];
}

static void CUDART_CB note(void *seen)
{
	*static_cast<int *>(seen) += 1;
}

static void by_nodes()
{
	const int count = 512;
	std::vector<float> in(count), got(count);
	float *from, *to;
	int seen = 0;
	for (int i = 0; i < count; i++)
		in[i] = i * 0.5f;
	GOOD(cudaMalloc(&from, count * sizeof(float)));
	GOOD(cudaMalloc(&to, count * sizeof(float)));

	cudaGraph_t graph, clone;
	cudaGraphExec_t exec;
	cudaGraphNode_t copy_in, clear, kernel, copy_out, host;
	GOOD(cudaGraphCreate(&graph, 0));
	GOOD(cudaGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, from, in.data(),
	                              count * sizeof(float), cudaMemcpyHostToDevice));
	cudaMemsetParams zeros = {to, 0, 0, 4, count, 1};
	GOOD(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &zeros));
	const cudaGraphNode_t both[] = {copy_in, clear};
	int number = count;
	void *arguments[] = {&to, &from, &number};
	cudaKernelNodeParams launch = {(void *)add, dim3(4), dim3(128), 0, arguments, nullptr};
	GOOD(cudaGraphAddKernelNode(&kernel, graph, both, 2, &launch));
	GOOD(cudaGraphAddMemcpyNode1D(&copy_out, graph, &kernel, 1, got.data(), to,
	                              count * sizeof(float), cudaMemcpyDeviceToHost));
	cudaHostNodeParams call = {note, &seen};
	GOOD(cudaGraphAddHostNode(&host, graph, nullptr, 0, &call));
	GOOD(cudaGraphAddDependencies(graph, &copy_out, &host, nullptr, 1));
	GOOD(cudaGraphClone(&clone, graph));
	GOOD(cudaGraphInstantiateWithFlags(&exec, clone, 0));
	GOOD(cudaGraphLaunch(exec, 0));
	GOOD(cudaGraphLaunch(exec, 0));
	GOOD(cudaStreamSynchronize(0));
	CHECK(got == in);
	CHECK(seen == 2);
	GOOD(cudaGraphExecDestroy(exec));
	GOOD(cudaGraphDestroy(clone));
	GOOD(cudaGraphDestroy(graph));
}

int main()
{
	const int count = 1000, grid = 8, block = 128, rounds = 5;
	std::vector<float> a(count), b(count), got(count);
	float *first, *second;
	cudaStream_t main_stream, side;
	cudaEvent_t fork, join;
	GOOD(cudaMalloc(&first, count * sizeof(float)));
	GOOD(cudaMalloc(&second, count * sizeof(float)));
	for (int i = 0; i < count; i++) {
		a[i] = i % 7;
		b[i] = i % 5;
	}
	GOOD(cudaMemcpy(first, a.data(), count * sizeof(float), cudaMemcpyHostToDevice));
	GOOD(cudaMemcpy(second, b.data(), count * sizeof(float), cudaMemcpyHostToDevice));
	GOOD(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
	GOOD(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	GOOD(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	GOOD(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

	cudaStreamCaptureStatus status;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	GOOD(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeThreadLocal));
	GOOD(cudaEventRecord(fork, main_stream));
	GOOD(cudaStreamWaitEvent(side, fork));
	scale<<<grid, block, 0, main_stream>>>(first, count, 2);
	scale<<<grid, block, 0, side>>>(second, count, 3);
	GOOD(cudaGetLastError());
	GOOD(cudaEventRecord(join, side));
	GOOD(cudaStreamWaitEvent(main_stream, join));
	add<<<grid, block, 0, main_stream>>>(first, second, count);
	GOOD(cudaStreamIsCapturing(side, &status));
	CHECK(status == cudaStreamCaptureStatusActive);
	CHECK(cudaStreamSynchronize(main_stream) == cudaErrorStreamCaptureUnsupported);
	(void)cudaGetLastError();
	CHECK(cudaStreamEndCapture(main_stream, &graph) == cudaErrorStreamCaptureInvalidated);
	(void)cudaGetLastError();

	/* Once more, without the mistake. */
	GOOD(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
	GOOD(cudaEventRecord(fork, main_stream));
	GOOD(cudaStreamWaitEvent(side, fork));
	scale<<<grid, block, 0, main_stream>>>(first, count, 2);
	scale<<<grid, block, 0, side>>>(second, count, 3);
	GOOD(cudaEventRecord(join, side));
	GOOD(cudaStreamWaitEvent(main_stream, join));
	add<<<grid, block, 0, main_stream>>>(first, second, count);
	GOOD(cudaStreamEndCapture(main_stream, &graph));
	size_t nodes = 0;
	GOOD(cudaGraphGetNodes(graph, nullptr, &nodes));
	CHECK(nodes == 3);
	GOOD(cudaGraphInstantiate(&exec, graph, 0));
	for (int round = 0; round < rounds; round++) {
		GOOD(cudaGraphLaunch(exec, main_stream));
		for (int i = 0; i < count; i++) {
			b[i] *= 3;
			a[i] = a[i] * 2 + b[i];
		}
	}
	GOOD(cudaMemcpyAsync(got.data(), first, count * sizeof(float), cudaMemcpyDeviceToHost,
	                     main_stream));
	GOOD(cudaStreamSynchronize(main_stream));
	CHECK(got == a);
	GOOD(cudaGraphExecDestroy(exec));
	GOOD(cudaGraphDestroy(graph));
	by_nodes();
	std::printf("graph: ok\n");
	return 0;
}
