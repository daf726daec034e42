/* SPDX-License-Identifier: MIT */
/* The parts of a warp: frames, splits, joins; how they come and go. */
#include "warp.h"

#include <stdlib.h>
#include <string.h>

enum {
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

struct split *split_add(struct warp *w, struct frame *frame, uint32_t at, uint32_t lanes_in,
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

void join_open(struct warp *w, uint8_t index)
{
	struct join *j = &w->joins[index];
	j->expected &= ~j->arrived;
	if (j->arrived)
		split_add(w, j->frame, j->at, j->arrived, j->outer);
	j->arrived = 0;
	j->used = j->expected != 0;
}

/* Lanes that will never come to this join. */
static void leave_join(struct warp *w, uint8_t index, uint32_t gone)
{
	struct join *j = &w->joins[index];
	j->expected &= ~gone;
	if (j->expected == j->arrived)
		join_open(w, index);
}

/* The split is where its join is: it waits there, or all go on. False: it is not there. */
bool split_arrive(struct warp *w, uint32_t index)
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
		join_open(w, join);
	return true;
}

void split_select(struct warp *w, uint32_t index)
{
	w->current = index;
	use_frame(w, w->splits[index].frame);
}

/* The next split that can run, `current` last; false when all wait. */
bool split_next(struct warp *w)
{
	for (uint32_t i = w->split_count; i-- > 0;)
		if (w->splits[i].state == SPLIT_READY) {
			split_select(w, i);
			return true;
		}
	return false;
}

void split_merge(struct warp *w)
{
	w->met = false;
	for (uint32_t i = 0; i < w->split_count; i++) {
		struct split *s = &w->splits[i];
		for (uint32_t k = w->split_count; --k > i;) {
			const struct split *other = &w->splits[k];
			if (s->state != SPLIT_READY || other->state != SPLIT_READY ||
			    s->frame != other->frame || s->at != other->at ||
			    s->join != other->join)
				continue;
			s->lanes |= other->lanes;
			remove_split(w, k);
		}
	}
}

/* Some lanes of the current split become a split of their own, which is returned. */
uint32_t split_carve(struct warp *w, uint32_t mask)
{
	struct split *s = &w->splits[w->current];
	if (mask == s->lanes)
		return w->current;
	s->lanes &= ~mask;
	split_add(w, s->frame, s->at, mask, s->join);
	return w->split_count - 1;
}

void split_diverge(struct warp *w, const struct insn *in, uint32_t taken, uint32_t target)
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
	split_add(w, s->frame, target, taken, s->join);
}

/* --- calls --- */

static void copy_param(struct warp *w, uint32_t mask, uint32_t to, uint32_t from, uint32_t size)
{
	for (; mask; mask &= mask - 1) {
		uint8_t *mine = w->local + (size_t)__builtin_ctz(mask) * w->local_capacity;
		memcpy(mine + to, mine + from, size);
	}
}

void call_enter(struct warp *w, const struct call *call, const struct ptx_function *callee,
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
void call_leave(struct warp *w, uint32_t index)
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
	split_arrive(w, index);
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
void call_enter_indirect(struct warp *w, const struct insn *in, const struct call *call,
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
		call_enter(w, call, module->functions[index], split_carve(w, same));
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
	s->lanes &= ~gone;
	if (!s->lanes)
		remove_split(w, w->current);
	w->live &= ~gone;
	/* Collectives may have waited for these lanes. */
	for (uint32_t i = 0; i < w->split_count; i++)
		if (w->splits[i].state == SPLIT_AT_COLLECTIVE)
			w->splits[i].state = SPLIT_READY;
	w->spins = 0;
	w->block->live -= (uint32_t)__builtin_popcount(gone);
	barrier_check(w->block);
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
		    [SPECIAL_TOTAL_SHARED] = g->total_shared,
		    [SPECIAL_RESERVED_SHARED] = g->reserved_shared_at,
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
	w->worker = block->worker;
	w->block = block;
	w->index = index;
	w->worker->running = w;
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
	w->met = false;
	w->asleep = false;
	w->slept_until = 0;
	memset(w->joins, 0, sizeof w->joins);
	split_add(w, w->entry_frame, 0, w->live, NO_JOIN);
	split_select(w, 0);
}
