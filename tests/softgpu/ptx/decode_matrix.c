/* SPDX-License-Identifier: MIT */
/* Decodes operations on matrices that a warp holds together; see matrix.c. */
#include "decode.h"
#include "matrix.h"

#include <string.h>

/* The slots of the registers in braces. */
static void matrix_registers(struct decoder *d, uint32_t index, uint32_t count, bool written,
                             uint32_t *slots)
{
	const struct operand *o = operand(d, index), *item = o->items;
	if (o->kind != OPERAND_VECTOR)
		fail_invalid(d, "a vector is wanted");
	for (uint32_t k = 0; k < count; k++, item = item->next) {
		if (!item)
			fail_invalid(d, "the vector is too short");
		slots[k] = written ? destination(d, item, TYPE_B32) : source(d, item, TYPE_B32);
	}
	if (item)
		fail_invalid(d, "the vector is too long");
}

/* All lanes of the warp take part. */
static struct insn *matrix_emit(struct decoder *d, handler *run)
{
	uint32_t all = constant(d, ALL_LANES, 4);
	struct insn *in = emit_control(d, CONTROL_COLLECTIVE);
	in->inner = run;
	in->s[3] = all;
	return in;
}

static uint32_t matrix_depth(struct decoder *d)
{
	return modifier(d, "m16n8k16")  ? 16
	       : modifier(d, "m16n8k8") ? 8
	       : modifier(d, "m16n8k4") ? 4
	                                : 0;
}

/* The four type words, of D, A, B and C: all that is left. */
static void matrix_types(struct decoder *d, const char *types[4])
{
	uint32_t count = 0;
	for (uint32_t i = 1; i < d->s->part_count; i++) {
		if (d->s->parts_used >> i & 1)
			continue;
		if (count == 4)
			fail_unsupported(d);
		types[count++] = d->s->parts[i];
		d->s->parts_used |= 1u << i;
	}
	if (count != 4)
		fail_unsupported(d);
}

/* mma.sync.aligned.m16n8kK.row.col.D.A.B.C d, a, b, c */
static void decode_multiply(struct decoder *d, int unused)
{
	static const char *const words[] = {
	    [MATRIX_F16] = "f16", [MATRIX_BF16] = "bf16", [MATRIX_TF32] = "tf32"};
	(void)unused;
	bool synced = modifier(d, "sync") & (int)modifier(d, "aligned");
	bool ordered = modifier(d, "row") & (int)modifier(d, "col");
	uint32_t depth = matrix_depth(d), type = 0;
	const char *types[4];
	if (!synced || !ordered || !depth)
		fail_unsupported(d);
	matrix_types(d, types);
	while (type <= MATRIX_TF32 && strcmp(words[type], types[1]))
		type++;
	bool is_half = !strcmp(types[0], "f16") && type == MATRIX_F16;
	uint32_t a_count = depth * (type == MATRIX_TF32 ? 4 : 2) / 8;
	if (type > MATRIX_TF32 || strcmp(types[1], types[2]) || strcmp(types[0], types[3]) ||
	    (!is_half && strcmp(types[0], "f32")) || (a_count != 2 && a_count != 4))
		fail_unsupported(d);
	struct multiply *m = reader_keep(d->r, sizeof *m);
	m->type = (uint8_t)type;
	m->is_half = is_half;
	m->a_count = (uint8_t)a_count;
	matrix_registers(d, 1, a_count, false, m->a);
	matrix_registers(d, 2, a_count / 2, false, m->b);
	matrix_registers(d, 3, is_half ? 2 : 4, false, m->c);
	matrix_registers(d, 0, is_half ? 2 : 4, true, m->d);
	matrix_emit(d, matrix_multiply)->immediate = (intptr_t)m;
}

/* ldmatrix.sync.aligned.m8n8.xN{.trans}{.shared}.b16 d, [a]; stmatrix has [a], d */
static void decode_matrix(struct decoder *d, int store)
{
	bool synced = modifier(d, "sync") & (int)modifier(d, "aligned");
	bool is_shaped = modifier(d, "m8n8") & (int)modifier(d, "b16"),
	     trans = modifier(d, "trans");
	uint32_t count = modifier(d, "x4") ? 4 : modifier(d, "x2") ? 2 : modifier(d, "x1") ? 1 : 0;
	if (!synced || !is_shaped || !count)
		fail_unsupported(d);
	struct insn access = {0};
	uint32_t slots[4] = {NONE, NONE, NONE, NONE};
	matrix_registers(d, store ? 1 : 0, count, !store, slots);
	address(d, operand(d, store ? 0 : 1), modifier_space(d), &access);
	struct insn *in = matrix_emit(d, store ? matrix_store : matrix_load);
	memcpy(in->d, slots, sizeof slots);
	in->s[0] = access.s[0];
	in->wide = access.wide;
	in->local_base = access.local_base;
	in->space = access.space;
	in->immediate = access.immediate;
	in->size = 16;
	in->count = (uint8_t)count;
	in->mode = trans;
}

const struct opcode opcodes_matrix[] = {
    {"mma", decode_multiply, 0},
    {"ldmatrix", decode_matrix, false},
    {"stmatrix", decode_matrix, true},
    {NULL, NULL, 0},
};
