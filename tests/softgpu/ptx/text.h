/* SPDX-License-Identifier: MIT */
/*
 * PTX text as read, before it is decoded.
 *
 * reader     one load in progress: text, position, the first error; errors leave it by longjmp
 * statement  one instruction or label of a function body
 * operand    one argument of an instruction; names stay names until decoding
 * scope      the names one pair of braces declares; a name is looked up outwards
 */
#ifndef SOFTGPU_PTX_TEXT_H
#define SOFTGPU_PTX_TEXT_H

#include <setjmp.h>

#include "module.h"

enum token {
	TOKEN_END,
	TOKEN_WORD, /* names, opcodes with their modifiers, directives */
	TOKEN_INTEGER,
	TOKEN_SINGLE, /* 0f... */
	TOKEN_DOUBLE, /* 0d... and decimal fractions */
	TOKEN_STRING,
	TOKEN_OTHER, /* one character */
};

enum symbol_kind {
	SYMBOL_REGISTER,
	SYMBOL_REGISTERS, /* %r<10> */
	SYMBOL_VARIABLE,
	SYMBOL_FUNCTION,
	SYMBOL_LABEL,
	SYMBOL_PROTOTYPE,
	SYMBOL_TARGETS,
};

struct symbol {
	struct symbol *next;
	const char *name;
	enum symbol_kind kind;
	enum type type;
	uint32_t count; /* of SYMBOL_REGISTERS */
	uint32_t slot;  /* of registers */
	enum space space;
	uint64_t value; /* variable: offset in its space, or address; label: statement index */
	uint64_t size;
	uint32_t align;
	bool dynamic;  /* extern shared */
	bool in_entry; /* shared: placed after those of the module */
	struct statement *label;
	bool entry_param; /* lies in the launch's parameter block */
	struct ptx_function *function;
	struct global *global;
	const char **names; /* branch targets */
	uint32_t name_count;
};

enum { SCOPE_BUCKETS = 64 };

struct scope {
	struct scope *outer;
	struct symbol *buckets[SCOPE_BUCKETS];
};

enum operand_kind {
	OPERAND_NAME, /* with an offset, and possibly negated */
	OPERAND_INTEGER,
	OPERAND_SINGLE,
	OPERAND_DOUBLE,
	OPERAND_ADDRESS, /* [name + offset] or [integer] */
	OPERAND_VECTOR,  /* {a, b} */
	OPERAND_LIST,    /* (a, b) */
};

struct operand {
	struct operand *next;
	enum operand_kind kind;
	const char *name; /* NULL in an address that is a plain number */
	const char *pair; /* the q of p|q */
	bool negated;
	bool indexed;  /* name[3]: the offset counts elements of the array */
	uint64_t bits; /* number, or offset of a name */
	struct operand *items;
};

enum { MAX_PARTS = 16 };

struct statement {
	struct statement *next;
	struct scope *scope;
	const char *text;             /* the opcode as written */
	const char *parts[MAX_PARTS]; /* split at its dots */
	uint32_t part_count;
	uint32_t parts_used; /* bit per part: what decoding understood */
	const char *guard;
	bool guard_negated;
	struct operand *operands;
	uint32_t line;
	uint32_t index; /* first instruction, once decoded */
};

struct initial_value {
	struct initial_value *next;
	struct symbol *variable;
	uint64_t offset;
	uint32_t size;
	uint64_t bits;
	uint64_t mask;    /* 0, or the one byte of the value that is meant */
	const char *name; /* of a symbol whose address is meant, bits is added */
	bool generic;
	uint32_t line;
};

/* A function as text. */
struct body {
	struct body *next;
	struct ptx_function *function;
	struct symbol *symbol;
	struct scope *scope;
	struct statement *statements, **statements_end;
	uint32_t registers_bytes;
	uint32_t register_count;
	uint32_t local_bytes;
	uint32_t shared_bytes;
	uint32_t line;
};

struct reader {
	struct ptx_module *module;
	struct arena scratch;
	jmp_buf failed;
	enum ptx_status status;
	char *log;
	size_t log_size;

	const char *at, *end;
	uint32_t line;
	enum token token;
	uint32_t token_line;
	const char *word; /* of the token: word or string, ends in NUL */
	uint64_t bits;    /* of the token: number or character */

	struct scope *globals, *scope;
	struct body *bodies, **bodies_end;
	struct body *body; /* being read */
	struct initial_value *initial_values, **initial_values_end;
	uint64_t storage_bytes; /* of all globals but the managed ones */
	uint64_t managed_bytes;
	uint32_t shared_bytes; /* of module-scope .shared variables */
	uint32_t shared_used;  /* the same, before it is rounded up for those of an entry */
	uint32_t dynamic_align;
	struct ptx_function **functions_end, *functions;
	uint32_t depth; /* nesting, bounded */
};

/* The one way out of an unsuccessful load. */
__attribute__((noreturn, format(printf, 4, 5))) void
reader_fail(struct reader *r, enum ptx_status status, uint32_t line, const char *format, ...);

/* Zeroed memory that lives until the load ends, or as long as the module. */
void *reader_scratch(struct reader *r, size_t size);
void *reader_keep(struct reader *r, size_t size);

void lex_next(struct reader *r);

void parse_module(struct reader *r);
struct symbol *symbol_find(const struct scope *scope, const char *name);
/* Finds %r12 as a member of %r<N> as well; slot is that of the member. */
struct symbol *symbol_find_register(const struct scope *scope, const char *name, uint32_t *slot);

/* Turns the body into instructions. */
void decode_function(struct reader *r, struct body *body);

#endif
