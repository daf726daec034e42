/* SPDX-License-Identifier: MIT */
/* Reads PTX directives: the declarations of a module. */
#include "parse.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SHARED = 256 * 1024, MAX_FRAME = 64 << 20, MAX_LOCAL = 512 * 1024 };

bool at_char(const struct reader *r, char c)
{
	return r->token == TOKEN_OTHER && r->bits == (unsigned char)c;
}

bool at_word(const struct reader *r, const char *word)
{
	return r->token == TOKEN_WORD && !strcmp(r->word, word);
}

bool accept_char(struct reader *r, char c)
{
	bool found = at_char(r, c);
	if (found)
		lex_next(r);
	return found;
}

bool accept_word(struct reader *r, const char *word)
{
	bool found = at_word(r, word);
	if (found)
		lex_next(r);
	return found;
}

void fail_unexpected(struct reader *r, const char *wanted)
{
	char found[48];
	if (r->token == TOKEN_END)
		snprintf(found, sizeof found, "the end of the text");
	else if (r->token == TOKEN_OTHER)
		snprintf(found, sizeof found, "'%c'", (int)r->bits);
	else if (r->token == TOKEN_WORD || r->token == TOKEN_STRING)
		snprintf(found, sizeof found, "'%.32s'", r->word);
	else
		snprintf(found, sizeof found, "a number");
	reader_fail(r, PTX_INVALID, r->token_line, "expected %s, found %s", wanted, found);
}

void expect_char(struct reader *r, char c)
{
	char wanted[] = {'\'', c, '\'', '\0'};
	if (!accept_char(r, c))
		fail_unexpected(r, wanted);
}

const char *expect_name(struct reader *r)
{
	if (r->token != TOKEN_WORD || r->word[0] == '.')
		fail_unexpected(r, "a name");
	const char *name = r->word;
	lex_next(r);
	return name;
}

uint64_t expect_number(struct reader *r)
{
	bool negative = accept_char(r, '-');
	if (r->token != TOKEN_INTEGER)
		fail_unexpected(r, "an integer");
	uint64_t value = r->bits;
	lex_next(r);
	return negative ? -value : value;
}

static uint32_t hash(const char *name)
{
	uint32_t h = 5381;
	while (*name)
		h = h * 33 + (unsigned char)*name++;
	return h % SCOPE_BUCKETS;
}

struct scope *scope_push(struct reader *r)
{
	struct scope *scope = reader_scratch(r, sizeof *scope);
	scope->outer = r->scope;
	return r->scope = scope;
}

void scope_pop(struct reader *r)
{
	r->scope = r->scope->outer;
}

static struct symbol *find_in(const struct scope *scope, const char *name)
{
	struct symbol *symbol = scope->buckets[hash(name)];
	while (symbol && strcmp(symbol->name, name))
		symbol = symbol->next;
	return symbol;
}

struct symbol *symbol_find(const struct scope *scope, const char *name)
{
	struct symbol *found = NULL;
	for (; scope && !found; scope = scope->outer)
		found = find_in(scope, name);
	return found;
}

struct symbol *symbol_find_register(const struct scope *scope, const char *name, uint32_t *slot)
{
	size_t length = strlen(name), stem = length;
	while (stem > 1 && name[stem - 1] >= '0' && name[stem - 1] <= '9')
		stem--;
	char range[128] = "";
	uint64_t number = 0;
	if (stem < length && length - stem < 9 && stem < sizeof range) {
		memcpy(range, name, stem);
		for (size_t i = stem; i < length; i++)
			number = number * 10 + (name[i] - '0');
	}
	for (; scope; scope = scope->outer) {
		struct symbol *symbol = find_in(scope, name);
		if (symbol) {
			*slot = symbol->slot;
			return symbol;
		}
		symbol = range[0] ? find_in(scope, range) : NULL;
		if (symbol && symbol->kind == SYMBOL_REGISTERS && number < symbol->count) {
			uint32_t size = type_size(symbol->type);
			*slot = symbol->slot + (size ? size * LANES : 4) * number;
			return symbol;
		}
	}
	return NULL;
}

struct symbol *symbol_add(struct reader *r, const char *name, enum symbol_kind kind)
{
	if (find_in(r->scope, name))
		reader_fail(r, PTX_INVALID, r->token_line, "'%s' is declared twice", name);
	struct symbol *symbol = reader_scratch(r, sizeof *symbol);
	struct symbol **bucket = &r->scope->buckets[hash(name)];
	symbol->name = name;
	symbol->kind = kind;
	symbol->next = *bucket;
	*bucket = symbol;
	return symbol;
}

