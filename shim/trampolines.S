/* SPDX-License-Identifier: MIT */
/*
 * One exported symbol per driver entry point: a single indirect jump through shim_target[].
 *
 * Before the first call each slot of shim_target[] leads to a stub that loads the entry's index and
 * goes to shim_lazy, which saves the argument registers, asks shim_resolve() for the address and
 * jumps there. That is told where we are (shim_trampolines), so that it needs nothing of ours. It
 * fills the whole table, so a stub runs once or a few times, never later.
 *
 * The slot of a hooked entry leads to its guard: on to the hook, or to the driver's own function
 * where it is the driver who calls. What the driver calls of itself is no call of the program,
 * whatever way it finds us. It is known by the return address: into the driver, or into us where
 * the driver's function that we called went on by a jump.
 *
 * SPILLWAY_DISABLE=1, a driver that lacks a symbol and a machine without a driver are one
 * mechanism: other addresses in the table.
 *
 * A depth per thread would have hidden a profiler's own allocations; the guard takes 0.3 ns.
 *
 * Debugger data are no functions: nm -D must hold every symbol of the driver, and a function where
 * a debugger reads a word would be worse than a zero.
 */
#define GUARD_BYTES 64 /* a cache line; as in shim.h */

	.text
	.hidden shim_target, shim_resolve, shim_resolve_unlisted
	.hidden shim_dlopen_file, shim_real_dlopen, shim_dlmopen_file, shim_real_dlmopen
	.globl dlopen, dlmopen

	.macro begin name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
	.endm

	.macro end name
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro function symbol
	.globl \symbol, shim_at_\symbol
	.hidden shim_at_\symbol
	begin \symbol
shim_at_\symbol:
	jump_to_target
	end \symbol
	.set index, index + 1
	.endm

	.macro slot symbol
	.quad shim_stub_\symbol
	.endm

#if defined(__x86_64__)

	.macro jump_to_target
	endbr64
	jmp *(shim_target + 8 * index)(%rip)
	.endm

	.macro stub symbol
	.p2align 4
shim_stub_\symbol:
	endbr64
	movl $index, %r11d
	jmp shim_lazy
	.set index, index + 1
	.endm

	.macro guard symbol
	endbr64
	movq (%rsp), %rax
	movq %rax, %r10
	subq shim_inside(%rip), %rax
	cmpq shim_inside + 8(%rip), %rax
	jb 1f
	subq shim_inside + 16(%rip), %r10
	cmpq shim_inside + 24(%rip), %r10
	jb 1f
	jmp *(shim_hook + 8 * index)(%rip)
1:	jmp *(shim_real + 8 * index)(%rip)
	.set index, index + 1
	.org shim_guards + GUARD_BYTES * index
	.endm

/* Asks a function of attach.c where to go, by the index or record in r11, and goes there. */
	.macro lazy name, resolver
	begin \name
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	pushq %rax /* how many float arguments a variadic function gets */
	/* float arguments: some entry points have them, the texture reference setters */
	subq $128, %rsp
	andq $-16, %rsp
	movups %xmm0, 0(%rsp)
	movups %xmm1, 16(%rsp)
	movups %xmm2, 32(%rsp)
	movups %xmm3, 48(%rsp)
	movups %xmm4, 64(%rsp)
	movups %xmm5, 80(%rsp)
	movups %xmm6, 96(%rsp)
	movups %xmm7, 112(%rsp)
	movq %r11, %rdi
	leaq shim_trampolines(%rip), %rsi
	call \resolver
	movq %rax, %r11
	movups 0(%rsp), %xmm0
	movups 16(%rsp), %xmm1
	movups 32(%rsp), %xmm2
	movups 48(%rsp), %xmm3
	movups 64(%rsp), %xmm4
	movups 80(%rsp), %xmm5
	movups 96(%rsp), %xmm6
	movups 112(%rsp), %xmm7
	movq -8(%rbp), %rdi
	movq -16(%rbp), %rsi
	movq -24(%rbp), %rdx
	movq -32(%rbp), %rcx
	movq -40(%rbp), %r8
	movq -48(%rbp), %r9
	movq -56(%rbp), %rax
	movq %rbp, %rsp
	popq %rbp
	.cfi_def_cfa %rsp, 8
	jmp *%r11
	end \name
	.endm
	lazy shim_lazy, shim_resolve
	lazy shim_lazy_unlisted, shim_resolve_unlisted

