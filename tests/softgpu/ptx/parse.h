/* SPDX-License-Identifier: MIT */
/*
 * The functions that the two halves of the parser, directives and statements, call of each other.
 */
#ifndef SOFTGPU_PTX_PARSE_H
#define SOFTGPU_PTX_PARSE_H

#include "text.h"

bool at_char(const struct reader *r, char c);
bool at_word(const struct reader *r, const char *word);
bool accept_char(struct reader *r, char c);
bool accept_word(struct reader *r, const char *word);
void expect_char(struct reader *r, char c);
const char *expect_name(struct reader *r);
uint64_t expect_number(struct reader *r); /* with an optional minus sign */
__attribute__((noreturn)) void fail_unexpected(struct reader *r, const char *wanted);

struct scope *scope_push(struct reader *r);
void scope_pop(struct reader *r);
struct symbol *symbol_add(struct reader *r, const char *name, enum symbol_kind kind);

/* .reg, .local, .shared, .param, .global and .const, wherever they stand. */
void parse_variable(struct reader *r, enum space space, bool is_extern);
void parse_registers(struct reader *r);
void parse_statements(struct reader *r); /* { ... } */

#endif
