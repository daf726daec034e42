/* SPDX-License-Identifier: MIT */
/*
 * A broad set of what compilers emit, for comparison with the CPU bit by bit (see cases.h and
 * tests/broad.c). Compiles with nvcc and with NVRTC, 11.8 to 13.0, from sm_50 on.
 */
#include <cuda_fp16.h>

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef short s16;
typedef unsigned u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define count_ones                  __popc
#define leading_zeros               __clz
#define first_set                   __ffs
#define reverse_bits                __brev
#define high_product                __umulhi
#define high_product_signed         __mulhi
#define permute_bytes               __byte_perm
#define shift_pair_left(a, b, c)    __funnelshift_l(a, b, c)
#define shift_pair_right(a, b, c)   __funnelshift_rc(a, b, c)
#define sum_of_differences(a, b, c) __usad(a, b, c)
#define product_24                  __umul24
#define byte_differences            __vsadu4
#define byte_sums                   __vadd4
#define half_maxima                 __vmaxs2
#define count_ones_64               __popcll
#define leading_zeros_64            __clzll
#define first_set_64                __ffsll
#define reverse_bits_64             __brevll
#define high_product_64             __umul64hi
#define high_product_signed_64      __mul64hi
#define add_rn                      __fadd_rn
#define add_rz                      __fadd_rz
#define add_ru                      __fadd_ru
#define add_rd                      __fadd_rd
#define mul_rn                      __fmul_rn
#define mul_rz                      __fmul_rz
#define mul_ru                      __fmul_ru
#define mul_rd                      __fmul_rd
#define fma_rn                      __fmaf_rn
#define fma_rz                      __fmaf_rz
#define fma_ru                      __fmaf_ru
#define fma_rd                      __fmaf_rd
#define div_rn                      __fdiv_rn
#define div_ru                      __fdiv_ru
#define rcp_rn                      __frcp_rn
#define sqrt_rn                     __fsqrt_rn
#define sqrt_rz                     __fsqrt_rz
#define lesser                      fminf
#define greater                     fmaxf
#define dlesser                     fmin
#define dgreater                    fmax
#define half_round(a)               __half2float(__float2half_rn(a))
#define dadd_rn                     __dadd_rn
#define dadd_rz                     __dadd_rz
#define dmul_rn                     __dmul_rn
#define dmul_ru                     __dmul_ru
#define dfma_rn                     __fma_rn
#define dfma_rd                     __fma_rd
#define ddiv_rn                     __ddiv_rn
#define ddiv_rz                     __ddiv_rz
#define dsqrt_rn                    __dsqrt_rn
#define dsqrt_ru                    __dsqrt_ru
#define drcp_rn                     __drcp_rn
#define to_s32_rn                   __float2int_rn
#define to_s32_rz                   __float2int_rz
#define to_s32_ru                   __float2int_ru
#define to_s32_rd                   __float2int_rd
#define to_u32_rz                   __float2uint_rz
#define to_s64_rz                   __float2ll_rz
#define to_s64_rn                   __float2ll_rn
#define to_u64_rz                   __float2ull_rz
#define dto_s32_rn(x)               __double2int_rn((double)x)
#define dto_s64_rd(x)               __double2ll_rd((double)x)
#define dto_u64_rz(x)               __double2ull_rz((double)x)
#define from_s32_rn                 __int2float_rn
#define from_s32_rz                 __int2float_rz
#define from_u32_ru                 __uint2float_ru
#define from_s64_rn                 __ll2float_rn
#define from_u64_rd                 __ull2float_rd
#define dfrom_s64_rn                __ll2double_rn
#define dfrom_u64_rz                __ull2double_rz
#include "cases.h"

#define KERNEL extern "C" __global__ void
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

#define STORE(...) *out++ = (__VA_ARGS__);

KERNEL integers(const u32 *in, u32 *out, int cases)
{
	u32 a = in[THREAD * 3], b = in[THREAD * 3 + 1], c = in[THREAD * 3 + 2];
	out += THREAD * cases;
	INTEGER_CASES(STORE)
}

