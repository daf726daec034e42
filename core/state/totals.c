/* SPDX-License-Identifier: MIT */
/* Makes the counters of a job from those of its processes, by their kind. */
#include <unistd.h>

#include "core/state/layout.h"

#define HIGHER(a, b) ((a) > (b) ? (a) : (b))

#define ENDED_SUM(total, one)  ((total) + (one))
#define ENDED_NOW(total, one)  ((void)(one), (total))
#define ENDED_MOST(total, one) ((void)(one), (total))
#define ENDED_PEAK(total, one) HIGHER(total, one)
#define ENDED_SAME(total, one) ((one) ? (one) : (total))

/* with refused_at, which says which refusal is the latest */
#define ENDED_LAST(total, one) (is_latest ? (one) : (total))

#define LIVE_SUM(total, one)  ((total) + (one))
#define LIVE_NOW(total, one)  ((total) + (one))
#define LIVE_MOST(total, one) HIGHER(total, one)
#define LIVE_PEAK(total, one) HIGHER(total, one)
#define LIVE_SAME(total, one) HIGHER(total, one) /* 0 until a process has met the device */
#define LIVE_LAST(total, one) (is_latest ? (one) : (total))

#define KEEP_SUM  true
#define KEEP_NOW  true
#define KEEP_MOST true
#define KEEP_PEAK true
#define KEEP_SAME false
#define KEEP_LAST true

/* Returns whether the process was refused later than all of which the total knows. */
static bool is_refused_later(const struct counters *process, const struct counters *total)
{
	return statistics_get(&process->refused_at) > statistics_get(&total->refused_at);
}

void totals_add_ended(struct segment_ended *total, const struct segment_books *books)
{
	const struct counters *process = &books->counters;
	struct ledger_copy ledger = ledger_read(&books->ledger);
	const bool is_latest = is_refused_later(process, &total->counters);

#define X(name, how, unit, meaning)                                           \
	{                                                                     \
		uint64_t sum = statistics_get(&total->counters.name);         \
		uint64_t one = counters_get(process, name);                   \
		statistics_set(&total->counters.name, ENDED_##how(sum, one)); \
	}
	COUNTERS(X)
#undef X
	if (ledger.facts.generation && ledger.facts.generation >= total->facts.generation)
		total->facts = ledger.facts;
}

void totals_add_live(struct counters *total, const struct counters *process)
{
	const bool is_latest = is_refused_later(process, total);

#define X(name, how, unit, meaning)                                                             \
	{                                                                                       \
		uint64_t sum = statistics_get(&total->name), one = counters_get(process, name); \
		statistics_set(&total->name, LIVE_##how(sum, one));                             \
	}
	COUNTERS(X)
#undef X
}

void totals_forget_settings(struct counters *total)
{
#define X(name, how, unit, meaning) \
	if (!KEEP_##how)            \
		statistics_set(&total->name, 0);
	COUNTERS(X)
#undef X
}

void segment_read_open_totals(int fd, struct segment_header *header)
{
	for (int d = 0; d < devices_of(header); d++) {
		_Atomic uint64_t *total = &header->charged[d][SEGMENT_ON_DEVICE];
		uint64_t slot = *total & ~LEDGER_OPEN, word = 0, at;

		if (!(*total & LEDGER_OPEN) || slot >= SEGMENT_SLOTS)
			continue;
		at = offsetof(struct segment_file, row[slot / SEGMENT_ROW].books[d]);
		at += offsetof(struct segment_books, ledger.charged) +
		      slot % SEGMENT_ROW * sizeof(struct segment_books);
		if (pread(fd, &word, sizeof word, (off_t)at) != (ssize_t)sizeof word)
			word = 0;
		*total = word & ~LEDGER_OPEN;
	}
}
