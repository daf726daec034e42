/* SPDX-License-Identifier: MIT */
/*
 * Multiplies, loads and stores matrices as the PTX ISA's fragment tables spread them over a warp.
 *
 * The tables of all shapes follow one rule. Lane 4g + t belongs to row g of A, C and D and to
 * column g of B, and holds the t-th word of 32 bits of each stretch of four. For example, in
 * m16n8k16 of .f16, lane 5 (g = 1, t = 1) has A[1][2] and A[1][3] in its first register, A[9][2]
 * and A[9][3] in its second, A[1][10] and A[1][11] in its third.
 *
 * PTX leaves order and rounding of the sums open, at single precision or better. Products here are
 * exact, each sum begins with C and goes along k in double precision, and is rounded once.
 */
#include "matrix.h"
#include "alu.h"
#include "approx.h"

#include <string.h>

enum { ROWS = 16, COLUMNS = 8, MOST_DEPTH = 16, TILE = 8, TILE_ROW_BYTES = 16 };

static double matrix_float(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static double matrix_value(enum matrix_type type, uint32_t word, uint32_t half)
{
	uint16_t bits = (uint16_t)(word >> 16 * half);
	switch (type) {
	case MATRIX_F16:
		return half_to_float(bits);
	case MATRIX_BF16:
		return bfloat_to_float(bits);
	default:
		return matrix_float(word & ~0x1fffu);
	}
}

/* Values of A or B in one word. */
static uint32_t matrix_per_word(enum matrix_type type)
{
	return type == MATRIX_TF32 ? 1 : 2;
}

static void matrix_read_a(const struct warp *w, const struct multiply *m,
                          double a[ROWS][MOST_DEPTH])
{
	uint32_t per = matrix_per_word(m->type);
	for (uint32_t r = 0; r < m->a_count; r++) {
		const uint32_t *words = lanes(w, m->a[r]);
		for (uint32_t i = 0; i < LANES; i++)
			for (uint32_t e = 0; e < per; e++)
				a[i / 4 + 8 * (r & 1)][(i % 4 + 4 * (r >> 1)) * per + e] =
				    matrix_value(m->type, words[i], e);
	}
}

static void matrix_read_b(const struct warp *w, const struct multiply *m,
                          double b[MOST_DEPTH][COLUMNS])
{
	uint32_t per = matrix_per_word(m->type);
	for (uint32_t r = 0; r < m->a_count / 2u; r++) {
		const uint32_t *words = lanes(w, m->b[r]);
		for (uint32_t i = 0; i < LANES; i++)
			for (uint32_t e = 0; e < per; e++)
				b[(i % 4 + 4 * r) * per + e][i / 4] =
				    matrix_value(m->type, words[i], e);
	}
}

static void matrix_read_c(const struct warp *w, const struct multiply *m, double c[ROWS][COLUMNS])
{
	for (uint32_t k = 0; k < 4; k++) {
		const uint32_t *words = lanes(w, m->c[m->is_half ? k / 2 : k]);
		for (uint32_t i = 0; i < LANES; i++)
			c[i / 4 + 8 * (k / 2)][i % 4 * 2 + k % 2] =
			    m->is_half ? matrix_value(MATRIX_F16, words[i], k % 2)
			               : matrix_float(words[i]);
	}
}

static uint32_t matrix_round(double value)
{
	float rounded_value = (float)value;
	uint32_t bits;
	memcpy(&bits, &rounded_value, sizeof bits);
	return value == value ? bits : 0x7fffffff;
}

static void matrix_write_d(const struct warp *w, const struct multiply *m, uint32_t mask,
                           double d[ROWS][COLUMNS])
{
	for (uint32_t r = 0; r < (m->is_half ? 2 : 4); r++) {
		uint32_t *words = lanes(w, m->d[r]);
		for (uint32_t left = mask; left; left &= left - 1) {
			uint32_t i = (uint32_t)__builtin_ctz(left), column = i % 4 * 2;
			const double *row = d[i / 4 + 8 * (m->is_half ? r : r / 2)];
			words[i] =
			    m->is_half
			        ? double_to_half(row[column], ROUND_NEAREST) |
			              (uint32_t)double_to_half(row[column + 1], ROUND_NEAREST) << 16
			        : matrix_round(row[column + r % 2]);
		}
	}
}

void matrix_multiply(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct multiply *m = (const struct multiply *)(intptr_t)in->immediate;
	uint32_t depth = m->a_count * 2u * matrix_per_word(m->type);
	double a[ROWS][MOST_DEPTH], b[MOST_DEPTH][COLUMNS], d[ROWS][COLUMNS];
	matrix_read_a(w, m, a);
	matrix_read_b(w, m, b);
	matrix_read_c(w, m, d);
	for (uint32_t row = 0; row < ROWS; row++)
		for (uint32_t k = 0; k < depth; k++)
			for (uint32_t column = 0; column < COLUMNS; column++)
				/* NOLINTNEXTLINE(clang-analyzer-core.*): all was read */
				d[row][column] += a[row][k] * b[k][column];
	matrix_write_d(w, m, mask, d);
}

/* Row `row` of the k-th matrix of 8 by 8 halves: lane 8k + row has its address. */
static void *matrix_row(struct warp *w, const struct insn *in, const struct addresses *a,
                        uint32_t k, uint32_t row, bool write)
{
	uint32_t lane = k * TILE + row;
	if (a->of[lane] % TILE_ROW_BYTES)
		fault_raise(w, PTX_MISALIGNED, lane, a->of[lane], TILE_ROW_BYTES, write,
		            "row of a matrix at 0x%llx: misaligned",
		            (unsigned long long)a->of[lane]);
	return memory_resolve(w, in->space, lane, a->of[lane], TILE_ROW_BYTES, write);
}

static void matrix_addresses(struct warp *w, const struct insn *in, uint32_t mask,
                             struct addresses *a)
{
	w->insn = in;
	w->mask = mask;
	w->grid->alu->addresses(w, in, mask, a);
}

/* ldmatrix: lane 4g + t gets the halves 2t and 2t + 1 of row g (mode: of column g). */
void matrix_load(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct addresses a;
	matrix_addresses(w, in, mask, &a);
	for (uint32_t k = 0; k < in->count; k++) {
		uint16_t tile[TILE][TILE];
		uint32_t *d = lanes(w, in->d[k]);
		for (uint32_t row = 0; row < TILE; row++)
			memcpy(tile[row], matrix_row(w, in, &a, k, row, false), TILE_ROW_BYTES);
		for (uint32_t left = mask; left; left &= left - 1) {
			uint32_t i = (uint32_t)__builtin_ctz(left), g = i / 4, t = i % 4 * 2;
			d[i] = in->mode ? tile[t][g] | (uint32_t)tile[t + 1][g] << 16
			                : tile[g][t] | (uint32_t)tile[g][t + 1] << 16;
		}
	}
}

/* stmatrix: the reverse. */
void matrix_store(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct addresses a;
	matrix_addresses(w, in, mask, &a);
	for (uint32_t k = 0; k < in->count; k++) {
		uint16_t tile[TILE][TILE];
		const uint32_t *words = lanes(w, in->d[k]);
		for (uint32_t i = 0; i < LANES; i++)
			for (uint32_t e = 0; e < 2; e++) {
				uint32_t g = i / 4, t = i % 4 * 2 + e;
				*(in->mode ? &tile[t][g] : &tile[g][t]) =
				    (uint16_t)(words[i] >> 16 * e);
			}
		for (uint32_t row = 0; row < TILE; row++)
			memcpy(matrix_row(w, in, &a, k, row, true), tile[row], TILE_ROW_BYTES);
	}
}
