/* Ledgers. Rules: runs inside the user's process, in its allocations. */
#include "core/ledger/ledger.h"

static uint64_t get(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void set(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

struct ledger_copy ledger_read(const struct ledger *ledger)
{
	struct ledger_copy copy = {0};
	uint64_t turn;

	copy.is_whole = publish_read(&ledger->facts, &copy.facts, &turn);
	if (!copy.is_whole)
		copy.facts = (struct facts){0};
	for (int side = 0; side < LEDGER_SIDES; side++) {
		copy.charged[side] = ledger_charged(ledger, side);
		copy.peak[side] = get(&ledger->peak[side]);
		copy.spare[side] = get(&ledger->spare[side]);
	}
	copy.pinned = get(&ledger->pinned);
	return copy;
}

void ledger_clear(struct ledger *ledger)
{
	const struct facts none = {0};

	publish_value(&ledger->facts, &none);
	for (int side = 0; side < LEDGER_SIDES; side++) {
		set(&ledger->charged[side], 0);
		set(&ledger->peak[side], 0);
		set(&ledger->spare[side], 0);
	}
	set(&ledger->pinned, 0);
}

void ledger_forget_peak(struct ledger *ledger)
{
	for (int side = 0; side < LEDGER_SIDES; side++)
		set(&ledger->peak[side], ledger_charged(ledger, side));
}

/* Raises the peak. Who charged before the charges were closed may still be at it. */
static void raise_peak(struct ledger *ledger, int side, uint64_t now)
{
	uint64_t peak = get(&ledger->peak[side]);

	while (now > peak && !atomic_compare_exchange_weak(&ledger->peak[side], &peak, now))
		;
}

bool ledger_change_open(struct ledger *ledger, int side, int64_t bytes)
{
	uint64_t was = get(&ledger->charged[side]), now;

	do {
		now = was + (uint64_t)bytes;
		if (!(was & now & LEDGER_OPEN))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
	    &ledger->charged[side], &was, now, memory_order_relaxed, memory_order_relaxed));
	if (bytes > 0)
		raise_peak(ledger, side, now & ~LEDGER_OPEN);
	return true;
}

void ledger_open(struct ledger *ledger, int side)
{
	atomic_fetch_or(&ledger->charged[side], LEDGER_OPEN);
}

void ledger_close(struct ledger *ledger, int side)
{
	atomic_fetch_and(&ledger->charged[side], ~LEDGER_OPEN);
}

void ledger_charge(struct ledger *ledger, int side, uint64_t bytes)
{
	uint64_t now = get(&ledger->charged[side]) + bytes;

	set(&ledger->charged[side], now);
	raise_peak(ledger, side, now);
}

uint64_t ledger_give_back(struct ledger *ledger, int side, uint64_t bytes)
{
	uint64_t held = get(&ledger->charged[side]), given = bytes < held ? bytes : held;

	set(&ledger->charged[side], held - given);
	return bytes - given;
}
