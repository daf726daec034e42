/* SPDX-License-Identifier: MIT */
/* Turns statements into instructions: operands, registers, constants, and the frame around them. */
#include "decode.h"
#include "cfg.h"
#include "machine.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CODE = 1 << 22 };

void fail_unsupported(struct decoder *d)
{
	reader_fail(d->r, PTX_NOT_SUPPORTED, d->s->line, "instruction %s", d->s->text);
}

void fail_invalid(struct decoder *d, const char *format, ...)
{
	char what[128];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	reader_fail(d->r, PTX_INVALID, d->s->line, "%s: %s", d->s->text, what);
}

/* --- modifiers --- */

bool modifier(struct decoder *d, const char *name)
{
	for (uint32_t i = 1; i < d->s->part_count; i++)
		if (!(d->s->parts_used >> i & 1) && !strcmp(d->s->parts[i], name)) {
			d->s->parts_used |= 1u << i;
			return true;
		}
	return false;
}

enum type modifier_type(struct decoder *d)
{
	for (uint32_t i = 1; i < d->s->part_count; i++) {
		enum type type = type_find(d->s->parts[i]);
		if (!(d->s->parts_used >> i & 1) && type != TYPE_NONE) {
			d->s->parts_used |= 1u << i;
			return type;
		}
	}
	fail_unsupported(d);
}

enum rounding modifier_rounding(struct decoder *d)
{
	if (modifier(d, "rz") || modifier(d, "rzi"))
		return ROUND_ZERO;
	if (modifier(d, "rm") || modifier(d, "rmi"))
		return ROUND_DOWN;
	if (modifier(d, "rp") || modifier(d, "rpi"))
		return ROUND_UP;
	if (!modifier(d, "rn"))
		modifier(d, "rni");
	return ROUND_NEAREST;
}

enum space modifier_space(struct decoder *d)
{
	for (uint32_t i = 1; i < d->s->part_count; i++) {
		enum space space = space_find(d->s->parts[i]);
		if (space != SPACE_NONE) {
			d->s->parts_used |= 1u << i;
			return space;
		}
	}
	return SPACE_GENERIC;
}

static void check_modifiers(struct decoder *d)
{
	for (uint32_t i = 1; i < d->s->part_count; i++)
		if (!(d->s->parts_used >> i & 1))
			reader_fail(d->r, PTX_NOT_SUPPORTED, d->s->line, "instruction %s (.%s)",
			            d->s->text, d->s->parts[i]);
}

/* --- emitting --- */

struct insn *emit(struct decoder *d, handler *run)
{
	if (d->count == d->capacity) {
		uint32_t capacity = d->capacity ? 2 * d->capacity : 256;
		if (capacity > MAX_CODE)
			reader_fail(d->r, PTX_NOT_SUPPORTED, d->s ? d->s->line : 0,
			            "functions this long");
		struct insn *code = reader_scratch(d->r, capacity * sizeof *code);
		if (d->count)
			memcpy(code, d->code, d->count * sizeof *code);
		d->code = code;
		d->capacity = capacity;
	}
	struct insn *in = &d->code[d->count++];
	memset(in, 0, sizeof *in);
	for (int i = 0; i < 4; i++)
		in->d[i] = in->s[i] = NONE;
	in->run = run;
	in->guard = d->guard;
	in->guard_negated = d->s ? d->s->guard_negated : false;
	in->join = NONE;
	in->line = d->s ? d->s->line : d->body->line;
	return in;
}

struct insn *emit_control(struct decoder *d, enum control control)
{
	struct insn *in = emit(d, NULL);
	in->control = control;
	return in;
}

struct insn *emit_alu(struct decoder *d, enum alu op, enum type type, uint32_t to, uint32_t a,
                      uint32_t b, uint32_t c)
{
	handler *run = d->alu->table[op][type_bits(type)];
	if (!run)
		fail_unsupported(d);
	struct insn *in = emit(d, run);
	in->d[0] = to;
	in->s[0] = a;
	in->s[1] = b;
	in->s[2] = c;
	return in;
}

