/* SPDX-License-Identifier: MIT */
/*
 * The list of counters (core/ledger/statistics.h) as a table. It is for the formats that name every
 * counter, so that a new one appears in all of them: for example, spilled_bytes is a key of the
 * JSON, a column of the CSV and a metric.
 */
#ifndef SPILLWAY_COUNTERS_H
#define SPILLWAY_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ledger/statistics.h"

struct counter {
	const char *name;
	const char *meaning;
	enum {
		COUNTER_SUM,
		COUNTER_NOW,
		COUNTER_MOST,
		COUNTER_PEAK,
		COUNTER_SAME,
		COUNTER_LAST
	} how;
	enum counter_unit {
		COUNTER_bytes,
		COUNTER_count,
		COUNTER_ns,
		COUNTER_time, /* ns since 1970 */
		COUNTER_millipercent,
		COUNTER_error,
		COUNTER_flag, /* of events alone, as the next two */
		COUNTER_user,
		COUNTER_none,
#define X(unit) COUNTER_##unit,
		CODES(X)
#undef X
		    COUNTER_UNITS
	} unit;
	size_t offset;
};

/* Ends with a counter without a name. */
extern const struct counter counters[];

/* Reads it. Returns false when there is no such value: no limit, a time without a measurement. */
bool counter_read(const struct counter *counter, const struct statistics *statistics,
                  uint64_t *value);
/* Returns whether a process has met the device: otherwise all is zero, its settings too. */
bool counter_any(const struct statistics *statistics);
/* Returns whether GPU time was measured, which it is while the job is paced. */
bool counter_busy_is_known(const struct statistics *statistics);
/* Returns whether the share held is known, which it is soon after the job has begun to be paced. */
bool counter_held_is_known(const struct statistics *statistics);
/*
 * Returns whether steps were looked for in all launches, but for a hundredth: those that were made
 * before the job's settings were read.
 */
bool counter_steps_are_all(const struct statistics *statistics);
/* Returns whether its values are codes of core/ledger/codes.h. */
bool counter_is_code(const struct counter *counter);
bool counter_unit_is_code(enum counter_unit unit);
/*
 * Returns the word for a code: "limit", "device_full"; "-" for 0, nothing to tell; NULL past the
 * last.
 */
const char *counter_word(const struct counter *counter, uint64_t code);
const char *counter_unit_word(enum counter_unit unit, uint64_t code);
/* Finds it by its field. */
const struct counter *counter_at(size_t offset);
/* For text: the same by the counter's field, as in COUNTER_WORD(total, spill_reason). */
#define COUNTER_WORD(of, field) counter_field_word(offsetof(struct statistics, field), (of)->field)
const char *counter_field_word(size_t offset, uint64_t code);
/* Returns the meaning of a driver's refusal: "not supported", "error 35". Returns buf. */
const char *counter_error(uint64_t error, char *buf, size_t size);

#endif
