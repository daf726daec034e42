/* Runs a warp: the instruction loop, divergence, and calls. */
#include "alu.h"
#include "machine.h"
#include "print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TURN_BRANCHES = 256,    /* backward branches before another warp has its turn */
	PATIENCE = 256,         /* such turns in a row before lanes no longer wait at joins */
	MAX_DEPTH = 4096,       /* nested calls */
	MAX_STACK = 512 * 1024, /* bytes of local memory per thread */
};

/* --- frames --- */

static void use_frame(struct warp *w, struct frame *f)
{
	w->frame = f;
	w->bank[BANK_FRAME] = f->registers;
	w->bank[BANK_CONSTANT] = f->function->constants;
}

static void *no_memory(struct warp *w)
{
	fault_raise(w, PTX_NO_MEMORY, 0, 0, 0, false, "no host memory for a call");
}

/* Room for `top` bytes of local memory in each lane. */
static void grow_local(struct warp *w, uint32_t top)
{
	if (top <= w->local_capacity)
		return;
	if (top > MAX_STACK)
		fault_raise(w, PTX_ILLEGAL_ADDRESS, 0, top, 0, true, "stack overflow");
	uint32_t capacity = 2 * w->local_capacity > top ? 2 * w->local_capacity : top;
	capacity = (capacity + 63) & ~63u;
	uint8_t *grown = calloc(LANES, capacity);
	if (!grown)
		no_memory(w);
	for (uint32_t i = 0; i < LANES && w->local_capacity; i++)
		memcpy(grown + (size_t)i * capacity, w->local + (size_t)i * w->local_capacity,
		       w->local_capacity);
	free(w->local);
	w->local = grown;
	w->local_capacity = capacity;
}

static struct frame *frame_push(struct warp *w, const struct ptx_function *function,
                                struct frame *parent)
{
	struct frame **link = &w->free_frames, *f;
	while (*link && (*link)->capacity < function->frame_bytes)
		link = &(*link)->next_free;
	f = *link;
	if (f) {
		*link = f->next_free;
	} else {
		f = calloc(1, sizeof *f);
		if (!f)
			no_memory(w);
		f->next_of_warp = w->all_frames;
		w->all_frames = f;
		f->registers = aligned_alloc(64, function->frame_bytes);
		if (!f->registers)
			no_memory(w);
		memset(f->registers, 0, function->frame_bytes);
		f->capacity = function->frame_bytes;
	}
	f->parent = parent;
	f->function = function;
	f->depth = parent ? parent->depth + 1 : 0;
	f->local_base = parent ? parent->local_top : 0;
	f->local_top = f->local_base + function->local_bytes;
	if (f->depth > MAX_DEPTH)
		fault_raise(w, PTX_ILLEGAL_ADDRESS, 0, 0, 0, true, "stack overflow");
	grow_local(w, f->local_top);
	return f;
}

static void frame_leave(struct warp *w, struct frame *f, uint32_t gone)
{
	f->lanes &= ~gone;
	if (f->lanes)
		return;
	f->next_free = w->free_frames;
	w->free_frames = f;
}

/* --- splits and joins --- */

static struct split *add_split(struct warp *w, struct frame *frame, uint32_t at, uint32_t lanes_in,
                               uint8_t join)
{
	struct split *s = &w->splits[w->split_count++];
	*s = (struct split){.frame = frame, .at = at, .lanes = lanes_in, .join = join};
	return s;
}

/* The last split moves into the hole, so a split's place is good only until the next removal. */
static void remove_split(struct warp *w, uint32_t index)
{
	w->splits[index] = w->splits[--w->split_count];
}

static uint8_t add_join(struct warp *w, struct frame *frame, uint32_t at, uint32_t expected,
                        uint8_t outer)
{
	for (uint32_t i = 0; i < MAX_JOINS; i++)
		if (!w->joins[i].used) {
			w->joins[i] = (struct join){frame, at, expected, 0, outer, true};
			return (uint8_t)i;
		}
	return NO_JOIN;
}

static void open_join(struct warp *w, uint8_t index)
{
	struct join *j = &w->joins[index];
	j->expected &= ~j->arrived;
	if (j->arrived)
		add_split(w, j->frame, j->at, j->arrived, j->outer);
	j->arrived = 0;
	j->used = j->expected != 0;
}

/* Lanes that will never come to this join. */
static void leave_join(struct warp *w, uint8_t index, uint32_t gone)
{
	struct join *j = &w->joins[index];
	j->expected &= ~gone;
	if (j->expected == j->arrived)
		open_join(w, index);
}

