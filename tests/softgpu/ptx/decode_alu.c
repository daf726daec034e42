/* SPDX-License-Identifier: MIT */
/* Decodes computing instructions: arithmetic, logic, comparisons, moves and conversions. */
#include "decode.h"
#include "machine.h"

#include <string.h>

/* How an operation on floating point values is to be done, from its modifiers. */
struct style {
	enum rounding rounding;
	bool ftz, sat, relu;
};

static struct style read_style(struct decoder *d)
{
	struct style style = {.rounding = modifier_rounding(d)};
	style.ftz = modifier(d, "ftz");
	style.sat = modifier(d, "sat");
	style.relu = modifier(d, "relu");
	return style;
}

static void set_rounding(struct insn *in, enum rounding rounding)
{
	if (rounding == ROUND_NEAREST)
		return;
	in->inner = in->run;
	in->run = rounded;
	in->mode = rounding;
}

static bool is_short(enum type type)
{
	return type == TYPE_F16 || type == TYPE_BF16;
}

static bool is_pair(enum type type)
{
	return type == TYPE_F16X2 || type == TYPE_BF16X2;
}

static uint32_t flushed(struct decoder *d, enum type type, uint32_t slot)
{
	uint32_t flat = scratch(d, type);
	emit_alu(d, ALU_FLUSH, type, flat, slot, NONE, NONE);
	return flat;
}

/* The common operations have handlers that flush as they go. */
static enum alu with_flush(enum alu op)
{
	switch (op) {
	case ALU_ADD:
		return ALU_ADD_FTZ;
	case ALU_SUB:
		return ALU_SUB_FTZ;
	case ALU_MUL:
		return ALU_MUL_FTZ;
	case ALU_FMA:
		return ALU_FMA_FTZ;
	default:
		return op;
	}
}

static void emit_float(struct decoder *d, enum alu op, enum type type, uint32_t to,
                       const uint32_t from[3], uint32_t count, struct style style);

/* Half precision is computed in single (fma: in double, to odd) and rounded once at the end. */
static void emit_short(struct decoder *d, enum alu op, enum type type, uint32_t to,
                       const uint32_t from[3], uint32_t count, struct style style)
{
	enum type wide = op == ALU_FMA ? TYPE_F64 : TYPE_F32;
	uint32_t s[3] = {NONE, NONE, NONE}, result = scratch(d, wide);
	for (uint32_t i = 0; i < count; i++) {
		s[i] = scratch(d, wide);
		emit_convert(d, wide, type, s[i], from[i]);
	}
	struct style inner = {.sat = style.sat};
	emit_float(d, op == ALU_FMA ? ALU_FMA_ODD : op, wide, result, s, count, inner);
	if (style.relu)
		emit_alu(d, ALU_MAX_NAN, wide, result, result, constant(d, 0, type_size(wide)),
		         NONE);
	emit_convert(d, type, wide, to, result)->mode = style.rounding;
}

/* The two halves of a 32-bit value, lower first. */
static void emit_unpack(struct decoder *d, uint32_t whole, uint32_t halves[2])
{
	struct insn *in = emit_alu(d, ALU_UNPACK, TYPE_U32, NONE, whole, NONE, NONE);
	in->count = in->size = 2;
	for (int k = 0; k < 2; k++)
		in->d[k] = halves[k] = scratch(d, TYPE_U16);
}

static void emit_pack(struct decoder *d, uint32_t whole, const uint32_t halves[2])
{
	struct insn *in = emit_alu(d, ALU_PACK, TYPE_U32, whole, halves[0], halves[1], NONE);
	in->count = in->size = 2;
}

static void emit_pair(struct decoder *d, enum alu op, enum type type, uint32_t to,
                      const uint32_t from[3], uint32_t count, struct style style)
{
	enum type half = type == TYPE_F16X2 ? TYPE_F16 : TYPE_BF16;
	uint32_t parts[2][3] = {{NONE, NONE, NONE}, {NONE, NONE, NONE}}, results[2];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t halves[2];
		emit_unpack(d, from[i], halves);
		parts[0][i] = halves[0];
		parts[1][i] = halves[1];
	}
	for (int k = 0; k < 2; k++) {
		results[k] = scratch(d, half);
		emit_short(d, op, half, results[k], parts[k], count, style);
	}
	emit_pack(d, to, results);
}

static void emit_float(struct decoder *d, enum alu op, enum type type, uint32_t to,
                       const uint32_t from[3], uint32_t count, struct style style)
{
	if (is_short(type)) {
		emit_short(d, op, type, to, from, count, style);
		return;
	}
	if (is_pair(type)) {
		emit_pair(d, op, type, to, from, count, style);
		return;
	}
	if (style.ftz && with_flush(op) != op && type == TYPE_F32) {
		op = with_flush(op);
		style.ftz = false;
	}
	uint32_t s[3] = {NONE, NONE, NONE};
	for (uint32_t i = 0; i < count; i++)
		s[i] = style.ftz ? flushed(d, type, from[i]) : from[i];
	set_rounding(emit_alu(d, op, type, to, s[0], s[1], s[2]), style.rounding);
	if (style.ftz)
		emit_alu(d, ALU_FLUSH, type, to, to, NONE, NONE);
	if (style.sat)
		emit_alu(d, ALU_SATURATE, type, to, to, NONE, NONE);
	if (style.relu)
		emit_alu(d, ALU_MAX_NAN, type, to, to, constant(d, 0, type_size(type)), NONE);
}

