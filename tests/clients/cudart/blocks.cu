/* SPDX-License-Identifier: MIT */
/*
 * blocks MIB: holds so much in blocks of 2 MiB at once, changes each twice, checks every word and
 * prints a checksum.
 */
#include <vector>

#include "check.h"

static const int words = (2 << 20) / sizeof(unsigned);

__global__ void change(unsigned *block, unsigned by)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
		block[i] = block[i] * 1664525u + by;
}

int main(int argc, char **argv)
{
	int mib = argc > 1 ? std::atoi(argv[1]) : 8;
	std::vector<unsigned *> blocks(mib / 2);
	std::vector<unsigned> seen(words);
	unsigned checksum = 0;
	for (unsigned *&block : blocks) {
		GOOD(cudaMalloc(&block, words * sizeof(unsigned)));
		GOOD(cudaMemset(block, 1, words * sizeof(unsigned)));
	}
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned b = 0; b < blocks.size(); b++)
			change<<<16, 256>>>(blocks[b], b + round);
		GOOD(cudaGetLastError());
	}
	for (unsigned b = 0; b < blocks.size(); b++) {
		GOOD(cudaMemcpy(seen.data(), blocks[b], words * sizeof(unsigned),
		                cudaMemcpyDeviceToHost));
		unsigned expected = (0x01010101u * 1664525u + b) * 1664525u + b + 1;
		for (unsigned word : seen)
			CHECK(word == expected);
		checksum = checksum * 31 + expected;
		GOOD(cudaFree(blocks[b]));
	}
	std::printf("blocks: ok mib=%d checksum=%08x\n", mib, checksum);
	return 0;
}