static enum type expect_type(struct reader *r)
{
	enum type type = r->token == TOKEN_WORD && r->word[0] == '.' ? type_find(r->word + 1) : 0;
	if (type == TYPE_NONE)
		fail_unexpected(r, "a type");
	lex_next(r);
	return type;
}

void parse_registers(struct reader *r)
{
	if (at_word(r, ".v2") || at_word(r, ".v4") || at_word(r, ".b128"))
		reader_fail(r, PTX_NOT_SUPPORTED, r->token_line, "registers of type %s", r->word);
	enum type type = expect_type(r);
	struct body *body = r->body;
	do {
		const char *name = expect_name(r);
		uint64_t count = 1;
		struct symbol *symbol = symbol_add(r, name, SYMBOL_REGISTER);
		if (accept_char(r, '<')) {
			count = expect_number(r);
			expect_char(r, '>');
			symbol->kind = SYMBOL_REGISTERS;
		}
		uint64_t size = type == TYPE_PRED ? 4 : type_size(type) * LANES;
		uint32_t align = type == TYPE_PRED ? 4 : 64;
		body->registers_bytes = (body->registers_bytes + align - 1) & -align;
		if (count > MAX_FRAME || body->registers_bytes + count * size > MAX_FRAME)
			reader_fail(r, PTX_INVALID, r->token_line, "too many registers");
		symbol->type = type;
		symbol->count = count;
		symbol->slot = body->registers_bytes | BANK_FRAME;
		body->registers_bytes += count * size;
		body->register_count += count;
	} while (accept_char(r, ','));
	expect_char(r, ';');
}

static uint64_t reserve(struct reader *r, uint32_t *used, uint64_t size, uint32_t align,
                        uint32_t limit)
{
	uint64_t offset = ((uint64_t)*used + align - 1) & -(uint64_t)align;
	if (offset + size > limit)
		reader_fail(r, PTX_INVALID, r->token_line, "%llu bytes are too many here",
		            (unsigned long long)size);
	*used = offset + size;
	return offset;
}

static uint64_t array_size(struct reader *r, uint64_t size, bool *open)
{
	*open = false;
	while (accept_char(r, '[')) {
		if (accept_char(r, ']')) {
			*open = true;
			continue;
		}
		uint64_t n = expect_number(r);
		if (n > (1u << 30) || size * n > (1ull << 32))
			reader_fail(r, PTX_INVALID, r->token_line, "array is too large");
		size *= n;
		expect_char(r, ']');
	}
	return size;
}

static struct initial_value *add_value(struct reader *r, struct symbol *variable, uint64_t offset)
{
	struct initial_value *value = reader_scratch(r, sizeof *value);
	value->variable = variable;
	value->offset = offset;
	value->size = type_size(variable->type);
	value->line = r->token_line;
	*r->initial_values_end = value;
	r->initial_values_end = &value->next;
	return value;
}

/* A number, symbol, generic(symbol)+4, or 0xFF00(symbol): one byte of an address. */
static void parse_value(struct reader *r, struct initial_value *value)
{
	bool negative = accept_char(r, '-');
	if (r->token == TOKEN_WORD) {
		value->generic = accept_word(r, "generic");
		if (value->generic)
			expect_char(r, '(');
		value->name = expect_name(r);
		if (value->generic)
			expect_char(r, ')');
		if (accept_char(r, '+'))
			value->bits = expect_number(r);
		else if (accept_char(r, '-'))
			value->bits = -expect_number(r);
		return;
	}
	if (r->token != TOKEN_INTEGER && r->token != TOKEN_SINGLE && r->token != TOKEN_DOUBLE)
		fail_unexpected(r, "a value");
	value->bits = negative ? -r->bits : r->bits;
	if (r->token == TOKEN_DOUBLE) {
		double number;
		memcpy(&number, &r->bits, sizeof number);
		number = negative ? -number : number;
		float single = (float)number;
		memcpy(&value->bits, &number, sizeof number);
		if (value->variable->type == TYPE_F32) {
			value->bits = 0;
			memcpy(&value->bits, &single, sizeof single);
		}
	}
	bool integer = r->token == TOKEN_INTEGER;
	lex_next(r);
	if (integer && accept_char(r, '(')) {
		value->mask = value->bits;
		value->bits = 0;
		value->generic = accept_word(r, "generic");
		if (value->generic)
			expect_char(r, '(');
		value->name = expect_name(r);
		if (value->generic)
			expect_char(r, ')');
		if (accept_char(r, '+'))
			value->bits = expect_number(r);
		expect_char(r, ')');
	}
}

