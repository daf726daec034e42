/* The list of counters as a table. */
#include "tools/counters.h"

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

bool counter_read(const struct counter *counter, const struct statistics *statistics,
                  uint64_t *value)
{
	const char *base = (const char *)statistics;

	*value = statistics_get((const _Atomic uint64_t *)(base + counter->offset));
	if (counter->offset == offsetof(struct statistics, busy_ns))
		return counter_busy_is_known(statistics);
	return *value != CONFIG_UNLIMITED;
}

const char *counter_reason(uint64_t code)
{
	static const char *const reasons[] = {
	    [SPILL_NONE] = "-",
	    [SPILL_LIMIT] = "limit",
	    [SPILL_DEVICE_FULL] = "device_full",
	    [SPILL_HOST_LIMIT] = "host_limit",
	};

	return code < sizeof reasons / sizeof *reasons ? reasons[code] : "unknown";
}