struct insn *emit_convert(struct decoder *d, enum type to_type, enum type from_type, uint32_t to,
                          uint32_t from)
{
	handler *run = d->alu->convert[to_type][from_type];
	if (!run)
		fail_unsupported(d);
	struct insn *in = emit(d, run);
	in->d[0] = to;
	in->s[0] = from;
	return in;
}

/* --- slots --- */

uint32_t scratch(struct decoder *d, enum type type)
{
	uint32_t size = type == TYPE_PRED ? 64 : type_size(type) * LANES;
	uint32_t slot = ((d->scratch_next + 63) & ~63u) | BANK_FRAME;
	d->scratch_next = slot + size;
	if (d->scratch_next > d->scratch_end)
		d->scratch_end = d->scratch_next;
	return slot;
}

uint32_t constant(struct decoder *d, uint64_t bits, uint32_t size)
{
	if (size && size < 8)
		bits &= ((uint64_t)1 << 8 * size) - 1;
	for (uint32_t i = 0; i < d->constant_count; i++)
		if (d->constants[i].bits == bits && d->constants[i].size == size)
			return d->constants[i].slot;
	if (d->constant_count == d->constant_capacity) {
		uint32_t capacity = d->constant_capacity ? 2 * d->constant_capacity : 64;
		struct constant *grown = reader_scratch(d->r, capacity * sizeof *grown);
		if (d->constant_count)
			memcpy(grown, d->constants, d->constant_count * sizeof *grown);
		d->constants = grown;
		d->constant_capacity = capacity;
	}
	struct constant *c = &d->constants[d->constant_count++];
	c->bits = bits;
	c->size = size;
	c->slot = d->constant_bytes | BANK_CONSTANT;
	d->constant_bytes += ((size ? size * LANES : 4) + 63) & ~63u;
	return c->slot;
}

static uint32_t special(enum special which)
{
	return which * SPECIAL_STRIDE | BANK_SPECIAL;
}

static bool find_special(const char *name, uint32_t *slot)
{
	static const struct {
		const char *name;
		enum special special;
	} specials[] = {
	    {"%tid.x", SPECIAL_TID_X},
	    {"%tid.y", SPECIAL_TID_Y},
	    {"%tid.z", SPECIAL_TID_Z},
	    {"%ntid.x", SPECIAL_NTID_X},
	    {"%ntid.y", SPECIAL_NTID_Y},
	    {"%ntid.z", SPECIAL_NTID_Z},
	    {"%ctaid.x", SPECIAL_CTAID_X},
	    {"%ctaid.y", SPECIAL_CTAID_Y},
	    {"%ctaid.z", SPECIAL_CTAID_Z},
	    {"%nctaid.x", SPECIAL_NCTAID_X},
	    {"%nctaid.y", SPECIAL_NCTAID_Y},
	    {"%nctaid.z", SPECIAL_NCTAID_Z},
	    {"%laneid", SPECIAL_LANEID},
	    {"%warpid", SPECIAL_WARPID},
	    {"%nwarpid", SPECIAL_NWARPID},
	    {"%lanemask_eq", SPECIAL_LANEMASK_EQ},
	    {"%lanemask_lt", SPECIAL_LANEMASK_LT},
	    {"%lanemask_le", SPECIAL_LANEMASK_LE},
	    {"%lanemask_gt", SPECIAL_LANEMASK_GT},
	    {"%lanemask_ge", SPECIAL_LANEMASK_GE},
	    {"%smid", SPECIAL_ZERO},
	    {"%nsmid", SPECIAL_ONE},
	    {"%gridid", SPECIAL_ZERO},
	    {"%dynamic_smem_size", SPECIAL_DYNAMIC_SIZE},
	    {"%total_smem_size", SPECIAL_TOTAL_SHARED},
	    {"%envreg1", SPECIAL_GRID_HIGH},
	    {"%envreg2", SPECIAL_GRID_LOW},
	    {"%reserved_smem_offset_1", SPECIAL_RESERVED_SHARED},
	    {"%cluster_ctaid.x", SPECIAL_ZERO},
	    {"%cluster_ctaid.y", SPECIAL_ZERO},
	    {"%cluster_ctaid.z", SPECIAL_ZERO},
	    {"%cluster_nctaid.x", SPECIAL_ONE},
	    {"%cluster_nctaid.y", SPECIAL_ONE},
	    {"%cluster_nctaid.z", SPECIAL_ONE},
	    {"%cluster_ctarank", SPECIAL_ZERO},
	    {"%cluster_nctarank", SPECIAL_ONE},
	};
	for (uint32_t i = 0; i < sizeof specials / sizeof *specials; i++)
		if (!strcmp(specials[i].name, name)) {
			*slot = special(specials[i].special);
			return true;
		}
	return false;
}

