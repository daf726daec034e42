/* SPDX-License-Identifier: MIT */
/* The kernels of the driver's tests, as text. */
#ifndef SOFTGPU_TEST_KERNELS_H
#define SOFTGPU_TEST_KERNELS_H

/*
 * fill(out, value, count): out[i] = value + i      bump(): counter += 1 in every thread
 * stop(): a trap                                   spin(n): counts to n in every thread
 */
static const char kernels[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter = 42;\n"
    ".visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 count)\n"
    "{\n"
    "	.reg .pred %p<2>;\n"
    "	.reg .b32 %r<8>;\n"
    "	.reg .b64 %rd<5>;\n"
    "	ld.param.u64 %rd1, [out];\n"
    "	ld.param.u32 %r1, [value];\n"
    "	ld.param.u32 %r2, [count];\n"
    "	mov.u32 %r3, %ctaid.x;\n"
    "	mov.u32 %r4, %ntid.x;\n"
    "	mov.u32 %r5, %tid.x;\n"
    "	mad.lo.s32 %r6, %r3, %r4, %r5;\n"
    "	setp.ge.u32 %p1, %r6, %r2;\n"
    "	@%p1 bra done;\n"
    "	cvta.to.global.u64 %rd2, %rd1;\n"
    "	mul.wide.u32 %rd3, %r6, 4;\n"
    "	add.s64 %rd4, %rd2, %rd3;\n"
    "	add.u32 %r7, %r1, %r6;\n"
    "	st.global.u32 [%rd4], %r7;\n"
    "done:\n"
    "	ret;\n"
    "}\n"
    ".visible .entry bump()\n"
    "{\n"
    "	.reg .b32 %r<2>;\n"
    "	.reg .b64 %rd<2>;\n"
    "	mov.u64 %rd1, counter;\n"
    "	atom.global.add.u32 %r1, [%rd1], 1;\n"
    "	ret;\n"
    "}\n"
    ".visible .entry stop()\n"
    "{\n"
    "	trap;\n"
    "	ret;\n"
    "}\n"
    ".visible .entry spin(.param .u64 n)\n"
    "{\n"
    "	.reg .pred %p<2>;\n"
    "	.reg .b64 %rd<3>;\n"
    "	ld.param.u64 %rd1, [n];\n"
    "	mov.u64 %rd2, 0;\n"
    "again:\n"
    "	add.s64 %rd2, %rd2, 1;\n"
    "	setp.lt.u64 %p1, %rd2, %rd1;\n"
    "	@%p1 bra again;\n"
    "	ret;\n"
    "}\n";

#endif
