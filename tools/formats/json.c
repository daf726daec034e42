/* SPDX-License-Identifier: MIT */
/* A JSON writer. */
#include "tools/formats/json.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/base/printable.h"

static void put_string(FILE *out, const char *text)
{
	putc('"', out);
	while (*text) {
		uint32_t code;
		size_t length = utf8_decode(text, strlen(text), &code);

		if (length == 0) {
			fputs("\\ufffd", out);
			length = 1;
		} else if (!is_printable_code(code)) {
			fprintf(out, "\\u%04x", code);
		} else {
			if (code == '"' || code == '\\')
				putc('\\', out);
			fwrite(text, 1, length, out);
		}
		text += length;
	}
	putc('"', out);
}

static void json_begin(struct json *json, const char *key)
{
	if (json->follows)
		putc(',', json->out);
	json->follows = true;
	if (!key)
		return;
	put_string(json->out, key);
	putc(':', json->out);
}

void json_open(struct json *json, const char *key, char bracket)
{
	json_begin(json, key);
	putc(bracket, json->out);
	json->follows = false;
}

void json_open_document(struct json *json)
{
	json_open(json, NULL, '{');
	json_number(json, "schema", JSON_SCHEMA);
}

void json_close(struct json *json, char bracket)
{
	putc(bracket, json->out);
	json->follows = true;
}

void json_text(struct json *json, const char *key, const char *value)
{
	json_begin(json, key);
	put_string(json->out, value);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
	json_begin(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void json_integer(struct json *json, const char *key, int64_t value)
{
	json_begin(json, key);
	fprintf(json->out, "%" PRId64, value);
}

void json_micros(struct json *json, const char *key, uint64_t ns)
{
	json_begin(json, key);
	fprintf(json->out, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

void json_bool(struct json *json, const char *key, bool value)
{
	json_begin(json, key);
	fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
	json_begin(json, key);
	fputs("null", json->out);
}
