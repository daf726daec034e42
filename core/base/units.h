/* SPDX-License-Identifier: MIT */
/*
 * Sizes, percents and durations as people write them, read strictly.
 *
 * A suffix is a power of 1024: K M G T, Ki Mi Gi Ti, KB MB.., KiB MiB.. in any case, with or
 * without a space before it; B means bytes, and so does no suffix. A decimal fraction of a suffix
 * is allowed. For example, "1.5G", "1536 MiB" and "1610612736" are the same size. Refused: a sign,
 * an empty string, hexadecimal, a leading zero before another digit, anything after the suffix, a
 * fraction of a byte without suffix, a value that does not fit.
 *
 * All functions are thread-safe, allocate nothing, follow no locale, and set outputs only on
 * success.
 */
#ifndef SPILLWAY_UNITS_H
#define SPILLWAY_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns whether the text is a number other than 0 with nothing behind it. Settings that people
 * write refuse it, because "20" may mean 20 bytes or 20 GiB. Numbers that programs write (HAMi's
 * variables) have a unit that both sides know.
 */
bool units_is_bare(const char *text);

/* Reads a size. Returns 0, -EINVAL (not a size) or -ERANGE (does not fit in 64 bits). */
int units_parse_size(const char *text, uint64_t *bytes);

/* Reads a decimal percentage with or without "%", 0 to 100. Returns 0, -EINVAL or -ERANGE. */
int units_parse_percent(const char *text, double *percent);

/* Reads a whole number in decimal. Returns 0, -EINVAL or -ERANGE. */
int units_parse_count(const char *text, uint64_t *count);

/*
 * Reads a duration as nanoseconds: "17ns", "10us", "250ms", "2s", "5m", "1h"; a bare number is
 * seconds. Returns 0, -EINVAL or -ERANGE.
 */
int units_parse_duration(const char *text, uint64_t *nanoseconds);

/* Reads yes/no, true/false, on/off, 1/0, in any case. Returns 0 or -EINVAL. */
int units_parse_bool(const char *text, bool *value);

/* Writes "1.50 GiB", "1023 MiB", "512 B": three digits, or the whole part. Returns buf. */
const char *units_format_size(uint64_t bytes, char *buf, size_t size);

/* Arguments of "%.*f": a ratio with two digits, as in "1.3 times" and "52 times". */
#define UNITS_TIMES(ratio) ((ratio) < 9.95), (ratio)

/* Writes "1.20 s", "350 ms", "17.0 us", "12 ns" in the same way. Returns buf. */
const char *units_format_duration(uint64_t nanoseconds, char *buf, size_t size);

#endif