/*
 * A function of the companion library (tools/doctor/companion.h) comes here with its record in r11:
 * struct unlisted of attach.h, whose second word is where to go.
 */
	.globl spillway_unlisted
	begin spillway_unlisted
	endbr64
	movq 8(%r11), %r10
	testq %r10, %r10
	jz shim_lazy_unlisted
	jmp *%r10
	end spillway_unlisted

/*
 * dlopen(file, mode): glibc finds the caller's RUNPATH by the return address, so the real dlopen
 * must be entered by a jump that leaves it in place. shim_dlopen_file() may exchange the file name.
 */
	begin dlopen
	endbr64
	pushq %rsi
	.cfi_def_cfa_offset 16
	leaq shim_trampolines(%rip), %rdx
	call shim_dlopen_file
	popq %rsi
	.cfi_def_cfa_offset 8
	movq %rax, %rdi
	jmp *shim_real_dlopen(%rip)
	end dlopen

/* dlmopen(namespace, file, mode), the same way */
	begin dlmopen
	endbr64
	pushq %rdi
	.cfi_def_cfa_offset 16
	pushq %rdx
	.cfi_def_cfa_offset 24
	subq $8, %rsp
	.cfi_def_cfa_offset 32
	leaq shim_trampolines(%rip), %rcx
	call shim_dlmopen_file
	addq $8, %rsp
	.cfi_def_cfa_offset 24
	popq %rdx
	.cfi_def_cfa_offset 16
	popq %rdi
	.cfi_def_cfa_offset 8
	movq %rax, %rsi
	jmp *shim_real_dlmopen(%rip)
	end dlmopen

#elif defined(__aarch64__)

	.macro jump_to_target
	hint #34 /* bti c */
	adrp x16, shim_target + 8 * index
	ldr x16, [x16, :lo12:shim_target + 8 * index]
	br x16
	.endm

	.macro stub symbol
	.p2align 4