static uint32_t arity(enum alu op)
{
	switch (op) {
	case ALU_ABS:
	case ALU_NEG:
	case ALU_NOT:
	case ALU_CNOT:
	case ALU_SQRT:
	case ALU_RCP:
	case ALU_RSQRT:
	case ALU_SIN:
	case ALU_COS:
	case ALU_EX2:
	case ALU_LG2:
	case ALU_TANH:
	case ALU_BREV:
		return 1;
	case ALU_FMA:
	case ALU_MAD:
	case ALU_MAD_HI:
	case ALU_SAD:
		return 3;
	default:
		return 2;
	}
}

static void emit_saturated_integer(struct decoder *d, enum alu op, uint32_t to, uint32_t a,
                                   uint32_t b)
{
	uint32_t wide_a = scratch(d, TYPE_S64), wide_b = scratch(d, TYPE_S64);
	emit_convert(d, TYPE_U64, TYPE_S32, wide_a, a);
	emit_convert(d, TYPE_U64, TYPE_S32, wide_b, b);
	emit_alu(d, op, TYPE_S64, wide_a, wide_a, wide_b, NONE);
	struct insn *in = emit(d, d->alu->clamp);
	in->d[0] = in->s[0] = wide_a;
	in->size = 4;
	in->type = true;
	emit_convert(d, TYPE_U32, TYPE_U64, to, wide_a);
}

static void emit_integer_pair(struct decoder *d, enum alu op, enum type half, uint32_t to,
                              const uint32_t from[2])
{
	uint32_t a[2], b[2];
	emit_unpack(d, from[0], a);
	emit_unpack(d, from[1], b);
	for (int k = 0; k < 2; k++)
		emit_alu(d, op, half, a[k], a[k], b[k], NONE);
	emit_pack(d, to, a);
}

/* All operands and the result have one type. */
static void decode_uniform(struct decoder *d, int op)
{
	struct style style = read_style(d);
	modifier(d, "approx");
	modifier(d, "full");
	modifier(d, "noftz");
	if (modifier(d, "NaN"))
		op = op == ALU_MIN ? ALU_MIN_NAN : ALU_MAX_NAN;
	enum type type = modifier_type(d);
	uint32_t count = arity(op), from[3] = {NONE, NONE, NONE};
	for (uint32_t i = 0; i < count; i++)
		from[i] = source(d, operand(d, i + 1), type);
	uint32_t to = destination(d, operand(d, 0), type);
	if (type_is_float(type)) {
		emit_float(d, op, type, to, from, count, style);
	} else if (style.relu || style.ftz || style.rounding != ROUND_NEAREST) {
		fail_unsupported(d);
	} else if (type == TYPE_U16X2 || type == TYPE_S16X2) {
		emit_integer_pair(d, op, type == TYPE_S16X2 ? TYPE_S16 : TYPE_U16, to, from);
	} else if (style.sat) {
		if (type != TYPE_S32 || (op != ALU_ADD && op != ALU_SUB))
			fail_unsupported(d);
		emit_saturated_integer(d, op, to, from[0], from[1]);
	} else {
		emit_alu(d, op, type, to, from[0], from[1], from[2]);
	}
}

/* add and sub: with or without carries. */
static void decode_sum(struct decoder *d, int op)
{
	bool with = op == ALU_ADDC_CC || op == ALU_SUBC_CC;
	if (!with && !strstr(d->s->text, ".cc")) {
		decode_uniform(d, op);
		return;
	}
	bool keep = modifier(d, "cc");
	enum alu carrying = with ? op : op == ALU_ADD ? ALU_ADD_CC : ALU_SUB_CC;
	enum type type = type_unsigned(type_size(modifier_type(d)));
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	struct insn *in =
	    emit_alu(d, carrying, type, destination(d, operand(d, 0), type), a, b, NONE);
	in->s[3] = d->carry;
	in->d[1] = keep ? d->carry : scratch(d, TYPE_PRED);
}