KERNEL longs(const u64 *in, u64 *out, int cases)
{
	u64 a = in[THREAD * 3], b = in[THREAD * 3 + 1], c = in[THREAD * 3 + 2];
	out += THREAD * cases;
	LONG_CASES(STORE)
}

KERNEL floats(const float *in, float *out, int cases)
{
	float a = in[THREAD * 3], b = in[THREAD * 3 + 1], c = in[THREAD * 3 + 2];
	out += THREAD * cases;
	FLOAT_CASES(STORE)
}

KERNEL doubles(const double *in, double *out, int cases)
{
	double a = in[THREAD * 3], b = in[THREAD * 3 + 1], c = in[THREAD * 3 + 2];
	out += THREAD * cases;
	DOUBLE_CASES(STORE)
}

KERNEL to_integers(const float *in, u64 *out, int cases)
{
	float x = in[THREAD];
	out += THREAD * cases;
	TO_INTEGER_CASES(STORE)
}

KERNEL from_integers(const u64 *in, double *out, int cases)
{
	u64 x = in[THREAD];
	out += THREAD * cases;
	FROM_INTEGER_CASES(STORE)
}

/* Half precision: sums, products and fused ones, alone and in pairs. */
KERNEL halves(const __half *in, __half *out)
{
#if __CUDA_ARCH__ >= 530
	__half a = in[THREAD * 3], b = in[THREAD * 3 + 1], c = in[THREAD * 3 + 2];
	out += THREAD * 12;
	out[0] = __hadd(a, b);
	out[1] = __hsub(a, b);
	out[2] = __hmul(a, b);
	out[3] = __hfma(a, b, c);
	out[4] = __hneg(a);
	out[5] = __hlt(a, b) ? a : c;
	out[6] = __hadd_sat(a, b);
	__half2 x = __halves2half2(a, b), y = __halves2half2(b, c);
	__half2 sum = __hadd2(x, y), fused = __hfma2(x, y, x);
	out[7] = __low2half(sum);
	out[8] = __high2half(sum);
	out[9] = __low2half(fused);
	out[10] = __high2half(fused);
	out[11] = __float2half_rz(__half2float(a) * 1.001f);
#endif
}

/* --- warps --- */

KERNEL warps(const u32 *in, u32 *out)
{
	u32 v = in[THREAD], lane = threadIdx.x & 31;
	out += THREAD * 16;
	out[0] = __shfl_sync(~0u, v, (int)(v & 31));
	out[1] = __shfl_sync(~0u, v, 5, 8);
	out[2] = __shfl_up_sync(~0u, v, 3);
	out[3] = __shfl_up_sync(~0u, v, 2, 16);
	out[4] = __shfl_down_sync(~0u, v, 7);
	out[5] = __shfl_down_sync(~0u, v, 1, 4);
	out[6] = __shfl_xor_sync(~0u, v, 21);
	out[7] = __shfl_xor_sync(~0u, v, 3, 8);
	out[8] = __ballot_sync(~0u, v & 4);
	out[9] = (u32)__any_sync(~0u, (v & 255) == 1) + 2 * __all_sync(~0u, v != 0);
	double d = __shfl_xor_sync(~0u, (double)v, 1);
	out[10] = (u32)(s64)d;
	out[11] = 0;
	for (u32 i = lane; i < 32; i += 3) /* lanes leave one after the other */
		out[11] += __popc(__activemask()) ? i : 0;
	if (v & 1)
		out[12] = __shfl_sync(__ballot_sync(__activemask(), true), v, __ffs(__activemask()) - 1) & 1;
	else
		out[12] = 7;
#if __CUDA_ARCH__ >= 700
	out[13] = __match_any_sync(~0u, v & 3);
	int same;
	out[14] = __match_all_sync(~0u, v & 0, &same) + same;
#endif
#if __CUDA_ARCH__ >= 800
	out[15] = __reduce_add_sync(~0u, v) ^ __reduce_max_sync(~0u, v) ^ __reduce_and_sync(~0u, v | 3);
#endif
}

