/* SPDX-License-Identifier: MIT */
#include "tests/chaos/pattern.h"

#include "tests/chaos/dice.h"

struct pattern pattern_of(uint64_t number, int is_flat)
{
	struct dice dice = {number};
	uint64_t bits = roll(&dice);

	return (struct pattern){.factor = is_flat ? 0 : (uint32_t)bits | 1,
	                        .term = (uint32_t)(bits >> 32)};
}

void pattern_write(struct pattern pattern, uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		words[i] = (uint32_t)i * pattern.factor + pattern.term;
}

size_t pattern_compare(struct pattern pattern, const uint32_t *words, size_t count)
{
	size_t i = 0;

	while (i < count && words[i] == (uint32_t)i * pattern.factor + pattern.term)
		i++;
	return i;
}

#define HEAD(name)                                                                          \
	".visible .entry " name "(.param .u64 at, .param .u32 words, .param .u32 factor,\n" \
	"	.param .u32 term)\n{\n"                                                           \
	"	.reg .pred %p<2>;\n	.reg .b32 %r<10>;\n	.reg .b64 %d<4>;\n"                       \
	"	ld.param.u64 %d1, [at];\n	ld.param.u32 %r1, [words];\n"                           \
	"	ld.param.u32 %r2, [factor];\n	ld.param.u32 %r3, [term];\n"                        \
	"	mov.u32 %r4, %ctaid.x;\n	mov.u32 %r5, %ntid.x;\n	mov.u32 %r6, %tid.x;\n"          \
	"	mad.lo.s32 %r4, %r4, %r5, %r6;\n	setp.ge.u32 %p1, %r4, %r1;\n	@%p1 bra "          \
	"done;\n"                                                                           \
	"	mul.wide.u32 %d2, %r4, 4;\n	add.s64 %d3, %d1, %d2;\n"

const char pattern_kernels[] = ".version 6.4\n.target sm_50\n.address_size 64\n" HEAD(
    "affine") "	mad.lo.s32 %r7, %r4, %r2, %r3;\n	st.global.u32 [%d3], %r7;\ndone:\n	"
              "ret;\n}\n" HEAD("add") "	ld.global.u32 %r7, [%d3];\n	add.s32 %r7, %r7, %r3;\n"
                                      "	st.global.u32 [%d3], %r7;\ndone:\n	ret;\n}\n";
