/* SPDX-License-Identifier: MIT */
/* Things that lanes of a warp do together, and that threads of a block wait for. */
#include "machine.h"

#include <fenv.h>
#include <string.h>
#include <time.h>

void collective_nothing(struct warp *w, const struct insn *in, uint32_t mask)
{
	(void)w;
	(void)in;
	(void)mask;
}

enum { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BUTTERFLY, SHUFFLE_INDEX };

void collective_shuffle(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t *d = lanes(w, in->d[0]), *p = in->d[1] == NONE ? NULL : lanes(w, in->d[1]);
	uint32_t from[LANES], ok = 0;
	const uint32_t *b = lanes(w, in->s[1]), *c = lanes(w, in->s[2]);
	memcpy(from, lanes(w, in->s[0]), sizeof from);
	for (uint32_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(left), by = b[i] & 31, clamp = c[i] & 31;
		uint32_t segment = c[i] >> 8 & 31, lowest = i & segment;
		uint32_t highest = lowest | (clamp & ~segment), j;
		bool inside;
		switch (in->mode) {
		case SHUFFLE_UP:
			j = i - by;
			inside = (int32_t)j >= (int32_t)highest;
			break;
		case SHUFFLE_DOWN:
			j = i + by;
			inside = j <= highest;
			break;
		case SHUFFLE_BUTTERFLY:
			j = i ^ by;
			inside = j <= highest;
			break;
		default:
			j = lowest | (by & ~segment);
			inside = j <= highest;
		}
		d[i] = from[inside ? j & 31 : i];
		ok |= (uint32_t)inside << i;
	}
	if (p)
		*p = (*p & ~mask) | ok;
}

enum { VOTE_ALL, VOTE_ANY, VOTE_UNIFORM, VOTE_BALLOT };

void collective_vote(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t votes = *(const uint32_t *)lanes(w, in->s[0]) & mask, *d = lanes(w, in->d[0]);
	if (in->mode == VOTE_BALLOT) {
		for (uint32_t left = mask; left; left &= left - 1)
			d[__builtin_ctz(left)] = votes;
		return;
	}
	bool answer = in->mode == VOTE_ALL   ? votes == mask
	              : in->mode == VOTE_ANY ? votes != 0
	                                     : votes == 0 || votes == mask;
	*d = (*d & ~mask) | (answer ? mask : 0);
}

void collective_match(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint8_t *a = lanes(w, in->s[0]);
	uint32_t *d = lanes(w, in->d[0]), *p = in->d[1] == NONE ? NULL : lanes(w, in->d[1]);
	uint32_t equal[LANES], agreed = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		equal[i] = 0;
		for (uint32_t j = 0; j < LANES; j++)
			if (mask >> j & 1 && !memcmp(a + i * in->size, a + j * in->size, in->size))
				equal[i] |= 1u << j;
	}
	for (uint32_t left = mask; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		bool all = equal[i] == mask;
		d[i] = in->mode && !all ? 0 : equal[i];
		agreed |= (uint32_t)all << i;
	}
	if (p)
		*p = (*p & ~mask) | agreed;
}

void collective_reduce(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint32_t *a = lanes(w, in->s[0]);
	uint32_t *d = lanes(w, in->d[0]), total = a[__builtin_ctz(mask)];
	for (uint32_t left = mask & (mask - 1); left; left &= left - 1) {
		uint32_t x = a[__builtin_ctz(left)];
		bool less = in->type == TYPE_S32 ? (int32_t)x < (int32_t)total : x < total;
		switch (in->mode) {
		case ATOMIC_ADD:
			total += x;
			break;
		case ATOMIC_MIN:
			total = less ? x : total;
			break;
		case ATOMIC_MAX:
			total = less ? total : x;
			break;
		case ATOMIC_AND:
			total &= x;
			break;
		case ATOMIC_OR:
			total |= x;
			break;
		default:
			total ^= x;
		}
	}
	for (uint32_t left = mask; left; left &= left - 1)
		d[__builtin_ctz(left)] = total;
}

