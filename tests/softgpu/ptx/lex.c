/* SPDX-License-Identifier: MIT */
/* Splits PTX text into tokens. */
#include "text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_word_start(int c)
{
	return isalpha(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static void skip_space(struct reader *r)
{
	while (r->at < r->end) {
		if (*r->at == '\n') {
			r->line++;
			r->at++;
		} else if (isspace((unsigned char)*r->at) || *r->at == '\0') {
			r->at++;
		} else if (r->end - r->at >= 2 && r->at[0] == '/' && r->at[1] == '/') {
			while (r->at < r->end && *r->at != '\n')
				r->at++;
		} else if (r->end - r->at >= 2 && r->at[0] == '/' && r->at[1] == '*') {
			uint32_t start = r->line;
			r->at += 2;
			while (r->end - r->at >= 2 && !(r->at[0] == '*' && r->at[1] == '/'))
				r->line += *r->at++ == '\n';
			if (r->end - r->at < 2)
				reader_fail(r, PTX_INVALID, start, "comment without end");
			r->at += 2;
		} else {
			return;
		}
	}
}

static const char *copy(struct reader *r, const char *from, size_t length)
{
	char *text = reader_scratch(r, length + 1);
	memcpy(text, from, length);
	return text;
}

/*
 * Words take in dots and "::", so that `ld.shared::cta.v4.f32` is one. A directive ends at the next
 * dot: `.reg.b32` are two.
 */
static void lex_word(struct reader *r)
{
	const char *start = r->at++;
	bool directive = *start == '.';
	while (r->at < r->end) {
		int c = (unsigned char)*r->at;
		if (isalnum(c) || c == '_' || c == '$' || (c == '.' && !directive))
			r->at++;
		else if (c == ':' && r->end - r->at > 2 && r->at[1] == ':' &&
		         isalnum((unsigned char)r->at[2]))
			r->at += 2;
		else
			break;
	}
	r->token = TOKEN_WORD;
	r->word = copy(r, start, r->at - start);
}

static void lex_number(struct reader *r)
{
	char text[72] = "";
	size_t length = 0;
	const char *at = r->at;
	while (at < r->end && length + 1 < sizeof text &&
	       (isalnum((unsigned char)*at) || *at == '.' ||
	        ((*at == '-' || *at == '+') && length && text[1] != 'x' && text[1] != 'X' &&
	         (text[length - 1] == 'e' || text[length - 1] == 'E'))))
		text[length++] = *at++;
	text[length] = '\0';
	char *rest = text;
	bool prefixed = text[0] == '0' && length > 1;
	if (prefixed && (text[1] == 'f' || text[1] == 'F') && length == 10) {
		r->token = TOKEN_SINGLE;
		r->bits = strtoull(text + 2, &rest, 16);
	} else if (prefixed && (text[1] == 'd' || text[1] == 'D') && length == 18) {
		r->token = TOKEN_DOUBLE;
		r->bits = strtoull(text + 2, &rest, 16);
	} else if (strchr(text, '.') || (text[1] != 'x' && text[1] != 'X' && strpbrk(text, "eE"))) {
		double value = strtod(text, &rest);
		r->token = TOKEN_DOUBLE;
		memcpy(&r->bits, &value, sizeof value);
	} else {
		r->token = TOKEN_INTEGER;
		if (prefixed && (text[1] == 'b' || text[1] == 'B'))
			r->bits = strtoull(text + 2, &rest, 2);
		else
			r->bits = strtoull(text, &rest, 0);
		if (*rest == 'U' || *rest == 'u')
			rest++;
	}
	if (*rest || rest == text)
		reader_fail(r, PTX_INVALID, r->line, "bad number '%s'", text);
	r->at = at;
}

static void lex_string(struct reader *r)
{
	const char *start = ++r->at;
	while (r->at < r->end && *r->at != '"' && *r->at != '\n')
		r->at += *r->at == '\\' && r->end - r->at > 1 ? 2 : 1;
	if (r->at >= r->end || *r->at != '"')
		reader_fail(r, PTX_INVALID, r->line, "string without end");
	r->token = TOKEN_STRING;
	r->word = copy(r, start, r->at - start);
	r->at++;
}

void lex_next(struct reader *r)
{
	skip_space(r);
	r->token_line = r->line;
	r->word = "";
	r->bits = 0;
	if (r->at >= r->end) {
		r->token = TOKEN_END;
		return;
	}
	int c = (unsigned char)*r->at;
	if (isdigit(c)) {
		lex_number(r);
	} else if (is_word_start(c)) {
		lex_word(r);
	} else if (c == '"') {
		lex_string(r);
	} else {
		r->token = TOKEN_OTHER;
		r->bits = c;
		r->at++;
	}
}
