/* SPDX-License-Identifier: MIT */
/* The kernels as text, with a NUL behind it. */
	.section .rodata
	.globl cublas_kernels
	.hidden cublas_kernels
cublas_kernels:
	.incbin "tests/softgpu/cublas/kernels.ptx"
	.byte 0
	.section .note.GNU-stack, "", @progbits
