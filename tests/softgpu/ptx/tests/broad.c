/* SPDX-License-Identifier: MIT */
/*
 * Compares kernels of many compilers and targets (samples/broad.cu) with the CPU. Results that IEEE
 * 754 or integer arithmetic defines must be equal to the last bit.
 */
#include "tests/softgpu/ptx/tests/harness.h"

#include <fenv.h>
#include <math.h>

typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;

/* --- the functions of cases.h --- */

static u32 permute_bytes(u32 a, u32 b, u32 selector)
{
	u64 both = (u64)b << 32 | a;
	u32 result = 0;
	for (int i = 0; i < 4; i++)
		result |= (u32)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
	return result;
}

static u32 byte_differences(u32 a, u32 b)
{
	u32 sum = 0;
	for (int i = 0; i < 32; i += 8)
		sum += (u32)abs((int)(a >> i & 255) - (int)(b >> i & 255));
	return sum;
}

static u32 byte_sums(u32 a, u32 b)
{
	u32 sums = 0;
	for (int i = 0; i < 32; i += 8)
		sums |= (((a >> i) + (b >> i)) & 255) << i;
	return sums;
}

static u32 half_maxima(u32 a, u32 b)
{
	s16 low = (s16)a > (s16)b ? (s16)a : (s16)b;
	s16 high = (s16)(a >> 16) > (s16)(b >> 16) ? (s16)(a >> 16) : (s16)(b >> 16);
	return (u16)low | (u32)(u16)high << 16;
}

#define count_ones(a)                ((u32)__builtin_popcount(a))
#define leading_zeros(a)             ((u32)((a) ? __builtin_clz(a) : 32))
#define first_set(a)                 ((u32)__builtin_ffs((int)(a)))
#define high_product(a, b)           ((u32)((u64)(a) * (b) >> 32))
#define high_product_signed(a, b)    ((u32)((s64)(a) * (b) >> 32))
#define shift_pair_left(a, b, c)     ((u32)(((u64)(b) << 32 | (a)) << ((c)&31) >> 32))
#define shift_pair_right(a, b, c)    ((u32)(((u64)(b) << 32 | (a)) >> ((c) < 32 ? (c) : 32)))
#define sum_of_differences(a, b, c)  ((a) > (b) ? (a) - (b) + (c) : (b) - (a) + (c))
#define product_24(a, b)             (((a)&0xffffff) * ((b)&0xffffff))
#define count_ones_64(a)             ((u64)__builtin_popcountll(a))
#define leading_zeros_64(a)          ((u64)((a) ? __builtin_clzll(a) : 64))
#define first_set_64(a)              ((u64)__builtin_ffsll((long long)(a)))
#define reverse_bits_64(a)           ((u64)reverse_bits((u32)(a)) << 32 | reverse_bits((u32)((a) >> 32)))
#define high_product_64(a, b)        ((u64)((unsigned __int128)(a) * (b) >> 64))
#define high_product_signed_64(a, b) ((u64)((__int128)(a) * (b) >> 64))

/* The operands are volatile so that the compiler works nothing out in another mode. */
#define ROUNDED_1(name, R, T, mode, expression) \
	static R name(T a_)                     \
	{                                       \
		volatile T a = a_;              \
		fesetround(mode);               \
		volatile R r = expression;      \
		fesetround(FE_TONEAREST);       \
		return r;                       \
	}
#define ROUNDED_2(name, T, mode, expression) \
	static T name(T a_, T b_)            \
	{                                    \
		volatile T a = a_, b = b_;   \
		fesetround(mode);            \
		volatile T r = expression;   \
		fesetround(FE_TONEAREST);    \
		return r;                    \
	}
#define ROUNDED_3(name, T, mode, expression)       \
	static T name(T a_, T b_, T c_)            \
	{                                          \
		volatile T a = a_, b = b_, c = c_; \
		fesetround(mode);                  \
		volatile T r = expression;         \
		fesetround(FE_TONEAREST);          \
		return r;                          \
	}
