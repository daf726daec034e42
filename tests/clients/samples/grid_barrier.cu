/* SPDX-License-Identifier: MIT */
/* The kernel of grid_barrier: rounds of neighbours' sums, all blocks in step. */
#include <cooperative_groups.h>

/* In each round a cell becomes the sum of itself and the next, in a ring. */
extern "C" __global__ void ring_sums(unsigned *cells, unsigned *scratch, unsigned count,
                                     unsigned rounds)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();

	for (unsigned round = 0; round < rounds; round++) {
		unsigned *from = round % 2 ? scratch : cells, *to = round % 2 ? cells : scratch;
		for (unsigned i = grid.thread_rank(); i < count; i += grid.size())
			to[i] = from[i] + from[i + 1 == count ? 0 : i + 1];
		grid.sync();
	}
}
