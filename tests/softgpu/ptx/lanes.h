/* SPDX-License-Identifier: MIT */
/*
 * The bodies of the handlers, included once per instruction set by alu_*.c, which defines ALU_SET
 * (the name of the table made here) beforehand.
 *
 * gcc vectorises a loop over 32 lanes without branches. Under a partial mask all lanes are computed
 * too, and those outside of the mask keep their old value: nothing here can trap.
 */
#include "alu.h"
#include "approx.h"
#include "machine.h"

/* Lanes do not depend on each other, even where a destination is a source too. */
#ifdef __clang__
#define EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < LANES; i++)
#else
#define EACH_LANE _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++)
#endif

#define STORE(D, expression)                                  \
	if (mask == ALL_LANES) {                              \
		EACH_LANE d[i] = (D)(expression);             \
	} else {                                              \
		D t[LANES];                                   \
		EACH_LANE t[i] = (D)(expression);             \
		EACH_LANE d[i] = mask >> i & 1 ? t[i] : d[i]; \
	}

#define UNARY(name, D, A, expression)                                          \
	static void name(struct warp *w, const struct insn *in, uint32_t mask) \
	{                                                                      \
		D *d = lanes(w, in->d[0]);                                     \
		const A *pa = lanes(w, in->s[0]);                              \
		STORE(D, ({                                                    \
			      const A a = pa[i];                               \
			      expression;                                      \
		      }))                                                      \
	}

#define BINARY(name, D, A, B, expression)                                      \
	static void name(struct warp *w, const struct insn *in, uint32_t mask) \
	{                                                                      \
		D *d = lanes(w, in->d[0]);                                     \
		const A *pa = lanes(w, in->s[0]);                              \
		const B *pb = lanes(w, in->s[1]);                              \
		STORE(D, ({                                                    \
			      const A a = pa[i];                               \
			      const B b = pb[i];                               \
			      expression;                                      \
		      }))                                                      \
	}

#define TERNARY(name, D, A, B, C, expression)                                  \
	static void name(struct warp *w, const struct insn *in, uint32_t mask) \
	{                                                                      \
		D *d = lanes(w, in->d[0]);                                     \
		const A *pa = lanes(w, in->s[0]);                              \
		const B *pb = lanes(w, in->s[1]);                              \
		const C *pc = lanes(w, in->s[2]);                              \
		STORE(D, ({                                                    \
			      const A a = pa[i];                               \
			      const B b = pb[i];                               \
			      const C c = pc[i];                               \
			      expression;                                      \
		      }))                                                      \
	}

#define COMPARE(name, A, expression)                                           \
	static void name(struct warp *w, const struct insn *in, uint32_t mask) \
	{                                                                      \
		uint32_t *d = lanes(w, in->d[0]), found = 0;                   \
		const A *pa = lanes(w, in->s[0]), *pb = lanes(w, in->s[1]);    \
		EACH_LANE                                                      \
		{                                                              \
			const A a = pa[i], b = pb[i];                          \
			(void)b;                                               \
			found |= (uint32_t)(expression) << i;                  \
		}                                                              \
		*d = (*d & ~mask) | (found & mask);                            \
	}

/* --- integers: U and S are the unsigned and signed type of one width, n its name's suffix --- */