/* The split is where its join is: it waits there, or all go on. False: it is not there. */
static bool arrive(struct warp *w, uint32_t index)
{
	struct split *s = &w->splits[index];
	if (s->join == NO_JOIN)
		return false;
	struct join *j = &w->joins[s->join];
	if (j->frame != s->frame || j->at != s->at)
		return false;
	uint8_t join = s->join;
	j->arrived |= s->lanes;
	remove_split(w, index);
	w->spins = 0;
	if (j->arrived == j->expected)
		open_join(w, join);
	return true;
}

static void select_split(struct warp *w, uint32_t index)
{
	w->current = index;
	use_frame(w, w->splits[index].frame);
}

/* The next split that can run, `current` last; false when all wait. */
static bool next_split(struct warp *w)
{
	for (uint32_t i = w->split_count; i-- > 0;)
		if (w->splits[i].state == SPLIT_READY) {
			select_split(w, i);
			return true;
		}
	return false;
}

/* Some lanes of the current split become a split of their own, which is returned. */
static uint32_t carve(struct warp *w, uint32_t mask)
{
	struct split *s = &w->splits[w->current];
	if (mask == s->lanes)
		return w->current;
	s->lanes &= ~mask;
	add_split(w, s->frame, s->at, mask, s->join);
	return w->split_count - 1;
}

static void diverge(struct warp *w, const struct insn *in, uint32_t taken, uint32_t target)
{
	struct split *s = &w->splits[w->current];
	if (in->join != NONE) {
		const struct join *j = s->join == NO_JOIN ? NULL : &w->joins[s->join];
		/* A loop that some lanes leave each time around has one join, not one per round. */
		if (!j || j->frame != s->frame || j->at != in->join) {
			uint8_t join = add_join(w, s->frame, in->join, s->lanes, s->join);
			s->join = join == NO_JOIN ? s->join : join;
		}
	}
	s->lanes &= ~taken;
	add_split(w, s->frame, target, taken, s->join);
}

/* --- calls --- */

static void copy_param(struct warp *w, uint32_t mask, uint32_t to, uint32_t from, uint32_t size)
{
	for (; mask; mask &= mask - 1) {
		uint8_t *mine = w->local + (size_t)__builtin_ctz(mask) * w->local_capacity;
		memcpy(mine + to, mine + from, size);
	}
}

static void enter(struct warp *w, const struct call *call, const struct ptx_function *callee,
                  uint32_t index)
{
	struct split *s = &w->splits[index];
	struct frame *caller = s->frame, *f = frame_push(w, callee, caller);
	f->lanes = s->lanes;
	f->return_at = s->at;
	f->call = call;
	for (uint32_t i = 0; i < call->argument_count; i++)
		copy_param(w, s->lanes, f->local_base + callee->arguments[i],
		           caller->local_base + call->arguments[i], call->argument_sizes[i]);
	uint8_t join = add_join(w, caller, s->at, s->lanes, s->join);
	s->join = join == NO_JOIN ? s->join : join;
	s->frame = f;
	s->at = 0;
}

/* The lanes of a split return to the caller. */
static void leave(struct warp *w, uint32_t index)
{
	struct split *s = &w->splits[index];
	struct frame *f = s->frame, *caller = f->parent;
	const struct call *call = f->call;
	uint32_t mask = s->lanes;
	for (uint32_t i = 0; i < call->result_count; i++)
		copy_param(w, mask, caller->local_base + call->results[i],
		           f->local_base + f->function->results[i], call->result_sizes[i]);
	/* Joins inside of the function that these lanes will not come to any more. */
	while (s->join != NO_JOIN && w->joins[s->join].frame == f) {
		uint8_t inner = s->join;
		s->join = w->joins[inner].outer;
		leave_join(w, inner, mask);
	}
	s->frame = caller;
	s->at = f->return_at;
	frame_leave(w, f, mask);
	arrive(w, index);
}

static bool callable(const struct call *call, const struct ptx_function *f)
{
	bool same = f->defined && !f->entry && call->argument_count == f->argument_count &&
	            call->result_count == f->result_count;
	for (uint32_t i = 0; same && i < f->argument_count; i++)
		same = call->argument_sizes[i] == f->argument_sizes[i];
	for (uint32_t i = 0; same && i < f->result_count; i++)
		same = call->result_sizes[i] == f->result_sizes[i];
	return same;
}

/* Each lane may call another function: those that call the same go together. */
static void enter_indirect(struct warp *w, const struct insn *in, const struct call *call,
                           uint32_t mask)
{
	const uint64_t *address = lanes(w, in->s[0]);
	const struct ptx_module *module = w->grid->function->module;
	while (mask) {
		uint32_t first = (uint32_t)__builtin_ctz(mask), same = 0;
		for (uint32_t i = 0; i < LANES; i++)
			same |= (uint32_t)(address[i] == address[first]) << i;
		same &= mask;
		uint64_t index = address[first] - GENERIC_CODE;
		if (index >= module->function_count || !callable(call, module->functions[index]))
			fault_raise(w, PTX_ILLEGAL_INSTRUCTION, first, address[first], 0, false,
			            "call of 0x%llx, which is no such function",
			            (unsigned long long)address[first]);
		mask &= ~same;
		enter(w, call, module->functions[index], carve(w, same));
	}
}