/* Registers are read and written at the width of the instruction's type. */
static uint32_t narrowed(struct decoder *d, uint32_t slot, enum type have, enum type want)
{
	uint32_t from = type_size(have), to = type_size(want);
	if (from == to)
		return slot;
	if (from < to)
		fail_invalid(d, "a .%u register is too small", from * 8);
	uint32_t narrow = scratch(d, want);
	emit_convert(d, type_unsigned(to), type_unsigned(from), narrow, slot);
	return narrow;
}

static uint32_t variable_address(struct decoder *d, const struct symbol *v, uint64_t offset,
                                 enum type type)
{
	uint64_t value = v->value + offset;
	uint32_t size = type_size(type);
	if (v->global)
		return constant(d, v->global->address + offset, size);
	if (v->space == SPACE_SHARED && v->dynamic) {
		uint32_t slot = scratch(d, type);
		emit_convert(d, type_unsigned(size), TYPE_U32, slot,
		             special(SPECIAL_DYNAMIC_SHARED));
		if (offset)
			emit_alu(d, ALU_ADD, type_unsigned(size), slot, slot,
			         constant(d, offset, size), NONE);
		return slot;
	}
	if (v->space == SPACE_SHARED)
		return constant(d, value + (v->in_entry ? d->r->shared_bytes : 0), size);
	if (v->entry_param)
		return constant(d, value, size);
	if (size != 8)
		fail_invalid(d, "the address of '%s' has 64 bits", v->name);
	uint32_t slot = scratch(d, TYPE_U64);
	struct insn *in = emit(d, d->alu->add_base);
	in->d[0] = slot;
	in->s[0] = constant(d, value, 8);
	return slot;
}

static uint64_t literal(struct decoder *d, const struct operand *o, enum type type)
{
	if (o->kind == OPERAND_INTEGER)
		return o->bits;
	double wide;
	float single;
	uint32_t low = (uint32_t)o->bits;
	if (o->kind == OPERAND_SINGLE) {
		memcpy(&single, &low, sizeof single);
		if (type_size(type) != 8)
			return low;
		wide = single;
	} else {
		memcpy(&wide, &o->bits, sizeof wide);
	}
	uint64_t bits = 0;
	if (type_size(type) == 4) {
		single = (float)wide;
		memcpy(&bits, &single, sizeof single);
	} else if (type_size(type) == 8) {
		memcpy(&bits, &wide, sizeof wide);
	} else {
		fail_invalid(d, "a floating point literal of this type");
	}
	return bits;
}

static uint64_t offset_in(const struct symbol *variable, const struct operand *o)
{
	return o->indexed ? o->bits * type_size(variable->type) : o->bits;
}

