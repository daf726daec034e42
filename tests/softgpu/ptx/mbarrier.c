/* SPDX-License-Identifier: MIT */
/*
 * mbarrier objects: 64 bits of shared memory that count arrivals, and bytes of copies still to
 * come. A phase is over once both are zero; the next one begins at once. PTX leaves the layout
 * open. A block runs on one thread of the host, so that no operation here has to be atomic.
 */
#include "alu.h"
#include "machine.h"

enum {
	COUNT_BITS = 20,
	TRANSFER_BITS = 21, /* signed */
	EXPECTED_SHIFT = 0,
	PENDING_SHIFT = COUNT_BITS,
	TRANSFER_SHIFT = 2 * COUNT_BITS,
	PHASE_SHIFT = 2 * COUNT_BITS + TRANSFER_BITS,
	MOST = (1 << COUNT_BITS) - 1, /* threads, or bytes, of one barrier: as PTX has it */
};

struct mbarrier {
	int64_t expected, pending, transfer;
	uint64_t phase;
};

static struct mbarrier mbarrier_read(uint64_t word)
{
	return (struct mbarrier){
	    .expected = word >> EXPECTED_SHIFT & MOST,
	    .pending = word >> PENDING_SHIFT & MOST,
	    .transfer = (int64_t)(word << (64 - PHASE_SHIFT)) >> (64 - TRANSFER_BITS),
	    .phase = word >> PHASE_SHIFT,
	};
}

static uint64_t mbarrier_word(const struct mbarrier *b)
{
	uint64_t transfer = (uint64_t)b->transfer & ((1 << TRANSFER_BITS) - 1);
	return (uint64_t)b->expected << EXPECTED_SHIFT | (uint64_t)b->pending << PENDING_SHIFT |
	       transfer << TRANSFER_SHIFT | b->phase << PHASE_SHIFT;
}

static uint64_t *mbarrier_at(struct warp *w, const struct insn *in, uint32_t lane, uint64_t address)
{
	bool shared = in->space == SPACE_SHARED || address >> GENERIC_SHIFT == 1;
	if (!shared)
		fault_raise(w, PTX_ILLEGAL_ADDRESS, lane, address, 8, true,
		            "mbarrier at 0x%llx: not in shared memory",
		            (unsigned long long)address);
	if (address & 7)
		fault_raise(w, PTX_MISALIGNED, lane, address, 8, true,
		            "mbarrier at 0x%llx: misaligned", (unsigned long long)address);
	return memory_resolve(w, in->space, lane, address, 8, true);
}

/* Counts outside of the range that PTX gives them. */
__attribute__((noreturn)) static void mbarrier_fail(struct warp *w, uint32_t lane, const char *what)
{
	fault_raise(w, PTX_ILLEGAL_INSTRUCTION, lane, 0, 0, false, "mbarrier: %s", what);
}

static uint64_t mbarrier_change(struct warp *w, uint32_t lane, enum mbarrier_op op, uint64_t word,
                                uint32_t count)
{
	struct mbarrier b = mbarrier_read(word);
	bool arrives = op == MBARRIER_ARRIVE || op == MBARRIER_ARRIVE_DROP;
	if (op == MBARRIER_INIT) {
		if (count < 1 || count > MOST)
			mbarrier_fail(w, lane, "a count that is not 1 to 1,048,575");
		b = (struct mbarrier){.expected = count, .pending = count};
	} else if (arrives) {
		if (count < 1 || count > b.pending)
			mbarrier_fail(w, lane, "more arrivals than are expected");
		b.pending -= count;
		b.expected -= op == MBARRIER_ARRIVE_DROP ? count : 0;
	} else {
		int64_t bytes = count;
		b.transfer += op == MBARRIER_EXPECT ? bytes : -bytes;
		if (b.transfer > MOST || b.transfer < -MOST)
			mbarrier_fail(w, lane, "more than 1,048,575 bytes are expected");
	}
	if (op != MBARRIER_INIT && op != MBARRIER_EXPECT && !b.pending && !b.transfer) {
		b.pending = b.expected;
		b.phase++;
	}
	return mbarrier_word(&b);
}

/* d[0]: the state before, or NONE; s[1]: a count of threads or bytes. */
void mbarrier_update(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct addresses a;
	w->insn = in;
	w->mask = mask;
	w->grid->alu->addresses(w, in, mask, &a);
	const uint32_t *count = lanes(w, in->s[1]);
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		uint64_t *at = mbarrier_at(w, in, i, a.of[i]), old = *at;
		*at = mbarrier_change(w, i, in->mode, old, count[i]);
		if (in->d[0] != NONE)
			((uint64_t *)lanes(w, in->d[0]))[i] = old;
	}
}

/* Is the phase over that s[1] names: by a state, or (size 4) by its parity? */
void mbarrier_test(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct addresses a;
	uint32_t over = 0, *p = lanes(w, in->d[0]);
	w->polls = true;
	w->insn = in;
	w->mask = mask;
	w->grid->alu->addresses(w, in, mask, &a);
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		uint64_t phase = mbarrier_read(*mbarrier_at(w, in, i, a.of[i])).phase;
		bool is_over =
		    in->size == 4
		        ? (phase & 1) != (((const uint32_t *)lanes(w, in->s[1]))[i] & 1)
		        : phase != mbarrier_read(((const uint64_t *)lanes(w, in->s[1]))[i]).phase;
		over |= (uint32_t)is_over << i;
	}
	*p = (*p & ~mask) | over;
}

void mbarrier_pending(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t *d = lanes(w, in->d[0]);
	const uint64_t *state = lanes(w, in->s[0]);
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left);
		d[i] = (uint32_t)mbarrier_read(state[i]).pending;
	}
}
