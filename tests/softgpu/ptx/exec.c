/* SPDX-License-Identifier: MIT */
/* Runs a warp: the instruction loop, and its control. */
#include "device_calls.h"
#include "print.h"
#include "warp.h"

enum {
	TURN_BRANCHES = 256,        /* backward branches before another warp has its turn */
	POLL_COST = 16,             /* a round of a loop that polls counts as so many */
	PATIENCE = 256,             /* such turns in a row before lanes no longer wait at joins */
	LONGEST_SLEEP_NS = 1000000, /* as PTX has it */
};

/* --- collectives --- */

static bool is_waiting_at(const struct split *s, const struct frame *frame, uint32_t at)
{
	return s->state == SPLIT_AT_COLLECTIVE && s->frame == frame && s->at == at;
}

/* Lanes that went through a collective together are one split again, as on hardware. */
static void collective_pass(struct warp *w, const struct frame *frame, uint32_t at, uint32_t gone)
{
	uint32_t lane = (uint32_t)__builtin_ctz(gone), splits = 0;
	for (uint32_t i = 0, count = w->split_count; i < count; i++) {
		struct split *s = &w->splits[i];
		uint32_t through = s->lanes & gone;
		if (!is_waiting_at(s, frame, at) || !through)
			continue;
		if (through != s->lanes) {
			s->lanes &= ~through;
			s = split_add(w, s->frame, at, through, s->join);
		}
		s->state = SPLIT_READY;
		s->at++;
		splits++;
	}
	if (splits > 1)
		split_merge(w);
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].lanes >> lane & 1)
			split_select(w, i);
}

/*
 * The current split is at a collective, which runs for a set of lanes once all of them are there.
 * Lanes that name different sets do not see each other. For example, where the halves of a warp
 * name themselves, the first runs while a quarter of the second is elsewhere.
 */
static void collective(struct warp *w, const struct insn *in, bool force)
{
	struct split *s = &w->splits[w->current];
	const struct frame *frame = s->frame;
	const uint32_t *named = in->s[3] == NONE ? NULL : lanes(w, in->s[3]);
	uint32_t at = s->at, here = 0, gone = 0;
	s->state = SPLIT_AT_COLLECTIVE;
	for (uint32_t i = 0; i < w->split_count; i++)
		if (is_waiting_at(&w->splits[i], frame, at))
			here |= w->splits[i].lanes;
	for (uint32_t left = here; left;) {
		uint32_t first = (uint32_t)__builtin_ctz(left), same = 0;
		for (uint32_t i = 0; i < LANES; i++)
			same |= (uint32_t)(!named || named[i] == named[first]) << i;
		same &= left;
		left &= ~same;
		if (named && named[first] & w->live & ~here && !force)
			continue;
		in->inner(w, in, same);
		gone |= same;
	}
	if (gone)
		collective_pass(w, frame, at, gone);
}

bool warp_force(struct warp *w)
{
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].state == SPLIT_AT_COLLECTIVE) {
			split_select(w, i);
			collective(w, &w->frame->function->code[w->splits[i].at], true);
			return true;
		}
	for (uint32_t i = 0; i < MAX_JOINS; i++)
		if (w->joins[i].used && w->joins[i].arrived) {
			join_open(w, (uint8_t)i);
			return true;
		}
	return false;
}

/* --- the loop --- */

static void branch_index(struct warp *w, const struct insn *in, uint32_t mask)
{
	const uint32_t *index = lanes(w, in->s[0]);
	const struct table *table = &w->frame->function->tables[in->target];
	struct split *s = &w->splits[w->current];
	for (uint32_t left = mask; left;) {
		uint32_t first = (uint32_t)__builtin_ctz(left), same = 0;
		for (uint32_t i = 0; i < LANES; i++)
			same |= (uint32_t)(index[i] == index[first]) << i;
		same &= left;
		left &= ~same;
		if (index[first] >= table->count)
			fault_raise(w, PTX_ILLEGAL_INSTRUCTION, first, 0, 0, false,
			            "brx.idx: index %u of %u", index[first], table->count);
		uint32_t target = table->targets[index[first]];
		if (same == s->lanes)
			s->at = target;
		else
			split_diverge(w, in, same, target);
	}
}

__attribute__((noreturn)) static void stop(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t lane = (uint32_t)__builtin_ctz(mask);
	if (in->control == CONTROL_TRAP)
		fault_raise(w, PTX_TRAP, lane, 0, 0, false, "trap instruction");
	char text[120];
	print_assertion(w, in, lane, text, sizeof text);
	fault_raise(w, PTX_ASSERT, lane, 0, 0, false, "%s", text);
}

/* One backward branch; loops that poll use up their turn sooner. */
static bool spend(struct warp *w)
{
	uint32_t cost = w->polls ? POLL_COST : 1;
	w->polled |= w->polls;
	w->polls = false;
	w->budget -= cost < w->budget ? cost : w->budget;
	return !w->budget;
}

/* Another split is next; and while lanes spin for long, the others no longer wait at joins. */
static void end_turn(struct warp *w)
{
	w->spins += w->polled ? POLL_COST : 1;
	if (w->spins >= PATIENCE) {
		w->spins = 0;
		for (uint32_t i = 0; i < MAX_JOINS; i++)
			if (w->joins[i].used && w->joins[i].arrived)
				join_open(w, (uint8_t)i);
	}
	/* The next ready split after this one is first when the warp's turn comes again. */
	for (uint32_t n = 1; n <= w->split_count; n++) {
		uint32_t i = (w->current + n) % w->split_count;
		if (w->splits[i].state == SPLIT_READY) {
			w->current = i;
			return;
		}
	}
}