uint32_t source(struct decoder *d, const struct operand *o, enum type type)
{
	if (type == TYPE_PRED)
		return predicate(d, o);
	if (o->kind == OPERAND_INTEGER && type_is_float(type) && type_size(type) != 2)
		fail_invalid(d, "an integer where a floating point value is wanted");
	if (o->kind == OPERAND_INTEGER || o->kind == OPERAND_SINGLE || o->kind == OPERAND_DOUBLE)
		return constant(d, literal(d, o, type), type_size(type));
	if (o->kind != OPERAND_NAME || o->pair || o->negated)
		fail_invalid(d, "unexpected operand");
	uint32_t slot;
	struct symbol *symbol = symbol_find_register(d->s->scope, o->name, &slot);
	if (!symbol) {
		if (find_special(o->name, &slot)) {
			if (slot == special(SPECIAL_RESERVED_SHARED))
				d->function->module->uses_reserved_shared = true;
			return narrowed(d, slot, TYPE_U32, type);
		}
		if (!strcmp(o->name, "WARP_SZ"))
			return constant(d, LANES, type_size(type));
		fail_invalid(d, "'%s' is not declared", o->name);
	}
	switch (symbol->kind) {
	case SYMBOL_REGISTER:
	case SYMBOL_REGISTERS:
		if (symbol->type == TYPE_PRED || o->indexed)
			fail_invalid(d, "'%s' is %s", o->name,
			             o->indexed ? "no array" : "a predicate");
		return narrowed(d, slot, symbol->type, type);
	case SYMBOL_VARIABLE:
		return variable_address(d, symbol, offset_in(symbol, o), type);
	case SYMBOL_FUNCTION:
		return constant(d, GENERIC_CODE + symbol->function->index, type_size(type));
	default:
		fail_invalid(d, "'%s' is not a value", o->name);
	}
}

uint32_t predicate(struct decoder *d, const struct operand *o)
{
	if (o->kind == OPERAND_INTEGER)
		return constant(d, o->bits ? ALL_LANES : 0, 0);
	uint32_t slot;
	struct symbol *symbol =
	    o->kind == OPERAND_NAME ? symbol_find_register(d->s->scope, o->name, &slot) : NULL;
	if (!symbol || symbol->type != TYPE_PRED || symbol->kind > SYMBOL_REGISTERS)
		fail_invalid(d, "a predicate is wanted");
	if (!o->negated)
		return slot;
	uint32_t negated = scratch(d, TYPE_PRED);
	emit_alu(d, ALU_NOT, TYPE_PRED, negated, slot, slot, NONE);
	return negated;
}

uint32_t destination_named(struct decoder *d, const char *name, enum type type)
{
	if (!strcmp(name, "_"))
		return scratch(d, type);
	uint32_t slot;
	struct symbol *symbol = symbol_find_register(d->s->scope, name, &slot);
	if (!symbol || symbol->kind > SYMBOL_REGISTERS)
		fail_invalid(d, "'%s' is not a register", name);
	if ((symbol->type == TYPE_PRED) != (type == TYPE_PRED))
		fail_invalid(d, "'%s' has the wrong type", name);
	if (type_size(symbol->type) == type_size(type))
		return slot;
	if (type_size(symbol->type) < type_size(type))
		fail_invalid(d, "'%s' is too small", name);
	if (d->pending_count == MAX_PENDING)
		fail_unsupported(d);
	uint32_t narrow = scratch(d, type);
	d->pending[d->pending_count].to = slot;
	d->pending[d->pending_count].from = narrow;
	d->pending[d->pending_count].to_type = type_unsigned(type_size(symbol->type));
	/* Widened by the sign of the instruction's type. */
	d->pending[d->pending_count++].from_type =
	    type_is_float(type) ? type_unsigned(type_size(type)) : type_bits(type);
	return narrow;
}

uint32_t destination(struct decoder *d, const struct operand *o, enum type type)
{
	if (o->kind != OPERAND_NAME || o->pair || o->negated || o->bits || o->indexed)
		fail_invalid(d, "a register is wanted");
	return destination_named(d, o->name, type);
}

const struct operand *operand(struct decoder *d, uint32_t index)
{
	const struct operand *o = d->s->operands;
	for (; o && index; index--)
		o = o->next;
	if (!o)
		fail_invalid(d, "an operand is missing");
	return o;
}

uint32_t operand_count(const struct decoder *d)
{
	uint32_t count = 0;
	for (const struct operand *o = d->s->operands; o; o = o->next)
		count++;
	return count;
}