static uint64_t parse_values(struct reader *r, struct symbol *variable, uint64_t offset)
{
	if (!accept_char(r, '{')) {
		parse_value(r, add_value(r, variable, offset));
		return offset + type_size(variable->type);
	}
	if (++r->depth > 16)
		reader_fail(r, PTX_INVALID, r->token_line, "initialiser is nested too deeply");
	while (!at_char(r, '}')) {
		offset = parse_values(r, variable, offset);
		if (!accept_char(r, ','))
			break;
	}
	expect_char(r, '}');
	r->depth--;
	return offset;
}

static void place_global(struct reader *r, struct symbol *symbol, bool managed)
{
	uint64_t *bytes = managed ? &r->managed_bytes : &r->storage_bytes;
	struct global *global = reader_keep(r, sizeof *global);
	char *name = reader_keep(r, strlen(symbol->name) + 1);
	strcpy(name, symbol->name);
	uint64_t align = symbol->align;
	*bytes = (*bytes + align - 1) & -align;
	global->name = name;
	global->address = *bytes; /* made absolute once memory is allocated */
	global->size = symbol->size;
	global->align = align;
	global->constant = symbol->space == SPACE_CONST;
	global->managed = managed;
	global->next = r->module->globals;
	r->module->globals = global;
	symbol->global = global;
	*bytes += symbol->size;
	if (*bytes > 1ull << 34)
		reader_fail(r, PTX_INVALID, r->token_line, "globals are too large");
	if (global->constant)
		r->module->constant_bytes += symbol->size;
}

static void place(struct reader *r, struct symbol *symbol, bool managed)
{
	struct body *body = r->body;
	switch (symbol->space) {
	case SPACE_SHARED:
		/* A device function's variables are the module's: it may be called by any entry. */
		if (symbol->dynamic)
			r->dynamic_align =
			    symbol->align > r->dynamic_align ? symbol->align : r->dynamic_align;
		else
			symbol->value = reserve(r,
			                        body && body->function->entry ? &body->shared_bytes
			                                                      : &r->shared_bytes,
			                        symbol->size, symbol->align, MAX_SHARED);
		symbol->in_entry = body && body->function->entry;
		break;
	case SPACE_LOCAL:
	case SPACE_PARAM:
		if (!body)
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line,
			            ".local or .param outside of a function");
		symbol->value =
		    reserve(r, &body->local_bytes, symbol->size, symbol->align, MAX_LOCAL);
		break;
	default:
		place_global(r, symbol, managed);
	}
}

void parse_variable(struct reader *r, enum space space, bool is_extern)
{
	uint64_t align = 0;
	bool managed = false;
	for (;;) {
		if (accept_word(r, ".align")) {
			align = expect_number(r);
			if (!align || align & (align - 1) || align > 4096)
				reader_fail(r, PTX_INVALID, r->token_line, "bad alignment");
		} else if (accept_word(r, ".attribute")) {
			while (!accept_char(r, ')') && r->token != TOKEN_END) {
				if (accept_word(r, ".managed"))
					managed = true;
				else
					lex_next(r);
			}
			if (managed && space != SPACE_GLOBAL)
				reader_fail(r, PTX_INVALID, r->token_line,
				            ".managed is for .global variables");
		} else {
			break;
		}
	}
	uint64_t elements = accept_word(r, ".v2") ? 2 : accept_word(r, ".v4") ? 4 : 1;
	enum type type = expect_type(r);
	do {
		uint32_t line = r->token_line;
		uint64_t size = type_size(type) * elements;
		struct symbol *symbol = symbol_add(r, expect_name(r), SYMBOL_VARIABLE);
		bool open;
		symbol->type = type;
		symbol->space = space;
		symbol->align = align ? align : size ? size : 1;
		symbol->size = array_size(r, size, &open);
		symbol->dynamic = space == SPACE_SHARED && (is_extern || open);
		if (is_extern && space != SPACE_SHARED)
			reader_fail(r, PTX_INVALID, line, "'%s' is not defined here", symbol->name);
		if (accept_char(r, '=')) {
			if (space != SPACE_GLOBAL && space != SPACE_CONST)
				reader_fail(r, PTX_INVALID, line, "'%s' cannot have a value",
				            symbol->name);
			uint64_t end = parse_values(r, symbol, 0);
			if (open)
				symbol->size = end;
			if (end > symbol->size)
				reader_fail(r, PTX_INVALID, line, "too many values for '%s'",
				            symbol->name);
		}
		place(r, symbol, managed);
	} while (accept_char(r, ','));
	expect_char(r, ';');
}

