/* SPDX-License-Identifier: MIT */
/* Mathematical functions that a kernel (functions.cu) and the CPU (tests/functions.c) compute. */

/*
 * Functions of float x (v: the same as a double): the call, its reference, and how far it may be
 * off, in units in the last place of the rounded reference or, where that is 0, absolutely. Bounds:
 * CUDA C++ Programming Guide 12.4, "Mathematical Functions"; those of the quick ones are rounded
 * up.
 */
#define FUNCTION_CASES(X)                                                        \
	X(expf(x), exp(v), 2, 0)                                                 \
	X(exp2f(x), exp2(v), 2, 0)                                               \
	X(exp10f(x), pow(10, v), 2, 0)                                           \
	X(expm1f(x), expm1(v), 1, 0)                                             \
	X(logf(fabsf(x)), log(fabs(v)), 1, 0)                                    \
	X(log2f(fabsf(x)), log2(fabs(v)), 1, 0)                                  \
	X(log10f(fabsf(x)), log10(fabs(v)), 2, 0)                                \
	X(log1pf(fabsf(x)), log1p(fabs(v)), 1, 0)                                \
	X(sinf(x), sin(v), 2, 0)                                                 \
	X(cosf(x), cos(v), 2, 0)                                                 \
	X(tanf(x), tan(v), 4, 0)                                                 \
	X(atanf(x), atan(v), 2, 0)                                               \
	X(atan2f(x, 3.0f), atan2(v, 3), 3, 0)                                    \
	X(asinf(x * 0.01f), asin(x * 0.01f), 2, 0)                               \
	X(sinhf(x), sinh(v), 3, 0)                                               \
	X(coshf(x), cosh(v), 2, 0)                                               \
	X(tanhf(x), tanh(v), 2, 0)                                               \
	X(asinhf(x), asinh(v), 3, 0)                                             \
	X(powf(fabsf(x), 1.7f), pow(fabs(v), (double)1.7f), 4, 0)                \
	X(cbrtf(x), cbrt(v), 1, 0)                                               \
	X(erff(x), erf(v), 2, 0)                                                 \
	X(erfcf(x * 0.1f), erfc(x * 0.1f), 4, 0)                                 \
	X(rsqrtf(fabsf(x)), 1 / sqrt(fabs(v)), 2, 0)                             \
	X(hypotf(x, 2.0f), hypot(v, 2), 3, 0)                                    \
	X(tgammaf(fabsf(x) * 0.1f + 0.5f), tgamma(fabsf(x) * 0.1f + 0.5f), 5, 0) \
	X(__expf(x * 0.1f), exp(x * 0.1f), 14, 0)                                \
	X(__sinf(x * 0.03f), sin(x * 0.03f), 0, 3.6e-7)                          \
	X(__cosf(x * 0.03f), cos(x * 0.03f), 0, 3.6e-7)                          \
	X(__logf(fabsf(x) + 3), log(fabsf(x) + 3), 3, 0)                         \
	X(__fdividef(x, 3.7f), v / (double)3.7f, 2, 0)                           \
	X(__powf(fabsf(x) + 1, 0.5f), pow(fabsf(x) + 1, 0.5), 40, 0)

/* Functions of double x; the references are in long double. */
#define DOUBLE_FUNCTION_CASES(X)                     \
	X(exp(x), expl(x), 1)                        \
	X(log(fabs(x)), logl(fabsl(x)), 1)           \
	X(sin(x), sinl(x), 2)                        \
	X(tanh(x), tanhl(x), 2)                      \
	X(pow(fabs(x), 0.3), powl(fabsl(x), 0.3), 2) \
	X(cbrt(x), cbrtl(x), 1)
