/* SPDX-License-Identifier: MIT */
/* Tests single instructions, written by hand, on values that are often special. */
#include "tests/softgpu/ptx/tests/harness.h"

#include <fenv.h>
#include <math.h>

/* --- single instructions, written by hand --- */

static float as_float(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f;
	memcpy(&f, &low, sizeof f);
	return f;
}

static float flushed(float f)
{
	return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

static float maximum(float a, float b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? b : a;
	return a > b || (a == b && !signbit(a)) ? a : b;
}

static double as_double(uint64_t bits)
{
	double d;
	memcpy(&d, &bits, sizeof d);
	return d;
}

/* Compiled code must not move the operation out of the rounding mode. */
#define ROUNDED(mode, type, expression)        \
	({                                     \
		fesetround(mode);              \
		volatile type r_ = expression; \
		fesetround(FE_TONEAREST);      \
		r_;                            \
	})

#define A32 ((uint32_t)a)
#define B32 ((uint32_t)b)
#define C32 ((uint32_t)c)
#define INSTRUCTIONS(X)                                                                            \
	X("bfe.u32 %r10, %r1, 5, 9;", A32 >> 5 & 511)                                              \
	X("bfe.s32 %r10, %r1, 28, 9;", (uint32_t)((int32_t)A32 >> 28))                             \
	X("bfe.u64 %rd10, %rd1, 60, 8;", a >> 60)                                                  \
	X("bfi.b32 %r10, %r1, %r2, 7, 12;", (B32 & ~(0xfffu << 7)) | (A32 & 0xfff) << 7)           \
	X("bfi.b64 %rd10, %rd1, %rd2, 32, 32;", (b & 0xffffffff) | a << 32)                        \
	X("lop3.b32 %r10, %r1, %r2, %r3, 0x96;", A32 ^ B32 ^ C32)                                  \
	X("lop3.b32 %r10, %r1, %r2, %r3, 0xe8;", (A32 & B32) | (A32 & C32) | (B32 & C32))          \
	X("prmt.b32 %r10, %r1, %r2, 0x8765;",                                                      \
	  (B32 >> 8 & 0xffffff) | (A32 >> 7 & 1 ? 0xff000000u : 0))                                \
	X("shf.r.clamp.b32 %r10, %r1, %r2, 40;", B32)                                              \
	X("shf.r.wrap.b32 %r10, %r1, %r2, 40;", A32 >> 8 | B32 << 24)                              \
	X("shl.b32 %r10, %r1, 32;", 0)                                                             \
	X("shr.s32 %r10, %r1, 77;", (uint32_t)((int32_t)A32 >> 31))                                \
	X("mul.hi.u64 %rd10, %rd1, %rd2;", (uint64_t)((unsigned __int128)a * b >> 64))             \
	X("mul.hi.s64 %rd10, %rd1, %rd2;", (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64))    \
	X("mad.hi.s32 %r10, %r1, %r2, %r3;",                                                       \
	  (uint32_t)((int64_t)(int32_t)A32 * (int32_t)B32 >> 32) + C32)                            \
	X("mad.wide.s32 %rd10, %r1, %r2, %rd3;",                                                   \
	  (uint64_t)((int64_t)(int32_t)A32 * (int32_t)B32) + c)                                    \
	X("mul24.lo.s32 %r10, %r1, %r2;",                                                          \
	  (uint32_t)((int64_t)((int32_t)(A32 << 8) >> 8) * ((int32_t)(B32 << 8) >> 8)))            \
	X("add.cc.u32 %r10, %r1, %r2; addc.u32 %r10, %r3, 0;",                                     \
	  C32 + (uint32_t)(((uint64_t)A32 + B32) >> 32))                                           \
	X("sub.cc.u64 %rd10, %rd1, %rd2; subc.u64 %rd10, %rd3, 0;", c - (a < b))                   \
	X("mad.lo.cc.u32 %r10, %r1, %r2, %r3; madc.hi.u32 %r10, %r1, %r2, 0;",                     \
	  (uint32_t)(((uint64_t)A32 * B32 + C32) >> 32))                                           \
	X("add.sat.s32 %r10, %r1, %r2;", ({                                                        \
		  int64_t sum = (int64_t)(int32_t)A32 + (int32_t)B32;                              \
		  (uint32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);     \
	  }))                                                                                      \
	X("div.s64 %rd10, %rd1, %rd2;", b ? (uint64_t)((int64_t)a / (int64_t)b) : ~0ull)           \
	X("rem.u64 %rd10, %rd1, %rd2;", b ? a % b : a)                                             \
	X("cnot.b32 %r10, %r1;", !A32)                                                             \
	X("bfind.s32 %r10, %r1;", ({                                                               \
		  uint32_t v = (int32_t)A32 < 0 ? ~A32 : A32;                                      \
		  v ? 31 - (uint32_t)__builtin_clz(v) : ~0u;                                       \
	  }))                                                                                      \
	X("brev.b64 %rd10, %rd1;", (uint64_t)reverse_bits(A32) << 32 | reverse_bits(a >> 32))      \
	X("dp4a.s32.u32 %r10, %r1, %r2, %r3;", ({                                                  \
		  uint32_t sum = C32;                                                              \
		  for (int k = 0; k < 32; k += 8)                                                  \
			  sum += (uint32_t)((int8_t)(A32 >> k) * (uint8_t)(B32 >> k));             \
		  sum;                                                                             \
	  }))                                                                                      \
	X("sad.s32 %r10, %r1, %r2, %r3;",                                                          \
	  C32 + (uint32_t)llabs((long long)(int32_t)A32 - (int32_t)B32))                           \
	X("max.s16x2 %r10, %r1, %r2;", ({                                                          \
		  int16_t al = (int16_t)A32, bl = (int16_t)B32;                                    \
		  int16_t ah = (int16_t)(A32 >> 16), bh = (int16_t)(B32 >> 16);                    \
		  (uint32_t)(uint16_t)(al > bl ? al : bl) |                                        \
		      (uint32_t)(uint16_t)(ah > bh ? ah : bh) << 16;                               \
	  }))                                                                                      \
	X("setp.lt.and.s32 %p1|%p2, %r1, %r2, %p0; selp.u32 %r10, 1, 0, %p1;"                      \
	  "@%p2 add.u32 %r10, %r10, 2;",                                                           \
	  c & 1 ? ((int32_t)A32 < (int32_t)B32 ? 1 : 2) : 0)                                       \
	X("setp.hi.xor.u32 %p1, %r1, %r2, !%p0; selp.u32 %r10, 1, 0, %p1;",                        \
	  (A32 > B32) != !(c & 1))                                                                 \
	X("set.ge.u32.s32 %r10, %r1, %r2;", (int32_t)A32 >= (int32_t)B32 ? ~0u : 0)                \
	X("set.ltu.f32.f32 %r10, %r1, %r2;", !(as_float(a) >= as_float(b)) ? 0x3f800000 : 0)       \
	X("slct.u32.s32 %r10, %r1, %r2, %r3;", (int32_t)C32 >= 0 ? A32 : B32)                      \
	X("add.rz.f32 %r10, %r1, %r2;",                                                            \
	  float_bits(ROUNDED(FE_TOWARDZERO, float, as_float(a) + as_float(b))))                    \
	X("fma.rm.f32 %r10, %r1, %r2, %r3;",                                                       \
	  float_bits(ROUNDED(FE_DOWNWARD, float, fmaf(as_float(a), as_float(b), as_float(c)))))    \
	X("div.rp.f64 %rd10, %rd1, %rd2;",                                                         \
	  double_bits(ROUNDED(FE_UPWARD, double, as_double(a) / as_double(b))))                    \
	X("cvt.rz.f32.f64 %r10, %rd1;",                                                            \
	  float_bits(ROUNDED(FE_TOWARDZERO, float, (float)as_double(a))))                          \
	X("cvt.rp.f32.u64 %r10, %rd1;", float_bits(ROUNDED(FE_UPWARD, float, (float)a)))           \
	X("cvt.rn.f32.s64 %r10, %rd1;", float_bits((float)(int64_t)a))                             \
	X("cvt.sat.u8.s32 %r10, %r1;", (int32_t)A32<0 ? 0 : (int32_t)A32> 255 ? 255 : A32)         \
	X("cvt.sat.s16.u64 %r10, %rd1;", a > 32767 ? 32767 : a)                                    \
	X("cvt.s64.s16 %rd10, %rd1;", (uint64_t)(int64_t)(int16_t)a)                               \
	X("cvt.rzi.s8.f32 %r10, %r1;", ({                                                          \
		  float t = truncf(as_float(a));                                                   \
		  (uint32_t)(int32_t)(t > 127 ? 127 : t >= -128 ? t : t < -128 ? -128 : 0);        \
	  }))                                                                                      \
	X("cvt.rzi.u64.f64 %rd10, %rd1;", ({                                                       \
		  double t = as_double(a);                                                         \
		  t >= 0x1p64 ? ~0ull : t > 0 ? (uint64_t)t : isnan(t) ? 1ull << 63 : 0;           \
	  }))                                                                                      \
	X("fma.rn.ftz.f32 %r10, %r1, %r2, %r3;",                                                   \
	  float_bits(                                                                              \
	      flushed(fmaf(flushed(as_float(a)), flushed(as_float(b)), flushed(as_float(c))))))    \
	X("sub.ftz.f32 %r10, %r1, %r2;",                                                           \
	  float_bits(flushed(flushed(as_float(a)) - flushed(as_float(b)))))                        \
	X("max.ftz.f32 %r10, %r1, %r2;",                                                           \
	  float_bits(maximum(flushed(as_float(a)), flushed(as_float(b)))))                         \
	X("mul.ftz.f32 %r10, %r1, 0f00800000;", ({                                                 \
		  float f =                                                                        \
		      fabsf(as_float(a)) < 0x1p-126f ? copysignf(0, as_float(a)) : as_float(a);    \
		  f *= 0x1p-126f;                                                                  \
		  float_bits(fabsf(f) < 0x1p-126f ? copysignf(0, f) : f);                          \
	  }))                                                                                      \
	X("min.NaN.f32 %r10, %r1, %r2;", isnan(as_float(a))          ? A32                         \
	                                 : isnan(as_float(b))        ? B32                         \
	                                 : as_float(a) < as_float(b) ? A32                         \
	                                                             : B32)                        \
	X("testp.subnormal.f32 %p1, %r1; selp.u32 %r10, 1, 0, %p1;",                               \
	  fpclassify(as_float(a)) == FP_SUBNORMAL)                                                 \
	X("copysign.f64 %rd10, %rd1, %rd2;", (a & 1ull << 63) | (b & ~(1ull << 63)))               \
	X("mov.b64 {%r11, %r12}, %rd1; mov.b64 %rd10, {%r12, %r11};", a << 32 | a >> 32)           \
	X("mov.b64 {_, %r10}, %rd1;", a >> 32)                                                     \
	X("@%p0 mov.u32 %r10, 7; @!%p0 mov.u32 %r10, 9;", c & 1 ? 7 : 9)                           \
	X("cvt.u32.u64 %r11, %rd3; and.b32 %r11, %r11, 3; "                                        \
	  "ts: .branchtargets L0, L1, L2, L1; brx.idx %r11, ts; "                                  \
	  "L0: mov.u32 %r10, 100; bra.uni LE; L1: add.u32 %r10, %r1, 1; bra LE; "                  \
	  "L2: sub.u32 %r10, %r1, 1; LE:",                                                         \
	  (c & 3) == 0   ? 100                                                                     \
	  : (c & 3) == 2 ? A32 - 1                                                                 \
	                 : A32 + 1)                                                                \
	X("match.any.sync.b32 %r11, %r1, 0xffffffff; and.b32 %r11, %r11, %lanemask_eq;"            \
	  "setp.eq.u32 %p1, %r11, %lanemask_eq; selp.u32 %r10, 1, 0, %p1;",                        \
	  1)                                                                                       \
	X("redux.sync.or.b32 %r11, %r1, 0xffffffff; not.b32 %r11, %r11; and.b32 %r10, %r11, %r1;", \
	  0)                                                                                       \
	X("setp.lt.and.s32 %p0|%p2, %r1, %r2, %p0; selp.u32 %r10, 1, 0, %p0;"                      \
	  "@%p2 add.u32 %r10, %r10, 2;",                                                           \
	  c & 1 ? ((int32_t)A32 < (int32_t)B32 ? 1 : 2) : 0)                                       \
	X("setp.ne.u32 %p2, 0, 0; @%p0 setp.lt.s32 %p0|%p2, %r1, %r2; selp.u32 %r10, 1, 0, %p0;"   \
	  "@%p2 add.u32 %r10, %r10, 2;",                                                           \
	  c & 1 ? ((int32_t)A32 < (int32_t)B32 ? 1 : 2) : 0)                                       \
	X("setp.ne.u32 %p2, 0, 0; @%p0 setp.lt.s32 %p2|%p0, %r1, %r2; selp.u32 %r10, 1, 0, %p2;"   \
	  "@%p0 add.u32 %r10, %r10, 2;",                                                           \
	  c & 1 ? ((int32_t)A32 < (int32_t)B32 ? 1 : 2) : 0)                                       \
	X("lop3.or.b32 %r10|%p1, %r1, %r2, %r3, 0x80, %p0; selp.u32 %r10, 1, 0, %p1;",             \
	  (A32 & B32 & C32) || (c & 1))                                                            \
	X("lop3.and.b32 %r10|%p1, %r1, %r2, %r3, 0x80, !%p0; @!%p1 mov.u32 %r10, 0;",              \
	  c & 1 ? 0 : A32 & B32 & C32)                                                             \
	X("add.f32 %r10, %r1, 0f7fffabcd;", 0x7fffffff)                                            \
	X("fma.rn.f32 %r10, %r1, 0fffc00001, %r3;", 0x7fffffff)                                    \
	X("max.f32 %r10, 0f7fc00001, 0f7fc00002;", 0x7fffffff)                                     \
	X("sqrt.rn.f32 %r10, 0fbf800000;", 0x7fffffff)                                             \
	X("lg2.approx.f32 %r10, 0fbf800000;", 0x7fffffff)                                          \
	X("cvt.rn.f32.f64 %r10, 0dfff8000000000001;", 0x7fffffff)                                  \
	X("elect.sync %r10|%p1, 0xffffffff; @%p1 add.u32 %r10, %r10, 9; sub.u32 %r11, %r10, 9;"    \
	  "setp.eq.u32 %p1, %r11, %laneid; setp.eq.or.u32 %p1, %r10, 0, %p1;"                      \
	  "selp.u32 %r10, 1, 0, %p1;",                                                             \
	  1)                                                                                       \
	X("createpolicy.fractional.L2::evict_last.b64 %rd9, 0f3f800000;"                           \
	  "ld.global.L2::cache_hint.u32 %r10, [%rd14], %rd9;",                                     \
	  A32)                                                                                     \
	X("{ .shared .align 16 .b32 to[512]; mov.u32 %r11, to; mov.u32 %r12, %tid.x;"              \
	  "shl.b32 %r12, %r12, 4; add.u32 %r11, %r11, %r12;"                                       \
	  "cp.async.cg.shared.global.L2::128B [%r11], [%rd14], 16; cp.async.commit_group;"         \
	  "cp.async.wait_group 0; ld.shared.v2.u64 {%rd9, %rd10}, [%r11]; mov.u32 %r10, 0; }",     \
	  b)                                                                                       \
	X("vadd4.s32.s32.s32.sat %r10, %r1, %r2, 0;", ({                                           \
		  uint32_t sums = 0;                                                               \
		  for (int k = 0; k < 32; k += 8) {                                                \
			  int sum = (int8_t)(A32 >> k) + (int8_t)(B32 >> k);                       \
			  sum = sum > 127 ? 127 : sum < -128 ? -128 : sum;                         \
			  sums |= (uint32_t)(uint8_t)sum << k;                                     \
		  }                                                                                \
		  sums;                                                                            \
	  }))                                                                                      \
	X("vabsdiff2.u32.u32.u32.add %r10, %r1, %r2, %r3;",                                        \
	  C32 + (uint32_t)abs((int)(A32 & 65535) - (int)(B32 & 65535)) +                           \
	      (uint32_t)abs((int)(A32 >> 16) - (int)(B32 >> 16)))                                  \
	X("bmsk.clamp.b32 %r10, 3, 7;", 0x3f8)                                                     \
	X("{ .local .b32 t[4]; st.local.u32 t[3], %r1; mov.u64 %rd4, t; ld.local.u32 %r10, "       \
	  "[%rd4+12]; }",                                                                          \
	  A32)                                                                                     \
	X("{ .shared .b64 t[4]; mov.u32 %r10, t; mov.u32 %r11, t[2]; sub.u32 %r10, %r11, %r10; }", \
	  16)                                                                                      \
	X("isspacep.shared %p1, %rd1; selp.u32 %r10, 1, 0, %p1;", a >> 56 == 1)

static uint64_t expected_of(int which, uint64_t a, uint64_t b, uint64_t c)
{
	int i = 0;
#define CASE(text, value) \
	if (which == i++) \
		return (uint64_t)(value);
	/* cppcheck-suppress shiftTooManyBitsSigned */
	INSTRUCTIONS(CASE)
#undef CASE
	return 0;
}

/* NaNs are equal whatever their bits, but for those of arithmetic in single precision. */
static bool same_result(const char *text, uint64_t got, uint64_t expected)
{
	if (got == expected)
		return true;
	if (strstr(text, ".f64 %rd10"))
		return isnan(as_double(got)) && isnan(as_double(expected));
	return strstr(text, "f32") && isnan(as_float(expected)) && (uint32_t)got == 0x7fffffff;
}

void test_instructions(void)
{
#define TEXT(text, value) text,
	/* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): long texts are several literals */
	static const char *const texts[] = {INSTRUCTIONS(TEXT)};
#undef TEXT
	enum { N = 256 };
	static uint64_t in[N * 4];
	size_t before = used;
	for (int k = 0; k < (int)(sizeof texts / sizeof *texts); k++) {
		char ptx[2048];
		snprintf(ptx, sizeof ptx,
		         ".version 8.0\n.target sm_90\n.address_size 64\n"
		         ".visible .entry f(.param .u64 in, .param .u64 out) {\n"
		         ".reg .b64 %%rd<16>; .reg .b32 %%r<16>; .reg .pred %%p<4>;\n"
		         "ld.param.u64 %%rd14, [in]; ld.param.u64 %%rd15, [out];\n"
		         "mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x;\n"
		         "mad.lo.u32 %%r3, %%r1, %%r2, %%tid.x;\n"
		         "mad.wide.u32 %%rd14, %%r3, 32, %%rd14; mad.wide.u32 %%rd15, %%r3, 8, "
		         "%%rd15;\n"
		         "ld.global.v2.u64 {%%rd1, %%rd2}, [%%rd14]; ld.global.u64 %%rd3, "
		         "[%%rd14+16];\n"
		         "cvt.u32.u64 %%r1, %%rd1; cvt.u32.u64 %%r2, %%rd2; cvt.u32.u64 %%r3, "
		         "%%rd3;\n"
		         "and.b32 %%r9, %%r3, 1; setp.ne.u32 %%p0, %%r9, 0;\n"
		         "mov.u64 %%rd10, 0; mov.u32 %%r10, 0;\n%s\n"
		         "cvt.u64.u32 %%rd11, %%r10; add.u64 %%rd10, %%rd10, %%rd11;\n"
		         "st.global.u64 [%%rd15], %%rd10; ret; }\n",
		         texts[k]);
		for (int i = 0; i < N * 4; i++)
			in[i] = interesting(i / 4 + i % 4);
		used = before;
		uint64_t din = buffer(in, sizeof in), dout = buffer(NULL, N * 8);
		struct ptx_module *m = load_text(ptx, strlen(ptx), texts[k]);
		run_ok(m, "f", 2, 1, N / 2, 1, &din, &dout);
		const uint64_t *got = on_host(dout);
		for (int i = 0; i < N; i++) {
			const uint64_t *v = in + i * 4;
			uint64_t e = expected_of(k, v[0], v[1], v[2]);
			check(same_result(texts[k], got[i], e),
			      "%s of %#llx %#llx %#llx: expected %#llx, got %#llx", texts[k],
			      (long long)v[0], (long long)v[1], (long long)v[2], (long long)e,
			      (long long)got[i]);
		}
		ptx_module_unload(m);
	}
}
