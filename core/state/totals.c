/* How the counters of a job's processes become the counters of the job, by their kind. */
#include "core/state/layout.h"

#define HIGHER(a, b) ((a) > (b) ? (a) : (b))

#define ENDED_SUM(total, one)  ((total) + (one))
#define ENDED_NOW(total, one)  ((void)(one), (total))
#define ENDED_MOST(total, one) ((void)(one), (total))
#define ENDED_PEAK(total, one) HIGHER(total, one)
#define ENDED_SAME(total, one) ((one) ? (one) : (total))

#define LIVE_SUM(total, one)  ((total) + (one))
#define LIVE_NOW(total, one)  ((total) + (one))
#define LIVE_MOST(total, one) HIGHER(total, one)
#define LIVE_PEAK(total, one) HIGHER(total, one)
#define LIVE_SAME(total, one) HIGHER(total, one) /* 0 until a process has met the device */

#define KEEP_SUM  true
#define KEEP_NOW  true
#define KEEP_MOST true
#define KEEP_PEAK true
#define KEEP_SAME false

void totals_add_ended(struct statistics *total, const struct statistics *process)
{
#define X(name, how, unit, meaning)                                                                \
	{                                                                                          \
		uint64_t sum = statistics_get(&total->name), one = statistics_get(&process->name); \
		statistics_set(&total->name, ENDED_##how(sum, one));                               \
	}
	STATISTICS(X)
#undef X
}

void totals_add_live(struct statistics *total, const struct statistics *process)
{
#define X(name, how, unit, meaning)                                                                \
	{                                                                                          \
		uint64_t sum = statistics_get(&total->name), one = statistics_get(&process->name); \
		statistics_set(&total->name, LIVE_##how(sum, one));                                \
	}
	STATISTICS(X)
#undef X
}

void totals_forget_settings(struct statistics *total)
{
#define X(name, how, unit, meaning) \
	if (!KEEP_##how)            \
		statistics_set(&total->name, 0);
	STATISTICS(X)
#undef X
}
