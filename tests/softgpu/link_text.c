/* SPDX-License-Identifier: MIT */
/*
 * Several PTX texts put together as one, as a linker would.
 *
 * item   one declaration or definition at the outermost level of a text
 * local  without .visible, .weak, .common or .extern: only its own text means it by that name
 *
 * Variables come first, so that they stand before all uses; their values may name later items. A
 * local name that another text uses too gets a suffix with the number of its text.
 */
#include "tests/softgpu/link_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum linkage { LINK_LOCAL, LINK_EXTERN, LINK_WEAK, LINK_GLOBAL };
enum item_kind { ITEM_VARIABLE, ITEM_SHARED, ITEM_FUNCTION, ITEM_OTHER };

struct span {
	const char *at;
	size_t length;
};

struct item {
	enum item_kind kind;
	enum linkage linkage;
	bool has_body, dropped;
	bool is_entry, is_bounded; /* by .maxnreg */
	const char *brace;         /* of its body */
	size_t text;               /* the number of its text */
	struct span name, body;
};

struct linker {
	struct item *items;
	size_t count, capacity;
	double version;
	unsigned target, max_registers;
	char *out;
	size_t length, room;
	char *log;
	size_t log_size;
	bool failed;
};

static void fail(struct linker *l, const char *what, struct span name)
{
	if (!l->failed)
		snprintf(l->log, l->log_size, "%s '%.*s'", what, (int)name.length, name.at);
	l->failed = true;
}

/* The next token at or after `at`; comments and blanks are passed over. Empty at the end. */
static struct span next_token(const char *at)
{
	for (;;) {
		at += strspn(at, " \t\r\n");
		if (at[0] == '/' && at[1] == '/') {
			at += strcspn(at, "\n");
		} else if (at[0] == '/' && at[1] == '*') {
			const char *end = strstr(at + 2, "*/");
			at = end ? end + 2 : at + strlen(at);
		} else {
			break;
		}
	}
	const char *end = at;
	if (*at == '"') {
		end = at + 1 + strcspn(at + 1, "\"");
		end += *end == '"';
	} else if (isalnum((unsigned char)*at) || (*at && strchr("_$%.", *at))) {
		while (isalnum((unsigned char)*end) || (*end && strchr("_$%.", *end)))
			end++;
	} else if (*at) {
		end++;
	}
	return (struct span){at, (size_t)(end - at)};
}

static bool is(struct span token, const char *text)
{
	return token.length == strlen(text) && memcmp(token.at, text, token.length) == 0;
}