void collective_elect(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t *d = lanes(w, in->d[0]), *p = lanes(w, in->d[1]);
	for (uint32_t left = mask; left; left &= left - 1)
		d[__builtin_ctz(left)] = (uint32_t)__builtin_ctz(mask);
	*p = (*p & ~mask) | (mask & -mask);
}

void read_active_mask(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t *d = lanes(w, in->d[0]), active = w->splits[w->current].lanes;
	for (uint32_t left = mask; left; left &= left - 1)
		d[__builtin_ctz(left)] = active;
}

void read_clock(struct warp *w, const struct insn *in, uint32_t mask)
{
	enum { CLOCK, CLOCK64, CLOCK_HIGH, TIMER, TIMER_LOW, TIMER_HIGH };
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t value = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (in->mode == CLOCK_HIGH || in->mode == TIMER_HIGH)
		value >>= 32;
	uint8_t *d = lanes(w, in->d[0]);
	for (uint32_t left = mask; left; left &= left - 1)
		memcpy(d + (uint32_t)__builtin_ctz(left) * in->size, &value, in->size);
}

/* Runs an operation under another rounding mode than to nearest. */
void rounded(struct warp *w, const struct insn *in, uint32_t mask)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
	fesetround(modes[in->mode]);
	in->inner(w, in, mask);
	fesetround(FE_TONEAREST);
}

/* --- barriers of a block --- */

static void release(struct block *block, uint32_t id)
{
	struct barrier *barrier = &block->barriers[id];
	for (uint32_t i = 0; i < block->grid->warps; i++) {
		struct warp *w = &block->warps[i];
		for (uint32_t k = 0; k < w->split_count; k++) {
			struct split *s = &w->splits[k];
			if (s->state != SPLIT_AT_BARRIER || s->barrier != id)
				continue;
			const struct insn *in = &s->frame->function->code[s->at - 1];
			if (in->d[0] != NONE) {
				uint32_t *d = (uint32_t *)(s->frame->registers + (in->d[0] & ~3u));
				bool answer = in->mode == BARRIER_AND
				                  ? barrier->count == barrier->arrived
				                  : barrier->count > 0;
				for (uint32_t left = s->lanes; left && in->mode == BARRIER_POPC;
				     left &= left - 1)
					d[__builtin_ctz(left)] = barrier->count;
				if (in->mode != BARRIER_POPC)
					*d = (*d & ~s->lanes) | (answer ? s->lanes : 0);
			}
			s->state = SPLIT_READY;
			w->met = true;
		}
	}
	*barrier = (struct barrier){0};
}

/* After an arrival or an exit: is anybody free to go? */
void barrier_check(struct block *block)
{
	for (uint32_t id = 0; id < BARRIERS; id++) {
		const struct barrier *b = &block->barriers[id];
		uint32_t wanted =
		    b->expected && b->expected < block->live ? b->expected : block->live;
		if (b->arrived && b->arrived >= wanted)
			release(block, id);
	}
}

/* The current split, of which `mask` lanes arrive; true: it has to wait. */
bool barrier_arrive(struct warp *w, const struct insn *in, uint32_t mask, bool wait)
{
	struct block *block = w->block;
	uint32_t first = (uint32_t)__builtin_ctz(mask);
	uint32_t id = ((const uint32_t *)lanes(w, in->s[0]))[first];
	if (id >= BARRIERS)
		fault_raise(w, PTX_ILLEGAL_INSTRUCTION, first, 0, 0, false,
		            "barrier %u: there are %u", id, BARRIERS);
	struct barrier *barrier = &block->barriers[id];
	struct split *s = &w->splits[w->current];
	barrier->arrived += (uint32_t)__builtin_popcount(mask);
	barrier->expected = in->s[1] == NONE ? 0 : ((const uint32_t *)lanes(w, in->s[1]))[first];
	if (in->s[2] != NONE)
		barrier->count +=
		    (uint32_t)__builtin_popcount(*(const uint32_t *)lanes(w, in->s[2]) & mask);
	if (wait) {
		s->state = SPLIT_AT_BARRIER;
		s->barrier = id;
	}
	barrier_check(block);
	return s->state != SPLIT_READY;
}
