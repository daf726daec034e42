/* SPDX-License-Identifier: MIT */
/* Reads the statements of a function body. */
#include "parse.h"

#include <string.h>

static struct operand *parse_operand(struct reader *r);

static struct operand *parse_items(struct reader *r, char end)
{
	struct operand *items = NULL, **tail = &items;
	if (++r->depth > 16)
		reader_fail(r, PTX_INVALID, r->token_line, "operands are nested too deeply");
	while (!at_char(r, end)) {
		*tail = parse_operand(r);
		tail = &(*tail)->next;
		if (!accept_char(r, ','))
			break;
	}
	expect_char(r, end);
	r->depth--;
	return items;
}

/* The "+4" or "+-4" after a name. */
static uint64_t parse_offset(struct reader *r)
{
	if (accept_char(r, '+'))
		return expect_number(r);
	if (accept_char(r, '-'))
		return -expect_number(r);
	return 0;
}

static struct operand *parse_operand(struct reader *r)
{
	struct operand *o = reader_scratch(r, sizeof *o);
	if (accept_char(r, '{')) {
		o->kind = OPERAND_VECTOR;
		o->items = parse_items(r, '}');
		return o;
	}
	if (accept_char(r, '(')) {
		o->kind = OPERAND_LIST;
		o->items = parse_items(r, ')');
		return o;
	}
	if (accept_char(r, '[')) {
		o->kind = OPERAND_ADDRESS;
		if (r->token == TOKEN_WORD)
			o->name = expect_name(r);
		else
			o->bits = expect_number(r);
		o->bits += parse_offset(r);
		expect_char(r, ']');
		return o;
	}
	o->negated = accept_char(r, '!');
	if (r->token == TOKEN_WORD) {
		o->kind = OPERAND_NAME;
		o->name = expect_name(r);
		if (accept_char(r, '|')) {
			o->pair = expect_name(r);
		} else if (accept_char(r, '[')) {
			o->indexed = true;
			o->bits = expect_number(r);
			expect_char(r, ']');
		} else {
			o->bits = parse_offset(r);
		}
		return o;
	}
	bool negative = accept_char(r, '-');
	o->bits = r->bits;
	if (r->token == TOKEN_INTEGER) {
		o->kind = OPERAND_INTEGER;
		o->bits = negative ? -o->bits : o->bits;
	} else if (r->token == TOKEN_SINGLE) {
		o->kind = OPERAND_SINGLE;
		o->bits ^= negative ? 1ull << 31 : 0;
	} else if (r->token == TOKEN_DOUBLE) {
		o->kind = OPERAND_DOUBLE;
		o->bits ^= negative ? 1ull << 63 : 0;
	} else {
		fail_unexpected(r, "an operand");
	}
	lex_next(r);
	return o;
}

static struct statement *add_statement(struct reader *r)
{
	struct statement *s = reader_scratch(r, sizeof *s);
	s->scope = r->scope;
	s->line = r->token_line;
	*r->body->statements_end = s;
	r->body->statements_end = &s->next;
	return s;
}

static void split_opcode(struct reader *r, struct statement *s)
{
	char *text = reader_scratch(r, strlen(s->text) + 1);
	strcpy(text, s->text);
	for (char *part = text; part;) {
		char *dot = strchr(part, '.');
		if (dot)
			*dot++ = '\0';
		if (s->part_count == MAX_PARTS)
			reader_fail(r, PTX_INVALID, s->line, "too many modifiers: %s", s->text);
		s->parts[s->part_count++] = part;
		part = dot;
	}
	s->parts_used = 1;
}

static void parse_instruction(struct reader *r)
{
	struct statement *s = add_statement(r);
	if (accept_char(r, '@')) {
		s->guard_negated = accept_char(r, '!');
		s->guard = expect_name(r);
	}
	s->text = expect_name(r);
	split_opcode(r, s);
	struct operand **tail = &s->operands;
	while (!at_char(r, ';')) {
		*tail = parse_operand(r);
		tail = &(*tail)->next;
		if (!accept_char(r, ','))
			break;
	}
	expect_char(r, ';');
}

/* name: .branchtargets a, b; and name: .callprototype (...) _ (...); */
static void parse_labelled_directive(struct reader *r, const char *name)
{
	if (accept_word(r, ".branchtargets")) {
		struct symbol *symbol = symbol_add(r, name, SYMBOL_TARGETS);
		const char *names[1024];
		do {
			if (symbol->name_count == 1024)
				reader_fail(r, PTX_NOT_SUPPORTED, r->token_line,
				            "more than 1024 branch targets");
			names[symbol->name_count++] = expect_name(r);
		} while (accept_char(r, ','));
		symbol->names = reader_scratch(r, symbol->name_count * sizeof *names);
		memcpy(symbol->names, names, symbol->name_count * sizeof *names);
	} else {
		symbol_add(r, name, SYMBOL_PROTOTYPE);
		while (r->token != TOKEN_END && !at_char(r, ';'))
			lex_next(r);
	}
	expect_char(r, ';');
}

static bool parse_label(struct reader *r)
{
	/* A label is the one name that a colon follows; look without taking the name. */
	const char *at = r->at;
	while (at < r->end && (*at == ' ' || *at == '\t'))
		at++;
	if (r->token != TOKEN_WORD || at >= r->end || *at != ':')
		return false;
	const char *name = expect_name(r);
	expect_char(r, ':');
	if (at_word(r, ".branchtargets") || at_word(r, ".callprototype") ||
	    at_word(r, ".calltargets")) {
		parse_labelled_directive(r, name);
		return true;
	}
	symbol_add(r, name, SYMBOL_LABEL)->label = add_statement(r);
	return true;
}

static void parse_location(struct reader *r)
{
	uint32_t line = r->token_line;
	/* .loc ends with its line, not with a semicolon. */
	while (r->token != TOKEN_END && r->token_line == line)
		lex_next(r);
}

void parse_statements(struct reader *r)
{
	uint32_t start = r->token_line;
	expect_char(r, '{');
	if (++r->depth > 64)
		reader_fail(r, PTX_INVALID, start, "blocks are nested too deeply");
	while (!accept_char(r, '}')) {
		if (r->token == TOKEN_END)
			reader_fail(r, PTX_INVALID, start, "'{' without '}'");
		if (at_char(r, '{')) {
			scope_push(r);
			parse_statements(r);
			scope_pop(r);
		} else if (accept_char(r, ';')) {
			continue;
		} else if (accept_word(r, ".reg")) {
			parse_registers(r);
		} else if (accept_word(r, ".local")) {
			parse_variable(r, SPACE_LOCAL, false);
		} else if (accept_word(r, ".param")) {
			parse_variable(r, SPACE_PARAM, false);
		} else if (accept_word(r, ".shared")) {
			parse_variable(r, SPACE_SHARED, false);
		} else if (accept_word(r, ".global")) {
			parse_variable(r, SPACE_GLOBAL, false);
		} else if (accept_word(r, ".const")) {
			parse_variable(r, SPACE_CONST, false);
		} else if (at_word(r, ".loc")) {
			parse_location(r);
		} else if (accept_word(r, ".pragma")) {
			while (r->token != TOKEN_END && !accept_char(r, ';'))
				lex_next(r);
		} else if (at_char(r, '@') || (r->token == TOKEN_WORD && r->word[0] != '.')) {
			if (!parse_label(r))
				parse_instruction(r);
		} else if (r->token == TOKEN_WORD) {
			reader_fail(r, PTX_NOT_SUPPORTED, r->token_line, "directive %s", r->word);
		} else {
			fail_unexpected(r, "an instruction");
		}
	}
	r->depth--;
}