static void decode_mul(struct decoder *d, int add)
{
	bool hi = modifier(d, "hi"), wide = modifier(d, "wide"), lo = modifier(d, "lo");
	if (!hi && !wide && !lo) {
		decode_uniform(d, add ? ALU_FMA : ALU_MUL);
		return;
	}
	bool carry_out = modifier(d, "cc"), carry_in = !strcmp(d->s->parts[0], "madc");
	enum type type = modifier_type(d), result = type;
	enum alu op = hi ? ALU_MUL_HI : ALU_MUL;
	if (wide) {
		result = type_is_signed(type) ? TYPE_S64 : TYPE_U64;
		if (type_size(type) == 2)
			result = type_is_signed(type) ? TYPE_S32 : TYPE_U32;
		op = ALU_MUL_WIDE;
	}
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t c = add ? source(d, operand(d, 3), result) : NONE;
	uint32_t to = destination(d, operand(d, 0), result);
	if (!add) {
		emit_alu(d, op, type, to, a, b, NONE);
	} else if (carry_out || carry_in) {
		uint32_t product = scratch(d, result);
		emit_alu(d, op, type, product, a, b, NONE);
		struct insn *in = emit_alu(d, carry_in ? ALU_ADDC_CC : ALU_ADD_CC,
		                           type_unsigned(type_size(result)), to, product, c, NONE);
		in->s[3] = d->carry;
		in->d[1] = carry_out ? d->carry : scratch(d, TYPE_PRED);
	} else {
		emit_alu(d, hi ? ALU_MAD_HI : wide ? ALU_MAD_WIDE : ALU_MAD, type, to, a, b, c);
	}
}

static void decode_mul24(struct decoder *d, int add)
{
	enum alu op = modifier(d, "hi") ? ALU_MUL24_HI : ALU_MUL24;
	modifier(d, "lo");
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t c = add ? source(d, operand(d, 3), type) : NONE;
	uint32_t to = destination(d, operand(d, 0), type);
	uint32_t product = add ? scratch(d, type) : to;
	emit_alu(d, op, type, product, a, b, NONE);
	if (add)
		emit_alu(d, ALU_ADD, type, to, product, c, NONE);
}

static void decode_dp4a(struct decoder *d, int unused)
{
	(void)unused;
	bool a_signed = type_is_signed(modifier_type(d));
	bool b_signed = type_is_signed(modifier_type(d));
	uint32_t a = source(d, operand(d, 1), TYPE_U32), b = source(d, operand(d, 2), TYPE_U32);
	uint32_t c = source(d, operand(d, 3), TYPE_U32);
	emit_alu(d, ALU_DP4A_UU + 2 * a_signed + b_signed, TYPE_U32,
	         destination(d, operand(d, 0), TYPE_U32), a, b, c);
}

static void decode_dp2a(struct decoder *d, int unused)
{
	(void)unused;
	bool hi = modifier(d, "hi");
	modifier(d, "lo");
	bool a_signed = type_is_signed(modifier_type(d));
	bool b_signed = type_is_signed(modifier_type(d));
	uint32_t a = source(d, operand(d, 1), TYPE_U32), b = source(d, operand(d, 2), TYPE_U32);
	uint32_t c = source(d, operand(d, 3), TYPE_U32);
	emit_alu(d, ALU_DP2A_UU + 2 * a_signed + b_signed, TYPE_U32,
	         destination(d, operand(d, 0), TYPE_U32), a, b, c)
	    ->mode = hi ? 16 : 0;
}

/* bmsk: `c` ones from bit `b` on. */
static void decode_bmsk(struct decoder *d, int unused)
{
	(void)unused;
	bool wrap = modifier(d, "wrap");
	modifier(d, "clamp");
	modifier_type(d);
	uint32_t b = source(d, operand(d, 1), TYPE_U32), c = source(d, operand(d, 2), TYPE_U32);
	emit_alu(d, ALU_BMSK, TYPE_U32, destination(d, operand(d, 0), TYPE_U32), b, c, NONE)->mode =
	    wrap;
}

static void decode_shift(struct decoder *d, int op)
{
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), TYPE_U32);
	emit_alu(d, op, type, destination(d, operand(d, 0), type), a, b, NONE);
}

static void decode_funnel(struct decoder *d, int unused)
{
	(void)unused;
	bool left = modifier(d, "l"), right = modifier(d, "r"), wrap = modifier(d, "wrap");
	if (left == right || wrap == modifier(d, "clamp"))
		fail_unsupported(d);
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t c = source(d, operand(d, 3), TYPE_U32);
	enum alu op = left   ? wrap ? ALU_SHF_L_WRAP : ALU_SHF_L_CLAMP
	              : wrap ? ALU_SHF_R_WRAP
	                     : ALU_SHF_R_CLAMP;
	emit_alu(d, op, type, destination(d, operand(d, 0), type), a, b, c);
}

/* The result is a count, .u32, whatever the operand. */
static void decode_count(struct decoder *d, int op)
{
	if (op == ALU_BFIND && modifier(d, "shiftamt"))
		op = ALU_BFIND_SHIFT;
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type);
	emit_alu(d, op, type, destination(d, operand(d, 0), TYPE_U32), a, NONE, NONE);
}

static void decode_field(struct decoder *d, int op)
{
	enum type type = modifier_type(d);
	bool insert = op == ALU_BFI;
	uint32_t s[4] = {NONE, NONE, NONE, NONE};
	for (uint32_t i = 0; i < (insert ? 4u : 3u); i++)
		s[i] = source(d, operand(d, i + 1), i < (insert ? 2u : 1u) ? type : TYPE_U32);
	emit_alu(d, op, type, destination(d, operand(d, 0), type), s[0], s[1], s[2])->s[3] = s[3];
}

