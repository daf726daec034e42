/* SPDX-License-Identifier: MIT */
/* Tests integer operations and conversions as nvcc compiles them. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <math.h>

/* --- integers and conversions --- */

static void test_bits(const struct ptx_module *m)
{
	enum { N = 300 };
	static uint32_t x[N];
	int n = N;
	for (int i = 0; i < N; i++)
		x[i] = i < 4 ? (uint32_t)i - 2 : random_bits() >> (i % 32);
	x[2] = 0x80000000;
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, sizeof x * 16);
	run_ok(m, "bits", 3, 1, 128, 1, &dx, &dy, &n);
	const uint32_t *got = on_host(dy);
	for (int i = 0; i < N; i++) {
		uint32_t v = x[i], s = (uint32_t)i & 31;
		uint64_t pair = (uint64_t)~v << 32 | v, twice = (uint64_t)i << 32 | v;
		uint32_t permuted = 0;
		for (int k = 0; k < 4; k++)
			permuted |= (uint32_t)(pair >> 8 * (0x5274 >> 4 * k & 7) & 255) << 8 * k;
		int32_t sv = (int32_t)v, low = sv < -5 ? sv : -5;
		int64_t by = i + 1;
		uint32_t e[16] = {
		    (uint32_t)__builtin_popcount(v),
		    v ? (uint32_t)__builtin_clz(v) : 32,
		    reverse_bits(v),
		    permuted,
		    (uint32_t)(twice << s >> 32),
		    (uint32_t)((uint64_t)v * 0x9e3779b9u >> 32),
		    (v & 0xff00ff) ^ (~v | 12345u),
		    (uint32_t)__builtin_ffs(sv),
		    v / 7 + v % 13,
		    (uint32_t)(sv / by),
		    (uint32_t)(sv % by),
		    (uint32_t)low + (v > 77 ? v : 77),
		    (uint32_t)llabs((long long)sv - 1000) + 5,
		    v << 20 || v >> 12 ? (uint32_t)__builtin_clzll((uint64_t)(int64_t)v << 20) : 64,
		    (uint32_t)(((int32_t)(v << 8) >> 8) * 3) + (sv < 0 ? -v : v),
		    (v >> s) + (uint32_t)(sv >> (i & 15)) + (v << (i & 7)),
		};
		for (int k = 0; k < 16; k++)
			check(got[i * 16 + k] == e[k], "bits %d of 0x%x: expected 0x%x, got 0x%x",
			      k, v, e[k], got[i * 16 + k]);
	}
}

static uint16_t half_of(float f)
{
	_Float16 h = (_Float16)f;
	uint16_t bits;
	memcpy(&bits, &h, sizeof bits);
	return isnan(f) ? 0x7fff : bits;
}

static float float_of(uint16_t bits)
{
	_Float16 h;
	memcpy(&h, &bits, sizeof h);
	return (float)h;
}

static void test_convert(const struct ptx_module *m)
{
	enum { N = 260 };
	static double x[N];
	int n = N;
	double special[] = {0,    -0.0, 0.5,   1.5,    2.5,   -0.5, 1e-8,
	                    6e-8, 6e-5, 70000, -65519, 65520, 3e9};
	for (int i = 0; i < N; i++)
		x[i] = i < 13 ? special[i] : ldexp(random_float(), (int)(random_bits() % 50) - 20);
	uint64_t dx = buffer(x, sizeof x), dy = buffer(NULL, 8 * 12 * N),
	         dz = buffer(NULL, 8 * 6 * N);
	run_ok(m, "convert", 5, 1, 64, 1, &dx, &dy, &dz, &n);
	const long long *y = on_host(dy);
	const double *z = on_host(dz);
	for (int i = 0; i < N; i++) {
		double v = x[i];
		float f = (float)v;
		double t = trunc(f), r = rint(f), c = ceil(f);
		long long clamp = t > INT32_MAX   ? INT32_MAX
		                  : t < INT32_MIN ? INT32_MIN
		                                  : (long long)t;
		uint32_t bf = float_bits(f);
		bf += 0x7fff + (bf >> 16 & 1);
		long long e[12] = {
		    clamp,
		    t < 0            ? 0
		    : t > UINT32_MAX ? UINT32_MAX
		                     : (long long)t,
		    r > INT32_MAX   ? INT32_MAX
		    : r < INT32_MIN ? INT32_MIN
		                    : (long long)r,
		    c > INT32_MAX   ? INT32_MAX
		    : c < INT32_MIN ? INT32_MIN
		                    : (long long)c,
		    (long long)v,
		    (unsigned char)clamp,
		    v > INT32_MAX   ? INT32_MAX
		    : v < INT32_MIN ? INT32_MIN
		                    : (long long)floor(v),
		    half_of(f),
		    bf >> 16,
		    (int32_t)float_bits(float_of(half_of(f)) * 2),
		    0,
		    (int32_t)float_bits(f > 0 ? f < 1 ? f : 1 : 0),
		};
		double wide = f;
		memcpy(&e[10], &wide, sizeof wide);
		for (int k = 0; k < 12; k++)
			check(y[i * 12 + k] == e[k], "convert %d of %.17g: expected %lld, got %lld",
			      k, v, e[k], y[i * 12 + k]);
		double d[6] = {fma(v, v, 1),         sqrt(fabs(v)), 1 / v, exp(v / 100), 0,
		               floor(v) + fmin(v, 2)};
		d[4] = (double)clamp + (double)half_of(f);
		for (int k = 0; k < 6; k++)
			check(z[i * 6 + k] == d[k] ||
			          (k == 3 && fabs(z[i * 6 + k] - d[k]) <= 1e-14 * d[k]),
			      "double %d of %.17g: expected %.17g, got %.17g", k, v, d[k],
			      z[i * 6 + k]);
	}
}

static void test_half(const struct ptx_module *m)
{
	enum { N = 256 };
	static uint16_t x[N], y[N];
	int n = N, pairs = N / 2;
	float a = 0.3333f;
	for (int i = 0; i < N; i++) {
		x[i] = half_of(ldexpf(random_float(), (int)(random_bits() % 30) - 18));
		y[i] = half_of(ldexpf(random_float(), (int)(random_bits() % 30) - 18));
	}
	uint64_t dx = buffer(x, sizeof x), dy = buffer(y, sizeof y);
	run_ok(m, "half_axpy", 1, 1, N, 1, &dx, &dy, &a, &n);
	const uint16_t *got = on_host(dy);
	for (int i = 0; i < N; i++) {
		/* long double holds the sum exactly enough: 64 bits cover these exponents. */
		long double sum =
		    (long double)float_of(half_of(a)) * float_of(x[i]) + float_of(y[i]);
		_Float16 e = (_Float16)sum;
		uint16_t bits;
		memcpy(&bits, &e, sizeof bits);
		check(got[i] == bits, "half_axpy[%d]: expected %04x, got %04x", i, bits, got[i]);
	}
	memcpy(on_host(dy), y, sizeof y);
	run_ok(m, "half2_add", 1, 1, N / 2, 1, &dx, &dy, &pairs);
	for (int i = 0; i < N; i++)
		check_int(got[i], half_of(float_of(x[i]) + float_of(y[i])));
}

void test_integers(const struct ptx_module *m)
{
	test_bits(m);
	test_convert(m);
	test_half(m);
}
