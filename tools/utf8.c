/* UTF-8. */
#include "tools/utf8.h"

#include <stdint.h>

size_t utf8_length(const char *at)
{
	const unsigned char *text = (const unsigned char *)at;
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
