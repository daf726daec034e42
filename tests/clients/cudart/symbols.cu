/* SPDX-License-Identifier: MIT */
/* Constants and variables of the device, from the host by symbol and by address. */
#include "check.h"

struct Body {
	float position[3];
	int mass;
};

__constant__ Body bodies[8];
__constant__ int scale = 3;
__device__ int total_mass;
__device__ float table[4] = {0.5f, 1.5f, 2.5f, 3.5f};
static __device__ unsigned long long calls;

__device__ float weigh(const Body *body, float by)
{
	return by * body->mass;
}
__device__ float (*weigh_pointer)(const Body *, float) = weigh;

__global__ void sum_up(float *out)
{
	int i = threadIdx.x;
	atomicAdd(&total_mass, bodies[i].mass);
	atomicAdd(&calls, 1ull);
	out[i] = weigh(&bodies[i], table[i % 4]) + scale * bodies[i].position[i % 3];
}

__global__ void read_through(const float *address, float *out)
{
	out[threadIdx.x] = address[threadIdx.x] * 2;
}

int main()
{
	Body on_host[8];
	for (int i = 0; i < 8; i++)
		on_host[i] = {{i + 0.25f, i + 0.5f, i + 0.75f}, i * 10};
	GOOD(cudaMemcpyToSymbol(bodies, on_host, sizeof(on_host)));
	int new_scale = 5, mass = -1;
	GOOD(cudaMemcpyFromSymbol(&mass, scale, sizeof(mass)));
	CHECK(mass == 3);
	GOOD(cudaMemcpyToSymbol(scale, &new_scale, sizeof(new_scale)));
	float seven = 7;
	GOOD(cudaMemcpyToSymbolAsync(table, &seven, sizeof(seven), 2 * sizeof(float),
	                             cudaMemcpyHostToDevice, 0));
	const float factors[4] = {0.5f, 1.5f, 7, 3.5f};

	float *out, results[8];
	GOOD(cudaMalloc(&out, sizeof(results)));
	sum_up<<<1, 8>>>(out);
	GOOD(cudaMemcpy(results, out, sizeof(results), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 8; i++)
		CHECK(results[i] == factors[i % 4] * (i * 10) + 5 * on_host[i].position[i % 3]);
	GOOD(cudaMemcpyFromSymbol(&mass, total_mass, sizeof(mass)));
	CHECK(mass == 280);
	unsigned long long seen;
	GOOD(cudaMemcpyFromSymbol(&seen, calls, sizeof(seen)));
	CHECK(seen == 8);

	size_t size;
	void *address;
	GOOD(cudaGetSymbolSize(&size, bodies));
	CHECK(size == sizeof(on_host));
	GOOD(cudaGetSymbolAddress(&address, table));
	read_through<<<1, 4>>>(static_cast<float *>(address), out);
	GOOD(cudaMemcpy(results, out, 4 * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 4; i++)
		CHECK(results[i] == 2 * factors[i]);
	CHECK(cudaMemcpyToSymbol(table, on_host, 17) == cudaErrorInvalidValue);
	CHECK(cudaGetLastError() == cudaErrorInvalidValue);

	cudaFuncAttributes attributes;
	GOOD(cudaFuncGetAttributes(&attributes, sum_up));
	CHECK(attributes.maxThreadsPerBlock > 0);
	std::printf("symbols: ok\n");
	return 0;
}
