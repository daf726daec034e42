/* SPDX-License-Identifier: MIT */
/* Matrices that the lanes of a warp hold together: mma, ldmatrix, stmatrix. */
#ifndef SOFTGPU_PTX_MATRIX_H
#define SOFTGPU_PTX_MATRIX_H

#include "machine.h"

enum matrix_type {
	MATRIX_F16,
	MATRIX_BF16,
	MATRIX_TF32, /* the upper 19 bits of a float */
};

/* The operands of one mma, which an instruction has in `immediate`. D = A * B + C. */
struct multiply {
	uint32_t a[4], b[2], c[4], d[4]; /* slots */
	uint8_t a_count;                 /* registers of A in a lane; B has half as many */
	uint8_t type;                    /* of A and B */
	bool is_half;                    /* C and D are .f16, in two registers, not .f32 in four */
};

handler matrix_multiply, matrix_load, matrix_store;

#endif