void address(struct decoder *d, const struct operand *o, enum space space, struct insn *in)
{
	if (o->kind != OPERAND_ADDRESS && !o->indexed)
		fail_invalid(d, "an address is wanted");
	in->space = space;
	in->wide = true;
	in->immediate = (int64_t)o->bits;
	if (!o->name) {
		in->s[0] = constant(d, o->bits, 8);
		in->immediate = 0;
		return;
	}
	uint32_t slot;
	struct symbol *symbol = symbol_find_register(d->s->scope, o->name, &slot);
	if (!symbol)
		fail_invalid(d, "'%s' is not declared", o->name);
	if (symbol->kind <= SYMBOL_REGISTERS && !o->indexed) {
		uint32_t size = type_size(symbol->type);
		if (size != 4 && size != 8)
			fail_invalid(d, "'%s' cannot hold an address", o->name);
		in->s[0] = slot;
		in->wide = size == 8;
		if (space == SPACE_PARAM && !d->function->entry)
			in->space = SPACE_LOCAL;
		return;
	}
	if (symbol->kind != SYMBOL_VARIABLE)
		fail_invalid(d, "'%s' is not a variable", o->name);
	in->immediate = (int64_t)offset_in(symbol, o);
	if (symbol->space == SPACE_SHARED && symbol->dynamic) {
		in->s[0] = special(SPECIAL_DYNAMIC_SHARED);
		in->wide = false;
	} else if (!symbol->global && symbol->space != SPACE_SHARED && !symbol->entry_param) {
		/* Parameters of device functions and of calls are local variables. */
		in->s[0] = constant(d, symbol->value, 8);
		in->local_base = true;
		in->space = SPACE_LOCAL;
	} else {
		in->s[0] = variable_address(d, symbol, 0, TYPE_U64);
	}
	if (in->space == SPACE_GENERIC && symbol->space != SPACE_GENERIC && !in->local_base)
		in->space = symbol->space;
}

/* --- functions --- */

static const struct opcode *find_opcode(const char *name)
{
	static const struct opcode *const tables[] = {opcodes_alu, opcodes_memory, opcodes_control,
	                                              opcodes_video, opcodes_matrix};
	for (int i = 0; i < 5; i++)
		for (const struct opcode *o = tables[i]; o->name; o++)
			if (!strcmp(o->name, name))
				return o;
	return NULL;
}

static void decode_statement(struct decoder *d, struct statement *s)
{
	d->s = s;
	d->guard = NONE;
	d->pending_count = 0;
	d->scratch_next = d->body->registers_bytes;
	const struct opcode *opcode = find_opcode(s->parts[0]);
	if (!opcode)
		fail_unsupported(d);
	if (s->guard) {
		struct operand name = {.kind = OPERAND_NAME, .name = s->guard};
		d->guard = predicate(d, &name);
	}
	opcode->decode(d, opcode->argument);
	check_modifiers(d);
	for (uint32_t i = 0; i < d->pending_count; i++)
		emit_convert(d, d->pending[i].to_type, d->pending[i].from_type, d->pending[i].to,
		             d->pending[i].from);
}

static uint32_t label_index(struct decoder *d, const struct insn *in, const struct scope *scope,
                            const char *name)
{
	const struct symbol *symbol = symbol_find(scope, name);
	if (!symbol || symbol->kind != SYMBOL_LABEL)
		reader_fail(d->r, PTX_INVALID, in->line, "'%s' is not a label", name);
	return symbol->label->index;
}

static void resolve_labels(struct decoder *d)
{
	for (uint32_t i = 0; i < d->count; i++) {
		struct insn *in = &d->code[i];
		/* decode_control.c leaves the statement of a branch in its immediate. */
		const struct statement *s = (const struct statement *)(intptr_t)in->immediate;
		if (in->control == CONTROL_BRANCH) {
			in->target = label_index(d, in, s->scope, s->operands->name);
		} else if (in->control == CONTROL_BRANCH_INDEX) {
			const struct operand *list = s->operands->next;
			const struct symbol *targets = symbol_find(s->scope, list->name);
			if (!targets || targets->kind != SYMBOL_TARGETS)
				reader_fail(d->r, PTX_INVALID, in->line, "no such branch targets");
			struct table *table = &d->tables[in->target];
			table->count = targets->name_count;
			table->targets = reader_keep(d->r, table->count * sizeof(uint32_t));
			for (uint32_t k = 0; k < table->count; k++)
				table->targets[k] = label_index(d, in, s->scope, targets->names[k]);
		}
	}
}

