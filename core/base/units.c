/* SPDX-License-Identifier: MIT */
/* Sizes, percents and durations: text to number, strictly, and number to text. */
#include "core/base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The number whole + fraction / scale, as written. */
struct decimal {
	uint64_t whole;
	uint64_t fraction;
	uint64_t scale; /* 1: no fraction was written */
	bool too_big;
};

struct unit {
	char name[4]; /* no pointer, for which the loader would write an address */
	uint64_t factor;
};

/* Returns whether c is a digit. Not by isdigit(): the program may have set any locale. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Reads digits[.digits]. Returns the text after it, or NULL when there is no such number. */
static const char *scan_decimal(const char *text, struct decimal *out)
{
	/* More digits than this are below any unit's resolution. */
	const uint64_t finest = UINT64_C(1000000000000000000);
	struct decimal number = {.scale = 1};

	if (!is_digit(text[0]) || (text[0] == '0' && is_digit(text[1])))
		return NULL;
	for (; is_digit(*text); text++)
		number.too_big |= __builtin_mul_overflow(number.whole, 10, &number.whole) ||
		                  __builtin_add_overflow(number.whole, *text - '0', &number.whole);
	if (*text == '.') {
		text++;
		if (!is_digit(*text))
			return NULL;
		for (; is_digit(*text); text++) {
			if (number.scale == finest)
				continue;
			number.fraction = number.fraction * 10 + (uint64_t)(*text - '0');
			number.scale *= 10;
		}
	}
	*out = number;
	return text;
}

/* Reads a number and a unit's name; the empty name stands for no unit. Rounds down. */
static int parse_scaled(const char *text, const struct unit *units, size_t count, bool any_case,
                        uint64_t *value)
{
	const struct unit *unit = NULL;
	struct decimal number;
	uint64_t result;

	text = scan_decimal(text, &number);
	if (!text)
		return -EINVAL;
	if (is_blank(*text)) {
		while (is_blank(*text))
			text++;
		if (*text == '\0')
			return -EINVAL;
	}
	for (size_t i = 0; i < count && !unit; i++)
		if ((any_case ? strcasecmp : strcmp)(text, units[i].name) == 0)
			unit = &units[i];
	if (!unit || (unit->factor == 1 && number.scale > 1))
		return -EINVAL;
	if (number.too_big || __builtin_mul_overflow(number.whole, unit->factor, &result) ||
	    __builtin_add_overflow(
	        result,
	        (uint64_t)((unsigned __int128)number.fraction * unit->factor / number.scale),
	        &result))
		return -ERANGE;
	*value = result;
	return 0;
}

bool units_is_bare(const char *text)
{
	struct decimal number;
	const char *end = scan_decimal(text, &number);

	return end && *end == '\0' && (number.whole || number.fraction || number.too_big);
}

int units_parse_size(const char *text, uint64_t *bytes)
{
#define SCALE(letter, shift)                                                    \
	{letter, UINT64_C(1) << (shift)}, {letter "i", UINT64_C(1) << (shift)}, \
	    {letter "B", UINT64_C(1) << (shift)},                               \
	{                                                                       \
		letter "iB", UINT64_C(1) << (shift)                             \
	}
	static const struct unit units[] = {
	    {"", 1}, {"B", 1}, SCALE("K", 10), SCALE("M", 20), SCALE("G", 30), SCALE("T", 40),
	};
#undef SCALE

	return parse_scaled(text, units, sizeof(units) / sizeof(units[0]), true, bytes);
}

int units_parse_duration(const char *text, uint64_t *nanoseconds)
{
	/* "M" is no minute: case counts. */
	static const struct unit units[] = {
	    {"ns", 1},
	    {"us", 1000},
	    {"ms", 1000000},
	    {"s", 1000000000},
	    {"", 1000000000},
	    {"m", UINT64_C(60000000000)},
	    {"h", UINT64_C(3600000000000)},
	};

	return parse_scaled(text, units, sizeof(units) / sizeof(units[0]), false, nanoseconds);
}

int units_parse_count(const char *text, uint64_t *count)
{
	static const struct unit none = {"", 1};

	return parse_scaled(text, &none, 1, false, count);
}

int units_parse_percent(const char *text, double *percent)
{
	struct decimal number;

	text = scan_decimal(text, &number);
	if (!text)
		return -EINVAL;
	while (is_blank(*text) && text[1] != '\0')
		text++;
	if (*text == '%')
		text++;
	if (*text != '\0')
		return -EINVAL;
	if (number.too_big || number.whole > 100 || (number.whole == 100 && number.fraction > 0))
		return -ERANGE;
	*percent = (double)number.whole + (double)number.fraction / (double)number.scale;
	return 0;
}

int units_parse_bool(const char *text, bool *value)
{
	static const char words[][2][6] = {
	    {"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		for (int truth = 0; truth <= 1; truth++) {
			if (strcasecmp(text, words[i][truth]) == 0) {
				*value = truth;
				return 0;
			}
		}
	}
	return -EINVAL;
}

/* Writes value / factor with three significant digits, or all digits of the whole part. */
static const char *format_scaled(uint64_t value, const struct unit *unit, char *buf, size_t size)
{
	double number = (double)value / (double)unit->factor;
	int decimals = unit->factor == 1 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
	unsigned scale = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
	uint64_t scaled = unit->factor == 1 ? value : (uint64_t)(number * scale + 0.5);

	/* Not "%.2f": its decimal point is the locale's. */
	if (decimals == 0)
		snprintf(buf, size, "%" PRIu64 " %s", scaled, unit->name);
	else
		snprintf(buf, size, "%" PRIu64 ".%0*" PRIu64 " %s", scaled / scale, decimals,
		         scaled % scale, unit->name);
	return buf;
}

/* Chooses the largest unit of an ascending list of which there is at least one after rounding. */
static const struct unit *choose_unit(const struct unit *units, size_t count, uint64_t value)
{
	size_t i = 0;

	while (i + 1 < count && value >= units[i + 1].factor - units[i].factor / 2)
		i++;
	return &units[i];
}

const char *units_format_size(uint64_t bytes, char *buf, size_t size)
{
	static const struct unit units[] = {
	    {"B", 1},
	    {"KiB", UINT64_C(1) << 10},
	    {"MiB", UINT64_C(1) << 20},
	    {"GiB", UINT64_C(1) << 30},
	    {"TiB", UINT64_C(1) << 40},
	    {"PiB", UINT64_C(1) << 50},
	    {"EiB", UINT64_C(1) << 60},
	};
	size_t count = sizeof(units) / sizeof(units[0]);

	return format_scaled(bytes, choose_unit(units, count, bytes), buf, size);
}

const char *units_format_duration(uint64_t nanoseconds, char *buf, size_t size)
{
	static const struct unit units[] = {
	    {"ns", 1},
	    {"us", 1000},
	    {"ms", 1000000},
	    {"s", 1000000000},
	};
	size_t count = sizeof(units) / sizeof(units[0]);

	return format_scaled(nanoseconds, choose_unit(units, count, nanoseconds), buf, size);
}
