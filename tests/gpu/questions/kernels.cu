/* SPDX-License-Identifier: MIT */
/*
 * The kernels of the questions, for devices from compute capability 7.5 on. `make ptx` turns this
 * file into kernels.ptx.
 */
#include <cuda_fp16.h>

/* Runs until the host says go. */
extern "C" __global__ void spin(const volatile unsigned *go)
{
	while (*go == 0)
		;
}

extern "C" __global__ void nothing()
{
}

/* Every word is read so many times, by one thread each time, and past the first cache. */
extern "C" __global__ void reread(const uint4 *from, unsigned count, unsigned times, unsigned *sum)
{
	unsigned mine = 0;
	for (unsigned t = 0; t < times; t++) {
		for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
		     i += gridDim.x * blockDim.x) {
			uint4 v;
			asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
			             : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
			             : "l"(from + i));
			mine += v.x ^ v.y ^ v.z ^ v.w;
		}
	}
	if (mine == 0x12345678u)
		*sum = mine;
}

/*
 * Every block reads every word, each from another place on, as operands of a matrix product are
 * read by many blocks.
 */
extern "C" __global__ void read_by_all(const uint4 *from, unsigned count, unsigned *sum)
{
	unsigned mine = 0;
	for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
		uint4 v = from[(i + blockIdx.x * (count / gridDim.x)) % count];
		mine += v.x ^ v.y ^ v.z ^ v.w;
	}
	if (mine == 0x12345678u)
		*sum = mine;
}

/* Counters: every thread adds 1. */

extern "C" __global__ void atom_u32(unsigned *p)
{
	atomicAdd(p, 1u);
}

extern "C" __global__ void atom_u64(unsigned long long *p)
{
	atomicAdd(p, 1ull);
}

extern "C" __global__ void atom_f32(float *p)
{
	atomicAdd(p, 1.0f);
}

extern "C" __global__ void atom_f64(double *p)
{
	atomicAdd(p, 1.0);
}

extern "C" __global__ void atom_f16x2(__half2 *p)
{
	atomicAdd(p, __floats2half2_rn(1.f, 1.f));
}

extern "C" __global__ void atom_sys_u32(unsigned *p)
{
	atomicAdd_system(p, 1u);
}

extern "C" __global__ void atom_sys_f32(float *p)
{
	atomicAdd_system(p, 1.0f);
}

extern "C" __global__ void atom_cas16(unsigned short *p)
{
	unsigned short old = *(volatile unsigned short *)p, seen;
	while ((seen = atomicCAS(p, old, (unsigned short)(old + 1))) != old)
		old = seen;
}

extern "C" __global__ void atom_inc(unsigned *p)
{
	unsigned old;
	asm volatile("atom.global.inc.u32 %0, [%1], 0xffffffff;" : "=r"(old) : "l"(p) : "memory");
	(void)old;
}

extern "C" __global__ void red_sys_u64(unsigned long long *p)
{
	asm volatile("red.global.sys.add.u64 [%0], 1;" ::"l"(p) : "memory");
}