/* The (...) before or after a function's name. */
struct formal {
	struct symbol *symbol;
	struct formal *next;
};

static uint32_t parse_formals(struct reader *r, struct formal **list)
{
	uint32_t count = 0;
	struct formal **end = list;
	*list = NULL;
	while (!at_char(r, ')')) {
		uint64_t align = 0;
		enum type type = TYPE_NONE;
		if (accept_word(r, ".reg"))
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line, "parameters in registers");
		if (!accept_word(r, ".param"))
			fail_unexpected(r, ".param");
		while (r->token == TOKEN_WORD && r->word[0] == '.') {
			if (accept_word(r, ".align")) {
				uint64_t given = expect_number(r);
				if (!given || given & (given - 1) || given > 4096)
					reader_fail(r, PTX_INVALID, r->token_line, "bad alignment");
				if (type == TYPE_NONE)
					align = given;
			} else if (accept_word(r, ".ptr") || accept_word(r, ".global") ||
			           accept_word(r, ".const") || accept_word(r, ".shared") ||
			           accept_word(r, ".local")) {
				continue; /* a promise about the pointer */
			} else {
				type = expect_type(r);
			}
		}
		uint64_t size = type_size(type);
		bool open;
		struct formal *formal = reader_scratch(r, sizeof *formal);
		formal->symbol = symbol_add(r, expect_name(r), SYMBOL_VARIABLE);
		formal->symbol->type = type;
		formal->symbol->space = SPACE_PARAM;
		formal->symbol->align = align ? align : size ? size : 1;
		formal->symbol->size = array_size(r, size, &open);
		if (open)
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line,
			            "functions with a variable number of arguments");
		*end = formal;
		end = &formal->next;
		count++;
		if (!accept_char(r, ','))
			break;
	}
	expect_char(r, ')');
	return count;
}

static void place_formals(struct reader *r, struct formal *list, uint32_t count, uint32_t **offsets,
                          uint32_t **sizes)
{
	*offsets = reader_keep(r, count * sizeof **offsets);
	*sizes = reader_keep(r, count * sizeof **sizes);
	for (uint32_t i = 0; list; list = list->next, i++) {
		struct symbol *symbol = list->symbol;
		symbol->value =
		    reserve(r, &r->body->local_bytes, symbol->size, symbol->align, MAX_LOCAL);
		(*offsets)[i] = symbol->value;
		(*sizes)[i] = symbol->size;
	}
}

static void place_entry_params(struct reader *r, struct ptx_function *f, struct formal *list,
                               uint32_t count)
{
	struct ptx_param *params = reader_keep(r, count * sizeof *params);
	uint32_t used = 0;
	for (uint32_t i = 0; list; list = list->next, i++) {
		struct symbol *symbol = list->symbol;
		symbol->entry_param = true;
		symbol->value = reserve(r, &used, symbol->size, symbol->align, 32764);
		params[i] = (struct ptx_param){symbol->value, symbol->size};
	}
	f->info.parameters = params;
	f->info.parameter_count = count;
	f->info.parameter_bytes = used;
}

static struct ptx_function *declare_function(struct reader *r, const char *name, bool entry)
{
	struct symbol *symbol = symbol_find(r->globals, name);
	if (symbol && symbol->kind == SYMBOL_FUNCTION)
		return symbol->function;
	struct ptx_function *f = reader_keep(r, sizeof *f);
	char *kept = reader_keep(r, strlen(name) + 1);
	strcpy(kept, name);
	struct scope *inner = r->scope;
	r->scope = r->globals;
	symbol = symbol_add(r, name, SYMBOL_FUNCTION);
	r->scope = inner;
	symbol->function = f;
	f->info.name = kept;
	f->module = r->module;
	f->entry = entry;
	*r->functions_end = f;
	r->functions_end = &f->next;
	f->index = r->module->function_count++;
	return f;
}