/*
 * Where a part of the warp sleeps the others would, too: it only waits for its next turn. A nap may
 * be shorter by half than asked for, as PTX has it; so naps one after another take as long as all
 * together, though each ends a little late.
 */
static void fall_asleep(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct ptx_launch *launch = w->grid->launch;
	const uint32_t *wanted = lanes(w, in->s[0]);
	uint64_t longest = 0;
	if (!launch->rest || w->split_count > 1)
		return;
	for (uint32_t left = mask; left; left &= left - 1)
		if (longest < wanted[__builtin_ctz(left)])
			longest = wanted[__builtin_ctz(left)];
	longest = longest < LONGEST_SLEEP_NS ? longest : LONGEST_SLEEP_NS;
	uint64_t least = launch->clock(launch->poll_cookie) + longest / 2;
	w->slept_until += longest;
	if (w->slept_until < least)
		w->slept_until = least;
	w->asleep = true;
}

/*
 * One control instruction of the current split, whose `at` is already the one after. False: the
 * split no longer runs, or another one was chosen.
 */
static bool control(struct warp *w, const struct insn *in, uint32_t mask)
{
	struct split *s = &w->splits[w->current];
	const struct call *call;
	switch (in->control) {
	case CONTROL_JOIN:
		s->at--;
		if (split_arrive(w, w->current))
			return false;
		s->at++;
		return true;
	case CONTROL_BRANCH:
		split_diverge(w, in, mask, in->target);
		return true;
	case CONTROL_BRANCH_INDEX:
		branch_index(w, in, mask);
		return true;
	case CONTROL_CALL:
		call = &w->frame->function->calls[in->target];
		call_enter(w, call, call->callee, split_carve(w, mask));
		return false;
	case CONTROL_CALL_INDIRECT:
		call_enter_indirect(w, in, &w->frame->function->calls[in->target], mask);
		return false;
	case CONTROL_RETURN:
		call_leave(w, split_carve(w, mask));
		return false;
	case CONTROL_EXIT:
		warp_exit_lanes(w, mask);
		return false;
	case CONTROL_BARRIER:
		w->current = split_carve(w, mask);
		barrier_arrive(w, in, mask, true);
		return false;
	case CONTROL_BARRIER_ARRIVE:
		barrier_arrive(w, in, mask, false);
		return true;
	case CONTROL_COLLECTIVE:
		s->at--;
		if (mask != s->lanes) {
			/* Lanes whose guard is false pass by. */
			uint32_t rest = s->lanes & ~mask;
			s->lanes = mask;
			split_add(w, s->frame, s->at + 1, rest, s->join);
		}
		collective(w, in, false);
		return false;
	case CONTROL_PRINT:
		print_formatted(w, in, mask);
		return true;
	case CONTROL_MALLOC:
		kernel_malloc(w, in, mask);
		return true;
	case CONTROL_FREE:
		kernel_free(w, in, mask);
		return true;
	case CONTROL_SET_CONDITIONAL:
		kernel_set_conditional(w, in, mask);
		return true;
	default:
		stop(w, in, mask);
	}
}

void warp_run(struct warp *w)
{
	struct worker *k = w->worker;
	w->budget = TURN_BRANCHES;
	w->polled = w->polls = false;
	k->running = w;
	if (w->met)
		split_merge(w);
	if (w->current >= w->split_count || w->splits[w->current].state != SPLIT_READY) {
		if (!split_next(w))
			return;
	}
	for (;;) {
		split_select(w, w->current);
		const struct insn *code = w->frame->function->code;
		const uint32_t active = w->splits[w->current].lanes;
		const struct insn *in = code + w->splits[w->current].at, *start = in;
		uint32_t mask;
		/* Nothing but straight lines and branches that all lanes agree on. */
		for (;; in++) {
			mask = active;
			if (in->guard != NONE) {
				uint32_t p = *(const uint32_t *)lanes(w, in->guard);
				mask &= in->guard_negated ? ~p : p;
				if (!mask)
					continue;
			}
			if (in->run) {
				in->run(w, in, mask);
				continue;
			}
			if (in->control == CONTROL_JOIN && w->splits[w->current].join == NO_JOIN)
				continue;
			if (in->control != CONTROL_BRANCH || mask != active)
				break;
			k->executed += (uint64_t)(in - start + 1);
			const struct insn *target = code + in->target;
			start = target;
			if (target <= in && (spend(w) || k->executed >= k->look_up)) {
				w->splits[w->current].at = in->target;
				end_turn(w);
				return;
			}
			in = target - 1;
		}
		k->executed += (uint64_t)(in - start + 1);
		w->insn = in;
		w->mask = mask;
		w->splits[w->current].at = (uint32_t)(in - code) + 1;
		bool backward = in->control == CONTROL_BRANCH && in->target <= in - code;
		if (in->control == CONTROL_SLEEP) {
			w->polled = true;
			w->budget = 0;
			fall_asleep(w, in, mask);
			end_turn(w);
			return;
		}
		if (!control(w, in, mask)) {
			bool ready = w->current < w->split_count &&
			             w->splits[w->current].state == SPLIT_READY;
			if (!ready && !split_next(w))
				return;
		}
		if ((backward && spend(w)) || k->executed >= k->look_up) {
			end_turn(w);
			return;
		}
	}
}
