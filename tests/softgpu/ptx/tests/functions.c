/* SPDX-License-Identifier: MIT */
/* Tests the mathematical functions of the CUDA library, within the bounds it documents. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <math.h>

#include "tests/softgpu/ptx/samples/functions.h"

enum { N = 512 };

#define COUNT(...)                        +1
#define NAME(call, ...)                   #call,
#define LIMIT(call, value, ulp, absolute) {value, ulp, absolute},
#define VALUE(call, value, ulp)           value,
#define ULP(call, value, ulp)             ulp,

/* The documented bounds are against the rounded value, so half a unit comes on top. */
static void test_single(const struct ptx_module *m)
{
	static const char *const names[] = {FUNCTION_CASES(NAME)};
	static float in[N];
	int cases = FUNCTION_CASES(COUNT);
	for (int i = 0; i < N; i++)
		in[i] = ldexpf(random_float(), (int)(random_bits() % 25) - 19);
	uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, sizeof in * (size_t)cases);
	run_ok(m, "functions", N / 64, 1, 64, 1, &din, &dout, &cases);
	const float *got = on_host(dout);
	for (int i = 0; i < N; i++) {
		float x = in[i];
		double v = x;
		const struct {
			double value, ulp, absolute;
		} limits[] = {FUNCTION_CASES(LIMIT)};
		for (int k = 0; k < cases; k++) {
			float near = fabsf((float)limits[k].value);
			double unit = (double)nextafterf(near, INFINITY) - near;
			double bound =
			    limits[k].ulp != 0 ? (limits[k].ulp + 0.5) * unit : limits[k].absolute;
			check(fabs(got[i * cases + k] - limits[k].value) <= bound,
			      "%s of %.9g: expected %.12g, got %.12g", names[k], x, limits[k].value,
			      got[i * cases + k]);
		}
	}
}

static void test_double(const struct ptx_module *m)
{
	static const char *const names[] = {DOUBLE_FUNCTION_CASES(NAME)};
	static const int ulps[] = {DOUBLE_FUNCTION_CASES(ULP)};
	static double in[N];
	int cases = DOUBLE_FUNCTION_CASES(COUNT);
	for (int i = 0; i < N; i++)
		in[i] = ldexp(random_float() + random_float() * 0x1p-31,
		              (int)(random_bits() % 30) - 24);
	uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, sizeof in * (size_t)cases);
	run_ok(m, "double_functions", N / 64, 1, 64, 1, &din, &dout, &cases);
	const double *got = on_host(dout);
	for (int i = 0; i < N; i++) {
		long double x = in[i];
		const long double expected[] = {DOUBLE_FUNCTION_CASES(VALUE)};
		for (int k = 0; k < cases; k++) {
			double near = fabs((double)expected[k]);
			long double unit = (long double)nextafter(near, INFINITY) - near;
			check(fabsl(got[i * cases + k] - expected[k]) <= (ulps[k] + 0.5L) * unit,
			      "%s of %.17Lg: expected %.19Lg, got %.17g", names[k], x, expected[k],
			      got[i * cases + k]);
		}
	}
}

void test_mathematics(const struct ptx_module *m)
{
	test_single(m);
	test_double(m);
}