static void parse_function(struct reader *r, bool entry)
{
	struct formal *results = NULL, *arguments = NULL;
	uint32_t result_count = 0, argument_count = 0;
	struct body *body = reader_scratch(r, sizeof *body);
	body->line = r->token_line;
	body->statements_end = &body->statements;
	body->scope = scope_push(r);
	if (accept_char(r, '('))
		result_count = parse_formals(r, &results);
	accept_word(r, ".noreturn");
	const char *name = expect_name(r);
	struct ptx_function *f = declare_function(r, name, entry);
	body->function = f;
	if (accept_char(r, '('))
		argument_count = parse_formals(r, &arguments);
	f->info.max_threads = f->info.max_threads ? f->info.max_threads : 1024;
	while (r->token == TOKEN_WORD && r->word[0] == '.') {
		if (accept_word(r, ".maxntid") || accept_word(r, ".reqntid")) {
			uint64_t threads = expect_number(r);
			while (accept_char(r, ','))
				threads *= expect_number(r);
			f->info.max_threads = threads && threads < 1024 ? threads : 1024;
		} else if (accept_word(r, ".maxnreg")) {
			f->max_registers = (uint32_t)expect_number(r);
		} else if (accept_word(r, ".minnctapersm") || accept_word(r, ".maxnctapersm")) {
			expect_number(r);
		} else if (accept_word(r, ".pragma")) {
			lex_next(r);
			accept_char(r, ';');
		} else if (!accept_word(r, ".noreturn")) {
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line, "directive %s", r->word);
		}
	}
	if (accept_char(r, ';')) {
		f->promises_result |= result_count > 0;
		scope_pop(r);
		return;
	}
	if (f->defined)
		reader_fail(r, PTX_INVALID, body->line, "'%s' is defined twice", name);
	f->defined = true;
	r->body = body;
	if (entry) {
		place_entry_params(r, f, arguments, argument_count);
	} else {
		place_formals(r, results, result_count, &f->results, &f->result_sizes);
		place_formals(r, arguments, argument_count, &f->arguments, &f->argument_sizes);
		f->result_count = result_count;
		f->argument_count = argument_count;
	}
	parse_statements(r);
	r->body = NULL;
	scope_pop(r);
	*r->bodies_end = body;
	r->bodies_end = &body->next;
}

static void skip_braces(struct reader *r)
{
	uint32_t line = r->token_line;
	while (!at_char(r, '{') && r->token != TOKEN_END)
		lex_next(r);
	while (!at_char(r, '}')) {
		if (r->token == TOKEN_END)
			reader_fail(r, PTX_INVALID, line, ".section without end");
		lex_next(r);
	}
	lex_next(r);
}

static void parse_version(struct reader *r)
{
	double version;
	if (r->token != TOKEN_DOUBLE)
		fail_unexpected(r, "a version number");
	memcpy(&version, &r->bits, sizeof version);
	if (!(version >= 1 && version < 100))
		reader_fail(r, PTX_INVALID, r->token_line, "bad version number");
	r->module->version = (uint32_t)(version * 10 + 0.5);
	lex_next(r);
}

static void parse_target(struct reader *r)
{
	do {
		const char *name = expect_name(r);
		if (!strncmp(name, "sm_", 3))
			for (const char *c = name + 3; *c >= '0' && *c <= '9'; c++)
				r->module->target = r->module->target * 10 % 10000 + (*c - '0');
	} while (accept_char(r, ','));
}

static void parse_directive(struct reader *r)
{
	bool is_extern = false;
	while (at_word(r, ".visible") || at_word(r, ".weak") || at_word(r, ".common") ||
	       at_word(r, ".extern")) {
		is_extern |= at_word(r, ".extern");
		lex_next(r);
	}
	if (accept_word(r, ".version")) {
		parse_version(r);
	} else if (accept_word(r, ".target")) {
		parse_target(r);
	} else if (accept_word(r, ".address_size")) {
		if (expect_number(r) != 64)
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line, "32-bit addresses");
	} else if (accept_word(r, ".entry")) {
		parse_function(r, true);
	} else if (accept_word(r, ".func")) {
		parse_function(r, false);
	} else if (accept_word(r, ".global")) {
		parse_variable(r, SPACE_GLOBAL, is_extern);
	} else if (accept_word(r, ".const")) {
		parse_variable(r, SPACE_CONST, is_extern);
	} else if (accept_word(r, ".shared")) {
		parse_variable(r, SPACE_SHARED, is_extern);
	} else if (accept_word(r, ".file")) {
		while (r->token == TOKEN_INTEGER || r->token == TOKEN_STRING || at_char(r, ','))
			lex_next(r);
	} else if (accept_word(r, ".section")) {
		skip_braces(r);
	} else if (accept_word(r, ".pragma")) {
		while (r->token != TOKEN_END && !accept_char(r, ';'))
			lex_next(r);
	} else if (!accept_char(r, ';')) {
		if (r->token == TOKEN_WORD && r->word[0] == '.')
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line, "directive %s", r->word);
		fail_unexpected(r, "a directive");
	}
}

void parse_module(struct reader *r)
{
	r->globals = scope_push(r);
	lex_next(r);
	if (!at_word(r, ".version"))
		fail_unexpected(r, ".version");
	while (r->token != TOKEN_END)
		parse_directive(r);
}
