/* SPDX-License-Identifier: MIT */
/* printf and assert in kernels. What broke is told by every later call. */
#include <cassert>
#include <cstring>

#include "check.h"

__global__ void greet(const char *unused, int number, double real)
{
	if (threadIdx.x < 2)
		printf("block %d thread %d: %s %d %.3f %c%%\n", blockIdx.x, threadIdx.x, "hello",
		       number, real + threadIdx.x, 'x');
}

__global__ void at_most(const int *values, int most)
{
	assert(values[threadIdx.x] <= most);
}

int main()
{
	greet<<<2, 32>>>(nullptr, -7, 0.5);
	GOOD(cudaDeviceSynchronize());
	int on_host[32], *values;
	for (int i = 0; i < 32; i++)
		on_host[i] = i;
	GOOD(cudaMalloc(&values, sizeof(on_host)));
	GOOD(cudaMemcpy(values, on_host, sizeof(on_host), cudaMemcpyHostToDevice));
	at_most<<<1, 32>>>(values, 31);
	GOOD(cudaDeviceSynchronize());
	at_most<<<1, 32>>>(values, 30);
	CHECK(cudaDeviceSynchronize() == cudaErrorAssert);
	CHECK(cudaGetLastError() == cudaErrorAssert);
	CHECK(cudaMemcpy(on_host, values, 4, cudaMemcpyDeviceToHost) == cudaErrorAssert);
	CHECK(!std::strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorAssert"));
	std::printf("prints: ok\n");
	return 0;
}