static void build_constants(struct decoder *d)
{
	uint8_t *pool = reader_keep(d->r, d->constant_bytes + 64);
	for (uint32_t i = 0; i < d->constant_count; i++) {
		const struct constant *c = &d->constants[i];
		uint8_t *at = pool + (c->slot & ~3u);
		if (!c->size)
			memcpy(at, &c->bits, 4);
		for (uint32_t lane = 0; c->size && lane < LANES; lane++)
			memcpy(at + lane * c->size, &c->bits, c->size);
	}
	d->function->constants = pool;
}

/* Compilers write `atom` where `red` would do: it orders blocks only when its result is read. */
static void find_order(struct decoder *d)
{
	uint8_t *read = reader_scratch(d->r, d->scratch_end / 64 + 1);
	for (uint32_t i = 0; i < d->count; i++) {
		const struct insn *in = &d->code[i];
		for (int k = 0; k < 4; k++) {
			if (in->s[k] != NONE && (in->s[k] & 3) == BANK_FRAME)
				read[in->s[k] / 64] = true;
			if (in->run == memory_store && in->d[k] != NONE &&
			    (in->d[k] & 3) == BANK_FRAME)
				read[in->d[k] / 64] = true;
		}
	}
	for (uint32_t i = 0; i < d->count; i++)
		if (d->code[i].ordered && read[d->code[i].d[0] / 64])
			d->function->serial = true;
}

static void count_special_statements(struct decoder *d)
{
	uint32_t calls = 0, tables = 0;
	for (struct statement *s = d->body->statements; s; s = s->next) {
		calls += s->text && !strcmp(s->parts[0], "call");
		tables += s->text && !strcmp(s->parts[0], "brx");
	}
	d->calls = reader_keep(d->r, calls * sizeof *d->calls);
	d->tables = reader_keep(d->r, tables * sizeof *d->tables);
}

void decode_function(struct reader *r, struct body *body)
{
	struct ptx_function *f = body->function;
	struct decoder d = {.r = r, .body = body, .function = f, .alu = r->module->alu};
	body->registers_bytes = (body->registers_bytes + 63) & ~63u;
	d.carry = body->registers_bytes;
	body->registers_bytes += 64;
	d.scratch_end = body->registers_bytes;
	d.guard = NONE;
	count_special_statements(&d);
	for (struct statement *s = body->statements; s; s = s->next) {
		if (s->text) {
			decode_statement(&d, s);
			continue;
		}
		d.s = NULL;
		d.guard = NONE;
		s->index = d.count;
		emit_control(&d, CONTROL_JOIN)->line = s->line;
	}
	d.s = NULL;
	d.guard = NONE;
	emit_control(&d, f->entry ? CONTROL_EXIT : CONTROL_RETURN);
	resolve_labels(&d);
	find_order(&d);
	cfg_place_joins(r, d.code, &d.count, d.tables);
	f->code = reader_keep(r, d.count * sizeof *f->code);
	memcpy(f->code, d.code, d.count * sizeof *f->code);
	f->code_count = d.count;
	f->calls = d.calls;
	f->call_count = d.call_count;
	f->tables = d.tables;
	build_constants(&d);
	f->frame_bytes = (d.scratch_end + 63) & ~63u;
	f->local_bytes = (body->local_bytes + 15) & ~15u;
	f->info.local_bytes = body->local_bytes;
	f->info.registers = body->register_count < 250 ? body->register_count + 4 : 254;
	if (f->max_registers && f->max_registers < f->info.registers)
		f->info.registers = f->max_registers;
	f->info.bounds_registers = f->max_registers != 0;
	f->info.shared_bytes =
	    body->shared_bytes ? r->shared_bytes + body->shared_bytes : r->shared_used;
	f->info.ptx_version = r->module->version;
	f->info.target = r->module->target;
	f->info.constant_bytes = r->module->constant_bytes;
}
