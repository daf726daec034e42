/* SPDX-License-Identifier: MIT */
/* Integer, conversion, control flow, atomics, memory spaces. */
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void bits(const unsigned *x, unsigned *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	unsigned v = x[i];
	unsigned *out = y + i * 16;
	out[0] = __popc(v);
	out[1] = __clz(v);
	out[2] = __brev(v);
	out[3] = __byte_perm(v, ~v, 0x5274);
	out[4] = __funnelshift_l(v, i, i & 31);
	out[5] = __umulhi(v, 0x9e3779b9u);
	out[6] = (v & 0xff00ff) ^ (~v | 12345u);
	out[7] = __ffs(v);
	out[8] = v / 7 + v % 13;
	out[9] = (int)v / ((int)i + 1);
	out[10] = (int)v % ((int)i + 1);
	out[11] = min((int)v, -5) + max(v, 77u);
	out[12] = __sad((int)v, 1000, 5u);
	out[13] = __clzll((long long)v << 20);
	out[14] = (unsigned)__mul24(v, 3) + (unsigned)abs((int)v);
	out[15] = (v >> (i & 31)) + ((int)v >> (i & 15)) + (v << (i & 7));
}

extern "C" __global__ void convert(const double *x, long long *y, double *z, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	double v = x[i];
	float f = (float)v;
	long long *out = y + (size_t)i * 12;
	out[0] = (int)f;
	out[1] = (unsigned)f;
	out[2] = __float2int_rn(f);
	out[3] = __float2int_ru(f);
	out[4] = (long long)v;
	out[5] = (unsigned char)(int)f;
	out[6] = __double2int_rd(v);
	out[7] = __half_as_ushort(__float2half(f));
	out[8] = __bfloat16_as_ushort(__float2bfloat16(f));
	out[9] = __float_as_int(__half2float(__float2half(f)) * 2);
	out[10] = __double_as_longlong((double)f);
	out[11] = __float_as_int(__saturatef(f));
	double *d = z + (size_t)i * 6;
	d[0] = v * v + 1;
	d[1] = sqrt(fabs(v));
	d[2] = 1 / v;
	d[3] = exp(v / 100);
	d[4] = (double)(int)f + (double)(unsigned)out[7];
	d[5] = floor(v) + fmin(v, 2.0);
}

extern "C" __global__ void half_axpy(const __half *x, __half *y, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = __hfma(__float2half(a), x[i], y[i]);
}

extern "C" __global__ void half2_add(const __half2 *x, __half2 *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = __hadd2(x[i], y[i]);
}

/* Nested branches, loops whose trip counts differ, early returns, switch. */
extern "C" __global__ void diverge(const int *x, int *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	int v = x[i], sum = 0;
	if (v < 0) {
		y[i] = -1;
		return;
	}
	for (int a = 0; a < v % 37; a++) {
		if (a % 3 == 0) {
			sum += a;
			if ((v ^ a) & 1)
				continue;
			for (int b = 0; b < (v + a) % 5; b++)
				sum = sum * 3 + b;
		} else if (a > 30 && v > 900) {
			break;
		}
		sum ^= a << 3;
	}
	switch (v % 7) {
	case 0: sum += y[0] & 0; break;
	case 1: sum *= 17; break;
	case 2: sum -= v * v; /* fall through */
	case 3: sum ^= 0x5555; break;
	case 4: y[i] = sum * 31; return;
	case 5: sum = sum / (v + 1); break;
	default: sum = ~sum;
	}
	y[i] = sum;
}

__device__ __noinline__ int collatz(int v, int *steps)
{
	int local[4] = {1, 2, 3, 4};
	while (v != 1) {
		local[*steps & 3] += v;
		v = v & 1 ? 3 * v + 1 : v / 2;
		++*steps;
	}
	return local[0] + local[1] * 3 + local[2] * 5 + local[3] * 7;
}

__device__ __noinline__ int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void calls(int *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	int steps = 0;
	int value = collatz(i + 1, &steps);
	y[i] = value * 1000 + steps + fibonacci(i % 10);
}

__device__ int square_of(int v)
{
	return v * v;
}
__device__ int negative_of(int v)
{
	return -v;
}
typedef int (*unary)(int);
__device__ unary unaries[2] = {square_of, negative_of};

extern "C" __global__ void indirect(int *y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = unaries[i & 1](i);
}