#define INTEGERS(n, U, S, WIDE_U, WIDE_S, BITS)                                        \
	UNARY(mov_##n, U, U, a)                                                        \
	BINARY(add_##n, U, U, U, a + b)                                                \
	BINARY(sub_##n, U, U, U, a - b)                                                \
	BINARY(mul_##n, U, U, U, (WIDE_U)a *b)                                         \
	BINARY(mul_hi_u##n, U, U, U, (WIDE_U)a *b >> BITS)                             \
	BINARY(mul_hi_s##n, U, S, S, (WIDE_S)a *b >> BITS)                             \
	TERNARY(mad_##n, U, U, U, U, (WIDE_U)a *b + c)                                 \
	TERNARY(mad_hi_u##n, U, U, U, U, ((WIDE_U)a * b >> BITS) + c)                  \
	TERNARY(mad_hi_s##n, U, S, S, U, (U)((WIDE_S)a * b >> BITS) + c)               \
	BINARY(div_u##n, U, U, U, b ? a / b : (U)-1)                                   \
	BINARY(rem_u##n, U, U, U, b ? a % b : a)                                       \
	BINARY(div_s##n, U, S, S, b == 0 ? (U)-1 : b == -1 ? (U)0 - (U)a : (U)(a / b)) \
	BINARY(rem_s##n, U, S, S, b == 0 ? (U)a : b == -1 ? (U)0 : (U)(a % b))         \
	UNARY(abs_##n, U, S, a < 0 ? (U)0 - (U)a : (U)a)                               \
	UNARY(neg_##n, U, U, (U)0 - a)                                                 \
	BINARY(min_u##n, U, U, U, a < b ? a : b)                                       \
	BINARY(max_u##n, U, U, U, a > b ? a : b)                                       \
	BINARY(min_s##n, S, S, S, a < b ? a : b)                                       \
	BINARY(max_s##n, S, S, S, a > b ? a : b)                                       \
	BINARY(and_##n, U, U, U, a &b)                                                 \
	BINARY(or_##n, U, U, U, a | b)                                                 \
	BINARY(xor_##n, U, U, U, a ^ b)                                                \
	UNARY(not_##n, U, U, ~a)                                                       \
	UNARY(cnot_##n, U, U, a == 0)                                                  \
	BINARY(shl_##n, U, U, uint32_t, b < BITS ? a << (b & (BITS - 1)) : 0)          \
	BINARY(shr_u##n, U, U, uint32_t, b < BITS ? a >> (b & (BITS - 1)) : 0)         \
	BINARY(shr_s##n, S, S, uint32_t, a >> (b < BITS ? b : BITS - 1))               \
	COMPARE(eq_##n, U, a == b)                                                     \
	COMPARE(ne_##n, U, a != b)                                                     \
	COMPARE(lt_u##n, U, a < b)                                                     \
	COMPARE(le_u##n, U, a <= b)                                                    \
	COMPARE(gt_u##n, U, a > b)                                                     \
	COMPARE(ge_u##n, U, a >= b)                                                    \
	COMPARE(lt_s##n, S, a < b)                                                     \
	COMPARE(le_s##n, S, a <= b)                                                    \
	COMPARE(gt_s##n, S, a > b)                                                     \
	COMPARE(ge_s##n, S, a >= b)                                                    \
	static void selp_##n(struct warp *w, const struct insn *in, uint32_t mask)     \
	{                                                                              \
		U *d = lanes(w, in->d[0]);                                             \
		const U *a = lanes(w, in->s[0]), *b = lanes(w, in->s[1]);              \
		const uint32_t p = *(const uint32_t *)lanes(w, in->s[2]);              \
		STORE(U, p >> i & 1 ? a[i] : b[i])                                     \
	}

INTEGERS(16, uint16_t, int16_t, uint32_t, int32_t, 16)
INTEGERS(32, uint32_t, int32_t, uint64_t, int64_t, 32)
INTEGERS(64, uint64_t, int64_t, unsigned __int128, __int128, 64)
UNARY(mov_8, uint8_t, uint8_t, a)

BINARY(mul_wide_u16, uint32_t, uint16_t, uint16_t, (uint32_t)a *b)
BINARY(mul_wide_s16, int32_t, int16_t, int16_t, (int32_t)a *b)
BINARY(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)a *b)
BINARY(mul_wide_s32, int64_t, int32_t, int32_t, (int64_t)a *b)
TERNARY(mad_wide_u16, uint32_t, uint16_t, uint16_t, uint32_t, (uint32_t)a *b + c)
TERNARY(mad_wide_s16, uint32_t, int16_t, int16_t, uint32_t, (uint32_t)((int32_t)a *b) + c)
TERNARY(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)a *b + c)
TERNARY(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)a *b) + c)

TERNARY(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t,
        ((uint64_t)b << 32 | a) << (c & 31) >> 32)
TERNARY(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t,
        ((uint64_t)b << 32 | a) << (c < 32 ? c : 32) >> 32)
TERNARY(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, ((uint64_t)b << 32 | a) >> (c & 31))
TERNARY(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t,
        ((uint64_t)b << 32 | a) >> (c < 32 ? c : 32))
UNARY(popc_32, uint32_t, uint32_t, __builtin_popcount(a))
UNARY(popc_64, uint32_t, uint64_t, __builtin_popcountll(a))
UNARY(clz_32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
UNARY(clz_64, uint32_t, uint64_t, a ? __builtin_clzll(a) : 64)

static inline uint32_t reverse(uint32_t a)
{
	a = (a & 0x55555555) << 1 | (a >> 1 & 0x55555555);
	a = (a & 0x33333333) << 2 | (a >> 2 & 0x33333333);
	a = (a & 0x0f0f0f0f) << 4 | (a >> 4 & 0x0f0f0f0f);
	return __builtin_bswap32(a);
}
UNARY(brev_32, uint32_t, uint32_t, reverse(a))
UNARY(brev_64, uint64_t, uint64_t, (uint64_t)reverse((uint32_t)a) << 32 | reverse(a >> 32))

/* The highest bit that is not the sign's; NONE when there is none. */
static inline uint32_t top_bit(uint64_t a)
{
	return a ? 63 - (uint32_t)__builtin_clzll(a) : NONE;
}
UNARY(bfind_u32, uint32_t, uint32_t, top_bit(a))
UNARY(bfind_s32, uint32_t, int32_t, top_bit((uint32_t)(a < 0 ? ~a : a)))
UNARY(bfind_u64, uint32_t, uint64_t, top_bit(a))
UNARY(bfind_s64, uint32_t, int64_t, top_bit((uint64_t)(a < 0 ? ~a : a)))
UNARY(bfind_shift_u32, uint32_t, uint32_t, a ? 31 - top_bit(a) : NONE)
UNARY(bfind_shift_s32, uint32_t, int32_t, ({
	      uint32_t top = top_bit((uint32_t)(a < 0 ? ~a : a));
	      top == NONE ? NONE : 31 - top;
      }))
UNARY(bfind_shift_u64, uint32_t, uint64_t, a ? 63 - top_bit(a) : NONE)
UNARY(bfind_shift_s64, uint32_t, int64_t, ({
	      uint32_t top = top_bit((uint64_t)(a < 0 ? ~a : a));
	      top == NONE ? NONE : 63 - top;
      }))

static inline uint64_t extract(uint64_t a, uint32_t position, uint32_t length, uint32_t bits,
                               bool is_signed)
{
	position &= 255;
	length &= 255;
	uint32_t top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
	bool fill = is_signed && length && a >> top & 1;
	uint64_t kept = length < 64 ? ((uint64_t)1 << length) - 1 : ~(uint64_t)0;
	uint64_t room = position < bits ? bits - position : 0;
	uint64_t present = room < 64 ? ((uint64_t)1 << room) - 1 : ~(uint64_t)0;
	uint64_t value = position < 64 ? a >> position : 0;
	return (value & kept & present) | (fill ? ~(kept & present) : 0);
}
TERNARY(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extract(a, b, c, 32, false))
TERNARY(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extract(a, b, c, 32, true))
TERNARY(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, extract(a, b, c, 64, false))
TERNARY(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, extract(a, b, c, 64, true))

static inline uint64_t insert(uint64_t a, uint64_t b, uint32_t position, uint32_t length,
                              uint32_t bits)
{
	position &= 255;
	length &= 255;
	if (position >= bits || !length)
		return b;
	uint64_t field = (length < 64 ? ((uint64_t)1 << length) - 1 : ~(uint64_t)0) << position;
	return (b & ~field) | (a << position & field);
}
#define INSERT(name, U, BITS)                                                    \
	static void name(struct warp *w, const struct insn *in, uint32_t mask)   \
	{                                                                        \
		U *d = lanes(w, in->d[0]);                                       \
		const U *a = lanes(w, in->s[0]), *b = lanes(w, in->s[1]);        \
		const uint32_t *c = lanes(w, in->s[2]), *e = lanes(w, in->s[3]); \
		STORE(U, insert(a[i], b[i], c[i], e[i], BITS))                   \
	}
INSERT(bfi_32, uint32_t, 32)
INSERT(bfi_64, uint64_t, 64)

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t c, int mode)
{
	static const uint16_t modes[7][4] = {
	    {0},
	    {0x3210, 0x4321, 0x5432, 0x6543}, /* f4e */
	    {0x5670, 0x6701, 0x7012, 0x0123}, /* b4e */
	    {0x0000, 0x1111, 0x2222, 0x3333}, /* rc8 */
	    {0x3210, 0x3211, 0x3222, 0x3333}, /* ecl */
	    {0x0000, 0x1110, 0x2210, 0x3210}, /* ecr */
	    {0x1010, 0x3232, 0x1010, 0x3232}, /* rc16 */
	};
	uint64_t bytes = (uint64_t)b << 32 | a;
	uint32_t choice = mode ? modes[mode][c & 3] : c, result = 0;
	for (int k = 0; k < 4; k++) {
		uint32_t nibble = choice >> 4 * k & 15;
		uint32_t byte = (uint32_t)(bytes >> 8 * (nibble & 7)) & 255;
		if (nibble & 8)
			byte = byte & 128 ? 255 : 0;
		result |= byte << 8 * k;
	}
	return result;
}
TERNARY(prmt, uint32_t, uint32_t, uint32_t, uint32_t, permute(a, b, c, in->mode))

static inline uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t lut)
{
	uint32_t result = 0;
	for (int k = 0; k < 8; k++) {
		uint32_t term = (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
		result |= lut >> k & 1 ? term : 0;
	}
	return result;
}
TERNARY(lop3, uint32_t, uint32_t, uint32_t, uint32_t, logic3(a, b, c, (uint32_t)in->immediate))

TERNARY(sad_u16, uint16_t, uint16_t, uint16_t, uint16_t, c + (a < b ? b - a : a - b))
TERNARY(sad_s16, uint16_t, int16_t, int16_t, uint16_t, c + (uint16_t)(a < b ? b - a : a - b))
TERNARY(sad_u32, uint32_t, uint32_t, uint32_t, uint32_t, c + (a < b ? b - a : a - b))
TERNARY(sad_s32, uint32_t, int32_t, int32_t, uint32_t,
        c + (a < b ? (uint32_t)b - (uint32_t)a : (uint32_t)a - (uint32_t)b))
TERNARY(sad_u64, uint64_t, uint64_t, uint64_t, uint64_t, c + (a < b ? b - a : a - b))
TERNARY(sad_s64, uint64_t, int64_t, int64_t, uint64_t,
        c + (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b))

BINARY(mul24_u, uint32_t, uint32_t, uint32_t, (uint64_t)(a & 0xffffff) * (b & 0xffffff))
BINARY(mul24_s, uint32_t, int32_t, int32_t,
       (int64_t)((int32_t)((uint32_t)a << 8) >> 8) * ((int32_t)((uint32_t)b << 8) >> 8))
BINARY(mul24_hi_u, uint32_t, uint32_t, uint32_t, (uint64_t)(a & 0xffffff) * (b & 0xffffff) >> 16)
BINARY(mul24_hi_s, uint32_t, int32_t, int32_t,
       (int64_t)((int32_t)((uint32_t)a << 8) >> 8) * ((int32_t)((uint32_t)b << 8) >> 8) >> 16)

#define DOT(name, A, B)                                                       \
	TERNARY(name, uint32_t, uint32_t, uint32_t, uint32_t, ({              \
		        uint32_t sum = c;                                     \
		        for (int k = 0; k < 32; k += 8)                       \
			        sum += (uint32_t)((A)(a >> k) * (B)(b >> k)); \
		        sum;                                                  \
	        }))
DOT(dp4a_uu, uint8_t, uint8_t)
DOT(dp4a_us, uint8_t, int8_t)
DOT(dp4a_su, int8_t, uint8_t)
DOT(dp4a_ss, int8_t, int8_t)

#define DOT2(name, A, B)                                      \
	TERNARY(name, uint32_t, uint32_t, uint32_t, uint32_t, \
	        c + (uint32_t)((A)a * (B)(b >> in->mode)) +   \
	            (uint32_t)((A)(a >> 16) * (B)(b >> in->mode >> 8)))
DOT2(dp2a_uu, uint16_t, uint8_t)
DOT2(dp2a_us, uint16_t, int8_t)
DOT2(dp2a_su, int16_t, uint8_t)
DOT2(dp2a_ss, int16_t, int8_t)

static inline uint32_t bit_mask(uint32_t at, uint32_t length, bool wrap)
{
	if (wrap) {
		at &= 31;
		length &= 31;
	}
	uint64_t ones = length < 32 ? ((uint64_t)1 << length) - 1 : 0xffffffff;
	return at < 32 ? (uint32_t)(ones << at) : 0;
}
BINARY(bmsk, uint32_t, uint32_t, uint32_t, bit_mask(a, b, in->mode))

/* d[0] = a op b op carry in; d[1] is the carry (for subtraction: the borrow) out. */
#define CARRY(name, U, WIDE, op, with)                                                    \
	static void name(struct warp *w, const struct insn *in, uint32_t mask)            \
	{                                                                                 \
		U *d = lanes(w, in->d[0]);                                                \
		const U *a = lanes(w, in->s[0]), *b = lanes(w, in->s[1]);                 \
		const uint32_t before = with ? *(const uint32_t *)lanes(w, in->s[3]) : 0; \
		uint32_t *carry = lanes(w, in->d[1]), out = 0;                            \
		for (int i = 0; i < LANES; i++) {                                         \
			WIDE full = (WIDE)a[i] op b[i] op(before >> i & 1);               \
			out |= (uint32_t)(full >> 8 * sizeof(U) & 1) << i;                \
			d[i] = mask >> i & 1 ? (U)full : d[i];                            \
		}                                                                         \
		*carry = (*carry & ~mask) | (out & mask);                                 \
	}
CARRY(add_cc_32, uint32_t, uint64_t, +, false)
CARRY(addc_cc_32, uint32_t, uint64_t, +, true)
CARRY(sub_cc_32, uint32_t, uint64_t, -, false)
CARRY(subc_cc_32, uint32_t, uint64_t, -, true)
CARRY(add_cc_64, uint64_t, unsigned __int128, +, false)
CARRY(addc_cc_64, uint64_t, unsigned __int128, +, true)
CARRY(sub_cc_64, uint64_t, unsigned __int128, -, false)
CARRY(subc_cc_64, uint64_t, unsigned __int128, -, true)

/* --- predicates: one word each, so no loop at all --- */

#define PREDICATE(name, expression)                                            \
	static void name(struct warp *w, const struct insn *in, uint32_t mask) \
	{                                                                      \
		uint32_t *d = lanes(w, in->d[0]);                              \
		const uint32_t a = *(const uint32_t *)lanes(w, in->s[0]);      \
		const uint32_t b = *(const uint32_t *)lanes(w, in->s[1]);      \
		(void)b;                                                       \
		*d = (*d & ~mask) | ((expression)&mask);                       \
	}
PREDICATE(mov_pred, a)
PREDICATE(not_pred, ~a)
PREDICATE(and_pred, a &b)
PREDICATE(or_pred, a | b)
PREDICATE(xor_pred, a ^ b)

/* --- floating point --- */

/* Single precision has one NaN, whatever went in; double keeps the payload of an operand. */
static inline float canonical_f32(float a)
{
	const uint32_t bits = 0x7fffffff;
	float nan;
	memcpy(&nan, &bits, sizeof nan);
	return a == a ? a : nan;
}
static inline double canonical_f64(double a)
{
	return a;
}

#define FLOATS(n, F, U, SIGN, FABS, FMA, SQRT, RINT, TRUNC, FLOOR, CEIL, COPYSIGN, TINY, HUGE) \
	BINARY(add_##n, F, F, F, canonical_##n(a + b))                                         \
	BINARY(sub_##n, F, F, F, canonical_##n(a - b))                                         \
	BINARY(mul_##n, F, F, F, canonical_##n(a *b))                                          \
	BINARY(div_##n, F, F, F, canonical_##n(a / b))                                         \
	TERNARY(fma_##n, F, F, F, F, canonical_##n(FMA(a, b, c)))                              \
	UNARY(abs_##n, U, U, a & ~SIGN)                                                        \
	UNARY(neg_##n, U, U, a ^ SIGN)                                                         \
	/* A NaN loses against a number; -0 is less than +0. */                                \
	BINARY(min_##n, F, F, F,                                                               \
	       canonical_##n(a != a               ? b                                          \
	                     : b != b             ? a                                          \
	                     : a < b              ? a                                          \
	                     : b < a              ? b                                          \
	                     : COPYSIGN(1, a) < 0 ? a                                          \
	                                          : b))                                        \
	BINARY(max_##n, F, F, F,                                                               \
	       canonical_##n(a != a               ? b                                          \
	                     : b != b             ? a                                          \
	                     : a > b              ? a                                          \
	                     : b > a              ? b                                          \
	                     : COPYSIGN(1, a) < 0 ? b                                          \
	                                          : a))                                        \
	BINARY(min_nan_##n, F, F, F,                                                           \
	       canonical_##n(a != a               ? a                                          \
	                     : b != b             ? b                                          \
	                     : a < b              ? a                                          \
	                     : b < a              ? b                                          \
	                     : COPYSIGN(1, a) < 0 ? a                                          \
	                                          : b))                                        \
	BINARY(max_nan_##n, F, F, F,                                                           \
	       canonical_##n(a != a               ? a                                          \
	                     : b != b             ? b                                          \
	                     : a > b              ? a                                          \
	                     : b > a              ? b                                          \
	                     : COPYSIGN(1, a) < 0 ? b                                          \
	                                          : a))                                        \
	BINARY(copysign_##n, U, U, U, (a & SIGN) | (b & ~SIGN))                                \
	UNARY(sqrt_##n, F, F, canonical_##n(SQRT(a)))                                          \
	UNARY(rcp_##n, F, F, canonical_##n(1 / a))                                             \
	UNARY(rint_##n, F, F, RINT(a))                                                         \
	UNARY(trunc_##n, F, F, TRUNC(a))                                                       \
	UNARY(floor_##n, F, F, FLOOR(a))                                                       \
	UNARY(ceil_##n, F, F, CEIL(a))                                                         \
	UNARY(saturate_##n, F, F, a > 0 ? a < 1 ? a : 1 : 0)                                   \
	UNARY(flush_##n, F, F, FABS(a) < TINY ? COPYSIGN(0, a) : a)                            \
	COMPARE(eq_##n, F, a == b)                                                             \
	COMPARE(ne_##n, F, (a < b) | (a > b))                                                  \
	COMPARE(lt_##n, F, a < b)                                                              \
	COMPARE(le_##n, F, a <= b)                                                             \
	COMPARE(gt_##n, F, a > b)                                                              \
	COMPARE(ge_##n, F, a >= b)                                                             \
	COMPARE(equ_##n, F, !((a < b) | (a > b)))                                              \
	COMPARE(neu_##n, F, a != b)                                                            \
	COMPARE(ltu_##n, F, !(a >= b))                                                         \
	COMPARE(leu_##n, F, !(a > b))                                                          \
	COMPARE(gtu_##n, F, !(a <= b))                                                         \
	COMPARE(geu_##n, F, !(a < b))                                                          \
	COMPARE(num_##n, F, (a == a) & (b == b))                                               \
	COMPARE(nan_##n, F, (a != a) | (b != b))                                               \
	COMPARE(finite_##n, F, FABS(a) <= HUGE)                                                \
	COMPARE(infinite_##n, F, FABS(a) > HUGE)                                               \
	COMPARE(normal_##n, F, (FABS(a) <= HUGE) & (FABS(a) >= TINY))                          \
	COMPARE(subnormal_##n, F, (FABS(a) < TINY) & (a != 0))

FLOATS(f32, float, uint32_t, 0x80000000u, fabsf, __builtin_fmaf, sqrtf, rintf, truncf, floorf,
       ceilf, copysignf, 0x1p-126f, 0x1.fffffep127f)
FLOATS(f64, double, uint64_t, 0x8000000000000000ull, fabs, __builtin_fma, sqrt, rint, trunc, floor,
       ceil, copysign, 0x1p-1022, 0x1.fffffffffffffp1023)

static inline float flush(float a)
{
	return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a;
}
BINARY(add_ftz_f32, float, float, float, canonical_f32(flush(flush(a) + flush(b))))
BINARY(sub_ftz_f32, float, float, float, canonical_f32(flush(flush(a) - flush(b))))
BINARY(mul_ftz_f32, float, float, float, canonical_f32(flush(flush(a) * flush(b))))
TERNARY(fma_ftz_f32, float, float, float, float,
        canonical_f32(flush(__builtin_fmaf(flush(a), flush(b), flush(c)))))

UNARY(rsqrt_f32, float, float, canonical_f32((float)(1 / sqrt((double)a))))
UNARY(rsqrt_f64, double, double, 1 / sqrt(a))
UNARY(sin_f32, float, float, canonical_f32(sine_approx(a, 0)))
UNARY(cos_f32, float, float, canonical_f32(sine_approx(a, 1)))
UNARY(ex2_f32, float, float, canonical_f32(exp2_approx(a)))
UNARY(lg2_f32, float, float, canonical_f32(log2_approx(a)))
UNARY(tanh_f32, float, float, canonical_f32(tanh_approx(a)))

/* a * b is exact here (short factors); the rounding of the sum goes to an odd last bit. */
TERNARY(fma_odd_f64, double, double, double, double, ({
	        double product = a * b, sum = product + c;
	        double back = sum - product;
	        double error = (product - (sum - back)) + (c - back);
	        uint64_t bits = double_to_bits(sum);
	        bool inexact = error != 0 && fabs(sum) <= 0x1.fffffffffffffp1023;
	        bits += !inexact || bits & 1 ? 0 : (error > 0) == (sum > 0) ? 1 : (uint64_t)-1;
	        bits_to_double(bits);
        }))

/* --- conversions --- */

#define CONVERT(to, from, T, F) UNARY(convert_##to##_##from, T, F, a)
#define WIDEN_FROM(from, F)             \
	CONVERT(u8, from, uint8_t, F)   \
	CONVERT(u16, from, uint16_t, F) \
	CONVERT(u32, from, uint32_t, F) \
	CONVERT(u64, from, uint64_t, F)
WIDEN_FROM(u8, uint8_t)
WIDEN_FROM(s8, int8_t)
WIDEN_FROM(u16, uint16_t)
WIDEN_FROM(s16, int16_t)
WIDEN_FROM(u32, uint32_t)
WIDEN_FROM(s32, int32_t)
WIDEN_FROM(u64, uint64_t)
CONVERT(f32, s32, float, int32_t)
CONVERT(f32, u32, float, uint32_t)
CONVERT(f32, s64, float, int64_t)
CONVERT(f32, u64, float, uint64_t)
CONVERT(f64, s32, double, int32_t)
CONVERT(f64, u32, double, uint32_t)
CONVERT(f64, s64, double, int64_t)
CONVERT(f64, u64, double, uint64_t)
CONVERT(f64, f32, double, float)
UNARY(convert_f32_f64, float, double, canonical_f32((float)a))
UNARY(convert_f32_f16, float, uint16_t, half_to_float(a))
UNARY(convert_f32_bf16, float, uint16_t, bfloat_to_float(a))
UNARY(convert_f64_f16, double, uint16_t, half_to_float(a))
UNARY(convert_f64_bf16, double, uint16_t, bfloat_to_float(a))
UNARY(convert_f16_f32, uint16_t, float, double_to_half(a, in->mode))
UNARY(convert_f16_f64, uint16_t, double, double_to_half(a, in->mode))
UNARY(convert_bf16_f32, uint16_t, float, double_to_bfloat(a, in->mode))
UNARY(convert_bf16_f64, uint16_t, double, double_to_bfloat(a, in->mode))

/* Out of range saturates. NaN gives 0, or the top bit where a 64-bit type takes part. */
#define TO_INTEGER(to, from, T, F, LOW, HIGH, MIN, MAX, NAN_VALUE, RINT, TRUNC, FLOOR, CEIL)    \
	static inline T clamp_##to##_##from(F a)                                                \
	{                                                                                       \
		F inside = a > LOW ? a < HIGH ? a : 0 : 0;                                      \
		T value = (T)inside;                                                            \
		value = a <= LOW ? MIN : value;                                                 \
		value = a >= HIGH ? MAX : value;                                                \
		return a == a ? value : NAN_VALUE;                                              \
	}                                                                                       \
	static void convert_##to##_##from(struct warp *w, const struct insn *in, uint32_t mask) \
	{                                                                                       \
		T *d = lanes(w, in->d[0]);                                                      \
		const F *a = lanes(w, in->s[0]);                                                \
		switch (in->mode) {                                                             \
		case ROUND_NEAREST:                                                             \
			STORE(T, clamp_##to##_##from(RINT(a[i])))                               \
			break;                                                                  \
		case ROUND_ZERO:                                                                \
			STORE(T, clamp_##to##_##from(TRUNC(a[i])))                              \
			break;                                                                  \
		case ROUND_DOWN:                                                                \
			STORE(T, clamp_##to##_##from(FLOOR(a[i])))                              \
			break;                                                                  \
		default:                                                                        \
			STORE(T, clamp_##to##_##from(CEIL(a[i])))                               \
			break;                                                                  \
		}                                                                               \
	}
#define TO_INTEGERS(from, F, NAN_S32, NAN_U32, ...)                                         \
	TO_INTEGER(s32, from, int32_t, F, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX, NAN_S32,   \
	           __VA_ARGS__)                                                             \
	TO_INTEGER(u32, from, uint32_t, F, 0, 0x1p32, 0, UINT32_MAX, NAN_U32, __VA_ARGS__)  \
	TO_INTEGER(s64, from, int64_t, F, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX, INT64_MIN, \
	           __VA_ARGS__)                                                             \
	TO_INTEGER(u64, from, uint64_t, F, 0, 0x1p64, 0, UINT64_MAX, (uint64_t)1 << 63, __VA_ARGS__)
TO_INTEGERS(f32, float, 0, 0, rintf, truncf, floorf, ceilf)
TO_INTEGERS(f64, double, INT32_MIN, (uint32_t)1 << 31, rint, trunc, floor, ceil)

/* s[0] is s64, or u64 when mode says so; the result stays in 64 bits, within the type's range. */
static void clamp_integer(struct warp *w, const struct insn *in, uint32_t mask)
{
	int64_t *d = lanes(w, in->d[0]);
	const int64_t *a = lanes(w, in->s[0]);
	uint32_t bits = 8 * in->size;
	bool to_signed = in->type, from_unsigned = in->mode;
	int64_t low = to_signed ? (int64_t)(~(uint64_t)0 << (bits - 1)) : 0;
	uint64_t high = ~(uint64_t)0 >> (64 - bits + to_signed);
	STORE(int64_t, !from_unsigned && a[i] < low                            ? low
	               : (from_unsigned || a[i] >= 0) && (uint64_t)a[i] > high ? (int64_t)high
	                                                                       : a[i])
}

static void pack(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint8_t *d = lanes(w, in->d[0]);
	for (uint32_t k = 0; k < in->count; k++) {
		const uint8_t *a = lanes(w, in->s[k]);
		for (uint32_t i = 0; i < LANES; i++)
			if (mask >> i & 1)
				memcpy(d + (i * in->count + k) * in->size, a + i * in->size,
				       in->size);
	}
}

static void unpack(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint8_t *a = lanes(w, in->s[0]);
	for (uint32_t k = 0; k < in->count; k++) {
		if (in->d[k] == NONE)
			continue;
		uint8_t *d = lanes(w, in->d[k]);
		for (uint32_t i = 0; i < LANES; i++)
			if (mask >> i & 1)
				memcpy(d + i * in->size, a + (i * in->count + k) * in->size,
				       in->size);
	}
}

static void add_local_base(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint64_t *d = lanes(w, in->d[0]);
	const uint64_t *a = lanes(w, in->s[0]), base = w->frame->local_base;
	STORE(uint64_t, a[i] + base)
}

static void addresses(const struct warp *w, const struct insn *in, uint32_t mask,
                      struct addresses *to)
{
	const uint64_t offset =
	    (uint64_t)in->immediate + (in->local_base ? w->frame->local_base : 0);
	const uint64_t *wide = lanes(w, in->s[0]);
	const uint32_t *narrow = lanes(w, in->s[0]);
	uint64_t *a = to->of;
	if (in->wide) {
		EACH_LANE a[i] = wide[i] + offset;
	} else {
		EACH_LANE a[i] = narrow[i] + offset;
	}
	if (mask != ALL_LANES) {
		const uint64_t some = a[__builtin_ctz(mask)];
		EACH_LANE a[i] = mask >> i & 1 ? a[i] : some;
	}
	const uint64_t first = a[0];
	const int shift = __builtin_ctz(in->size);
	uint64_t astray = 0, other = 0;
	for (int i = 0; i < LANES; i++) {
		astray |= a[i] ^ (first + ((uint64_t)i << shift));
		other |= a[i] ^ first;
	}
	if (!astray && in->count == 1) {
		to->pattern = PATTERN_CONSECUTIVE;
		to->low = to->low_bits = first;
		to->high = first + ((uint64_t)(LANES - 1) << shift);
	} else if (!other) {
		to->pattern = PATTERN_SAME;
		to->low = to->high = to->low_bits = first;
	} else {
		uint64_t low = first, high = first, bits = 0;
		for (int i = 0; i < LANES; i++) {
			low = a[i] < low ? a[i] : low;
			high = a[i] > high ? a[i] : high;
			bits |= a[i];
		}
		to->pattern = PATTERN_ANY;
		to->low = low;
		to->high = high;
		to->low_bits = bits;
	}
}

/*
 * Kernels race, read what they should not and fault on purpose: sanitizers look away. Consecutive
 * addresses come with a full mask only, since a lane outside of it repeats another's address.
 */
#define RAW __attribute__((no_sanitize("address", "thread", "undefined")))

#define ACCESS(T)                                                                              \
	RAW static void load_##T(void *to, const struct pointers *p, uint32_t offset,          \
	                         uint32_t mask)                                                \
	{                                                                                      \
		T *d = to, t[LANES];                                                           \
		if (p->pattern == PATTERN_CONSECUTIVE) {                                       \
			const T *from = (const T *)p->of[0];                                   \
			EACH_LANE d[i] = from[i];                                              \
			return;                                                                \
		}                                                                              \
		if (p->pattern == PATTERN_SAME) {                                              \
			const T value = *(const T *)(p->of[0] + offset);                       \
			EACH_LANE d[i] = mask >> i & 1 ? value : d[i];                         \
			return;                                                                \
		}                                                                              \
		for (int i = 0; i < LANES; i++)                                                \
			t[i] = *(const T *)(p->of[i] + offset);                                \
		EACH_LANE d[i] = mask >> i & 1 ? t[i] : d[i];                                  \
	}                                                                                      \
	RAW static void store_##T(const void *from, const struct pointers *p, uint32_t offset, \
	                          uint32_t mask)                                               \
	{                                                                                      \
		const T *s = from;                                                             \
		if (p->pattern == PATTERN_CONSECUTIVE) {                                       \
			T *to = (T *)p->of[0];                                                 \
			EACH_LANE to[i] = s[i];                                                \
		} else if (p->pattern == PATTERN_SAME) {                                       \
			/* The highest lane wins, as in the order of lanes. */                 \
			*(T *)(p->of[0] + offset) = s[31 - __builtin_clz(mask)];               \
		} else {                                                                       \
			for (; mask; mask &= mask - 1) {                                       \
				int i = __builtin_ctz(mask);                                   \
				*(T *)(p->of[i] + offset) = s[i];                              \
			}                                                                      \
		}                                                                              \
	}
ACCESS(uint8_t)
ACCESS(uint16_t)
ACCESS(uint32_t)
ACCESS(uint64_t)

/* --- the table --- */

#define INTEGER_ROW(n)                                                                      \
	[TYPE_U16] = n##_16, [TYPE_S16] = n##_16, [TYPE_U32] = n##_32, [TYPE_S32] = n##_32, \
	[TYPE_U64] = n##_64, [TYPE_S64] = n##_64
#define SIGNED_ROW(n)                                                                           \
	[TYPE_U16] = n##_u16, [TYPE_S16] = n##_s16, [TYPE_U32] = n##_u32, [TYPE_S32] = n##_s32, \
	[TYPE_U64] = n##_u64, [TYPE_S64] = n##_s64
#define FLOAT_ROW(n) [TYPE_F32] = n##_f32, [TYPE_F64] = n##_f64
#define LOGIC_ROW(n) INTEGER_ROW(n), [TYPE_PRED] = n##_pred
#define FROM_INTEGERS(to)                                                 \
	[TYPE_U8] = convert_##to##_u8, [TYPE_S8] = convert_##to##_s8,     \
	[TYPE_U16] = convert_##to##_u16, [TYPE_S16] = convert_##to##_s16, \
	[TYPE_U32] = convert_##to##_u32, [TYPE_S32] = convert_##to##_s32, \
	[TYPE_U64] = convert_##to##_u64, [TYPE_S64] = convert_##to##_u64

const struct alu_set ALU_SET =
    {
        .name = ALU_NAME,
        .table =
            {
                [ALU_EQ] = {INTEGER_ROW(eq), FLOAT_ROW(eq)},
                [ALU_NE] = {INTEGER_ROW(ne), FLOAT_ROW(ne)},
                [ALU_LT] = {SIGNED_ROW(lt), FLOAT_ROW(lt)},
                [ALU_LE] = {SIGNED_ROW(le), FLOAT_ROW(le)},
                [ALU_GT] = {SIGNED_ROW(gt), FLOAT_ROW(gt)},
                [ALU_GE] = {SIGNED_ROW(ge), FLOAT_ROW(ge)},
                [ALU_EQU] = {FLOAT_ROW(equ)},
                [ALU_NEU] = {FLOAT_ROW(neu)},
                [ALU_LTU] = {FLOAT_ROW(ltu)},
                [ALU_LEU] = {FLOAT_ROW(leu)},
                [ALU_GTU] = {FLOAT_ROW(gtu)},
                [ALU_GEU] = {FLOAT_ROW(geu)},
                [ALU_NUM] = {FLOAT_ROW(num)},
                [ALU_NAN] = {FLOAT_ROW(nan)},
                [ALU_MOV] = {LOGIC_ROW(mov), [TYPE_U8] = mov_8, [TYPE_S8] = mov_8,
                             [TYPE_F16] = mov_16, [TYPE_BF16] = mov_16, [TYPE_F16X2] = mov_32,
                             [TYPE_BF16X2] = mov_32, [TYPE_F32] = mov_32, [TYPE_F64] = mov_64},
                [ALU_ADD] = {INTEGER_ROW(add), FLOAT_ROW(add)},
                [ALU_SUB] = {INTEGER_ROW(sub), FLOAT_ROW(sub)},
                [ALU_MUL] = {INTEGER_ROW(mul), FLOAT_ROW(mul)},
                [ALU_MUL_HI] = {SIGNED_ROW(mul_hi)},
                [ALU_MUL_WIDE] = {[TYPE_U16] = mul_wide_u16,
                                  [TYPE_S16] = mul_wide_s16,
                                  [TYPE_U32] = mul_wide_u32,
                                  [TYPE_S32] = mul_wide_s32},
                [ALU_MAD] = {INTEGER_ROW(mad)},
                [ALU_MAD_HI] = {SIGNED_ROW(mad_hi)},
                [ALU_MAD_WIDE] = {[TYPE_U16] = mad_wide_u16,
                                  [TYPE_S16] = mad_wide_s16,
                                  [TYPE_U32] = mad_wide_u32,
                                  [TYPE_S32] = mad_wide_s32},
                [ALU_FMA] = {FLOAT_ROW(fma)},
                [ALU_ADD_FTZ] = {[TYPE_F32] = add_ftz_f32},
                [ALU_SUB_FTZ] = {[TYPE_F32] = sub_ftz_f32},
                [ALU_MUL_FTZ] = {[TYPE_F32] = mul_ftz_f32},
                [ALU_FMA_FTZ] = {[TYPE_F32] = fma_ftz_f32},
                [ALU_FMA_ODD] = {[TYPE_F64] = fma_odd_f64},
                [ALU_DIV] = {SIGNED_ROW(div), FLOAT_ROW(div)},
                [ALU_REM] = {SIGNED_ROW(rem)},
                [ALU_ABS] = {INTEGER_ROW(abs), FLOAT_ROW(abs)},
                [ALU_NEG] = {INTEGER_ROW(neg), FLOAT_ROW(neg)},
                [ALU_MIN] = {SIGNED_ROW(min), FLOAT_ROW(min)},
                [ALU_MAX] = {SIGNED_ROW(max), FLOAT_ROW(max)},
                [ALU_MIN_NAN] = {FLOAT_ROW(min_nan)},
                [ALU_MAX_NAN] = {FLOAT_ROW(max_nan)},
                [ALU_AND] = {LOGIC_ROW(and)},
                [ALU_OR] = {LOGIC_ROW(or)},
                [ALU_XOR] = {LOGIC_ROW(xor)},
                [ALU_NOT] = {LOGIC_ROW(not )},
                [ALU_CNOT] = {INTEGER_ROW(cnot)},
                [ALU_SHL] = {INTEGER_ROW(shl)},
                [ALU_SHR] = {SIGNED_ROW(shr)},
                [ALU_SHF_L_WRAP] = {[TYPE_U32] = shf_l_wrap},
                [ALU_SHF_L_CLAMP] = {[TYPE_U32] = shf_l_clamp},
                [ALU_SHF_R_WRAP] = {[TYPE_U32] = shf_r_wrap},
                [ALU_SHF_R_CLAMP] = {[TYPE_U32] = shf_r_clamp},
                [ALU_POPC] = {[TYPE_U32] = popc_32, [TYPE_U64] = popc_64},
                [ALU_CLZ] = {[TYPE_U32] = clz_32, [TYPE_U64] = clz_64},
                [ALU_BREV] = {[TYPE_U32] = brev_32, [TYPE_U64] = brev_64},
                [ALU_BFIND] = {[TYPE_U32] = bfind_u32,
                               [TYPE_S32] = bfind_s32,
                               [TYPE_U64] = bfind_u64,
                               [TYPE_S64] = bfind_s64},
                [ALU_BFIND_SHIFT] = {[TYPE_U32] = bfind_shift_u32,
                                     [TYPE_S32] = bfind_shift_s32,
                                     [TYPE_U64] = bfind_shift_u64,
                                     [TYPE_S64] = bfind_shift_s64},
                [ALU_BFE] = {[TYPE_U32] = bfe_u32,
                             [TYPE_S32] = bfe_s32,
                             [TYPE_U64] = bfe_u64,
                             [TYPE_S64] = bfe_s64},
                [ALU_BFI] = {[TYPE_U32] = bfi_32, [TYPE_U64] = bfi_64},
                [ALU_PRMT] = {[TYPE_U32] = prmt},
                [ALU_LOP3] = {[TYPE_U32] = lop3},
                [ALU_SAD] = {SIGNED_ROW(sad)},
                [ALU_MUL24] = {[TYPE_U32] = mul24_u, [TYPE_S32] = mul24_s},
                [ALU_MUL24_HI] = {[TYPE_U32] = mul24_hi_u, [TYPE_S32] = mul24_hi_s},
                [ALU_DP4A_UU] = {[TYPE_U32] = dp4a_uu},
                [ALU_DP4A_US] = {[TYPE_U32] = dp4a_us},
                [ALU_DP4A_SU] = {[TYPE_U32] = dp4a_su},
                [ALU_DP4A_SS] = {[TYPE_U32] = dp4a_ss},
                [ALU_DP2A_UU] = {[TYPE_U32] = dp2a_uu},
                [ALU_DP2A_US] = {[TYPE_U32] = dp2a_us},
                [ALU_DP2A_SU] = {[TYPE_U32] = dp2a_su},
                [ALU_DP2A_SS] = {[TYPE_U32] = dp2a_ss},
                [ALU_BMSK] = {[TYPE_U32] = bmsk},
                [ALU_ADD_CC] = {[TYPE_U32] = add_cc_32, [TYPE_U64] = add_cc_64},
                [ALU_ADDC_CC] = {[TYPE_U32] = addc_cc_32, [TYPE_U64] = addc_cc_64},
                [ALU_SUB_CC] = {[TYPE_U32] = sub_cc_32, [TYPE_U64] = sub_cc_64},
                [ALU_SUBC_CC] = {[TYPE_U32] = subc_cc_32, [TYPE_U64] = subc_cc_64},
                [ALU_SELP] = {INTEGER_ROW(selp), [TYPE_F32] = selp_32, [TYPE_F64] = selp_64,
                              [TYPE_F16] = selp_16, [TYPE_BF16] = selp_16},
                [ALU_SQRT] = {FLOAT_ROW(sqrt)},
                [ALU_RCP] = {FLOAT_ROW(rcp)},
                [ALU_RSQRT] = {FLOAT_ROW(rsqrt)},
                [ALU_SIN] = {[TYPE_F32] = sin_f32},
                [ALU_COS] = {[TYPE_F32] = cos_f32},
                [ALU_EX2] = {[TYPE_F32] = ex2_f32},
                [ALU_LG2] = {[TYPE_F32] = lg2_f32},
                [ALU_TANH] = {[TYPE_F32] = tanh_f32},
                [ALU_COPYSIGN] = {FLOAT_ROW(copysign)},
                [ALU_FLUSH] = {FLOAT_ROW(flush)},
                [ALU_SATURATE] = {FLOAT_ROW(saturate)},
                [ALU_RINT] = {FLOAT_ROW(rint)},
                [ALU_TRUNC] = {FLOAT_ROW(trunc)},
                [ALU_FLOOR] = {FLOAT_ROW(floor)},
                [ALU_CEIL] = {FLOAT_ROW(ceil)},
                [ALU_FINITE] = {FLOAT_ROW(finite)},
                [ALU_INFINITE] = {FLOAT_ROW(infinite)},
                [ALU_NORMAL] = {FLOAT_ROW(normal)},
                [ALU_SUBNORMAL] = {FLOAT_ROW(subnormal)},
                [ALU_PACK] = {[TYPE_U16] = pack, [TYPE_U32] = pack, [TYPE_U64] = pack},
                [ALU_UNPACK] = {[TYPE_U16] = unpack, [TYPE_U32] = unpack, [TYPE_U64] = unpack},
            },
        .convert =
            {
                [TYPE_U8] = {FROM_INTEGERS(u8)},
                [TYPE_U16] = {FROM_INTEGERS(u16)},
                [TYPE_U32] = {FROM_INTEGERS(u32), [TYPE_F32] = convert_u32_f32,
                              [TYPE_F64] = convert_u32_f64},
                [TYPE_S32] = {[TYPE_F32] = convert_s32_f32, [TYPE_F64] = convert_s32_f64},
                [TYPE_U64] = {FROM_INTEGERS(u64), [TYPE_F32] = convert_u64_f32,
                              [TYPE_F64] = convert_u64_f64},
                [TYPE_S64] = {[TYPE_F32] = convert_s64_f32, [TYPE_F64] = convert_s64_f64},
                [TYPE_F16] = {[TYPE_F32] = convert_f16_f32, [TYPE_F64] = convert_f16_f64},
                [TYPE_BF16] = {[TYPE_F32] = convert_bf16_f32, [TYPE_F64] = convert_bf16_f64},
                [TYPE_F32] = {[TYPE_U32] = convert_f32_u32,
                              [TYPE_S32] = convert_f32_s32,
                              [TYPE_U64] = convert_f32_u64,
                              [TYPE_S64] = convert_f32_s64,
                              [TYPE_F16] = convert_f32_f16,
                              [TYPE_BF16] = convert_f32_bf16,
                              [TYPE_F32] = mov_32,
                              [TYPE_F64] = convert_f32_f64},
                [TYPE_F64] = {[TYPE_U32] = convert_f64_u32,
                              [TYPE_S32] = convert_f64_s32,
                              [TYPE_U64] = convert_f64_u64,
                              [TYPE_S64] = convert_f64_s64,
                              [TYPE_F16] = convert_f64_f16,
                              [TYPE_BF16] = convert_f64_bf16,
                              [TYPE_F32] = convert_f64_f32,
                              [TYPE_F64] = mov_64},
            },
        .clamp = clamp_integer,
        .add_base = add_local_base,
        .addresses = addresses,
        .load = {load_uint8_t, load_uint16_t, load_uint32_t, load_uint64_t},
        .store = {store_uint8_t, store_uint16_t, store_uint32_t, store_uint64_t},
};
