/*
 * The list of counters (core/state/statistics.h) as a table: for the formats that name every counter, so
 * that a new one appears in all of them.
 */
#ifndef SPILLWAY_COUNTERS_H
#define SPILLWAY_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/state/statistics.h"

struct counter {
	const char *name;
	const char *meaning;
	enum { COUNTER_SUM, COUNTER_NOW, COUNTER_PEAK, COUNTER_SAME } how;
	enum {
		COUNTER_bytes,
		COUNTER_count,
		COUNTER_code, /* enum spill_reason */
		COUNTER_ns,
		COUNTER_millipercent,
	} unit;
	size_t offset;
};

/* Ends with a counter without a name. */
extern const struct counter counters[];

/* False when there is no such value: no limit, a time that nobody measured. */
bool counter_read(const struct counter *counter, const struct statistics *statistics,
                  uint64_t *value);
/* Whether GPU time was measured, which it is while the job is paced. */
bool counter_busy_is_known(const struct statistics *statistics);
/* "limit", "device_full", "host_limit"; "-" for none. */
const char *counter_reason(uint64_t code);

#endif
