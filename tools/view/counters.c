/* SPDX-License-Identifier: MIT */
/* The list of counters as a table. */
#include "tools/view/counters.h"

#include <stdio.h>

#include "core/config/config.h"

const struct counter counters[] = {
#define X(name, how, unit, meaning) \
	{#name, meaning, COUNTER_##how, COUNTER_##unit, offsetof(struct statistics, name)},
    STATISTICS(X)
#undef X
        {0},
};

bool counter_busy_is_known(const struct statistics *statistics)
{
	return statistics->busy_ns > 0 || statistics->share_set != 100000;
}

bool counter_held_is_known(const struct statistics *statistics)
{
	/*
	 * A job may be paced by weight at 100 %, too. One that has just begun has 0 until it was
	 * looked at for a moment, and cannot have kept the GPU busy for longer than that.
	 */
	return statistics->share_held > 0 ||
	       (statistics->share_set < 100000 && statistics->busy_ns >= 500000000);
}

bool counter_steps_are_all(const struct statistics *statistics)
{
	uint64_t launches = statistics->launches + statistics->graph_launches;

	return statistics->watched_launches >= launches - launches / 100;
}

/*
 * Returns whether the error is known: 0 is the answer of the provider that serves; those after it
 * were not tried.
 */
static bool error_is_known(const struct counter *counter, const struct statistics *statistics,
                           uint64_t error)
{
	static const struct {
		size_t offset;
		unsigned int provider;
	} of[] = {
	    {offsetof(struct statistics, numa_error), PROVIDER_NUMA},
	    {offsetof(struct statistics, host_error), PROVIDER_HOST},
	    {offsetof(struct statistics, managed_error), PROVIDER_MANAGED},
	    {offsetof(struct statistics, pinned_error), PROVIDER_PINNED},
	};

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (counter->offset == of[i].offset)
			return error || statistics->provider == of[i].provider;
	return true;
}

bool counter_read(const struct counter *counter, const struct statistics *statistics,
                  uint64_t *value)
{
	const char *base = (const char *)statistics;

	*value = statistics_get((const _Atomic uint64_t *)(base + counter->offset));
	if (counter->offset == offsetof(struct statistics, busy_ns))
		return counter_busy_is_known(statistics);
	if (counter->offset == offsetof(struct statistics, share_held) ||
	    counter->offset == offsetof(struct statistics, share_estimated))
		return counter_held_is_known(statistics);
	if (counter->offset == offsetof(struct statistics, step_ns) ||
	    counter->offset == offsetof(struct statistics, refused_at))
		return *value > 0;
	if (counter->offset == offsetof(struct statistics, hard_limit))
		return statistics->hard_from != SOURCE_NONE;
	if (counter->offset == offsetof(struct statistics, soft_limit))
		return statistics->soft_from != SOURCE_NONE;
	if (counter->unit == COUNTER_error)
		return error_is_known(counter, statistics, *value);
	return *value != CONFIG_UNLIMITED;
}

bool counter_any(const struct statistics *statistics)
{
	for (const struct counter *counter = counters; counter->name; counter++) {
		uint64_t value;

		counter_read(counter, statistics, &value);
		if (value)
			return true;
	}
	return false;
}

bool counter_is_code(const struct counter *counter)
{
	return counter_unit_is_code(counter->unit);
}

bool counter_unit_is_code(enum counter_unit unit)
{
	switch (unit) {
#define X(unit) case COUNTER_##unit:
		CODES(X)
#undef X
		return true;
	default:
		return false;
	}
}

/* The words of each code, ended by NULL. */
#define X(constant, word) word,
static const char *const spill[] = {CODES_spill(X) NULL};
static const char *const refusal[] = {CODES_refusal(X) NULL};
static const char *const pending[] = {CODES_pending(X) NULL};
static const char *const elastic[] = {CODES_elastic(X) NULL};
static const char *const held[] = {CODES_held(X) NULL};
static const char *const provider[] = {CODES_provider(X) NULL};
static const char *const tier[] = {CODES_tier(X) NULL};
static const char *const idle[] = {CODES_idle(X) NULL};
static const char *const placement[] = {CODES_placement(X) NULL};
static const char *const shrink[] = {CODES_shrink(X) NULL};
static const char *const source[] = {CODES_source(X) NULL};
static const char *const cause[] = {CODES_cause(X) NULL};
#undef X

static const char *const *const words[COUNTER_UNITS] = {
#define X(unit) [COUNTER_##unit] = unit,
    CODES(X)
#undef X
};

const char *counter_word(const struct counter *counter, uint64_t code)
{
	return counter_unit_word(counter->unit, code);
}

const char *counter_unit_word(enum counter_unit unit, uint64_t code)
{
	const char *const *word = words[unit];

	for (; word && *word; word++)
		if (code-- == 0)
			return *word;
	return NULL;
}

const struct counter *counter_at(size_t offset)
{
	const struct counter *counter = counters;

	while (counter->offset != offset)
		counter++;
	return counter;
}

const char *counter_field_word(size_t offset, uint64_t code)
{
	const char *word = counter_word(counter_at(offset), code);

	return word ? word : "unknown";
}

const char *counter_error(uint64_t error, char *buf, size_t size)
{
	static const struct {
		unsigned int error;
		const char *meaning;
	} known[] = {
	    {1, "invalid value"},
	    {2, "out of memory"},
	    {800, "not permitted"},
	    {801, "not supported"},
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].error == error) {
			snprintf(buf, size, "%s", known[i].meaning);
			return buf;
		}
	snprintf(buf, size, "error %llu", (unsigned long long)error);
	return buf;
}
