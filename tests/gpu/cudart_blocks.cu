/* SPDX-License-Identifier: MIT */
/*
 * Fills blocks of 64 MiB through the CUDA runtime, as many as asked for, all held at once; changes
 * each in a second pass and checks every word. Prints a checksum. Knows nothing of Spillway.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                       \
	do {                                                              \
		cudaError_t error = (call);                               \
		if (error != cudaSuccess) {                               \
			fprintf(stderr, "cudart_blocks: %s: %s\n", #call, \
			        cudaGetErrorName(error));                 \
			exit(1);                                          \
		}                                                         \
	} while (0)

static const size_t block_words = (64 << 20) / sizeof(uint32_t);

__global__ void fill(uint32_t *words, size_t count, uint32_t seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		words[i] = seed * 2654435761u + (uint32_t)i;
}

__global__ void scramble(uint32_t *words, size_t count)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		words[i] = words[i] * 1664525u + 1013904223u;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	uint32_t **blocks = (uint32_t **)calloc(count, sizeof(*blocks));
	uint32_t *seen = (uint32_t *)malloc(block_words * sizeof(*seen));
	uint64_t hash = 0xcbf29ce484222325;

	if (!blocks || !seen)
		return 1;
	for (int b = 0; b < count; b++) {
		CHECK(cudaMalloc(&blocks[b], block_words * sizeof(uint32_t)));
		fill<<<256, 256>>>(blocks[b], block_words, b);
		CHECK(cudaGetLastError());
	}
	for (int b = 0; b < count; b++)
		scramble<<<256, 256>>>(blocks[b], block_words);
	CHECK(cudaGetLastError());
	for (int b = 0; b < count; b++) {
		CHECK(cudaMemcpy(seen, blocks[b], block_words * sizeof(uint32_t),
		                 cudaMemcpyDeviceToHost));
		for (size_t i = 0; i < block_words; i++) {
			uint32_t filled = b * 2654435761u + (uint32_t)i;
			if (seen[i] != filled * 1664525u + 1013904223u) {
				fprintf(stderr, "cudart_blocks: block %d is wrong at word %zu\n", b,
				        i);
				return 1;
			}
			hash = (hash ^ seen[i]) * 0x100000001b3;
		}
		CHECK(cudaFree(blocks[b]));
	}
	printf("cudart_blocks: blocks=%d working_set=%zu checksum=%016llx\n", count,
	       count * block_words * sizeof(uint32_t), (unsigned long long)hash);
	return 0;
}
