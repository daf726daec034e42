/* SPDX-License-Identifier: MIT */
/*
 * A JSON writer: values in the order of the calls, commas and escapes where they belong.
 *
 * A key of NULL is for elements of an array. Bytes that are not UTF-8 become U+FFFD: names come
 * from other processes, and the document must parse with any of them.
 */
#ifndef SPILLWAY_JSON_H
#define SPILLWAY_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool follows; /* something stands before on this level */
};

/*
 * The version of all documents that programs read (conf/json/schema.json). Raise it when a key is
 * removed or renamed, or its type, unit or meaning changes. A new key or word keeps it.
 */
enum { JSON_SCHEMA = 1 };

/* Opens a document of the tool's own: an object with its schema. */
void json_open_document(struct json *json);
void json_open(struct json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                 /* '}' or ']' */
void json_text(struct json *json, const char *key, const char *value);
void json_number(struct json *json, const char *key, uint64_t value);
void json_integer(struct json *json, const char *key, int64_t value);
/* Microseconds with three decimals. */
void json_micros(struct json *json, const char *key, uint64_t ns);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

#endif
