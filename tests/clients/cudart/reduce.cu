/* SPDX-License-Identifier: MIT */
/* Sums, products and greatest values by templates: warp shuffles, shared memory of a given size. */
#include <cmath>
#include <vector>

#include "check.h"

struct Sum {
	template <class T> __host__ __device__ static T apply(T a, T b)
	{
		return a + b;
	}
};

struct Greatest {
	template <class T> __host__ __device__ static T apply(T a, T b)
	{
		return a > b ? a : b;
	}
};

template <class Operation, class T> __device__ T reduce_warp(T value)
{
	for (int offset = 16; offset; offset /= 2)
		value = Operation::apply(value, __shfl_xor_sync(0xffffffffu, value, offset));
	return value;
}

/* One value per block; the grid strides over the input, which holds at least one per thread. */
template <class Operation, class T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) reduce(T *out, const T *in, int count)
{
	extern __shared__ unsigned char bytes[];
	T *warps = reinterpret_cast<T *>(bytes);
	int i = blockIdx.x * BLOCK + threadIdx.x;
	T value = in[i];
	for (i += gridDim.x * BLOCK; i < count; i += gridDim.x * BLOCK)
		value = Operation::apply(value, in[i]);
	value = reduce_warp<Operation>(value);
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = value;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int w = 1; w < BLOCK / 32; w++)
			value = Operation::apply(value, warps[w]);
		out[blockIdx.x] = value;
	}
}

template <class Operation, class T, int BLOCK> void check_reduce(int count)
{
	const int blocks = 5;
	std::vector<T> in(count), parts(blocks);
	for (int i = 0; i < count; i++)
		in[i] = T((i * 37) % 101); /* sums that every type holds exactly */
	T expected = in[0];
	for (int i = 1; i < count; i++)
		expected = Operation::apply(expected, in[i]);

	T *on_device, *out;
	GOOD(cudaMalloc(&on_device, count * sizeof(T)));
	GOOD(cudaMallocAsync(&out, blocks * sizeof(T), 0));
	GOOD(cudaMemcpy(on_device, in.data(), count * sizeof(T), cudaMemcpyHostToDevice));
	reduce<Operation, T, BLOCK><<<blocks, BLOCK, BLOCK / 32 * sizeof(T)>>>(out, on_device, count);
	GOOD(cudaGetLastError());
	GOOD(cudaMemcpy(parts.data(), out, blocks * sizeof(T), cudaMemcpyDeviceToHost));
	T got = parts[0];
	for (int i = 1; i < blocks; i++)
		got = Operation::apply(got, parts[i]);
	CHECK(got == expected);
	GOOD(cudaFreeAsync(out, 0));
	GOOD(cudaFree(on_device));
}

template <class T> void check_type()
{
	check_reduce<Sum, T, 64>(1000);
	check_reduce<Sum, T, 256>(20011);
	check_reduce<Greatest, T, 128>(5000);
}

int main()
{
	check_type<int>();
	check_type<float>();
	check_type<double>();
	check_type<long long>();
	check_type<unsigned>();
	int size = 0, grid = 0;
	GOOD(cudaOccupancyMaxPotentialBlockSize(&grid, &size, reduce<Sum, int, 256>, 64));
	CHECK(grid >= 1 && size >= 32 && size <= 256);
	std::printf("reduce: ok\n");
	return 0;
}