/* --- atomics --- */

KERNEL atomics(const u32 *in, u32 *words, u64 *longs_, float *sum, double *wide)
{
	__shared__ u32 bins[32];
	__shared__ u64 total;
	u32 v = in[THREAD];
	if (threadIdx.x < 32)
		bins[threadIdx.x] = 0;
	if (threadIdx.x == 0)
		total = 0;
	__syncthreads();
	atomicAdd(&bins[v & 31], 1);
	atomicAdd(&total, (u64)v);
	atomicAdd(words, v);
	atomicMax(words + 1, v);
	atomicMin((int *)words + 2, (int)v);
	atomicXor(words + 3, v);
	atomicOr(words + 4, v);
	atomicAnd(words + 5, v | 0xff);
	u32 seat = atomicAdd(words + 6, 1); /* everyone gets another */
	atomicXor(words + 7, seat * seat);
	atomicMax(longs_, (u64)v << 20);
	atomicXor(longs_ + 1, (u64)v << 30 | v);
	atomicAdd(sum, (float)(v & 7));
	u64 old = *(volatile u64 *)wide, seen; /* a double by compare and swap */
	do {
		seen = old;
		old = atomicCAS((u64 *)wide, seen,
				__double_as_longlong(__longlong_as_double(seen) + (v & 15)));
	} while (old != seen);
#if __CUDA_ARCH__ >= 600
	atomicAdd(wide + 1, (double)(v & 15));
	atomicAdd_block(words + 8, 1);
	atomicAdd_system(words + 9, 2);
#endif
#if __CUDA_ARCH__ >= 700
	atomicCAS((unsigned short *)(words + 10), (unsigned short)0, (unsigned short)77);
#endif
	__syncthreads();
	if (threadIdx.x < 32)
		atomicAdd(words + 16 + threadIdx.x, bins[threadIdx.x]);
	if (threadIdx.x == 0)
		atomicAdd(longs_ + 2, total);
}

/* --- memory --- */

__constant__ u32 primes[16] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
__device__ u32 plain[64];

struct odd {
	u8 tag;
	u16 small;
	double value;
	u8 tail[3];
};

__device__ __noinline__ u32 sum_through(const u32 *p, int n)
{
	u32 sum = 0;
	for (int i = 0; i < n; i++)
		sum = sum * 31 + p[i];
	return sum;
}

/* One function reads shared, local, constant and global memory through generic pointers. */
KERNEL spaces(const uint4 *in, uint4 *out, const struct odd *odds, u32 n)
{
	extern __shared__ u32 dynamic[];
	__shared__ uint2 fixed[64];
	u32 local[16];
	uint4 v = in[THREAD];
	fixed[threadIdx.x] = make_uint2(v.x, v.y);
	dynamic[threadIdx.x] = v.z;
	for (u32 i = 0; i < 16; i++)
		local[(i * 7 + v.w) & 15] = v.x + i;
	plain[threadIdx.x] = threadIdx.x;
	__syncthreads();
	uint2 other = fixed[(threadIdx.x + 13) & 63];
	const u32 *p = v.w & 1 ? dynamic : v.w & 2 ? local : (const u32 *)in;
	struct odd o = odds[threadIdx.x & 7];
	ushort4 shorts = ((const ushort4 *)in)[THREAD * 2];
	uchar4 bytes = ((const uchar4 *)in)[THREAD * 4];
	longlong2 wide = ((const longlong2 *)in)[THREAD];
	v.x = other.x + other.y * 3 + sum_through(p, 16);
	v.y = primes[v.w & 15] + plain[(threadIdx.x + 1) & 63] + o.tag + o.small + (u32)o.value + o.tail[2];
	v.z = shorts.x + shorts.w * 3u + bytes.y * 5u + (u32)(wide.x ^ wide.y);
	v.w = local[v.w & 15] + dynamic[(threadIdx.x * 5) & 63] + (u32)__ldg(&((const u32 *)in)[n & 63]);
	out[THREAD] = v;
}

