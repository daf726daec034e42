/* SPDX-License-Identifier: MIT */
/* Kernels that want compute capability 9.0. `make ptx` turns this file into kernels_90.ptx. */
#include <cuda_bf16.h>

extern "C" __global__ void atom_bf16x2(__nv_bfloat162 *p)
{
	atomicAdd(p, __floats2bfloat162_rn(1.f, 1.f));
}

extern "C" __global__ void red_v4f32(float *p)
{
	asm volatile("red.global.v4.f32.add [%0], {%1,%1,%1,%1};" ::"l"(p), "f"(1.0f) : "memory");
}

/* One block: 4 KiB come by a bulk copy, and their words are added up. */
extern "C" __global__ void bulk_in(const void *from, unsigned *sum)
{
	__shared__ alignas(128) unsigned tile[1024];
	__shared__ alignas(8) unsigned long long barrier;
	unsigned b = (unsigned)__cvta_generic_to_shared(&barrier);
	unsigned t = (unsigned)__cvta_generic_to_shared(tile);
	unsigned done = 0, mine = 0;

	if (threadIdx.x != 0)
		return;
	asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(b)
	             : "memory");
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(b) : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
	             "4096, [%2];" ::"r"(t),
	             "l"(from), "r"(b)
	             : "memory");
	while (!done)
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; "
		             "selp.u32 %0, 1, 0, p; }"
		             : "=r"(done)
		             : "r"(b)
		             : "memory");
	for (int i = 0; i < 1024; i++)
		mine += tile[i];
	*sum = mine;
}

/* Each block adds 1 to each of 256 words by a bulk reduction; 256 threads. */
extern "C" __global__ void bulk_reduce(unsigned *to)
{
	__shared__ alignas(128) unsigned tile[256];

	tile[threadIdx.x] = 1;
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
	if (threadIdx.x == 0) {
		unsigned t = (unsigned)__cvta_generic_to_shared(tile);
		asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], "
		             "1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::"l"(to),
		             "r"(t)
		             : "memory");
	}
}