ROUNDED_2(add_rn, float, FE_TONEAREST, a + b)
ROUNDED_2(add_rz, float, FE_TOWARDZERO, a + b)
ROUNDED_2(add_ru, float, FE_UPWARD, a + b)
ROUNDED_2(add_rd, float, FE_DOWNWARD, a + b)
ROUNDED_2(mul_rn, float, FE_TONEAREST, a *b)
ROUNDED_2(mul_rz, float, FE_TOWARDZERO, a *b)
ROUNDED_2(mul_ru, float, FE_UPWARD, a *b)
ROUNDED_2(mul_rd, float, FE_DOWNWARD, a *b)
ROUNDED_3(fma_rn, float, FE_TONEAREST, fmaf(a, b, c))
ROUNDED_3(fma_rz, float, FE_TOWARDZERO, fmaf(a, b, c))
ROUNDED_3(fma_ru, float, FE_UPWARD, fmaf(a, b, c))
ROUNDED_3(fma_rd, float, FE_DOWNWARD, fmaf(a, b, c))
ROUNDED_2(div_rn, float, FE_TONEAREST, a / b)
ROUNDED_2(div_ru, float, FE_UPWARD, a / b)
ROUNDED_1(rcp_rn, float, float, FE_TONEAREST, 1 / a)
ROUNDED_1(sqrt_rn, float, float, FE_TONEAREST, sqrtf(a))
ROUNDED_1(sqrt_rz, float, float, FE_TOWARDZERO, sqrtf(a))
ROUNDED_2(dadd_rn, double, FE_TONEAREST, a + b)
ROUNDED_2(dadd_rz, double, FE_TOWARDZERO, a + b)
ROUNDED_2(dmul_rn, double, FE_TONEAREST, a *b)
ROUNDED_2(dmul_ru, double, FE_UPWARD, a *b)
ROUNDED_3(dfma_rn, double, FE_TONEAREST, fma(a, b, c))
ROUNDED_3(dfma_rd, double, FE_DOWNWARD, fma(a, b, c))
ROUNDED_2(ddiv_rn, double, FE_TONEAREST, a / b)
ROUNDED_2(ddiv_rz, double, FE_TOWARDZERO, a / b)
ROUNDED_1(dsqrt_rn, double, double, FE_TONEAREST, sqrt(a))
ROUNDED_1(dsqrt_ru, double, double, FE_UPWARD, sqrt(a))
ROUNDED_1(drcp_rn, double, double, FE_TONEAREST, 1 / a)
ROUNDED_1(from_s32_rn, float, s32, FE_TONEAREST, (float)a)
ROUNDED_1(from_s32_rz, float, s32, FE_TOWARDZERO, (float)a)
ROUNDED_1(from_u32_ru, float, u32, FE_UPWARD, (float)a)
ROUNDED_1(from_s64_rn, float, s64, FE_TONEAREST, (float)a)
ROUNDED_1(from_u64_rd, float, u64, FE_DOWNWARD, (float)a)
ROUNDED_1(dfrom_s64_rn, double, s64, FE_TONEAREST, (double)a)
ROUNDED_1(dfrom_u64_rz, double, u64, FE_TOWARDZERO, (double)a)

/* A NaN loses against a number; -0 is less than +0. */
static double dlesser(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	return a < b || (a == b && signbit(a)) ? a : b;
}

static double dgreater(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	return a > b || (a == b && !signbit(a)) ? a : b;
}

#define lesser(a, b)  ((float)dlesser(a, b))
#define greater(a, b) ((float)dgreater(a, b))

/* Rounds to whole numbers: one that does not fit becomes the nearest that does. */
static s64 signed_of(double whole, s64 nan, s64 least, s64 most)
{
	if (isnan(whole))
		return nan;
	return whole <= (double)least ? least : whole >= (double)most ? most : (s64)whole;
}

static u64 unsigned_of(double whole, u64 nan, u64 most)
{
	if (isnan(whole))
		return nan;
	return whole <= 0 ? 0 : whole >= (double)most ? most : (u64)whole;
}