/* --- calls --- */

struct triple {
	u32 a;
	u64 b;
	float c;
};

__device__ __noinline__ struct triple make_triple(u32 v, float f)
{
	struct triple t = {v * 3, (u64)v << 33, f + 0.5f};
	return t;
}

__device__ __noinline__ u32 ackermann(u32 m, u32 n)
{
	while (m) {
		n = n ? ackermann(m, n - 1) : 1;
		m--;
	}
	return n + 1;
}

class shape
{
      public:
	__device__ virtual u32 area(u32 x) const = 0;
};
class square : public shape
{
      public:
	__device__ u32 area(u32 x) const { return x * x; }
};
class strip : public shape
{
	u32 width;

      public:
	__device__ strip(u32 w) : width(w) {}
	__device__ u32 area(u32 x) const { return x * width; }
};

KERNEL calls(const u32 *in, u32 *out)
{
	u32 v = in[THREAD];
	struct triple t = make_triple(v, (float)(v & 1023));
	square s;
	strip r(v & 7);
	const shape *which = v & 8 ? (const shape *)&s : (const shape *)&r;
	out[THREAD] = t.a + (u32)(t.b >> 32) + (u32)(t.c * 2) + ackermann(2, v & 7) + which->area(v & 255);
}

/* --- threads that wait for each other --- */

#define NAMED_BARRIER(id, n) asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory")
#define NAMED_ARRIVE(id, n)  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory")

/* The first warp produces, the second consumes: full and empty are named barriers. */
KERNEL produce_consume(u32 *out, int rounds)
{
	__shared__ u32 slot[32];
	u32 lane = threadIdx.x & 31, sum = 0;
	for (int i = 0; i < rounds; i++) {
		if (threadIdx.x < 32) {
			slot[lane] = lane * 100 + i;
			NAMED_ARRIVE(1, 64); /* full */
			NAMED_BARRIER(2, 64); /* until empty */
		} else {
			NAMED_BARRIER(1, 64);
			sum += slot[31 - lane] * (i + 1);
			NAMED_ARRIVE(2, 64);
		}
	}
	if (threadIdx.x >= 32)
		out[lane] = sum;
}

KERNEL locks(u32 *lock, volatile u32 *value, u32 *counts)
{
	for (int i = 0; i < 3; i++) {
		bool done = false;
		while (!done) {
			if (atomicExch(lock, 1) == 0) {
				*value = *value + 1;
				__threadfence();
				atomicExch(lock, 0);
				done = true;
			}
		}
	}
	counts[0] = __syncthreads_count(threadIdx.x % 3 == 0);
	counts[1] = __syncthreads_and(threadIdx.x < 1000);
	counts[2] = __syncthreads_or(threadIdx.x == 1000);
}

/* The last block to come adds up what all blocks wrote. */
KERNEL last_block(const u32 *in, u32 *partial, u32 *ticket, u32 *out)
{
	__shared__ bool last;
	u32 v = in[THREAD];
	for (int s = 16; s; s >>= 1)
		v += __shfl_down_sync(~0u, v, s);
	if (threadIdx.x == 0) {
		partial[blockIdx.x] = v;
		__threadfence();
		last = atomicAdd(ticket, 1) == gridDim.x - 1;
	}
	__syncthreads();
	if (last && threadIdx.x == 0) {
		u32 sum = 0;
		for (u32 i = 0; i < gridDim.x; i++)
			sum += ((volatile u32 *)partial)[i];
		*out = sum;
	}
}

KERNEL print_all(int n)
{
	if (threadIdx.x == 0)
		printf("%d %u %5d|%-5d|%05x %c %s %% %lld %llu %llx %g %8.3f %e\n", n, 4000000000u, 42, 42, 0xbeef,
		       'z', "text", -5000000000ll, 18000000000000000000ull, 0xfeedfacecafell, 0.25, 3.14159,
		       12345.678);
}
