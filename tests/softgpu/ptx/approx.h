/* SPDX-License-Identifier: MIT */
/*
 * The approximate functions of PTX. Plain IEEE operations in double, rounded once at the end:
 * closer than hardware, the same bits on every host, and the compiler can vectorise them.
 */
#ifndef SOFTGPU_PTX_APPROX_H
#define SOFTGPU_PTX_APPROX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double bits_to_double(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline uint64_t double_to_bits(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

#define ROUND_MAGIC \
	6755399441055744.0 /* 1.5 * 2^52: adding it leaves an integer in the low bits \
	                                */

/* 2^x for |x| < 1000 */
static inline double exp2_double(double x)
{
	double shifted = x + ROUND_MAGIC;
	double whole = shifted - ROUND_MAGIC;
	double y = (x - whole) * 0.693147180559945309417;
	double sum = 1.0 / 39916800;
	sum = sum * y + 1.0 / 3628800;
	sum = sum * y + 1.0 / 362880;
	sum = sum * y + 1.0 / 40320;
	sum = sum * y + 1.0 / 5040;
	sum = sum * y + 1.0 / 720;
	sum = sum * y + 1.0 / 120;
	sum = sum * y + 1.0 / 24;
	sum = sum * y + 1.0 / 6;
	sum = sum * y + 0.5;
	sum = sum * y + 1.0;
	sum = sum * y + 1.0;
	return sum * bits_to_double((double_to_bits(shifted) + 1023) << 52);
}

static inline float exp2_approx(float x)
{
	double bounded = x < -160.0f ? -160.0 : x > 160.0f ? 160.0 : x;
	float result = (float)exp2_double(x == x ? bounded : 0.0);
	return x == x ? result : x;
}

static inline float log2_approx(float x)
{
	/* Every positive float, subnormal or not, is a normal double. */
	uint64_t bits = double_to_bits(x > 0 ? x : 1.0f);
	uint64_t high = bits - 0x3fe6a09e667f3bcdull; /* sqrt(1/2): mantissa in [0.707, 1.414) */
	int32_t exponent = (int32_t)((int32_t)(high >> 32) >> 20);
	double m = bits_to_double(bits - ((uint64_t)(uint32_t)exponent << 52));
	double s = (m - 1) / (m + 1), z = s * s;
	double sum = 2.0 / 19;
	sum = sum * z + 2.0 / 17;
	sum = sum * z + 2.0 / 15;
	sum = sum * z + 2.0 / 13;
	sum = sum * z + 2.0 / 11;
	sum = sum * z + 2.0 / 9;
	sum = sum * z + 2.0 / 7;
	sum = sum * z + 2.0 / 5;
	sum = sum * z + 2.0 / 3;
	sum = sum * z + 2.0;
	float result = (float)(s * sum * 1.44269504088896340736 + exponent);
	result = x == INFINITY ? x : result;
	result = x == 0 ? -INFINITY : result;
	return x >= 0 ? result : NAN;
}

/* sin(x + quarter * pi/2) */
static inline float sine_approx(float x, int quarter)
{
	double in = fabsf(x) < 1e8f ? x : 0.0;
	double shifted = in * 0.636619772367581343076 + ROUND_MAGIC;
	double whole = shifted - ROUND_MAGIC;
	double y = in - whole * 1.57079632679489655800;
	y -= whole * 6.12323399573676603587e-17;
	uint64_t q = double_to_bits(shifted) + quarter;
	double z = y * y;
	double s = -1.0 / 39916800;
	s = s * z + 1.0 / 362880;
	s = s * z - 1.0 / 5040;
	s = s * z + 1.0 / 120;
	s = s * z - 1.0 / 6;
	s = s * z * y + y;
	double c = 1.0 / 479001600;
	c = c * z - 1.0 / 3628800;
	c = c * z + 1.0 / 40320;
	c = c * z - 1.0 / 720;
	c = c * z + 1.0 / 24;
	c = c * z - 0.5;
	c = c * z + 1.0;
	double value = q & 1 ? c : s;
	value = q & 2 ? -value : value;
	return fabsf(x) < INFINITY ? (float)value : NAN;
}

static inline float tanh_approx(float x)
{
	double y = fabsf(x) < 20.0f ? fabsf(x) : 20.0;
	double e = exp2_double(y * 2.88539008177792681472); /* e^(2y) */
	double value = (e - 1) / (e + 1);
	/* Cancellation near zero: x - x^3/3 + 2x^5/15 there. */
	double z = y * y;
	value = y < 0.02 ? y - y * z * (1.0 / 3 - z * (2.0 / 15)) : value;
	return x == x ? copysignf((float)value, x) : x;
}

/* IEEE binary16 and bfloat16, as bits. */
static inline float half_to_float(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
	uint32_t bits = rest < 0x7c00 ? (rest << 13) + (112u << 23) : (rest << 13) | 0x7f800000;
	float subnormal = (float)(int32_t)rest * 0x1p-24f, value;
	memcpy(&value, &bits, sizeof value);
	value = rest < 0x400 ? subnormal : value;
	memcpy(&bits, &value, sizeof bits);
	bits |= sign;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static inline float bfloat_to_float(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof value);
	return value;
}

/*
 * Rounds to a binary float of `digits` significant bits, exponents from `lowest` (that of the
 * smallest normal number); what is too large becomes `infinity`. The result is still a double.
 */
static inline double round_short(double x, int digits, int lowest, double largest, int mode)
{
	uint64_t bits = double_to_bits(x);
	int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
	exponent = exponent < lowest ? lowest : exponent;
	/* One unit in the last place; dividing and multiplying by it is exact. */
	double unit = bits_to_double((uint64_t)(exponent - digits + 1 + 1023) << 52);
	double scaled = x / unit;
	double whole = mode == 0   ? rint(scaled)
	               : mode == 1 ? trunc(scaled)
	               : mode == 2 ? floor(scaled)
	                           : ceil(scaled);
	double value = whole * unit;
	if (fabs(value) > largest) {
		if (mode == 1 || (mode == 2 && x > 0) || (mode == 3 && x < 0))
			value = copysign(isinf(x) ? INFINITY : largest, x);
		else
			value = copysign(INFINITY, x);
	}
	return copysign(value, x);
}

static inline uint16_t double_to_half(double x, int mode)
{
	uint16_t sign = (uint16_t)(double_to_bits(x) >> 48 & 0x8000);
	if (x != x)
		return 0x7fff;
	double value = fabs(round_short(x, 11, -14, 65504, mode));
	if (value == INFINITY)
		return sign | 0x7c00;
	if (value < 0x1p-14)
		return (uint16_t)(sign | (uint16_t)(value * 0x1p24));
	uint64_t bits = double_to_bits(value);
	return (uint16_t)(sign | ((bits >> 42) - ((uint64_t)1008 << 10)));
}

static inline uint16_t double_to_bfloat(double x, int mode)
{
	if (x != x)
		return 0x7fff;
	float value = (float)round_short(x, 8, -126, 0x1.fep127, mode);
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return (uint16_t)(bits >> 16);
}

#endif
