/* SPDX-License-Identifier: MIT */
/* Adds vectors in pieces on several streams, with events between copies and kernels. */
#include <vector>

#include "check.h"

__global__ void add(float *sum, const float *a, const float *b, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		sum[i] = a[i] + b[i];
}

int main()
{
	const int count = 100003, pieces = 4, piece = (count + pieces - 1) / pieces;
	float *a, *b, *sum, *on_device[3];
	GOOD(cudaMallocHost(&a, count * sizeof(float)));
	GOOD(cudaMallocHost(&b, count * sizeof(float)));
	GOOD(cudaHostAlloc(&sum, count * sizeof(float), cudaHostAllocDefault));
	for (int i = 0; i < count; i++) {
		a[i] = i * 0.5f;
		b[i] = 3.0f * (i % 1000);
		sum[i] = -1;
	}
	for (float *&pointer : on_device)
		GOOD(cudaMalloc(&pointer, count * sizeof(float)));

	cudaStream_t copies[pieces], kernels[pieces];
	cudaEvent_t copied[pieces], begin, end;
	GOOD(cudaEventCreate(&begin));
	GOOD(cudaEventCreate(&end));
	GOOD(cudaEventRecord(begin));
	for (int p = 0; p < pieces; p++) {
		GOOD(cudaStreamCreate(&copies[p]));
		GOOD(cudaStreamCreateWithPriority(&kernels[p], cudaStreamNonBlocking, 0));
		GOOD(cudaEventCreateWithFlags(&copied[p], cudaEventDisableTiming));
		int from = p * piece, size = from + piece > count ? count - from : piece;
		GOOD(cudaMemcpyAsync(on_device[0] + from, a + from, size * sizeof(float),
		                     cudaMemcpyHostToDevice, copies[p]));
		GOOD(cudaMemcpyAsync(on_device[1] + from, b + from, size * sizeof(float),
		                     cudaMemcpyDefault, copies[p]));
		GOOD(cudaEventRecord(copied[p], copies[p]));
		GOOD(cudaStreamWaitEvent(kernels[p], copied[p]));
		add<<<(size + 255) / 256, 256, 0, kernels[p]>>>(
		    on_device[2] + from, on_device[0] + from, on_device[1] + from, size);
		GOOD(cudaGetLastError());
		GOOD(cudaMemcpyAsync(sum + from, on_device[2] + from, size * sizeof(float),
		                     cudaMemcpyDeviceToHost, kernels[p]));
	}
	GOOD(cudaEventRecord(end));
	GOOD(cudaDeviceSynchronize());
	for (int i = 0; i < count; i++)
		CHECK(sum[i] == a[i] + b[i]);
	float milliseconds = -1;
	GOOD(cudaEventElapsedTime(&milliseconds, begin, end));
	CHECK(milliseconds >= 0);

	add<<<1, 2048>>>(sum, a, b, count); /* no such block */
	CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
	CHECK(cudaGetLastError() == cudaSuccess);
	for (int p = 0; p < pieces; p++) {
		GOOD(cudaStreamDestroy(copies[p]));
		GOOD(cudaStreamDestroy(kernels[p]));
	}
	for (float *pointer : on_device)
		GOOD(cudaFree(pointer));
	GOOD(cudaDeviceReset());
	std::printf("vector_add: ok\n");
	return 0;
}
