/* SPDX-License-Identifier: MIT */
/* Built with -default-stream per-thread: threads use the default stream, each its own. */
#include <thread>
#include <vector>

#include "check.h"

__constant__ int factor[4];

__global__ void fill(int *out, int count, int thread)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		out[i] = i * factor[thread];
}

static void work(int thread)
{
	const int count = 10000;
	std::vector<int> results(count);
	int *out, value = thread + 2;
	GOOD(cudaMallocAsync(&out, count * sizeof(int), 0));
	GOOD(cudaMemsetAsync(out, 0, count * sizeof(int)));
	GOOD(cudaMemcpyToSymbol(factor, &value, sizeof(value), thread * sizeof(int)));
	for (int round = 0; round < 3; round++) {
		fill<<<(count + 127) / 128, 128>>>(out, count, thread);
		GOOD(cudaGetLastError());
	}
	GOOD(cudaMemcpyAsync(results.data(), out, count * sizeof(int), cudaMemcpyDeviceToHost));
	GOOD(cudaStreamSynchronize(0));
	for (int i = 0; i < count; i++)
		CHECK(results[i] == i * value);
	GOOD(cudaFreeAsync(out, 0));
}

int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(work, i);
	for (std::thread &thread : threads)
		thread.join();
	GOOD(cudaDeviceSynchronize());
	std::printf("own_streams: ok\n");
	return 0;
}
