/* A JSON writer. */
#include "tools/json.h"

#include <inttypes.h>
#include <stddef.h>

/* Bytes of the UTF-8 character at the beginning of text; 0 when it is none. */
static size_t character_length(const unsigned char *text)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t smallest;
	} forms[] = {
	    {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t length = 1; length <= 4; length++) {
		uint32_t code = *text & (unsigned char)~forms[length - 1].mask;

		if ((*text & forms[length - 1].mask) != forms[length - 1].lead)
			continue;
		for (size_t i = 1; i < length; i++) {
			if ((text[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (text[i] & 0x3f);
		}
		if (code < forms[length - 1].smallest || code > 0x10ffff ||
		    (code >= 0xd800 && code <= 0xdfff))
			return 0;
		return length;
	}
	return 0;
}

static void put_string(FILE *out, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	putc('"', out);
	while (*c) {
		size_t length = character_length(c);

		if (length == 0) {
			fputs("\\ufffd", out);
			length = 1;
		} else if (*c < 0x20 || *c == 0x7f) {
			fprintf(out, "\\u%04x", *c);
		} else {
			if (*c == '"' || *c == '\\')
				putc('\\', out);
			fwrite(c, 1, length, out);
		}
		c += length;
	}
	putc('"', out);
}

static void begin(struct json *json, const char *key)
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
	begin(json, key);
	putc(bracket, json->out);
	json->follows = false;
}

void json_close(struct json *json, char bracket)
{
	putc(bracket, json->out);
	json->follows = true;
}

void json_text(struct json *json, const char *key, const char *value)
{
	begin(json, key);
	put_string(json->out, value);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
	begin(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
	begin(json, key);
	fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
	begin(json, key);
	fputs("null", json->out);
}
