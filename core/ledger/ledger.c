/* SPDX-License-Identifier: MIT */
/* Ledgers. Rules: runs inside the user's process, in its allocations. */
#include "core/ledger/ledger.h"

#include <stddef.h>

static uint64_t ledger_get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void ledger_set(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

struct ledger_copy ledger_read(const struct ledger *ledger)
{
	struct ledger_copy copy = {0};
	uint64_t version;

	copy.is_whole = publish_read(&ledger->facts, &copy.facts, &version);
	if (!copy.is_whole)
		copy.facts = (struct facts){0};
	for (int tier = 0; tier < LEDGER_TIERS; tier++) {
		copy.charged[tier] = ledger_charged(ledger, tier);
		copy.peak[tier] = ledger_get(&ledger->peak[tier]);
		copy.spare[tier] = ledger_get(&ledger->spare[tier]);
	}
	copy.pinned = ledger_get(&ledger->pinned);
	copy.driver_used = ledger_get(&ledger->driver_used);
	copy.driver_peak = ledger_get(&ledger->driver_peak);
	for (int i = 0; i < LEDGER_OUTSIDE; i++)
		copy.outside[i] = ledger_get(&ledger->outside[i]);
	return copy;
}

void ledger_clear(struct ledger *ledger)
{
	ledger_forget_facts(ledger);
	for (int tier = 0; tier < LEDGER_TIERS; tier++) {
		ledger_set(&ledger->charged[tier], 0);
		ledger_set(&ledger->peak[tier], 0);
		ledger_set(&ledger->spare[tier], 0);
	}
	ledger_set(&ledger->pinned, 0);
	ledger_set(&ledger->driver_used, 0);
	ledger_set(&ledger->driver_peak, 0);
	for (int i = 0; i < LEDGER_OUTSIDE; i++)
		ledger_set(&ledger->outside[i], 0);
	for (size_t i = 0; i < sizeof ledger->reserved / sizeof *ledger->reserved; i++)
		ledger_set(&ledger->reserved[i], 0);
}

void ledger_forget_peak(struct ledger *ledger)
{
	for (int tier = 0; tier < LEDGER_TIERS; tier++)
		ledger_set(&ledger->peak[tier], 0);
	ledger_set(&ledger->driver_peak, 0);
}

void ledger_close(struct ledger *ledger, int tier)
{
	atomic_fetch_and(&ledger->charged[tier], ~LEDGER_OPEN);
}

uint64_t ledger_give_back(struct ledger *ledger, int tier, uint64_t bytes)
{
	uint64_t held = ledger_get(&ledger->charged[tier]), given = bytes < held ? bytes : held;

	ledger_set(&ledger->charged[tier], held - given);
	return bytes - given;
}
