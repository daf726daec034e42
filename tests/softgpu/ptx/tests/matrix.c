/* SPDX-License-Identifier: MIT */
/*
 * Tests mma, ldmatrix, stmatrix, cvt to tf32 and cp.async with a source size. The reference follows
 * the PTX ISA's fragment tables element by element, shape by shape, as they are printed there.
 */
#include "tests/softgpu/ptx/tests/harness.h"

#include <math.h>

enum { LANES = 32, ROUNDS = 24 };

static float matrix_test_single(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* IEEE 754 binary16, by its definition. */
static double matrix_test_half(uint32_t bits)
{
	int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
	double value = exponent == 31 ? (fraction ? NAN : INFINITY)
	               : exponent     ? ldexp(1024 + fraction, exponent - 25)
	                              : ldexp(fraction, -24);
	return bits >> 15 & 1 ? -value : value;
}

struct shape {
	const char *name, *type;          /* of A and B */
	int depth, a_count, b_count, per; /* registers of A and B; values in one */
	bool is_half;                     /* C and D */
};

static const struct shape shapes[] = {
    {"m16n8k8", "f16", 8, 2, 1, 2, false},  {"m16n8k16", "f16", 16, 4, 2, 2, false},
    {"m16n8k8", "f16", 8, 2, 1, 2, true},   {"m16n8k16", "f16", 16, 4, 2, 2, true},
    {"m16n8k8", "bf16", 8, 2, 1, 2, false}, {"m16n8k16", "bf16", 16, 4, 2, 2, false},
    {"m16n8k4", "tf32", 4, 2, 1, 1, false}, {"m16n8k8", "tf32", 8, 4, 2, 1, false},
};

/* Row and column of a_i in lane `lane`. */
static void matrix_test_a(const struct shape *s, int lane, int i, int *row, int *column)
{
	int group = lane >> 2, in_group = lane % 4;
	if (s->per == 1) { /* .tf32 */
		*row = i == 0 || i == 2 ? group : group + 8;
		*column = i < 2 ? in_group : in_group + 4;
	} else if (s->depth == 8) {
		*row = i < 2 ? group : group + 8;
		*column = in_group * 2 + (i & 1);
	} else {
		*row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
		*column = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
	}
}

static void matrix_test_b(const struct shape *s, int lane, int i, int *row, int *column)
{
	int group = lane >> 2, in_group = lane % 4;
	*column = group;
	if (s->per == 1)
		*row = i == 0 ? in_group : in_group + 4;
	else
		*row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;
}

static void matrix_test_c(int lane, int i, int *row, int *column)
{
	*row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
	*column = lane % 4 * 2 + (i & 1);
}

static double matrix_test_value(const struct shape *s, const uint32_t *words, int i)
{
	if (s->per == 1)
		return matrix_test_single(words[i] & 0xffffe000);
	uint32_t bits = words[i / 2] >> 16 * (i & 1) & 0xffff;
	return !strcmp(s->type, "f16") ? matrix_test_half(bits) : matrix_test_single(bits << 16);
}

/* Of a lane, in memory: A, B, C, then D. */
struct fragment {
	uint32_t a[4], b[4], c[4], d[4];
};

/* D as it must be: its exact value, and how far a sum in single precision may be from it. */
struct reference {
	long double sum, slack;
};

static struct reference matrix_test_element(const struct shape *s, const struct fragment *lanes,
                                            int row, int column)
{
	double a[16] = {0}, b[16] = {0};
	struct reference r = {0, 0};
	for (int lane = 0; lane < LANES; lane++) {
		int y, x;
		for (int i = 0; i < s->a_count * s->per; i++) {
			matrix_test_a(s, lane, i, &y, &x);
			if (y == row)
				a[x] = matrix_test_value(s, lanes[lane].a, i);
		}
		for (int i = 0; i < s->b_count * s->per; i++) {
			matrix_test_b(s, lane, i, &y, &x);
			if (x == column)
				b[y] = matrix_test_value(s, lanes[lane].b, i);
		}
		for (int i = 0; i < 4; i++) {
			matrix_test_c(lane, i, &y, &x);
			if (y == row && x == column)
				r.sum = s->is_half
				            ? matrix_test_half(
				                  lanes[lane].c[i / 2] >> 16 * (i & 1) & 0xffff)
				            : matrix_test_single(lanes[lane].c[i]);
		}
	}
	r.slack = fabsl(r.sum);
	for (int k = 0; k < s->depth; k++) {
		r.sum += (long double)a[k] * b[k];
		r.slack += fabsl((long double)a[k] * b[k]);
	}
	r.slack *= ldexpl(1, s->is_half ? -10 : -22);
	return r;
}

static void matrix_test_check(const struct shape *s, const struct fragment *lanes, int lane, int i,
                              bool exact)
{
	int row, column;
	matrix_test_c(lane, i, &row, &column);
	struct reference r = matrix_test_element(s, lanes, row, column);
	uint32_t word = lanes[lane].d[s->is_half ? i / 2 : i];
	double got = s->is_half ? matrix_test_half(word >> 16 * (i & 1) & 0xffff)
	                        : (double)matrix_test_single(word);
	/* The slack covers subnormal results, and a sum just at the largest number. */
	long double largest = s->is_half ? 65504 : 0x1.fffffep127L;
	long double slack = exact ? 0 : r.slack + (s->is_half ? 0x1p-24L : 0x1p-149L);
	bool ok = isnan(r.sum)   ? isnan(got) && (s->is_half || word == 0x7fffffff)
	          : isinf(r.sum) ? got == (double)r.sum
	          : isinf(got)   ? fabsl(r.sum) + slack > largest && (got > 0) == (r.sum > 0)
	                         : fabsl(got - r.sum) <= slack;
	check(ok, "mma %s %s%s: d%d of lane %d: expected %Lg, got %g", s->name, s->type,
	      s->is_half ? ", sums in f16" : "", i, lane, r.sum, got);
}

/* Small whole numbers, whose products and sums are exact in each type. */
static uint32_t matrix_test_whole(const struct shape *s, bool of_c)
{
	static const uint16_t halves[] = {0,      0x3c00, 0x4000, 0x4200,
	                                  0xbc00, 0xc000, 0xc200, 0x8000};
	static const float singles[] = {0, 1, 2, 3, -1, -2, -3, -0.0f};
	uint32_t i = random_bits() >> 8 & 7, j = random_bits() >> 8 & 7;
	if (of_c ? s->is_half : !strcmp(s->type, "f16"))
		return halves[i] | (uint32_t)halves[j] << 16;
	if (of_c || s->per == 1)
		return float_bits(singles[i]);
	return float_bits(singles[i]) >> 16 | (float_bits(singles[j]) & 0xffff0000);
}

/* Numbers of the size that programs have, with now and then any bits at all. */
static uint32_t matrix_test_any(const struct shape *s, bool of_c, int round)
{
	uint32_t bits = random_bits();
	if (round % 3 == 2 && bits % 16 == 0)
		return (uint32_t)interesting((int)(random_bits() & 1023));
	if (round % 3 == 1 && bits % 64 == 0)
		return random_bits();
	if (of_c ? s->is_half : !strcmp(s->type, "f16"))
		return (bits & 0x83ff83ff) | (0x2c002c00 + (bits & 0x0c000c00));
	return (bits & 0x807fffff) | 0x3e800000;
}

static void matrix_test_list(char *text, const char *prefix, int first, int count)
{
	text += sprintf(text, "{");
	for (int i = 0; i < count; i++)
		text += sprintf(text, "%s%s%d", i ? ", " : "", prefix, first + i);
	strcpy(text, "}");
}

static struct ptx_module *matrix_test_load(const struct shape *s)
{
	char ptx[2048], a[64], b[64], c[64], d[64];
	const char *sum = s->is_half ? "f16" : "f32";
	matrix_test_list(a, "%r", 0, s->a_count);
	matrix_test_list(b, "%r", 4, s->b_count);
	matrix_test_list(c, "%r", 8, s->is_half ? 2 : 4);
	matrix_test_list(d, "%r", 12, s->is_half ? 2 : 4);
	snprintf(ptx, sizeof ptx,
	         ".version 8.0\n.target sm_90\n.address_size 64\n"
	         ".visible .entry f(.param .u64 p) {\n"
	         ".reg .b64 %%rd<4>; .reg .b32 %%r<20>;\n"
	         "ld.param.u64 %%rd1, [p]; mov.u32 %%r16, %%tid.x;\n"
	         "mad.wide.u32 %%rd1, %%r16, 64, %%rd1;\n"
	         "ld.global.v4.b32 {%%r0, %%r1, %%r2, %%r3}, [%%rd1];\n"
	         "ld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%rd1+16];\n"
	         "ld.global.v4.b32 {%%r8, %%r9, %%r10, %%r11}, [%%rd1+32];\n"
	         "mma.sync.aligned.%s.row.col.%s.%s.%s.%s %s, %s, %s, %s;\n"
	         "st.global.v4.b32 [%%rd1+48], {%%r12, %%r13, %%r14, %%r15}; ret; }\n",
	         s->name, sum, s->type, s->type, sum, d, a, b, c);
	return load_text(ptx, strlen(ptx), s->name);
}

static void test_multiply(const struct shape *s)
{
	struct ptx_module *m = matrix_test_load(s);
	size_t before = used;
	for (int round = 0; round < ROUNDS; round++) {
		bool exact = round < 4;
		struct fragment in[LANES];
		for (int lane = 0; lane < LANES; lane++)
			for (int k = 0; k < 12; k++)
				((uint32_t *)&in[lane])[k] =
				    exact ? matrix_test_whole(s, k >= 8)
				          : matrix_test_any(s, k >= 8, round);
		used = before;
		uint64_t p = buffer(in, sizeof in);
		run_ok(m, "f", 1, 1, LANES, 1, &p);
		for (int lane = 0; lane < LANES; lane++)
			for (int i = 0; i < 4; i++)
				matrix_test_check(s, on_host(p), lane, i, exact);
	}
	ptx_module_unload(m);
}

/* Loads `count` matrices from shared memory, and stores them into it; row addresses are mixed. */
static void test_tiles(int count, bool trans)
{
	char ptx[3072], list[64];
	matrix_test_list(list, "%r", 0, count);
	const char *how = trans ? ".trans" : "";
	snprintf(ptx, sizeof ptx,
	         ".version 8.0\n.target sm_90\n.address_size 64\n"
	         ".visible .entry f(.param .u64 p, .param .u64 q) {\n"
	         ".reg .b64 %%rd<8>; .reg .b32 %%r<20>; .shared .align 16 .b8 t[1024];\n"
	         "ld.param.u64 %%rd1, [p]; ld.param.u64 %%rd2, [q]; mov.u32 %%r16, %%tid.x;\n"
	         "mad.wide.u32 %%rd1, %%r16, 16, %%rd1; mad.wide.u32 %%rd2, %%r16, 32, %%rd2;\n"
	         "mov.u32 %%r10, t; xor.b32 %%r11, %%r16, 21;\n"
	         "mad.lo.u32 %%r11, %%r11, 16, %%r10;\n"
	         "ld.global.v2.b64 {%%rd3, %%rd4}, [%%rd1];\n"
	         "st.shared.v2.b64 [%%r11], {%%rd3, %%rd4}; bar.sync 0;\n"
	         "mov.b32 %%r0, 0; mov.b32 %%r1, 0; mov.b32 %%r2, 0; mov.b32 %%r3, 0;\n"
	         "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r11];\n"
	         "st.global.v4.b32 [%%rd2], {%%r0, %%r1, %%r2, %%r3};\n"
	         "stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%r11+512], %s; bar.sync 0;\n"
	         "ld.shared.v2.b64 {%%rd3, %%rd4}, [%%r11+512];\n"
	         "st.global.v2.b64 [%%rd2+16], {%%rd3, %%rd4}; ret; }\n",
	         count, how, list, count, how, list);
	struct ptx_module *m = load_text(ptx, strlen(ptx), "tiles");
	uint16_t rows[LANES][8];
	for (int i = 0; i < LANES * 8; i++)
		rows[i / 8][i % 8] = (uint16_t)random_bits();
	uint64_t p = buffer(rows, sizeof rows), q = buffer(NULL, LANES * 32);
	run_ok(m, "f", 1, 1, LANES, 1, &p, &q);
	const struct {
		uint32_t words[4];
		uint16_t row[8];
	} *got = on_host(q);
	for (int lane = 0; lane < LANES; lane++) {
		for (int k = 0; k < 4; k++) {
			uint32_t low = trans ? rows[k * 8 + lane % 4 * 2][lane / 4]
			                     : rows[k * 8 + lane / 4][lane % 4 * 2];
			uint32_t high = trans ? rows[k * 8 + lane % 4 * 2 + 1][lane / 4]
			                      : rows[k * 8 + lane / 4][lane % 4 * 2 + 1];
			check_int(got[lane].words[k], k < count ? low | high << 16 : 0);
		}
		/* What stmatrix stores is what ldmatrix loaded. */
		if (lane < count * 8)
			check(!memcmp(got[lane].row, rows[lane], 16), "stmatrix x%d%s, row %d",
			      count, how, lane);
	}
	ptx_module_unload(m);
}

static void test_tiles_misaligned(void)
{
	static const char ptx[] =
	    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() {\n"
	    ".reg .b32 %r<4>; .shared .align 16 .b8 t[1024]; mov.u32 %r0, t;\n"
	    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r0+8]; ret; }\n";
	struct ptx_module *m = load_text(ptx, strlen(ptx), "misaligned");
	check_int(launch(m, "f", 1, 1, LANES, 1), PTX_MISALIGNED);
	ptx_module_unload(m);
}