#define to_s32_rn(x)  ((s32)signed_of(rint(x), 0, INT32_MIN, INT32_MAX))
#define to_s32_rz(x)  ((s32)signed_of(trunc(x), 0, INT32_MIN, INT32_MAX))
#define to_s32_ru(x)  ((s32)signed_of(ceil(x), 0, INT32_MIN, INT32_MAX))
#define to_s32_rd(x)  ((s32)signed_of(floor(x), 0, INT32_MIN, INT32_MAX))
#define to_u32_rz(x)  ((u32)unsigned_of(trunc(x), 0, UINT32_MAX))
#define to_s64_rz(x)  signed_of(trunc(x), INT64_MIN, INT64_MIN, INT64_MAX)
#define to_s64_rn(x)  signed_of(rint(x), INT64_MIN, INT64_MIN, INT64_MAX)
#define to_u64_rz(x)  unsigned_of(trunc(x), (u64)1 << 63, UINT64_MAX)
#define dto_s32_rn(x) ((s32)signed_of(rint(x), INT32_MIN, INT32_MIN, INT32_MAX))
#define dto_s64_rd(x) signed_of(floor(x), INT64_MIN, INT64_MIN, INT64_MAX)
#define dto_u64_rz(x) to_u64_rz(x)

static u16 half_bits(float f)
{
	_Float16 half = (_Float16)f;
	u16 bits;
	memcpy(&bits, &half, sizeof bits);
	return bits;
}

static float half_value(u16 bits)
{
	_Float16 half;
	memcpy(&half, &bits, sizeof half);
	return (float)half;
}

#define half_round(a) half_value(half_bits(a))

#include "tests/softgpu/ptx/samples/cases.h"

/* --- the kernels that compute them --- */

enum { N = 256, BLOCK = 64 };

#define COUNT(...) +1
#define NAME(...)  #__VA_ARGS__,
#define VALUE(...) __VA_ARGS__,

/*
 * A kernel of INPUTS values of type IN per thread, and a result of type OUT per case, which is the
 * same as the CPU's when `same` says so.
 */