static bool same(struct span a, struct span b)
{
	return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static bool is_name(struct span token)
{
	return token.length && (isalpha((unsigned char)*token.at) || strchr("_$%", *token.at));
}

static struct span after(struct span token)
{
	return next_token(token.at + token.length);
}

/* The token after the bracket that closes this one. */
static struct span after_brackets(struct span token)
{
	int depth = 0;
	do {
		if (is(token, "(") || is(token, "{") || is(token, "["))
			depth++;
		else if (is(token, ")") || is(token, "}") || is(token, "]"))
			depth--;
		token = after(token);
	} while (depth && token.length);
	return token;
}

static struct item *add_item(struct linker *l)
{
	if (l->count == l->capacity) {
		size_t capacity = l->capacity ? 2 * l->capacity : 64;
		struct item *items = realloc(l->items, capacity * sizeof(*items));
		if (!items) {
			fail(l, "no memory", (struct span){"", 0});
			return NULL;
		}
		l->items = items;
		l->capacity = capacity;
	}
	struct item *item = &l->items[l->count++];
	memset(item, 0, sizeof(*item));
	return item;
}

/* One line of the text's head, which the linked text has once. Returns the token after it. */
static struct span read_head(struct linker *l, struct span token)
{
	struct span value = after(token);
	if (is(token, ".version")) {
		double version = strtod(value.at, NULL);
		l->version = version > l->version ? version : l->version;
	} else if (is(token, ".target")) {
		unsigned target = 0;
		if (value.length > 3 && memcmp(value.at, "sm_", 3) == 0)
			target = (unsigned)strtoul(value.at + 3, NULL, 10);
		l->target = target > l->target ? target : l->target;
		while (is(after(value), ","))
			value = after(after(value));
	} else if (!is(value, "64")) {
		fail(l, "not linked: .address_size", value);
	}
	return after(value);
}

/* A declaration or definition, from its first token. Returns the token after it. */
static struct span read_item(struct linker *l, struct span token, size_t text)
{
	struct item *item = add_item(l);
	if (!item)
		return (struct span){"", 0};
	item->kind = ITEM_OTHER;
	item->text = text;
	item->body.at = token.at;
	for (; token.length && !is_name(token) && !is(token, ";"); token = after(token)) {
		if (is(token, ".extern"))
			item->linkage = LINK_EXTERN;
		else if (is(token, ".visible"))
			item->linkage = LINK_GLOBAL;
		else if (is(token, ".weak") || is(token, ".common"))
			item->linkage = LINK_WEAK;
		else if (is(token, ".global") || is(token, ".const"))
			item->kind = ITEM_VARIABLE;
		else if (is(token, ".shared"))
			item->kind = ITEM_SHARED;
		else if (is(token, ".func") || is(token, ".entry"))
			item->kind = ITEM_FUNCTION;
		item->is_entry |= is(token, ".entry");
		while (is(after(token), "(")) { /* results, .attribute(...) */
			token = after(token);
			struct span rest = after_brackets(token);
			token = (struct span){token.at, (size_t)(rest.at - token.at)};
		}
	}
	if (is_name(token))
		item->name = token;
	while (token.length && !is(token, ";")) {
		bool braces = is(token, "{");
		item->is_bounded |= is(token, ".maxnreg");
		if (braces && !item->brace)
			item->brace = token.at;
		token = is(token, "(") || braces || is(token, "[") ? after_brackets(token)
		                                                   : after(token);
		if (braces && item->kind == ITEM_FUNCTION) {
			item->has_body = true;
			break;
		}
	}
	if (is(token, ";") && !item->has_body)
		token = after(token);
	item->body.length = (size_t)(token.at - item->body.at);
	return token;
}

static void read_text(struct linker *l, const char *text, size_t number)
{
	struct span token = next_token(text);
	while (token.length && !l->failed) {
		if (is(token, ".version") || is(token, ".target") || is(token, ".address_size"))
			token = read_head(l, token);
		else if (is(token, ".file")) /* until the end of its line */
			token = next_token(token.at + strcspn(token.at, "\n"));
		else if (is(token, ".section") || is(token, "@@DWARF"))
			token = after_brackets(after(after(token)));
		else
			token = read_item(l, token, number);
	}
}

static bool is_definition(const struct item *item)
{
	return item->kind == ITEM_FUNCTION ? item->has_body : item->linkage != LINK_EXTERN;
}

/* Functions of the device's own library: declared by whoever calls them. */
static bool is_builtin(struct span name)
{
	return is(name, "vprintf") || is(name, "malloc") || is(name, "free") ||
	       is(name, "__cuda_syscall_aligned_malloc") || is(name, "cudaGraphSetConditional") ||
	       is(name, "__assertfail");
}

/*
 * Returns whether the two are one thing to the linker: the same name, and neither is its text's
 * own.
 */
static bool means_same(const struct item *a, const struct item *b)
{
	return a->name.length && same(a->name, b->name) &&
	       (a->text == b->text || (a->linkage != LINK_LOCAL && b->linkage != LINK_LOCAL));
}

/* Leaves one definition of each name, and no declarations of variables. */
static void resolve(struct linker *l)
{
	for (size_t i = 0; i < l->count && !l->failed; i++) {
		struct item *item = &l->items[i];
		bool defined = is_builtin(item->name) || item->linkage != LINK_EXTERN;
		for (size_t k = 0; k < l->count; k++) {
			struct item *other = &l->items[k];
			if (k == i || other->dropped || !means_same(item, other))
				continue;
			defined |= is_definition(other);
			if (k < i && item->kind == ITEM_SHARED)
				item->dropped = true; /* all dynamic shared memory is one */
			if (k >= i || !is_definition(item) || !is_definition(other) ||
			    item->dropped)
				continue;
			if (item->linkage != LINK_WEAK && other->linkage != LINK_WEAK)
				fail(l, "multiple definition of", item->name);
			else if (item->linkage == LINK_WEAK)
				item->dropped = true;
			else
				other->dropped = true;
		}
		if (!defined && item->kind != ITEM_SHARED && item->kind != ITEM_OTHER)
			fail(l, "undefined reference to", item->name);
		item->dropped |= item->kind == ITEM_VARIABLE && item->linkage == LINK_EXTERN;
	}
}

/*
 * Returns whether a name of this text means something that is its own, and another thing elsewhere.
 */
static bool needs_suffix(const struct linker *l, struct span name, size_t text)
{
	bool local = false, elsewhere = false;
	for (size_t i = 0; i < l->count; i++) {
		const struct item *item = &l->items[i];
		if (!same(item->name, name))
			continue;
		if (item->text == text)
			local |= item->linkage == LINK_LOCAL;
		else
			elsewhere = true;
	}
	return local && elsewhere;
}

static void put(struct linker *l, struct span bytes)
{
	if (l->room - l->length <= bytes.length) {
		size_t room = 2 * (l->room + bytes.length) + 1;
		char *out = realloc(l->out, room);
		if (!out) {
			fail(l, "no memory", (struct span){"", 0});
			return;
		}
		l->out = out;
		l->room = room;
	}
	memcpy(l->out + l->length, bytes.at, bytes.length);
	l->length += bytes.length;
	l->out[l->length] = '\0';
}

static void put_text(struct linker *l, const char *text)
{
	put(l, (struct span){text, strlen(text)});
}

/* Writes the item with its local names made unique. */
static void put_item(struct linker *l, const struct item *item)
{
	const char *from = item->body.at, *end = from + item->body.length;
	for (struct span token = next_token(from); token.length && token.at < end;
	     token = after(token)) {
		if (token.at == item->brace && l->max_registers && item->is_entry &&
		    !item->is_bounded) {
			char bound[32];
			snprintf(bound, sizeof(bound), ".maxnreg %u\n", l->max_registers);
			put(l, (struct span){from, (size_t)(token.at - from)});
			put_text(l, bound);
			from = token.at;
		}
		if (!is_name(token) || !needs_suffix(l, token, item->text))
			continue;
		char suffix[32];
		snprintf(suffix, sizeof(suffix), "$%zu", item->text);
		put(l, (struct span){from, (size_t)(token.at + token.length - from)});
		put_text(l, suffix);
		from = token.at + token.length;
	}
	put(l, (struct span){from, (size_t)(end - from)});
	put_text(l, "\n");
}

bool link_texts(const char *const *texts, size_t count, unsigned int max_registers, char **linked,
                char *log, size_t log_size)
{
	struct linker l = {.log = log, .log_size = log_size, .max_registers = max_registers};
	log[0] = '\0';
	for (size_t i = 0; i < count; i++)
		read_text(&l, texts[i], i);
	resolve(&l);
	if (!l.failed) {
		char head[96];
		snprintf(head, sizeof(head), ".version %.1f\n.target sm_%u\n.address_size 64\n",
		         l.version, l.target);
		put_text(&l, head);
		for (int variables = 1; variables >= 0; variables--)
			for (size_t i = 0; i < l.count; i++)
				if (!l.items[i].dropped &&
				    (l.items[i].kind == ITEM_VARIABLE) == variables)
					put_item(&l, &l.items[i]);
	}
	free(l.items);
	if (l.failed) {
		free(l.out);
		return false;
	}
	*linked = l.out;
	return true;
}
