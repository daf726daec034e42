/* SPDX-License-Identifier: MIT */
/* The parts of the decoder share this. */
#ifndef SOFTGPU_PTX_DECODE_H
#define SOFTGPU_PTX_DECODE_H

#include "alu.h"
#include "text.h"

enum { MAX_PENDING = 8 };

struct decoder {
	struct reader *r;
	struct body *body;
	struct ptx_function *function;
	const struct alu_set *alu;
	struct statement *s; /* being decoded */

	struct insn *code;
	uint32_t count, capacity;
	uint32_t guard; /* of the statement: predicate slot or NONE */

	/* Registers of the decoder's own; each statement reuses them. */
	uint32_t scratch_next, scratch_end;
	uint32_t carry; /* predicate of add.cc and addc */

	/* Narrow results to be widened into their registers once they are there. */
	struct {
		uint32_t to, from;
		enum type to_type, from_type;
	} pending[MAX_PENDING];
	uint32_t pending_count;

	struct constant {
		uint64_t bits;
		uint32_t size, slot;
	} * constants;
	uint32_t constant_count, constant_capacity, constant_bytes;

	struct call *calls;
	uint32_t call_count;
	struct table *tables;
	uint32_t table_count;
};

/* Modifiers: true when the opcode has it; what nobody asked for is refused in the end. */
bool modifier(struct decoder *d, const char *name);
enum type modifier_type(struct decoder *d); /* the next type; fails when there is none */
enum rounding modifier_rounding(struct decoder *d);
enum space modifier_space(struct decoder *d);

const struct operand *operand(struct decoder *d, uint32_t index); /* fails when missing */
uint32_t operand_count(const struct decoder *d);

__attribute__((noreturn)) void fail_unsupported(struct decoder *d);
__attribute__((noreturn, format(printf, 2, 3))) void fail_invalid(struct decoder *d,
                                                                  const char *format, ...);

/* Slots with lanes of exactly the type's width. */
uint32_t source(struct decoder *d, const struct operand *o, enum type type);
uint32_t destination(struct decoder *d, const struct operand *o, enum type type);
uint32_t destination_named(struct decoder *d, const char *name, enum type type);
uint32_t predicate(struct decoder *d, const struct operand *o); /* negation included */
uint32_t constant(struct decoder *d, uint64_t bits, uint32_t size);
uint32_t scratch(struct decoder *d, enum type type);
/* Fills s[0], wide, immediate, local_base and space. */
void address(struct decoder *d, const struct operand *o, enum space space, struct insn *in);

struct insn *emit(struct decoder *d, handler *run);
struct insn *emit_control(struct decoder *d, enum control control);
/* An operation of the table; fails with NOT_SUPPORTED where the table has a hole. */
struct insn *emit_alu(struct decoder *d, enum alu op, enum type type, uint32_t to, uint32_t a,
                      uint32_t b, uint32_t c);
struct insn *emit_convert(struct decoder *d, enum type to_type, enum type from_type, uint32_t to,
                          uint32_t from);

typedef void decode_fn(struct decoder *d, int argument);

struct opcode {
	const char *name;
	decode_fn *decode;
	int argument;
};

extern const struct opcode opcodes_alu[], opcodes_memory[], opcodes_control[], opcodes_video[],
    opcodes_matrix[];

#endif