static void decode_permute(struct decoder *d, int unused)
{
	static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
	(void)unused;
	enum type type = modifier_type(d);
	int mode = 0;
	for (int i = 0; i < 6; i++)
		if (modifier(d, modes[i]))
			mode = i + 1;
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t c = source(d, operand(d, 3), TYPE_U32);
	emit_alu(d, ALU_PRMT, type, destination(d, operand(d, 0), type), a, b, c)->mode = mode;
}

static void decode_lop3(struct decoder *d, int unused)
{
	(void)unused;
	bool any = modifier(d, "or"), both = modifier(d, "and");
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t c = source(d, operand(d, 3), type);
	const struct operand *table = operand(d, 4), *o = operand(d, 0);
	if (table->kind != OPERAND_INTEGER)
		fail_invalid(d, "the table must be a number");
	if (o->kind != OPERAND_NAME || (any || both) != (o->pair != NULL))
		fail_invalid(d, "a register is wanted");
	uint32_t to = destination_named(d, o->name, type);
	emit_alu(d, ALU_LOP3, type, to, a, b, c)->immediate = (int64_t)(table->bits & 255);
	if (!o->pair)
		return;
	/* The predicate: is the result not zero, combined with another one. */
	uint32_t q = predicate(d, operand(d, 5)), set = scratch(d, TYPE_PRED);
	emit_alu(d, ALU_NE, type, set, to, constant(d, 0, type_size(type)), NONE);
	emit_alu(d, any ? ALU_OR : ALU_AND, TYPE_PRED, destination_named(d, o->pair, TYPE_PRED),
	         set, q, NONE);
}

static void decode_logic(struct decoder *d, int op)
{
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type);
	uint32_t b = arity(op) > 1 ? source(d, operand(d, 2), type) : a;
	emit_alu(d, op, type, destination(d, operand(d, 0), type), a, b, NONE);
}

static void decode_testp(struct decoder *d, int unused)
{
	static const struct {
		const char *name;
		enum alu op;
	} tests[] = {
	    {"finite", ALU_FINITE},  {"infinite", ALU_INFINITE}, {"number", ALU_NUM},
	    {"notanumber", ALU_NAN}, {"normal", ALU_NORMAL},     {"subnormal", ALU_SUBNORMAL},
	};
	(void)unused;
	for (int i = 0; i < 6; i++)
		if (modifier(d, tests[i].name)) {
			enum type type = modifier_type(d);
			uint32_t a = source(d, operand(d, 1), type);
			emit_alu(d, tests[i].op, type, destination(d, operand(d, 0), TYPE_PRED), a,
			         a, NONE);
			return;
		}
	fail_unsupported(d);
}

/* --- comparisons --- */

struct comparison {
	enum alu op;
	enum type type;
	bool ftz;
	int combine; /* an enum alu, or -1 */
	uint32_t other;
};

