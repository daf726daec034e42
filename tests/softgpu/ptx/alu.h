/* SPDX-License-Identifier: MIT */
/*
 * Computing instructions: for each operation and type a handler that does it for the lanes of a
 * mask. Compiled several times, once per instruction set of the host; alu_select() picks one. Every
 * set gives the same bits: nothing here depends on how it was vectorised.
 */
#ifndef SOFTGPU_PTX_ALU_H
#define SOFTGPU_PTX_ALU_H

#include "module.h"

/* Comparisons come first, in the order of their PTX words in decode_alu.c. */
enum alu {
	ALU_EQ,
	ALU_NE,
	ALU_LT,
	ALU_LE,
	ALU_GT,
	ALU_GE,
	ALU_EQU,
	ALU_NEU,
	ALU_LTU,
	ALU_LEU,
	ALU_GTU,
	ALU_GEU,
	ALU_NUM,
	ALU_NAN,
	ALU_MOV,
	ALU_ADD,
	ALU_SUB,
	ALU_MUL,
	ALU_MUL_HI,
	ALU_MUL_WIDE,
	ALU_MAD,
	ALU_MAD_HI,
	ALU_MAD_WIDE,
	ALU_FMA,
	ALU_ADD_FTZ, /* f32 with subnormal operands and results flushed */
	ALU_SUB_FTZ,
	ALU_MUL_FTZ,
	ALU_FMA_FTZ,
	ALU_FMA_ODD, /* f64, rounded to odd: rounding it once more gives the right f16 */
	ALU_DIV,
	ALU_REM,
	ALU_ABS,
	ALU_NEG,
	ALU_MIN,
	ALU_MAX,
	ALU_MIN_NAN,
	ALU_MAX_NAN,
	ALU_AND,
	ALU_OR,
	ALU_XOR,
	ALU_NOT,
	ALU_CNOT,
	ALU_SHL,
	ALU_SHR,
	ALU_SHF_L_WRAP,
	ALU_SHF_L_CLAMP,
	ALU_SHF_R_WRAP,
	ALU_SHF_R_CLAMP,
	ALU_POPC,
	ALU_CLZ,
	ALU_BREV,
	ALU_BFIND,
	ALU_BFIND_SHIFT,
	ALU_BFE,
	ALU_BFI,
	ALU_PRMT,
	ALU_LOP3,
	ALU_SAD,
	ALU_MUL24,
	ALU_MUL24_HI,
	ALU_DP4A_UU, /* first letter: how a is read; second: b */
	ALU_DP4A_US,
	ALU_DP4A_SU,
	ALU_DP4A_SS,
	ALU_DP2A_UU, /* mode: 0 or 16, the bit of b where its two bytes start */
	ALU_DP2A_US,
	ALU_DP2A_SU,
	ALU_DP2A_SS,
	ALU_BMSK,
	ALU_ADD_CC, /* carries: d[1] written, s[3] read, both predicates */
	ALU_ADDC_CC,
	ALU_SUB_CC,
	ALU_SUBC_CC,
	ALU_SELP,
	ALU_SQRT,
	ALU_RCP,
	ALU_RSQRT,
	ALU_SIN,
	ALU_COS,
	ALU_EX2,
	ALU_LG2,
	ALU_TANH,
	ALU_COPYSIGN,
	ALU_FLUSH,
	ALU_SATURATE,
	ALU_RINT,
	ALU_TRUNC,
	ALU_FLOOR,
	ALU_CEIL,
	ALU_FINITE,
	ALU_INFINITE,
	ALU_NORMAL,
	ALU_SUBNORMAL,
	ALU_PACK,   /* the s[0..3] of half or quarter width make d[0]; count says how many */
	ALU_UNPACK, /* the reverse */
	ALU_COUNT,
};

/* The shape of the addresses of all 32 lanes. */
enum pattern {
	PATTERN_ANY,
	PATTERN_SAME,
	PATTERN_CONSECUTIVE, /* each is one element past the lane before */
};

struct addresses {
	uint64_t of[LANES];
	uint64_t low, high;
	uint64_t low_bits; /* all of them, or-ed: alignment at a glance */
	enum pattern pattern;
};

/* Where the lanes' values are in the host's memory. */
struct pointers {
	uintptr_t of[LANES]; /* only the first one unless the pattern is PATTERN_ANY */
	enum pattern pattern;
};

struct alu_set {
	const char *name;
	handler *table[ALU_COUNT][TYPE_COUNT];
	handler *convert[TYPE_COUNT][TYPE_COUNT]; /* [to][from]; immediate: rounding to integers */
	handler *clamp;    /* s64 to the range of the integer type in insn->type */
	handler *add_base; /* u64: d = s + the frame's local base */
	/* One element of 1, 2, 4 or 8 bytes per lane; `offset` is added to each pointer. */
	void (*load[4])(void *to, const struct pointers *from, uint32_t offset, uint32_t mask);
	void (*store[4])(const void *from, const struct pointers *to, uint32_t offset,
	                 uint32_t mask);
	/* The addresses of a memory instruction; lanes outside of the mask repeat an active one. */
	void (*addresses)(const struct warp *warp, const struct insn *insn, uint32_t mask,
	                  struct addresses *to);
};

extern const struct alu_set alu_baseline;
#ifdef __x86_64__
extern const struct alu_set alu_avx2, alu_avx512;
#endif

/* The widest set this host can run, or the one SOFTGPU_ALU names. */
const struct alu_set *alu_select(void);

#endif
