/* SPDX-License-Identifier: MIT */
/*
 * Double precision and half arithmetic, to the last bit. Halves are rounded on the host from
 * double, in which their sums and products are exact.
 */
#include "tests/clients/samples/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4000, PAIRS = 128, ROUNDS = 9, THREADS = 128 };

/* The half nearest to x, ties to even, as its bits. */
static uint16_t to_half(double x)
{
	uint16_t sign = signbit(x) ? 0x8000 : 0;
	double size = fabs(x);
	int exponent;

	if (isnan(x))
		return 0x7fff;
	if (size >= 65520) /* halfway from the largest to the next power */
		return sign | 0x7c00;
	if (size < 0x1p-14) /* subnormal; nearbyint rounds ties to even */
		return sign | (uint16_t)nearbyint(size * 0x1p24);
	frexp(size, &exponent);
	double fraction = nearbyint(ldexp(size, 11 - exponent)); /* 1024 to 2048 */
	return sign | (uint16_t)((exponent + 13) * 1024 + (int)fraction);
}

static double from_half(uint16_t bits)
{
	int exponent = bits >> 10 & 31, fraction = bits & 1023;
	double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

	return bits & 0x8000 ? -size : size;
}

/* Tells zeros of either sign apart, too. */
static uint64_t bits_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static void check_doubles(CUmodule module)
{
	static const char *const names[] = {"sums", "products", "quotients", "fused multiply-adds",
	                                    "square roots"};
	static double x[COUNT], y[COUNT], out[5 * COUNT];
	size_t wrong[5] = {0};
	unsigned count = COUNT;

	for (size_t i = 0; i < COUNT; i++) {
		x[i] = ldexp(sample_random_float() + 0x1p-40 * sample_random_float(),
		             (int)(sample_random() % 600) - 300);
		y[i] = ldexp(sample_random_float(), (int)(sample_random() % 600) - 300);
	}
	x[0] = 0x1p-1070, y[0] = 3; /* subnormal */
	x[1] = 1, y[1] = 0;
	x[2] = -0.0, y[2] = 0x1p1023;
	CUdeviceptr device_x = sample_upload(x, sizeof(x)), device_y = sample_upload(y, sizeof(y));
	CUdeviceptr device_out = client_alloc(sizeof(out));
	CLIENT_LAUNCH(client_function(module, "doubles"), (COUNT + THREADS - 1) / THREADS, 1,
	              THREADS, NULL, &device_x, &device_y, &device_out, &count);
	sample_download(out, device_out, sizeof(out));
	for (size_t i = 0; i < COUNT; i++) {
		double expected[5] = {x[i] + y[i], x[i] * y[i], x[i] / y[i], fma(x[i], y[i], x[i]),
		                      sqrt(fabs(x[i]))};
		for (size_t k = 0; k < 5; k++)
			wrong[k] += bits_of(expected[k]) != bits_of(out[5 * i + k]);
	}
	for (size_t k = 0; k < 5; k++)
		sample_check(wrong[k] == 0, "double %s, every bit", names[k]);
	client_free(&device_x, sizeof(x));
	client_free(&device_y, sizeof(y));
	client_free(&device_out, sizeof(out));
}

static void check_halves(CUmodule module)
{
	static const char *const names[] = {"sums", "products", "fused multiply-adds"};
	static float x[COUNT], y[COUNT], back[COUNT];
	static uint16_t out[3 * COUNT];
	size_t wrong[3] = {0}, wrong_back = 0;
	unsigned count = COUNT;

	for (size_t i = 0; i < COUNT; i++) {
		x[i] = ldexpf(sample_random_float(), (int)(sample_random() % 30) - 18);
		y[i] = ldexpf(sample_random_float(), (int)(sample_random() % 12) - 8);
	}
	x[0] = 65504, y[0] = 65504;   /* overflow */
	x[1] = 0x1p-24f, y[1] = 0.5f; /* a tie at the smallest subnormal */
	CUdeviceptr device_x = sample_upload(x, sizeof(x)), device_y = sample_upload(y, sizeof(y));
	CUdeviceptr device_out = client_alloc(sizeof(out)),
	            device_back = client_alloc(sizeof(back));
	CLIENT_LAUNCH(client_function(module, "halves"), (COUNT + THREADS - 1) / THREADS, 1,
	              THREADS, NULL, &device_x, &device_y, &device_out, &device_back, &count);
	sample_download(out, device_out, sizeof(out));
	sample_download(back, device_back, sizeof(back));
	for (size_t i = 0; i < COUNT; i++) {
		double a = from_half(to_half(x[i])), b = from_half(to_half(y[i]));
		/* Products of halves have 22 bits and lie at most 2^30 apart from a: exact. */
		uint16_t expected[3] = {to_half(a + b), to_half(a * b), to_half(a * b + a)};
		for (size_t k = 0; k < 3; k++)
			wrong[k] += out[3 * i + k] != expected[k];
		uint16_t fused = out[3 * i + 2];
		wrong_back += (fused & 0x7fff) < 0x7c00 ? back[i] != (float)from_half(fused)
		                                        : !isinf(back[i]);
	}
	for (size_t k = 0; k < 3; k++)
		sample_check(wrong[k] == 0, "half %s, every bit", names[k]);
	sample_check(wrong_back == 0, "halves as floats");
	client_free(&device_x, sizeof(x));
	client_free(&device_y, sizeof(y));
	client_free(&device_out, sizeof(out));
	client_free(&device_back, sizeof(back));
}

static void check_half_pairs(CUmodule module)
{
	uint16_t pairs[2 * PAIRS], got[2 * PAIRS];
	unsigned count = PAIRS, rounds = ROUNDS;
	float step = 0.37f;
	size_t wrong = 0;

	for (size_t i = 0; i < 2 * PAIRS; i++)
		pairs[i] = to_half(100 * sample_random_float());
	CUdeviceptr memory = sample_upload(pairs, sizeof(pairs));
	CLIENT_LAUNCH(client_function(module, "half_pairs"), 1, 1, THREADS, NULL, &memory, &count,
	              &step, &rounds);
	sample_download(got, memory, sizeof(got));
	double half_step = from_half(to_half(step));
	for (size_t i = 0; i < 2 * PAIRS; i++) {
		uint16_t expected = pairs[i];
		for (unsigned round = 0; round < ROUNDS; round++)
			expected = to_half(from_half(expected) + half_step);
		wrong += got[i] != expected;
	}
	sample_check(wrong == 0, "pairs of halves, every bit");
	client_free(&memory, sizeof(pairs));
}

int main(void)
{
	double sum = 0, value = 0.125;
	CUmodule module = sample_open("arithmetic.ptx");

	check_doubles(module);
	check_halves(module);
	check_half_pairs(module);
	CUdeviceptr device_sum = sample_upload(&sum, sizeof(sum));
	CLIENT_LAUNCH(client_function(module, "atomic_doubles"), 5, 1, THREADS, NULL, &device_sum,
	              &value);
	sample_download(&sum, device_sum, sizeof(sum));
	sample_check(sum == 5 * THREADS * value, "atomic sum of doubles: %g", sum);
	client_free(&device_sum, sizeof(sum));
	CU(cuModuleUnload(module));
	return sample_end();
}