/* The modifiers of setp and set; the type of a set's result is taken off before. */
static struct comparison read_comparison(struct decoder *d)
{
	static const char *const words[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
	                                    "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
	static const char *const unsigned_words[] = {"lo", "ls", "hi", "hs"};
	static const enum alu combinations[] = {ALU_AND, ALU_OR, ALU_XOR};
	static const char *const combination_words[] = {"and", "or", "xor"};
	struct comparison c = {.combine = -1};
	int op = -1;
	bool is_unsigned = false;
	for (int i = 0; i < 14 && op < 0; i++)
		if (modifier(d, words[i]))
			op = ALU_EQ + i;
	for (int i = 0; i < 4 && op < 0; i++)
		if (modifier(d, unsigned_words[i])) {
			op = ALU_LT + i;
			is_unsigned = true;
		}
	if (op < 0)
		fail_unsupported(d);
	for (int i = 0; i < 3; i++)
		if (modifier(d, combination_words[i]))
			c.combine = combinations[i];
	c.op = op;
	c.ftz = modifier(d, "ftz");
	c.type = modifier_type(d);
	if (is_unsigned)
		c.type = type_unsigned(type_size(c.type));
	if (c.combine >= 0)
		c.other = predicate(d, operand(d, 3));
	return c;
}

/* A predicate in scratch; *inverse, where wanted, is that of the opposite comparison. */
static uint32_t emit_comparison(struct decoder *d, const struct comparison *c, uint32_t a,
                                uint32_t b, uint32_t *inverse)
{
	uint32_t s[2] = {a, b}, result = scratch(d, TYPE_PRED);
	enum type type = is_short(c->type) ? TYPE_F32 : c->type;
	for (uint32_t i = 0; i < 2; i++) {
		if (is_short(c->type)) {
			uint32_t wide = scratch(d, TYPE_F32);
			emit_convert(d, TYPE_F32, c->type, wide, s[i]);
			s[i] = wide;
		} else if (c->ftz) {
			s[i] = flushed(d, type, s[i]);
		}
	}
	emit_alu(d, c->op, type, result, s[0], s[1], NONE);
	if (inverse) {
		*inverse = scratch(d, TYPE_PRED);
		emit_alu(d, ALU_NOT, TYPE_PRED, *inverse, result, result, NONE);
	}
	if (c->combine >= 0) {
		emit_alu(d, c->combine, TYPE_PRED, result, result, c->other, NONE);
		if (inverse)
			emit_alu(d, c->combine, TYPE_PRED, *inverse, *inverse, c->other, NONE);
	}
	return result;
}

/* Compares the halves of two pairs each by itself. */
static void emit_pair_comparison(struct decoder *d, struct comparison *c, uint32_t a, uint32_t b,
                                 uint32_t results[2])
{
	uint32_t parts[2][2];
	c->type = c->type == TYPE_F16X2 ? TYPE_F16 : TYPE_BF16;
	for (int i = 0; i < 2; i++)
		emit_unpack(d, i ? b : a, parts[i]);
	for (int k = 0; k < 2; k++)
		results[k] = emit_comparison(d, c, parts[0][k], parts[1][k], NULL);
}

static void decode_setp(struct decoder *d, int unused)
{
	(void)unused;
	const struct operand *o = operand(d, 0);
	if (o->kind != OPERAND_NAME)
		fail_invalid(d, "a predicate is wanted");
	struct comparison c = read_comparison(d);
	uint32_t a = source(d, operand(d, 1), c.type), b = source(d, operand(d, 2), c.type);
	uint32_t results[2], first = d->count;
	if (is_pair(c.type))
		emit_pair_comparison(d, &c, a, b, results);
	else
		results[0] = emit_comparison(d, &c, a, b, o->pair ? &results[1] : NULL);
	uint32_t to = destination_named(d, o->name, TYPE_PRED);
	uint32_t pair = o->pair ? destination_named(d, o->pair, TYPE_PRED) : NONE;
	/* Straight into the register when one instruction is all there is. */
	if (d->count - first == 1) {
		d->code[first].d[0] = to;
		return;
	}
	/* The guard may be a destination too: it is written last. */
	bool last = pair != NONE && to == d->guard;
	if (pair != NONE && last)
		emit_alu(d, ALU_MOV, TYPE_PRED, pair, results[1], results[1], NONE);
	emit_alu(d, ALU_MOV, TYPE_PRED, to, results[0], results[0], NONE);
	if (pair != NONE && !last)
		emit_alu(d, ALU_MOV, TYPE_PRED, pair, results[1], results[1], NONE);
}

/* Returns what `set` answers for true. */
static uint64_t truth(enum type type)
{
	switch (type) {
	case TYPE_F32:
		return 0x3f800000;
	case TYPE_F16:
	case TYPE_F16X2:
		return 0x3c00;
	case TYPE_BF16:
	case TYPE_BF16X2:
		return 0x3f80;
	default:
		return ~(uint64_t)0;
	}
}

static void decode_set(struct decoder *d, int unused)
{
	(void)unused;
	/* The first type is that of the result; modifier_type() finds it first. */
	enum type result = modifier_type(d);
	struct comparison c = read_comparison(d);
	uint32_t a = source(d, operand(d, 1), c.type), b = source(d, operand(d, 2), c.type);
	uint32_t to = destination(d, operand(d, 0), result), p[2], halves[2];
	bool pair = is_pair(c.type);
	uint32_t size = type_size(result);
	if (pair ? size != 4 : is_pair(result) || (size != 2 && size != 4))
		fail_unsupported(d);
	enum type part = pair ? TYPE_U16 : type_unsigned(type_size(result));
	uint32_t yes = constant(d, truth(result), type_size(part));
	uint32_t no = constant(d, 0, type_size(part));
	if (!pair) {
		p[0] = emit_comparison(d, &c, a, b, NULL);
		emit_alu(d, ALU_SELP, part, to, yes, no, p[0]);
		return;
	}
	emit_pair_comparison(d, &c, a, b, p);
	for (int k = 0; k < 2; k++) {
		halves[k] = scratch(d, part);
		emit_alu(d, ALU_SELP, part, halves[k], yes, no, p[k]);
	}
	emit_pack(d, to, halves);
}

static void decode_selp(struct decoder *d, int unused)
{
	(void)unused;
	enum type type = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t p = predicate(d, operand(d, 3));
	emit_alu(d, ALU_SELP, type, destination(d, operand(d, 0), type), a, b, p);
}

static void decode_slct(struct decoder *d, int unused)
{
	(void)unused;
	modifier(d, "ftz");
	enum type type = modifier_type(d), test = modifier_type(d);
	uint32_t a = source(d, operand(d, 1), type), b = source(d, operand(d, 2), type);
	uint32_t c = source(d, operand(d, 3), test), p = scratch(d, TYPE_PRED);
	emit_alu(d, ALU_GE, test, p, c, constant(d, 0, type_size(test)), NONE);
	emit_alu(d, ALU_SELP, type, destination(d, operand(d, 0), type), a, b, p);
}

/* --- moves and conversions --- */

static uint32_t item_count(const struct operand *o)
{
	uint32_t count = 0;
	for (const struct operand *item = o->items; item; item = item->next)
		count++;
	return count;
}

static void decode_mov(struct decoder *d, int unused)
{
	static const char *const clocks[] = {"%clock",       "%clock64",        "%clock_hi",
	                                     "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"};
	(void)unused;
	enum type type = modifier_type(d);
	const struct operand *to = operand(d, 0), *from = operand(d, 1);
	if (to->kind == OPERAND_VECTOR || from->kind == OPERAND_VECTOR) {
		bool packing = from->kind == OPERAND_VECTOR;
		const struct operand *items = packing ? from : to;
		uint32_t count = item_count(items);
		if ((count != 2 && count != 4) || type_size(type) < count || to->kind == from->kind)
			fail_unsupported(d);
		enum type part = type_unsigned(type_size(type) / count);
		uint32_t slots[4] = {NONE, NONE, NONE, NONE}, k = 0;
		for (const struct operand *o = items->items; o; o = o->next)
			slots[k++] = packing ? source(d, o, part) : destination(d, o, part);
		uint32_t whole = packing ? destination(d, to, type) : source(d, from, type);
		struct insn *in =
		    emit_alu(d, packing ? ALU_PACK : ALU_UNPACK, type, whole, whole, NONE, NONE);
		memcpy(packing ? in->s : in->d, slots, sizeof slots);
		in->count = count;
		in->size = type_size(part);
		return;
	}
	for (int i = 0; i < 6; i++)
		if (from->kind == OPERAND_NAME && !strcmp(from->name, clocks[i])) {
			struct insn *in = emit(d, read_clock);
			in->d[0] = destination(d, to, type);
			in->size = type_size(type);
			in->mode = i;
			return;
		}
	uint32_t slot = source(d, from, type);
	emit_alu(d, ALU_MOV, type, destination(d, to, type), slot, slot, NONE);
}

static void convert_integer(struct decoder *d, enum type to, enum type from, uint32_t slot,
                            uint32_t result, bool sat)
{
	if (!sat) {
		emit_convert(d, type_unsigned(type_size(to)), type_bits(from), result, slot);
		return;
	}
	uint32_t wide = scratch(d, TYPE_U64);
	emit_convert(d, TYPE_U64, type_bits(from), wide, slot);
	struct insn *in = emit(d, d->alu->clamp);
	in->d[0] = in->s[0] = wide;
	in->size = type_size(to);
	in->type = type_is_signed(to);
	in->mode = !type_is_signed(from);
	emit_convert(d, type_unsigned(type_size(to)), TYPE_U64, result, wide);
}

static void convert_to_float(struct decoder *d, enum type to, enum type from, uint32_t slot,
                             uint32_t result, enum rounding rounding)
{
	if (type_size(from) < 4) {
		uint32_t wide = scratch(d, TYPE_U32);
		emit_convert(d, TYPE_U32, type_bits(from), wide, slot);
		slot = wide;
		from = type_is_signed(from) ? TYPE_S32 : TYPE_U32;
	}
	if (is_short(to)) {
		uint32_t wide = scratch(d, TYPE_F64);
		emit_convert(d, TYPE_F64, type_bits(from), wide, slot);
		emit_convert(d, to, TYPE_F64, result, wide)->mode = rounding;
		return;
	}
	set_rounding(emit_convert(d, to, type_bits(from), result, slot), rounding);
}

static void convert_from_float(struct decoder *d, enum type to, enum type from, uint32_t slot,
                               uint32_t result, enum rounding rounding)
{
	if (is_short(from)) {
		uint32_t wide = scratch(d, TYPE_F32);
		emit_convert(d, TYPE_F32, from, wide, slot);
		slot = wide;
		from = TYPE_F32;
	}
	if (type_size(to) >= 4) {
		emit_convert(d, type_bits(to), from, result, slot)->mode = rounding;
		return;
	}
	uint32_t wide = scratch(d, TYPE_S32), longer = scratch(d, TYPE_S64);
	emit_convert(d, TYPE_S32, from, wide, slot)->mode = rounding;
	emit_convert(d, TYPE_U64, TYPE_S32, longer, wide);
	convert_integer(d, to, TYPE_S64, longer, result, true);
}

static void convert_float(struct decoder *d, enum type to, enum type from, uint32_t slot,
                          uint32_t result, struct style style, bool to_integral)
{
	static const enum alu roundings[] = {ALU_RINT, ALU_TRUNC, ALU_FLOOR, ALU_CEIL};
	enum type work = from;
	if (style.ftz && from == TYPE_F32)
		slot = flushed(d, from, slot);
	if (is_short(from) && (to != from || to_integral || style.sat || style.relu)) {
		work = to == TYPE_F64 ? TYPE_F64 : TYPE_F32;
		uint32_t wide = scratch(d, work);
		emit_convert(d, work, from, wide, slot);
		slot = wide;
	}
	if (to_integral || ((style.sat || style.relu) && work != to)) {
		uint32_t changed = scratch(d, work);
		emit_alu(d, to_integral ? roundings[style.rounding] : ALU_MOV, work, changed, slot,
		         slot, NONE);
		slot = changed;
	}
	bool early = is_short(to) && !is_short(work);
	if (early && style.sat)
		emit_alu(d, ALU_SATURATE, work, slot, slot, NONE, NONE);
	if (early && style.relu)
		emit_alu(d, ALU_MAX_NAN, work, slot, slot, constant(d, 0, type_size(work)), NONE);
	if (to == work) {
		emit_alu(d, ALU_MOV, to, result, slot, slot, NONE);
	} else if (is_short(to)) {
		emit_convert(d, to, work, result, slot)->mode =
		    to_integral ? ROUND_NEAREST : style.rounding;
	} else {
		struct insn *in = emit_convert(d, to, work, result, slot);
		if (!to_integral)
			set_rounding(in, style.rounding);
	}
	if (style.ftz && to == TYPE_F32)
		emit_alu(d, ALU_FLUSH, to, result, result, NONE, NONE);
	if (!early && style.sat)
		emit_alu(d, ALU_SATURATE, to, result, result, NONE, NONE);
}

/* cvt.rn.f16x2.f32 d, a, b: a goes to the upper half. */
static void convert_pair(struct decoder *d, enum type to, struct style style)
{
	enum type half = to == TYPE_F16X2 ? TYPE_F16 : TYPE_BF16, from = modifier_type(d);
	uint32_t halves[2];
	for (uint32_t k = 0; k < 2; k++) {
		halves[k] = scratch(d, half);
		convert_float(d, half, from, source(d, operand(d, 2 - k), from), halves[k], style,
		              false);
	}
	emit_pack(d, destination(d, operand(d, 0), TYPE_B32), halves);
}

/*
 * cvt.rna.tf32.f32 and its like: the bits below tf32's ten of the mantissa become zeros. Half a
 * unit is added before, where it is to round to nearest: ties go away from zero (rna), or to even.
 */
static void convert_tf32(struct decoder *d)
{
	enum { DROPPED = 13 };
	bool away = modifier(d, "rna"), even = modifier(d, "rn"), zero = modifier(d, "rz");
	bool relu = modifier(d, "relu");
	if (away + even + zero != 1 || !modifier(d, "f32"))
		fail_unsupported(d);
	uint32_t from = source(d, operand(d, 1), TYPE_F32), work = scratch(d, TYPE_U32);
	uint32_t add = constant(d,
	                        away   ? 1u << (DROPPED - 1)
	                        : zero ? 0
	                               : (1u << (DROPPED - 1)) - 1,
	                        4);
	uint32_t nan = scratch(d, TYPE_PRED), to = destination(d, operand(d, 0), TYPE_B32);
	emit_alu(d, ALU_NAN, TYPE_F32, nan, from, from, NONE);
	emit_alu(d, ALU_ADD, TYPE_U32, work, from, add, NONE);
	if (even) {
		uint32_t odd = scratch(d, TYPE_U32);
		emit_alu(d, ALU_SHR, TYPE_U32, odd, from, constant(d, DROPPED, 4), NONE);
		emit_alu(d, ALU_AND, TYPE_U32, odd, odd, constant(d, 1, 4), NONE);
		emit_alu(d, ALU_ADD, TYPE_U32, work, work, odd, NONE);
	}
	emit_alu(d, ALU_AND, TYPE_U32, work, work, constant(d, ~0u << DROPPED, 4), NONE);
	emit_alu(d, ALU_SELP, TYPE_U32, work, constant(d, 0x7fffffff, 4), work, nan);
	if (relu)
		emit_alu(d, ALU_MAX_NAN, TYPE_F32, work, work, constant(d, 0, 4), NONE);
	emit_alu(d, ALU_MOV, TYPE_U32, to, work, work, NONE);
}

static void decode_cvt(struct decoder *d, int unused)
{
	(void)unused;
	if (modifier(d, "tf32")) {
		convert_tf32(d);
		return;
	}
	bool to_integral = strstr(d->s->text, ".rni") || strstr(d->s->text, ".rzi") ||
	                   strstr(d->s->text, ".rmi") || strstr(d->s->text, ".rpi");
	struct style style = read_style(d);
	enum type to = modifier_type(d);
	if (is_pair(to)) {
		convert_pair(d, to, style);
		return;
	}
	enum type from = modifier_type(d);
	if (is_pair(from) || to == TYPE_PRED || from == TYPE_PRED)
		fail_unsupported(d);
	uint32_t slot = source(d, operand(d, 1), from);
	uint32_t result = destination(d, operand(d, 0), to);
	if (!type_is_float(to) && !type_is_float(from)) {
		convert_integer(d, to, from, slot, result, style.sat);
	} else if (!type_is_float(from)) {
		convert_to_float(d, to, from, slot, result, style.rounding);
		if (style.sat)
			emit_alu(d, ALU_SATURATE, to, result, result, NONE, NONE);
	} else if (!type_is_float(to)) {
		if (style.ftz && from == TYPE_F32)
			slot = flushed(d, from, slot);
		convert_from_float(d, to, from, slot, result, style.rounding);
	} else {
		convert_float(d, to, from, slot, result, style, to_integral);
	}
}

static uint64_t generic_base(struct decoder *d, enum space space)
{
	switch (space) {
	case SPACE_SHARED:
		return GENERIC_SHARED;
	case SPACE_LOCAL:
		return GENERIC_LOCAL;
	case SPACE_PARAM:
		return d->function->entry ? GENERIC_PARAM : GENERIC_LOCAL;
	default:
		return 0;
	}
}

static void decode_cvta(struct decoder *d, int unused)
{
	(void)unused;
	enum alu op = modifier(d, "to") ? ALU_SUB : ALU_ADD;
	uint64_t base = generic_base(d, modifier_space(d));
	if (modifier_type(d) != TYPE_U64)
		fail_unsupported(d);
	uint32_t slot = source(d, operand(d, 1), TYPE_U64);
	uint32_t to = destination(d, operand(d, 0), TYPE_U64);
	if (base)
		emit_alu(d, op, TYPE_U64, to, slot, constant(d, base, 8), NONE);
	else
		emit_alu(d, ALU_MOV, TYPE_U64, to, slot, slot, NONE);
}

static void decode_isspacep(struct decoder *d, int unused)
{
	(void)unused;
	uint64_t base = generic_base(d, modifier_space(d));
	uint32_t slot = source(d, operand(d, 1), TYPE_U64), tag = scratch(d, TYPE_U64);
	emit_alu(d, ALU_SHR, TYPE_U64, tag, slot, constant(d, GENERIC_SHIFT, 4), NONE);
	emit_alu(d, ALU_EQ, TYPE_U64, destination(d, operand(d, 0), TYPE_PRED), tag,
	         constant(d, base >> GENERIC_SHIFT, 8), NONE);
}

const struct opcode opcodes_alu[] = {
    {"mov", decode_mov, 0},
    {"add", decode_sum, ALU_ADD},
    {"sub", decode_sum, ALU_SUB},
    {"addc", decode_sum, ALU_ADDC_CC},
    {"subc", decode_sum, ALU_SUBC_CC},
    {"mul", decode_mul, false},
    {"mad", decode_mul, true},
    {"madc", decode_mul, true},
    {"fma", decode_uniform, ALU_FMA},
    {"cvt", decode_cvt, 0},
    {"setp", decode_setp, 0},
    {"selp", decode_selp, 0},
    {"cvta", decode_cvta, 0},
    {"and", decode_logic, ALU_AND},
    {"or", decode_logic, ALU_OR},
    {"xor", decode_logic, ALU_XOR},
    {"not", decode_logic, ALU_NOT},
    {"cnot", decode_logic, ALU_CNOT},
    {"shl", decode_shift, ALU_SHL},
    {"shr", decode_shift, ALU_SHR},
    {"div", decode_uniform, ALU_DIV},
    {"rem", decode_uniform, ALU_REM},
    {"abs", decode_uniform, ALU_ABS},
    {"neg", decode_uniform, ALU_NEG},
    {"min", decode_uniform, ALU_MIN},
    {"max", decode_uniform, ALU_MAX},
    {"sqrt", decode_uniform, ALU_SQRT},
    {"rcp", decode_uniform, ALU_RCP},
    {"rsqrt", decode_uniform, ALU_RSQRT},
    {"sin", decode_uniform, ALU_SIN},
    {"cos", decode_uniform, ALU_COS},
    {"ex2", decode_uniform, ALU_EX2},
    {"lg2", decode_uniform, ALU_LG2},
    {"tanh", decode_uniform, ALU_TANH},
    {"copysign", decode_uniform, ALU_COPYSIGN},
    {"sad", decode_uniform, ALU_SAD},
    {"brev", decode_logic, ALU_BREV},
    {"shf", decode_funnel, 0},
    {"popc", decode_count, ALU_POPC},
    {"clz", decode_count, ALU_CLZ},
    {"bfind", decode_count, ALU_BFIND},
    {"bfe", decode_field, ALU_BFE},
    {"bfi", decode_field, ALU_BFI},
    {"prmt", decode_permute, 0},
    {"lop3", decode_lop3, 0},
    {"mul24", decode_mul24, false},
    {"mad24", decode_mul24, true},
    {"dp4a", decode_dp4a, 0},
    {"testp", decode_testp, 0},
    {"dp2a", decode_dp2a, 0},
    {"bmsk", decode_bmsk, 0},
    {"set", decode_set, 0},
    {"slct", decode_slct, 0},
    {"isspacep", decode_isspacep, 0},
    {NULL, NULL, 0},
};