void warp_exit_lanes(struct warp *w, uint32_t gone)
{
	struct split *s = &w->splits[w->current];
	struct frame *f = s->frame;
	for (uint8_t j = s->join; j != NO_JOIN;) {
		uint8_t outer = w->joins[j].outer;
		leave_join(w, j, gone);
		j = outer;
	}
	while (f->parent) {
		struct frame *parent = f->parent;
		frame_leave(w, f, gone);
		f = parent;
	}
	s = &w->splits[w->current];
	s->lanes &= ~gone;
	if (!s->lanes)
		remove_split(w, w->current);
	w->live &= ~gone;
	w->spins = 0;
	w->block->live -= (uint32_t)__builtin_popcount(gone);
	barrier_check(w->block);
}

/* --- collectives --- */

/* The current split is at a collective. Runs it if every lane it names is there too. */
static void collective(struct warp *w, const struct insn *in, uint32_t mask, bool force)
{
	struct split *s = &w->splits[w->current];
	uint32_t first = (uint32_t)__builtin_ctz(mask), here = mask;
	uint32_t named = in->s[3] == NONE ? mask : ((const uint32_t *)lanes(w, in->s[3]))[first];
	named &= w->live;
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].state == SPLIT_AT_COLLECTIVE && w->splits[i].frame == s->frame &&
		    w->splits[i].at == s->at)
			here |= w->splits[i].lanes;
	/* A guard that is false for some of the split's lanes leaves nothing to wait for. */
	if (named & ~here & ~s->lanes && !force) {
		s->state = SPLIT_AT_COLLECTIVE;
		return;
	}
	in->inner(w, in, force ? here : here & (named | mask));
	for (uint32_t i = 0; i < w->split_count; i++) {
		struct split *other = &w->splits[i];
		if (i != w->current && other->state == SPLIT_AT_COLLECTIVE &&
		    other->frame == s->frame && other->at == s->at) {
			other->state = SPLIT_READY;
			other->at++;
		}
	}
	s->state = SPLIT_READY;
	s->at++;
}

/* Nothing else can move: lanes at collectives no longer wait for lanes that do not come. */
static bool force_collective(struct warp *w)
{
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].state == SPLIT_AT_COLLECTIVE) {
			select_split(w, i);
			const struct insn *in = &w->frame->function->code[w->splits[i].at];
			collective(w, in, w->splits[i].lanes, true);
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
			diverge(w, in, same, target);
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
	uint32_t cost = w->polled ? TURN_BRANCHES / 16 : 1;
	w->budget -= cost < w->budget ? cost : w->budget;
	return !w->budget;
}

/* A waiting split lets the others have their say; lanes that spin for long get rid of joins. */
static void end_turn(struct warp *w)
{
	w->spins += w->polled ? PATIENCE : 1;
	if (w->spins >= PATIENCE && w->split_count < LANES) {
		w->spins = 0;
		for (uint8_t i = 0; i < MAX_JOINS; i++)
			if (w->joins[i].used && w->joins[i].arrived)
				open_join(w, i);
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
		if (arrive(w, w->current))
			return false;
		s->at++;
		return true;
	case CONTROL_BRANCH:
		diverge(w, in, mask, in->target);
		return true;
	case CONTROL_BRANCH_INDEX:
		branch_index(w, in, mask);
		return true;
	case CONTROL_CALL:
		call = &w->frame->function->calls[in->target];
		enter(w, call, call->callee, carve(w, mask));
		return false;
	case CONTROL_CALL_INDIRECT:
		enter_indirect(w, in, &w->frame->function->calls[in->target], mask);
		return false;
	case CONTROL_RETURN:
		leave(w, carve(w, mask));
		return false;
	case CONTROL_EXIT:
		warp_exit_lanes(w, mask);
		return false;
	case CONTROL_BARRIER:
		w->current = carve(w, mask);
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
			add_split(w, s->frame, s->at + 1, rest, s->join);
		}
		collective(w, in, mask, false);
		return false;
	case CONTROL_PRINT:
		print_formatted(w, in, mask);
		return true;
	default:
		stop(w, in, mask);
	}
}