shim_stub_\symbol:
	hint #34
	mov w17, #index
	b shim_lazy
	.set index, index + 1
	.endm

	.macro guard symbol
	hint #34
	mov w17, #index
	adrp x9, shim_inside
	add x9, x9, :lo12:shim_inside
	ldp x10, x11, [x9]
	ldp x12, x13, [x9, #16]
	sub x10, x30, x10
	sub x12, x30, x12
	cmp x10, x11
	ccmp x12, x13, #0, hs
	b.lo shim_forward
	adrp x16, shim_hook + 8 * index
	add x16, x16, :lo12:shim_hook + 8 * index
	ldar x16, [x16] /* all that was written before it is seen too */
	cbz x16, shim_stub_\symbol
	br x16
	.set index, index + 1
	.org shim_guards + GUARD_BYTES * index
	.endm

	.macro lazy name, resolver
	begin \name
	stp x29, x30, [sp, #-224]!
	.cfi_def_cfa_offset 224
	.cfi_offset 29, -224
	.cfi_offset 30, -216
	mov x29, sp
	stp x0, x1, [sp, #16]
	stp x2, x3, [sp, #32]
	stp x4, x5, [sp, #48]
	stp x6, x7, [sp, #64]
	str x8, [sp, #80]
	stp q0, q1, [sp, #96]
	stp q2, q3, [sp, #128]
	stp q4, q5, [sp, #160]
	stp q6, q7, [sp, #192]
	mov x0, x17
	adrp x1, shim_trampolines
	add x1, x1, :lo12:shim_trampolines
	bl \resolver
	mov x16, x0
	ldp x0, x1, [sp, #16]
	ldp x2, x3, [sp, #32]
	ldp x4, x5, [sp, #48]
	ldp x6, x7, [sp, #64]
	ldr x8, [sp, #80]
	ldp q0, q1, [sp, #96]
	ldp q2, q3, [sp, #128]
	ldp q4, q5, [sp, #160]
	ldp q6, q7, [sp, #192]
	ldp x29, x30, [sp], #224
	br x16
	end \name
	.endm
	lazy shim_lazy, shim_resolve
	lazy shim_lazy_unlisted, shim_resolve_unlisted

	.globl spillway_unlisted
	begin spillway_unlisted
	hint #34
	ldr x16, [x17, #8]
	cbz x16, shim_lazy_unlisted
	br x16
	end spillway_unlisted

	begin dlopen
	hint #34
	stp x29, x30, [sp, #-32]!
	str x1, [sp, #16]
	adrp x2, shim_trampolines
	add x2, x2, :lo12:shim_trampolines
	bl shim_dlopen_file
	ldr x1, [sp, #16]
	ldp x29, x30, [sp], #32
	adrp x16, shim_real_dlopen
	ldr x16, [x16, :lo12:shim_real_dlopen]
	br x16
	end dlopen

	begin dlmopen
	hint #34
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp x0, x2, [sp, #16]
	adrp x3, shim_trampolines
	add x3, x3, :lo12:shim_trampolines
	bl shim_dlmopen_file
	mov x1, x0
	ldp x0, x2, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore 29
	.cfi_restore 30
	adrp x16, shim_real_dlmopen
	ldr x16, [x16, :lo12:shim_real_dlmopen]
	br x16
	end dlmopen

#else
#error "Spillway has trampolines for x86-64 and aarch64"
#endif

/*
 * glibc knows by this whose exit and fork handlers are. The compiler's own, where it is linked in,
 * goes before.
 */
	.section .rodata
	.weak __dso_handle
	.hidden __dso_handle
	.p2align 3
__dso_handle:
	.quad 0
	.text

#define OBJECT(symbol, bytes)

	.hidden shim_functions
	.globl shim_functions
	.p2align 4
shim_functions:
	.set index, 0
#define FUNCTION(symbol, class, action) function symbol;
#include "shim/entry_points.h"
#undef FUNCTION
	.org shim_functions + 16 * index /* fails where one is longer */

	.set index, 0
#define FUNCTION(symbol, class, action) stub symbol;
#include "shim/entry_points.h"
#undef FUNCTION

	.section .text.guards, "ax", @progbits
	.hidden shim_hook
	.hidden shim_real
	.hidden shim_inside
	.hidden shim_guards
	.globl shim_guards
	.p2align 6
shim_guards:
	.set index, 0
#define FUNCTION(symbol, class, action) guard symbol;
#include "shim/entry_points.h"
#undef FUNCTION
#ifdef __aarch64__
shim_forward:
	adrp x16, shim_real
	add x16, x16, :lo12:shim_real
	ldr x16, [x16, x17, lsl #3]
	br x16
#endif

	.section .data.rel, "aw"
	.globl shim_target
	.type shim_target, @object
	.p2align 3
shim_target:
#define FUNCTION(symbol, class, action) slot symbol;
#include "shim/entry_points.h"
#undef FUNCTION
	.size shim_target, . - shim_target

/* struct trampolines of attach.h: distances, which the loader need not write */
	.section .rodata
	.hidden shim_trampolines
	.globl shim_trampolines
	.p2align 2
shim_trampolines:
	.long shim_functions - .
	.long shim_guards - .
	.long shim_target - .

/* Data that cuda-gdb reads by name; ours is inert, the real driver's is in the real driver. */
#undef OBJECT
	.macro object symbol, bytes
	.globl \symbol
	.type \symbol, @object
	.p2align 3
\symbol:
	.zero \bytes
	.size \symbol, \bytes
	.endm
	.bss
#define FUNCTION(symbol, class, action)
#define OBJECT(symbol, bytes) object symbol, bytes;
#include "shim/entry_points.h"

	.section .note.GNU-stack, "", @progbits

/*
 * Every place that is jumped to indirectly is a landing pad (and no return address is changed): the
 * object says so, lest the whole library, and with it the program, lose the protection where the
 * compiler gives it to the rest.
 */
#if defined(__x86_64__)
#define FEATURES      0xc0000002 /* GNU_PROPERTY_X86_FEATURE_1_AND */
#define FEATURES_HERE 3          /* IBT, SHSTK */
#else
#define FEATURES      0xc0000000 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
#define FEATURES_HERE 1          /* BTI */
#endif
	.section .note.gnu.property, "a", @note
	.p2align 3
	.long 4, 16, 5 /* NT_GNU_PROPERTY_TYPE_0 */
	.asciz "GNU"
	.long FEATURES, 4, FEATURES_HERE, 0