#define COMPARISON(kernel, IN, OUT, INPUTS, CASES, random, names_of_inputs, same)           \
	static void compare_##kernel(const struct ptx_module *m)                            \
	{                                                                                   \
		static const char *const names[] = {CASES(NAME)};                           \
		static IN in[N * INPUTS];                                                   \
		int cases = CASES(COUNT);                                                   \
		for (int i = 0; i < N * INPUTS; i++) {                                      \
			u64 bits = random(i / INPUTS + i % INPUTS);                         \
			memcpy(&in[i], &bits, sizeof in[i]);                                \
		}                                                                           \
		uint64_t din = buffer(in, sizeof in);                                       \
		uint64_t dout = buffer(NULL, N * (size_t)cases * sizeof(OUT));              \
		run_ok(m, #kernel, N / BLOCK, 1, BLOCK, 1, &din, &dout, &cases);            \
		const OUT *got = on_host(dout);                                             \
		for (int i = 0; i < N; i++) {                                               \
			const IN names_of_inputs;                                           \
			const OUT expected[] = {CASES(VALUE)};                              \
			for (int k = 0; k < cases; k++)                                     \
				check(same(got[i * cases + k], expected[k]),                \
				      #kernel ": %s, thread %d: expected %.17g, got %.17g", \
				      names[k], i, (double)expected[k],                     \
				      (double)got[i * cases + k]);                          \
		}                                                                           \
	}

#define THREE             a = in[i * 3], b = in[i * 3 + 1], c = in[i * 3 + 2]
#define EQUAL(a, b)       ((a) == (b))
#define SAME_FLOAT(a, b)  (float_bits(a) == float_bits(b) || (isnan(a) && isnan(b)))
#define SAME_DOUBLE(a, b) (double_bits(a) == double_bits(b) || (isnan(a) && isnan(b)))

static u64 random_double(int kind)
{
	return kind % 5 == 4 ? interesting(kind)
	                     : double_bits(ldexp(random_float() + random_float() * 0x1p-31,
	                                         (int)(random_bits() % 100) - 50));
}

COMPARISON(integers, u32, u32, 3, INTEGER_CASES, interesting, THREE, EQUAL)
COMPARISON(longs, u64, u64, 3, LONG_CASES, interesting, THREE, EQUAL)
COMPARISON(floats, float, float, 3, FLOAT_CASES, interesting, THREE, SAME_FLOAT)
COMPARISON(doubles, double, double, 3, DOUBLE_CASES, random_double, THREE, SAME_DOUBLE)
COMPARISON(to_integers, float, u64, 1, TO_INTEGER_CASES, interesting, x = in[i], EQUAL)
COMPARISON(from_integers, u64, double, 1, FROM_INTEGER_CASES, interesting, x = in[i], SAME_DOUBLE)

static void compare_halves(const struct ptx_module *m)
{
	static u16 in[N * 3];
	for (int i = 0; i < N * 3; i++)
		in[i] = half_bits(ldexpf(random_float(), (int)(random_bits() % 30) - 14));
	uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, N * 12 * sizeof(u16));
	run_ok(m, "halves", N / BLOCK, 1, BLOCK, 1, &din, &dout);
	const u16 *got = on_host(dout);
	for (int i = 0; i < N; i++) {
		float a = half_value(in[i * 3]), b = half_value(in[i * 3 + 1]);
		float c = half_value(in[i * 3 + 2]);
		/* 64 bits hold these sums of products exactly. */
		_Float16 fused = (_Float16)((long double)a * b + c);
		_Float16 fused_low = (_Float16)((long double)a * b + a);
		_Float16 fused_high = (_Float16)((long double)b * c + b);
		float sum = half_round(a + b), scaled = a * 1.001f;
		u16 toward_zero = half_bits(scaled);
		if (fabsf(half_value(toward_zero)) > fabsf(scaled))
			toward_zero--;
		const u16 expected[12] = {
		    half_bits(a + b),
		    half_bits(a - b),
		    half_bits(a * b),
		    half_bits((float)fused),
		    half_bits(-a),
		    a < b ? in[i * 3] : in[i * 3 + 2],
		    half_bits(sum > 0 ? sum < 1 ? sum : 1 : 0),
		    half_bits(a + b),
		    half_bits(b + c),
		    half_bits((float)fused_low),
		    half_bits((float)fused_high),
		    toward_zero,
		};
		for (int k = 0; k < 12; k++)
			check(got[i * 12 + k] == expected[k],
			      "halves %d of %g %g %g: expected %04x, got %04x", k, a, b, c,
			      expected[k], got[i * 12 + k]);
	}
}

/* --- threads together --- */

static void compare_warps(const struct ptx_module *m, u32 target)
{
	static u32 in[N];
	for (int i = 0; i < N; i++)
		in[i] = random_bits();
	uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, N * 16 * 4);
	run_ok(m, "warps", N / BLOCK, 1, BLOCK, 1, &din, &dout);
	const u32 *got = on_host(dout);
	for (int i = 0; i < N; i++) {
		const u32 *w = in + i / 32 * 32;
		u32 lane = (u32)i % 32, v = in[i], votes = 0, all = 1, any = 0, equal = 0, sum = 0;
		u32 third = 0, most = 0, common = ~0u;
		for (u32 k = 0; k < 32; k++) {
			votes |= (w[k] & 4 ? 1u : 0) << k;
			all &= w[k] != 0;
			any |= (w[k] & 255) == 1;
			equal |= (u32)((w[k] & 3) == (v & 3)) << k;
			sum += w[k];
			most = w[k] > most ? w[k] : most;
			common &= w[k] | 3;
			third += k >= lane && (k - lane) % 3 == 0 ? k : 0;
		}
		const u32 expected[16] = {
		    w[v & 31],
		    w[(lane & 24) + 5],
		    lane >= 3 ? w[lane - 3] : v,
		    (lane & 15) >= 2 ? w[lane - 2] : v,
		    lane + 7 < 32 ? w[lane + 7] : v,
		    (lane & 3) < 3 ? w[lane + 1] : v,
		    w[lane ^ 21],
		    w[lane ^ 3],
		    votes,
		    any + 2 * all,
		    w[lane ^ 1],
		    third,
		    v & 1 ? 1 : 7,
		    target >= 70 ? equal : 0,
		    0,
		    target >= 80 ? sum ^ most ^ common : 0,
		};
		for (int k = 0; k < 16; k++)
			check(got[i * 16 + k] == expected[k],
			      "warps %d, thread %d: expected %#x, got %#x", k, i, expected[k],
			      got[i * 16 + k]);
	}
}