extern "C" __global__ void atomics(unsigned *u, int *s, float *f, double *d, unsigned long long *l)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	__shared__ unsigned count;
	if (threadIdx.x == 0)
		count = 0;
	__syncthreads();
	atomicAdd(&count, i);
	atomicAdd(u + 0, 1u);
	atomicMax(u + 1, i * 7 % 1001);
	atomicMin(u + 2, i * 7 % 1001 + 5);
	atomicAnd(u + 3, ~(1u << (i & 15)));
	atomicOr(u + 4, 1u << (i & 31));
	atomicXor(u + 5, i);
	atomicInc(u + 6, 99);
	atomicDec(u + 7, 99);
	atomicMin(s + 0, (int)i - 100);
	atomicMax(s + 1, 50 - (int)i);
	atomicSub(s + 2, 3);
	atomicAdd(f, 0.5f);
	atomicAdd(d, 0.25);
	atomicAdd(l, 1ull << 33);
	unsigned seen = u[8], old;
	do {
		old = seen;
		seen = atomicCAS(u + 8, old, old + i);
	} while (seen != old);
	__syncthreads();
	if (threadIdx.x == 0)
		atomicExch(u + 9, count);
}

/* Every thread takes the lock: lanes one by one, warps by turns. */
extern "C" __global__ void spin_lock(int *lock, int *value)
{
	bool done = false;
	while (!done) {
		if (atomicCAS(lock, 0, 1) == 0) {
			int v = *(volatile int *)value;
			*(volatile int *)value = v + 1;
			__threadfence();
			atomicExch(lock, 0);
			done = true;
		}
	}
}

/* Warp 0 waits for what the last warp writes: progress between warps. */
extern "C" __global__ void wait_for_warp(volatile int *flag, int *out)
{
	if (threadIdx.x / 32 == 0) {
		while (*flag == 0)
			;
		out[threadIdx.x] = *flag;
	} else if (threadIdx.x == blockDim.x - 1) {
		*flag = 42;
	}
}

__constant__ int weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ float table[4] = {0.5f, 1.5f, -2.5f};
__device__ float *pointer_to_table = table + 1;
__device__ int counter;

extern "C" __global__ void globals(int *y)
{
	y[threadIdx.x] = weights[threadIdx.x & 7] * 100 + (int)(table[threadIdx.x & 3] * 2) +
			 (int)(*pointer_to_table * 10);
	atomicAdd(&counter, 1);
}

struct pair {
	char tag;
	double value;
	short list[5];
};

extern "C" __global__ void structs(struct pair p, long long *y)
{
	y[threadIdx.x] = p.tag + (long long)p.value + p.list[threadIdx.x % 5];
}

extern "C" __global__ void votes(const int *x, unsigned *y)
{
	int v = x[threadIdx.x];
	unsigned *out = y + threadIdx.x * 8;
	out[0] = __ballot_sync(~0u, v > 3);
	out[1] = __any_sync(~0u, v > 100);
	out[2] = __all_sync(~0u, v >= 0);
	out[3] = __activemask();
	out[4] = __shfl_sync(~0u, v, threadIdx.x / 2);
	out[5] = __shfl_up_sync(~0u, v, 3, 8);
	if (threadIdx.x & 1)
		out[6] = __ballot_sync(0xaaaaaaaau, v & 2);
	else
		out[6] = __ballot_sync(0x55555555u, v & 1);
	out[7] = __syncthreads_count(v & 1);
}

extern "C" __global__ void misaligned(int *p)
{
	*(int *)((char *)p + threadIdx.x * 2) = 1;
}

extern "C" __global__ void past_shared(int *p)
{
	__shared__ int s[8];
	s[p[0] + threadIdx.x] = 1;
	__syncthreads();
	p[1] = s[threadIdx.x & 7];
}

extern "C" __global__ void touch(int *p, long long stride)
{
	p[threadIdx.x * stride] = 7;
}

extern "C" __global__ void peek(const int *p, int *out)
{
	out[threadIdx.x] = p[threadIdx.x];
}

extern "C" __global__ void trap_if(const int *p)
{
	if (p[threadIdx.x] == 3)
		__trap();
}

extern "C" __global__ void forever(volatile int *p)
{
	while (*p == 0)
		;
}

extern "C" __global__ void fma_loop(float *y, float a, float b, int rounds)
{
	float v0 = threadIdx.x, v1 = v0 + 1, v2 = v0 + 2, v3 = v0 + 3;
	for (int i = 0; i < rounds; i++) {
#pragma unroll
		for (int j = 0; j < 8; j++) {
			v0 = fmaf(v0, a, b);
			v1 = fmaf(v1, a, b);
			v2 = fmaf(v2, a, b);
			v3 = fmaf(v3, a, b);
		}
	}
	y[blockIdx.x * blockDim.x + threadIdx.x] = v0 + v1 + v2 + v3;
}