/* A float cut to tf32, from its 13 bits that go. */
static uint32_t matrix_test_tf32(const char *mode, uint32_t bits)
{
	uint32_t kept = bits & ~0x1fffu, dropped = bits & 0x1fff;
	if (isnan(matrix_test_single(bits)))
		return 0x7fffffff;
	bool up = !strcmp(mode, "rna")  ? dropped >= 0x1000
	          : !strcmp(mode, "rn") ? dropped > 0x1000 || (dropped == 0x1000 && kept & 0x2000)
	                                : false;
	return up ? kept + 0x2000 : kept;
}

static void test_tf32(const char *mode)
{
	enum { N = 1024 };
	char ptx[1024];
	snprintf(
	    ptx, sizeof ptx,
	    ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry f(.param .u64 p) {\n"
	    ".reg .b64 %%rd<4>; .reg .b32 %%r<4>; ld.param.u64 %%rd1, [p];\n"
	    "mov.u32 %%r1, %%tid.x; mad.wide.u32 %%rd1, %%r1, 4, %%rd1;\n"
	    "ld.global.b32 %%r2, [%%rd1]; cvt.%s.tf32.f32 %%r2, %%r2;\n"
	    "st.global.b32 [%%rd1], %%r2; ret; }\n",
	    mode);
	struct ptx_module *m = load_text(ptx, strlen(ptx), mode);
	uint32_t in[N];
	for (int i = 0; i < N; i++) {
		in[i] = (uint32_t)interesting(i);
		if (i % 4 == 1) /* ties, and their neighbours */
			in[i] = (random_bits() & ~0x1fffu) + 0xfff + random_bits() % 3;
	}
	uint64_t p = buffer(in, sizeof in);
	run_ok(m, "f", 1, 1, N, 1, &p);
	const uint32_t *got = on_host(p);
	for (int i = 0; i < N; i++)
		check(got[i] == matrix_test_tf32(mode, in[i]), "cvt.%s.tf32 of %#x: %#x", mode,
		      in[i], got[i]);
	ptx_module_unload(m);
}

/*
 * Lane i copies i % (bytes + 1) bytes and gets zeros behind them; with a predicate, all or nothing.
 * A lane that copies nothing has an address where nothing is.
 */
static void test_padded_copy(int bytes, bool by_predicate)
{
	char ptx[2048];
	snprintf(ptx, sizeof ptx,
	         ".version 8.0\n.target sm_80\n.address_size 64\n"
	         ".visible .entry f(.param .u64 p, .param .u64 q) {\n"
	         ".reg .b64 %%rd<8>; .reg .b32 %%r<8>; .reg .pred %%p<2>;\n"
	         ".shared .align 16 .b8 t[512];\n"
	         "ld.param.u64 %%rd1, [p]; ld.param.u64 %%rd2, [q]; mov.u32 %%r1, %%tid.x;\n"
	         "mad.wide.u32 %%rd1, %%r1, %d, %%rd1; mad.wide.u32 %%rd2, %%r1, 16, %%rd2;\n"
	         "mov.u32 %%r2, t; mad.lo.u32 %%r2, %%r1, 16, %%r2;\n"
	         "mov.b64 %%rd5, -1; st.shared.v2.b64 [%%r2], {%%rd5, %%rd5};\n"
	         "rem.u32 %%r3, %%r1, %d; setp.eq.u32 %%p1, %%r3, 0;\n"
	         "@%%p1 mov.b64 %%rd1, 0;\n"
	         "cp.async.%s.shared.global [%%r2], [%%rd1], %d, %s;\n"
	         "cp.async.commit_group; cp.async.wait_group 0;\n"
	         "ld.shared.v2.b64 {%%rd3, %%rd4}, [%%r2];\n"
	         "st.global.v2.b64 [%%rd2], {%%rd3, %%rd4}; ret; }\n",
	         bytes, bytes + 1, bytes == 16 ? "cg" : "ca", bytes, by_predicate ? "%p1" : "%r3");
	struct ptx_module *m = load_text(ptx, strlen(ptx), "padded copy");
	uint8_t from[LANES * 16];
	for (int i = 0; i < LANES * bytes; i++)
		from[i] = (uint8_t)random_bits();
	uint64_t p = buffer(from, (size_t)bytes * LANES), q = buffer(NULL, LANES * 16);
	run_ok(m, "f", 1, 1, LANES, 1, &p, &q);
	const uint8_t *got = on_host(q);
	for (int lane = 0; lane < LANES; lane++)
		for (int k = 0; k < 16; k++) {
			int wanted = lane % (bytes + 1);
			if (by_predicate && wanted)
				wanted = bytes;
			int expected = k >= bytes ? 0xff : k < wanted ? from[lane * bytes + k] : 0;
			check_int(got[lane * 16 + k], expected);
		}
	ptx_module_unload(m);
}

/* The system's part of shared memory lies behind the block's, and is no part of its size. */
static void test_reserved_shared(void)
{
	static const char ptx[] =
	    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f(.param .u64 p) {\n"
	    ".reg .b64 %rd<4>; .reg .b32 %r<8>; .shared .align 4 .b8 t[20];\n"
	    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %reserved_smem_offset_1;\n"
	    "mov.u32 %r2, %total_smem_size; st.shared.b32 [%r1+1020], %r2;\n"
	    "ld.shared.b32 %r3, [%r1+1020]; st.global.v2.b32 [%rd1], {%r1, %r3}; ret; }\n";
	struct ptx_module *m = load_text(ptx, strlen(ptx), "reserved");
	uint64_t p = buffer(NULL, 8);
	run_ok(m, "f", 1, 1, 1, 1, &p);
	const uint32_t *got = on_host(p);
	check(got[0] >= 20 && got[0] % 16 == 0, "reserved shared memory at %u", got[0]);
	check_int(got[1], 20);
	ptx_module_unload(m);
}

void test_matrices(void)
{
	empty_memory();
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		test_multiply(&shapes[i]);
	for (int count = 1; count <= 4; count *= 2) {
		test_tiles(count, false);
		test_tiles(count, true);
	}
	test_tiles_misaligned();
	test_tf32("rna");
	test_tf32("rn");
	test_tf32("rz");
	for (int bytes = 4; bytes <= 16; bytes *= 2) {
		test_padded_copy(bytes, false);
		test_padded_copy(bytes, true);
	}
	test_reserved_shared();
}