static void compare_atomics(const struct ptx_module *m, u32 target)
{
	static u32 in[N];
	u32 words[48] = {[2] = 1u << 30, [5] = ~0u};
	u64 longs[3] = {0};
	float sum = 0;
	double wide[2] = {0};
	for (int i = 0; i < N; i++)
		in[i] = random_bits() & 0x3fffffff;
	uint64_t din = buffer(in, sizeof in), dwords = buffer(words, sizeof words);
	uint64_t dlongs = buffer(NULL, sizeof longs), dsum = buffer(NULL, 4);
	uint64_t dwide = buffer(NULL, sizeof wide);
	run_ok(m, "atomics", N / BLOCK, 1, BLOCK, 1, &din, &dwords, &dlongs, &dsum, &dwide);
	for (u32 i = 0; i < N; i++) {
		u32 v = in[i];
		words[0] += v;
		words[1] = v > words[1] ? v : words[1];
		words[2] = v < words[2] ? v : words[2];
		words[3] ^= v;
		words[4] |= v;
		words[5] &= v | 0xff;
		words[6]++;
		words[7] ^= i * i;
		words[8] += target >= 60;
		words[9] += target >= 60 ? 2 : 0;
		words[10] = target >= 70 ? 77 : 0;
		words[16 + v % 32]++;
		longs[0] = (u64)v << 20 > longs[0] ? (u64)v << 20 : longs[0];
		longs[1] ^= (u64)v << 30 | v;
		longs[2] += v;
		sum += (float)(v & 7);
		wide[0] += v & 15;
		wide[1] += target >= 60 ? v & 15 : 0;
	}
	for (int i = 0; i < 48; i++)
		check(((u32 *)on_host(dwords))[i] == words[i], "atomics %d: expected %#x, got %#x",
		      i, words[i], ((u32 *)on_host(dwords))[i]);
	check(!memcmp(on_host(dlongs), longs, sizeof longs), "atomics of 64 bits");
	check(*(float *)on_host(dsum) == sum, "sum: %g", *(float *)on_host(dsum));
	check(((double *)on_host(dwide))[0] == wide[0] && ((double *)on_host(dwide))[1] == wide[1],
	      "double sums: %g %g", ((double *)on_host(dwide))[0], ((double *)on_host(dwide))[1]);
}

static void compare_waiting(const struct ptx_module *m)
{
	static u32 in[N];
	int rounds = 5;
	uint64_t out = buffer(NULL, 128), lock = buffer(NULL, 4), value = buffer(NULL, 4);
	run_ok(m, "produce_consume", 1, 1, 64, 1, &out, &rounds);
	for (u32 lane = 0; lane < 32; lane++) {
		u32 sum = 0;
		for (u32 i = 0; i < 5; i++)
			sum += ((31 - lane) * 100 + i) * (i + 1);
		check_int(((u32 *)on_host(out))[lane], sum);
	}
	run_ok(m, "locks", 2, 1, BLOCK, 1, &lock, &value, &out);
	const u32 *counts = on_host(out);
	check_int(*(u32 *)on_host(value), 3 * 2 * BLOCK);
	check_int(counts[0], (BLOCK + 2) / 3);
	check(counts[1] && !counts[2], "and %u, or %u", counts[1], counts[2]);
	u32 sum = 0;
	for (int i = 0; i < N; i++)
		sum += in[i] = random_bits();
	uint64_t din = buffer(in, sizeof in), partial = buffer(NULL, N / 32 * 4);
	uint64_t ticket = buffer(NULL, 4);
	run_ok(m, "last_block", N / 32, 1, 32, 1, &din, &partial, &ticket, &out);
	check_int(*(u32 *)on_host(out), sum);
}