void warp_run(struct warp *w)
{
	struct grid *g = w->grid;
	w->budget = TURN_BRANCHES;
	w->polled = false;
	g->running = w;
	if (w->current >= w->split_count || w->splits[w->current].state != SPLIT_READY) {
		if (!next_split(w))
			return;
	}
	for (;;) {
		select_split(w, w->current);
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
			g->executed += (uint64_t)(in - start + 1);
			const struct insn *target = code + in->target;
			start = target;
			if (target <= in && (spend(w) || g->executed >= g->poll_after)) {
				w->splits[w->current].at = in->target;
				end_turn(w);
				return;
			}
			in = target - 1;
		}
		g->executed += (uint64_t)(in - start + 1);
		w->insn = in;
		w->mask = mask;
		w->splits[w->current].at = (uint32_t)(in - code) + 1;
		bool backward = in->control == CONTROL_BRANCH && in->target <= in - code;
		if (in->control == CONTROL_YIELD) {
			end_turn(w);
			return;
		}
		if (!control(w, in, mask)) {
			bool ready = w->current < w->split_count &&
			             w->splits[w->current].state == SPLIT_READY;
			if (!ready && !next_split(w) && !force_collective(w))
				return;
		}
		if ((backward && spend(w)) || g->executed >= g->poll_after) {
			end_turn(w);
			return;
		}
	}
}

/* --- the beginning --- */

static void fill_special(struct warp *w, enum special which, uint32_t value)
{
	uint32_t *lane = (uint32_t *)(w->special + which * SPECIAL_STRIDE);
	for (int i = 0; i < LANES; i++)
		lane[i] = value;
}

static void fill_specials(struct warp *w)
{
	const struct grid *g = w->grid;
	const uint32_t *size = g->launch->block, *grid = g->launch->grid;
	for (uint32_t i = 0; i < LANES; i++) {
		uint32_t thread = w->index * LANES + i;
		uint32_t values[] = {
		    [SPECIAL_TID_X] = thread % size[0],
		    [SPECIAL_TID_Y] = thread / size[0] % size[1],
		    [SPECIAL_TID_Z] = thread / size[0] / size[1],
		    [SPECIAL_NTID_X] = size[0],
		    [SPECIAL_NTID_Y] = size[1],
		    [SPECIAL_NTID_Z] = size[2],
		    [SPECIAL_CTAID_X] = 0,
		    [SPECIAL_CTAID_Y] = 0,
		    [SPECIAL_CTAID_Z] = 0,
		    [SPECIAL_NCTAID_X] = grid[0],
		    [SPECIAL_NCTAID_Y] = grid[1],
		    [SPECIAL_NCTAID_Z] = grid[2],
		    [SPECIAL_LANEID] = i,
		    [SPECIAL_WARPID] = w->index,
		    [SPECIAL_NWARPID] = g->warps,
		    [SPECIAL_LANEMASK_EQ] = 1u << i,
		    [SPECIAL_LANEMASK_LT] = (1u << i) - 1,
		    [SPECIAL_LANEMASK_LE] = (2u << i) - 1,
		    [SPECIAL_LANEMASK_GT] = ~((2u << i) - 1),
		    [SPECIAL_LANEMASK_GE] = ~((1u << i) - 1),
		    [SPECIAL_ZERO] = 0,
		    [SPECIAL_ONE] = 1,
		    [SPECIAL_DYNAMIC_SHARED] = g->dynamic_shared_at,
		    [SPECIAL_DYNAMIC_SIZE] = g->launch->dynamic_shared,
		    [SPECIAL_TOTAL_SHARED] = g->shared_bytes,
		    [SPECIAL_GRID_LOW] = g->launch->cooperative ? (uint32_t)GENERIC_GRID : 0,
		    [SPECIAL_GRID_HIGH] =
		        g->launch->cooperative ? (uint32_t)(GENERIC_GRID >> 32) : 0,
		};
		for (uint32_t k = 0; k < SPECIAL_COUNT; k++)
			((uint32_t *)(w->special + k * SPECIAL_STRIDE))[i] = values[k];
	}
}

void warp_start(struct warp *w, struct block *block, uint32_t index)
{
	struct grid *g = block->grid;
	bool first = !w->special;
	w->grid = g;
	w->block = block;
	w->index = index;
	g->running = w;
	if (first) {
		w->special = aligned_alloc(64, SPECIAL_COUNT * SPECIAL_STRIDE);
		if (!w->special)
			no_memory(w);
		fill_specials(w);
		w->bank[BANK_SPECIAL] = w->special;
		w->entry_frame = frame_push(w, g->function, NULL);
	}
	fill_special(w, SPECIAL_CTAID_X, block->id[0]);
	fill_special(w, SPECIAL_CTAID_Y, block->id[1]);
	fill_special(w, SPECIAL_CTAID_Z, block->id[2]);
	uint32_t threads = g->threads - index * LANES;
	w->live = threads >= LANES ? ALL_LANES : (1u << threads) - 1;
	w->entry_frame->lanes = w->live;
	w->split_count = 0;
	w->spins = 0;
	memset(w->joins, 0, sizeof w->joins);
	add_split(w, w->entry_frame, 0, w->live, NO_JOIN);
	select_split(w, 0);
}