/* --- memory, calls, text --- */

static void compare_spaces(const struct ptx_module *m)
{
	static const u32 primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53};
	struct odd {
		u8 tag;
		u16 small;
		double value;
		u8 tail[3];
	} odds[8];
	static u32 in[N][4];
	u32 n = 11;
	for (int i = 0; i < N * 4; i++)
		in[i / 4][i % 4] = random_bits();
	for (u32 i = 0; i < 8; i++)
		odds[i] =
		    (struct odd){(u8)(i * 40), (u16)(i * 9000), i * 1000.5, {1, 2, (u8)(i * 30)}};
	uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, sizeof in);
	uint64_t dodds = buffer(odds, sizeof odds);
	next_launch.dynamic_shared = BLOCK * 4;
	run_ok(m, "spaces", N / BLOCK, 1, BLOCK, 1, &din, &dout, &dodds, &n);
	u32(*got)[4] = on_host(dout);
	for (u32 i = 0; i < N; i++) {
		u32 t = i % BLOCK, local[16], through = 0;
		u32(*block)[4] = in + (i - t);
		const u32 *v = in[i];
		for (u32 k = 0; k < 16; k++)
			local[(k * 7 + v[3]) & 15] = v[0] + k;
		for (u32 k = 0; k < 16; k++)
			through = through * 31 + (v[3] & 1   ? block[k][2]
			                          : v[3] & 2 ? local[k]
			                                     : in[k / 4][k % 4]);
		const u32 *other = block[(t + 13) % BLOCK];
		const struct odd *o = &odds[t & 7];
		const u32 expected[4] = {
		    other[0] + other[1] * 3 + through,
		    primes[v[3] & 15] + (t + 1) % BLOCK + o->tag + o->small + (u32)o->value +
		        o->tail[2],
		    (v[0] & 65535) + (v[1] >> 16) * 3 + (v[0] >> 8 & 255) * 5 + (v[0] ^ v[2]),
		    local[v[3] & 15] + block[t * 5 % BLOCK][2] + in[n / 4][n % 4],
		};
		for (int k = 0; k < 4; k++)
			check(got[i][k] == expected[k],
			      "spaces %d, thread %u: expected %#x, got %#x", k, i, expected[k],
			      got[i][k]);
	}
}

static void compare_calls(const struct ptx_module *m)
{
	static u32 in[N];
	for (int i = 0; i < N; i++)
		in[i] = random_bits();
	uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, sizeof in);
	run_ok(m, "calls", N / BLOCK, 1, BLOCK, 1, &din, &dout);
	for (int i = 0; i < N; i++) {
		u32 v = in[i], x = v & 255;
		u32 area = v & 8 ? x * x : x * (v & 7);
		check_int(((u32 *)on_host(dout))[i],
		          v * 3 + (v << 1) + 2 * (v & 1023) + 1 + 2 * (v & 7) + 3 + area);
	}
}

static void compare_text(const struct ptx_module *m)
{
	char got[300], expected[300];
	int n = -7;
	snprintf(expected, sizeof expected,
	         "%d %u %5d|%-5d|%05x %c %s %% %lld %llu %llx %g %8.3f %e\n", n, 4000000000u, 42,
	         42, 0xbeefu, 'z', "text", -5000000000ll, 18000000000000000000ull, 0xfeedfacecafell,
	         0.25, 3.14159, 12345.678);
	capture_begin();
	run_ok(m, "print_all", 1, 1, 32, 1, &n);
	capture_end(got, sizeof got);
	check(!strcmp(got, expected), "printed '%s', expected '%s'", got, expected);
}

void test_broad(const struct ptx_module *m)
{
	u32 target = ptx_function_info(ptx_module_find(m, "halves"))->target;
	compare_integers(m);
	compare_longs(m);
	compare_floats(m);
	compare_doubles(m);
	compare_to_integers(m);
	compare_from_integers(m);
	if (target >= 53)
		compare_halves(m);
	compare_warps(m, target);
	compare_atomics(m, target);
	compare_waiting(m);
	compare_spaces(m);
	compare_calls(m);
	compare_text(m);
}
